#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

mkdir -p "${WORK}/web/src/view"
check() { "${SCRIPTS}/check-web" --root "${WORK}"; }
printf 'b' >"${WORK}/web/build.mjs"
printf '{}' >"${WORK}/web/package-lock.json"
printf 'x = 1' >"${WORK}/web/src/main.ts"
printf 'y = 2' >"${WORK}/web/src/view/top.ts"
fails "a page of unknown sources fails" "web/dist is not made from the present sources" check
# As web/build.mjs makes it: path, zero, size, zero, bytes of each file, by path.
printf 'build.mjs\0001\0bpackage-lock.json\0002\0{}src/main.ts\0005\0x = 1src/view/top.ts\0005\0y = 2' | sha256sum |
  cut -d ' ' -f 1 >"${WORK}/web/sources.sha256"
passes "the hash of the sources passes" check
printf 'y = 3' >"${WORK}/web/src/view/top.ts"
fails "a changed source fails" "run 'web/install' and 'node web/build.mjs'" check
printf 'y = 2' >"${WORK}/web/src/view/top.ts"
printf 'z' >"${WORK}/web/src/new.ts"
fails "a new source fails" "web/dist is not made from the present sources" check
passes "this tree passes" "${SCRIPTS}/check-web"
