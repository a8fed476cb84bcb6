#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

mkdir -p "${WORK}"/{src/m,tests/hostile,tests/checkers}
check() { "${SCRIPTS}/check-promises" --root "${WORK}"; }
# promises ROW...: a page with these rows.
promises() {
  { printf '# Security\n\n## Promises\n\n| promise | verified by |\n| --- | --- |\n' && printf '| %s |\n' "$@" && printf '\n## Not promised\n'; } \
    >"${WORK}/SECURITY.md"
}
echo 'TEST_F(Gate, Refuses) {}' >"${WORK}/src/m/gate_test.cc"
printf 'class A:\n    def test_noise(self):\n' >"${WORK}/tests/hostile/noise_hostile.py"
touch "${WORK}/tests/checkers/it_test.sh"
good='Noise ends nothing. | `noise_hostile.test_noise`, `Gate.Refuses`, `tests/checkers/it_test.sh`'

promises "${good}"
passes "promises with tests that exist pass" check
promises "${good}" 'Nothing leaks. |'
fails "a promise without a test fails" "'Nothing leaks.' names no test" check
promises "${good}" 'Nothing leaks. | `Gate.Forgets`'
fails "a C++ test that does not exist fails" "there is no test Gate.Forgets" check
promises "${good}" 'Nothing leaks. | `noise_hostile.test_silence`'
fails "a Python test that does not exist fails" "there is no test noise_hostile.test_silence" check
promises "${good}" 'Nothing leaks. | `tests/checkers/gone_test.sh`'
fails "a script that does not exist fails" "there is no test tests/checkers/gone_test.sh" check
promises "${good}"
printf '    def test_more(self):\n' >>"${WORK}/tests/hostile/noise_hostile.py"
fails "a hostile test that no promise names fails" "no promise of SECURITY.md names test_more" check
printf '# Security\n' >"${WORK}/SECURITY.md"
fails "a page without promises fails" "has no promise" check
passes "this tree passes" "${SCRIPTS}/check-promises"
finish
