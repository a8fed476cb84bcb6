#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each published format is held to its golden bytes: where a byte of a file in tests/golden isn't what the code makes, a
# test says so and names the file. Usage: golden.sh TEST_PROGRAM..., those that compare golden bytes.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

published="$(cd "$(dirname "${BASH_SOURCE[0]}")/../golden" && pwd)"
programs=("$@")
export WEIR_GOLDEN="${WORK}/golden"

# All tests that compare, of all programs; 1 where one fails.
compare() {
  local program status=0
  for program in "${programs[@]}"; do
    "${program}" --gtest_brief=1 --gtest_filter='*Golden*:*Published*' || status=1
  done
  return "${status}"
}

copy() {
  rm -rf "${WEIR_GOLDEN}"
  cp -r "${published}" "${WEIR_GOLDEN}"
}

# other_bytes first|last: in each file, the first or last line that holds a value gets another one: a line of bytes another
# first byte, a name of a list another number.
other_bytes() {
  python3 - "${WEIR_GOLDEN}" "$1" "${names[@]}" <<'PYTHON'
import pathlib, re, sys
BYTE = (r"^[0-9a-f]+: ", r"(?<=: )[0-9a-f]{2}", lambda m: f"{int(m[0], 16) ^ 0x41:02x}")
NUMBER = (r"^[A-Za-z]+ .* [0-9]+$", r"\d+$", lambda m: str(int(m[0]) + 1))
folder, place, names = sys.argv[1], sys.argv[2], sys.argv[3:]
for path in (pathlib.Path(folder, name) for name in names):
    lines = path.read_text().split("\n")
    holds, pattern, other = BYTE if path.suffix == ".hex" else NUMBER
    at = [i for i, line in enumerate(lines) if re.match(holds, line)][0 if place == "first" else -1]
    lines[at], count = re.subn(pattern, other, lines[at], count=1)
    if not count:
        sys.exit(f"{path}:{at + 1}: there is no value")
    path.write_text("\n".join(lines))
PYTHON
}

# all_named NAME...: a comparison fails and names each of these files.
all_named() {
  local said name
  if said="$(compare 2>&1)"; then return 1; fi
  for name in "$@"; do
    if [[ "${said}" != *"${name}"* ]]; then echo "${name} is not named" && return 1; fi
  done
}

# scripts/check-determinism compares the digests.
mapfile -t names < <(ls "${published}" | grep -v '^sim_digests.txt$')
copy
passes "the published bytes are the code's" compare
for place in first last; do
  copy
  other_bytes "${place}"
  passes "another byte on the ${place} line is found in each file" all_named "${names[@]}"
done
copy
rm "${WEIR_GOLDEN}/gate_v1_vgpu.hex"
fails "a file that is gone fails" "gate_v1_vgpu.hex" compare
finish
