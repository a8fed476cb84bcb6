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
rules 'reckon -> compute' 'long: docs/perf'
printf '# A page\n\n## Two `words`, both\n\n## More\n\n## More\n' >"${WORK}/docs/target.md"
# link TARGET: a page with this link.
link() { printf '# Page\n\n[text](%s)\n' "$1" >"${WORK}/docs/page.md"; }
for target in target.md target.md#two-words-both target.md#more-1 '#page' perf https://x.invalid/y; do
  link "${target}"
  passes "a link to ${target} passes" check
done
link gone.md
fails "a link to a file that is missing fails" "docs/page.md:3: the link gone.md leads to no file" check
link target.md#gone
fails "a link to a heading that is missing fails" "the link target.md#gone leads to no heading" check
printf '# Page\n\n`[text](gone.md)`\n\n```\n[text](gone.md)\n```\n' >"${WORK}/docs/page.md"
passes "a link in code is not checked" check
rules 'reckon' 'long: docs/perf'
fails "a line that is no rule fails" "docs/words.txt:1: not 'EXPRESSION -> TERM'" check
rules '( -> x' 'long: docs/perf'
fails "a wrong expression fails" "docs/words.txt:1:" check
rules '# nothing' 'long: docs/perf'
fails "a list without rules fails" "0 rules" check
passes "this tree passes" "${SCRIPTS}/check-words"
finish
