#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

mkdir -p "${WORK}"/{docs/perf,src}
check() { "${SCRIPTS}/check-words" --root "${WORK}"; }
# rules LINE...: the list.
rules() { printf '%s\n' "$@" >"${WORK}/docs/words.txt"; }
long="$(printf 'word %.0s' {1..30})"

rules 'reckon(ed)? -> compute' 'whitelist -> allow list ; src !src/old.cc'
echo 'Shares are computed.' >"${WORK}/docs/page.md"
echo '// a list' >"${WORK}/src/x.cc"
passes "clean pages pass" check
echo 'Shares are Reckoned.' >"${WORK}/docs/page.md"
fails "a retired word in a page fails and names the term" "docs/page.md:1: 'Reckoned': compute" check
echo 'The reckoning and dead-reckon stay.' >"${WORK}/docs/page.md"
passes "a longer word that contains it passes" check
echo '// a whitelist' >"${WORK}/src/x.cc"
fails "a retired word in a comment fails where the rule holds" "src/x.cc:1: 'whitelist'" check
mv "${WORK}/src/x.cc" "${WORK}/src/old.cc"
passes "a place that is left out passes" check
echo "${long}" >"${WORK}/docs/page.md"
fails "a long line fails" "docs/page.md:1: 150 characters" check
printf '| %s |\n```\n%s\n```\nhttps://x %s\n' "${long}" "${long}" "${long}" >"${WORK}/docs/page.md"
passes "tables, code and addresses are not measured" check
echo "${long}" >"${WORK}/docs/perf/page.md"
rules 'reckon -> compute' 'long: docs/perf'
passes "a folder on the list may have long lines" check
rules 'reckon -> compute' 'long: docs/perf' 'long: docs/gone.md'
fails "a page on the list that is gone fails" "'long: docs/gone.md' is not in the tree" check
rules 'reckon' 'long: docs/perf'
fails "a line that is no rule fails" "docs/words.txt:1: not 'EXPRESSION -> TERM'" check
rules '( -> x' 'long: docs/perf'
fails "a wrong expression fails" "docs/words.txt:1:" check
rules '# nothing' 'long: docs/perf'
fails "a list without rules fails" "0 rules" check
passes "this tree passes" "${SCRIPTS}/check-words"
finish
