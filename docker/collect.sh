#!/usr/bin/env bash
# collect.sh FOLDER OUT PROGRAM...: what an image needs of a build. Puts the PROGRAMs of FOLDER
# without their debugging symbols into OUT/bin, and into OUT/packages the names of the Debian packages
# whose shared libraries they load.
set -euo pipefail

readonly FROM=$1 OUT=$2
shift 2

# The package that a library, as ldd names it, came with. The packages say /usr/lib of some files
# that ldd finds in /lib, which is the same folder.
package_of() {
    local owner
    owner=$(dpkg-query -S "*/${1#/*lib/}" | grep -v '^diversion ' | head -n 1)
    echo "${owner%%:*}"
}

mkdir -p "$OUT/bin"
for program in "$@"; do
    strip -o "$OUT/bin/$program" "$FROM/$program"
done
ldd "${@/#/$OUT/bin/}" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u |
    while IFS= read -r library; do
        package_of "$library"
    done | sort -u >"$OUT/packages"
