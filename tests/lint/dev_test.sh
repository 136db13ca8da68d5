#!/usr/bin/env bash
# dev_test.sh DEV: every command of the script explains itself, and a command line that it cannot
# understand ends with 64 and names what was wrong. Builds and installs nothing.
set -euo pipefail

readonly DEV=$1
FAILURES=0

# expect CODE TEXT ARGUMENT...: the exit code, and a part of the output.
expect() {
    local code=$1 text=$2 output got=0
    shift 2
    output=$("$DEV" "$@" 2>&1) || got=$?
    if ((got != code)) || [[ $output != *"$text"* ]]; then
        printf 'dev %s: exit code %d, wanted %d with "%s":\n%s\n' "$*" $got "$code" "$text" "$output"
        FAILURES=$((FAILURES + 1))
    fi
}

mapfile -t commands < <("$DEV" help | sed -n 's/^  \([a-z]*\) .*/\1/p')
if ((${#commands[@]} < 8)); then
    echo "dev help lists only: ${commands[*]}"
    FAILURES=1
fi
for command in "${commands[@]}"; do
    expect 0 "./dev " "$command" --help
done

expect 0 "./dev COMMAND"
expect 64 "unknown command 'biuld'" biuld
expect 64 "unknown command '--version'" --version
expect 64 "unknown preset 'fast'" build fast
expect 64 "unknown option '--fast'" build --fast
expect 64 "unknown option '--slow'" test --slow
expect 64 "--label wants a value" test --label
expect 64 "unknown preset 'gcc'" test --preset gcc
expect 64 "unknown option '--fast'" bench --fast
expect 64 "wants a target and a number of seconds" fuzz codec
expect 64 "unknown target 'kodec'" fuzz kodec 10
expect 64 "'0' is not a number of seconds" fuzz codec 0
expect 64 "unknown option '--everything'" lint --everything
expect 64 "takes no arguments" help build
expect 64 "unknown option 'release'" setup release
expect 64 "wants nothing, or --work FOLDER" image --fast
expect 64 "unknown option '--fast'" package --fast
expect 64 "--work wants a folder" package --trial --work
expect 64 "--work goes with --trial" package --work somewhere

exit $((FAILURES > 0))
