#!/usr/bin/env bash
# completion_test.sh FILE BIN: what bash offers for the programs in BIN once FILE is loaded, against
# what the programs' own --help says.
set -uo pipefail

readonly COMPLETION=$1
PATH=$2:$PATH
FAILURES=0

# Readline's part, which a script has none of, cannot be told options.
# shellcheck disable=SC2317
compopt() { :; }
# shellcheck source-path=SCRIPTDIR source=../../config/completion/pulsewheel.bash
source "$COMPLETION"

# offers WORD...: what bash would offer for the last of them, sorted, on one line.
offers() {
    local function
    function=$(complete -p "$1" | sed 's/.*-F \([^ ]*\) .*/\1/')
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    "$function" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '%s\n' "${COMPREPLY[@]}" | sort | xargs
}

# expect WANTED WORD...
expect() {
    local wanted=$1 got
    shift
    got=$(offers "$@")
    if [[ $got != "$wanted" ]]; then
        printf '%s<TAB>\n  offers: %s\n  wanted: %s\n' "$*" "$got" "$wanted"
        FAILURES=$((FAILURES + 1))
    fi
}

# Every long option that a program's help names anywhere in its list.
all_options() { "$@" --help | grep -oE '^  (-[a-z],)?--[a-z-]+' | grep -oE -e '--[a-z-]+' | sort | xargs; }

for program in pulsewheeld pulsewheelctl pulsewheel-sim; do
    options=$(all_options "$program")
    if (($(wc -w <<<"$options") < 4)); then
        echo "$program --help lists only: $options"
        FAILURES=$((FAILURES + 1))
    fi
    expect "$options" "$program" --
done
expect "--check-config --config" pulsewheeld --c
expect "--silent-percent" pulsewheel-sim --connections 10 --sil

# Commands, and their own options beside the common ones.
mapfile -t commands < <(pulsewheelctl --help | sed -n '/^Subcommands/,/^$/s/^  \([a-z-]*\) .*/\1/p')
expect "$(printf '%s\n' "${commands[@]}" | sort | xargs)" pulsewheelctl ""
expect "kick" pulsewheelctl --json ki
expect "--live" pulsewheelctl healthcheck --li
expect "--json" pulsewheelctl healthcheck --js
expect "" pulsewheelctl kick ali

# Keys of the configuration, and files.
expect "presence.tick=" pulsewheeld --set presence.tic
expect "listener.0.address= listener.0.port= listener.0.protocol=" pulsewheeld --set listener.
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
touch "$folder/node.toml" "$folder/name with spaces"
expect "$folder/node.toml" pulsewheeld --config "$folder/no"
expect "$folder/node.toml" pulsewheeld --config = "$folder/no"
expect "$folder/name with spaces" pulsewheeld -c "$folder/na"

exit $((FAILURES > 0))
