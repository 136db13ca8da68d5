# Bash completion of pulsewheeld, pulsewheelctl and pulsewheel-sim. Options and commands are those that
# a program's own --help lists, and keys those of --print-config, so they are never out of date.

# The long options of `PROGRAM [COMMAND]`.
_pulsewheel_options() {
    "$@" --help 2>/dev/null | sed -n 's/^  \(-[^ ]*\).*/\1/p' | tr ',' '\n' | grep '^--'
}

# The commands of PROGRAM; none where it has none.
_pulsewheel_commands() {
    "$1" --help 2>/dev/null | sed -n '/^Subcommands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p'
}

# Every key of the configuration as KEY=.
_pulsewheel_keys() {
    pulsewheeld --print-config 2>/dev/null | awk '
        /^\[\[/ { gsub(/[][]/, ""); table = $0 "." (count[$0]++ + 0); next }
        /^\[/ { gsub(/[][]/, ""); table = $0; next }
        / = / { print table "." $1 "=" }'
}

# The first of WORD... that is one of COMMANDS (lines); fails where none is.
_pulsewheel_command_in() {
    local commands=$1 word
    shift
    for word in "$@"; do
        if [[ $word == [a-z]* ]] && grep -qxF -e "$word" <<<"$commands"; then
            echo "$word"
            return
        fi
    done
    return 1
}

_pulsewheel() {
    local program=$1 current=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]}
    local commands command words=
    COMPREPLY=()
    # Bash takes "--config=FILE" apart at the sign.
    if [[ $current == = ]]; then
        current=
    elif [[ $option == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    case $option in
    -c | --config | --edges | --file | --report | --spawn | --token-file | --unix-socket)
        if [[ $current != -* ]]; then
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
        fi
        ;;
    --set)
        compopt -o nospace 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -W "$(_pulsewheel_keys)" -- "$current")
        return
        ;;
    esac
    commands=$(_pulsewheel_commands "$program")
    command=$(_pulsewheel_command_in "$commands" "${COMP_WORDS[@]:1:COMP_CWORD-1}")
    if [[ $current == -* ]]; then
        words=$(_pulsewheel_options "$program")
        [[ -z $command ]] || words+=$'\n'$(_pulsewheel_options "$program" "$command")
    elif [[ -z $command ]]; then
        words=$commands
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current" | sort -u)
}

complete -F _pulsewheel pulsewheeld pulsewheelctl pulsewheel-sim
