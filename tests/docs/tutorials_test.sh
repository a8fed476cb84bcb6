#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../checkers/expect.sh"
RUNNER="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/tutorials.py"

run() { "${RUNNER}" --build "${WORK}" "${WORK}/page.md"; }
# page COMMANDS [OUTPUT]: a page with one block of commands, and one of their output.
page() {
  printf '# Title\n\n```sh\n%b\n```\n' "$1" >"${WORK}/page.md"
  if (($# > 1)); then printf '\n```text\n%b\n```\n' "$2" >>"${WORK}/page.md"; fi
}

page 'echo one; echo two 2' 'one\ntwo 2'
passes "the output that the page shows passes" run
page 'printf "a  b 12 c\\n1\\n2\\nend\\n"' 'a b ... c\n...\nend'
passes "wildcards stand for text and for lines, spaces for spaces" run
page 'true'
passes "a block without output to compare passes" run
page 'echo one' 'two'
fails "another output fails" "printed something else" run
page 'echo one; echo two' 'one'
fails "a line more fails" "printed something else" run
page 'echo one' 'one\ntwo'
fails "a line less fails" "printed something else" run
page 'weir-is-no-such-command; echo one' 'one\n'
fails "a command that fails in the middle of a block fails" "ended with status 127" run
page 'exit 3'
fails "a shell that ends fails" "ended with status 3" run
printf '```sh\nX=1\n```\n```sh\necho $X\n```\n```text\n1\n```\n' >"${WORK}/page.md"
passes "blocks share a shell" run
printf '# Title\n```text\nx\n```\n' >"${WORK}/page.md"
fails "output without commands fails" "does not follow a block of commands" run
printf '# Title\n' >"${WORK}/page.md"
fails "a page without commands fails" "no block of commands" run
finish
