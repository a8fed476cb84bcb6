#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

printf 'int weir_a(void) { return 1; }\nint weir_b(void) { return 2; }\nint inner(void) { return 3; }\n' >"${WORK}/x.c"
printf 'WEIR_1 { global: weir_*; local: *; };\n' >"${WORK}/x.map"
"${CC:-cc}" -shared -fPIC -Wl,--version-script="${WORK}/x.map" -o "${WORK}/libx.so" "${WORK}/x.c"
check() { "${SCRIPTS}/check-symbols" "${WORK}/libx.so" "${WORK}/list.txt"; }

printf '# what x exports\nweir_a\nweir_b  # the second\n' >"${WORK}/list.txt"
passes "a library that exports its list passes" check
printf 'weir_a\n' >"${WORK}/list.txt"
fails "a name too many fails" "exports weir_b, which is not in" check
printf 'weir_a\nweir_b\nweir_c\n' >"${WORK}/list.txt"
fails "a name too few fails" "does not export weir_c" check
printf 'weir_b\nweir_a\n' >"${WORK}/list.txt"
fails "a list out of order fails" "not sorted" check
printf 'weir_a\nweir_b\nweir_b\n' >"${WORK}/list.txt"
fails "a name listed twice fails" "stands there twice" check
"${CC:-cc}" -shared -fPIC -o "${WORK}/libx.so" "${WORK}/x.c"
printf 'weir_a\nweir_b\n' >"${WORK}/list.txt"
fails "a library built without its version script fails" "exports inner" check
finish
