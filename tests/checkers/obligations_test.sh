#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

mkdir -p "${WORK}"/{docs/protocol,src,tests/e2e}
document="${WORK}/docs/protocol/obligations.md"
printf 'TEST(Suite, Holds) {\n}\nTEST_F(Fixture, HoldsToo) {\n' >"${WORK}/src/x_test.cc"
printf 'class One:\n    def test_it(self):\n        pass\n\n\nclass Two:\n    def test_that(self):\n' \
  >"${WORK}/tests/e2e/x_e2e.py"
printf 'add_test(NAME symbols_x\n  COMMAND x)\n' >"${WORK}/src/CMakeLists.txt"

check() { "${SCRIPTS}/check-obligations" --root "${WORK}"; }
# obligations TEXT...: the document, one obligation a TEXT.
obligations() {
  local number=0 text
  printf '# Title\n' >"${document}"
  for text in "$@"; do
    number=$((number + 1))
    printf '### O%d. Rule of `code`\n*Why:* because of `that`.\n%s\n' "${number}" "${text}" >>"${document}"
  done
}

obligations '*Held by:* `Suite.Holds`' '*Held by:* `Fixture.HoldsToo` `x_e2e.Two.test_that`' '*Held by:* `symbols_x`'
passes "obligations whose tests exist pass" check
obligations '*Held by:* `Suite.Holds`' ''
fails "an obligation without a test fails" "O2 names no test" check
obligations '*Held by:* nobody'
fails "and one that only says so" "O1 names no test" check
obligations '*Held by:* `Suite.Holds` `Suite.Gone`'
fails "a test that isn't there fails" "O1 is held by Suite.Gone" check
obligations '*Held by:* `x_e2e.One.test_that`'
fails "a test of another class fails" "O1 is held by x_e2e.One.test_that" check
obligations '*Held by:* `Suite.Holds`'
printf '### O3. Rule\n*Held by:* `Suite.Holds`\n' >>"${document}"
fails "a number that is left out fails" "O3 stands where O2 is expected" check
printf '# Title\n' >"${document}"
fails "a document without obligations fails" "0 obligations" check
passes "this tree passes" "${SCRIPTS}/check-obligations"
finish
