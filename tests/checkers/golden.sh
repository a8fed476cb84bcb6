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

# other_byte FILE LINE: the line's first byte becomes another; of a list of names, the name's number.
other_byte() {
  python3 - "$1" "$2" <<'PYTHON'
import re, sys
path, number = sys.argv[1], int(sys.argv[2])
lines = open(path, encoding="utf-8").read().split("\n")
if path.endswith(".hex"):
    pattern, other = r"(?<=: )[0-9a-f]{2}", lambda m: f"{int(m[0], 16) ^ 0x41:02x}"
else:
    pattern, other = r"\d+$", lambda m: str(int(m[0]) + 1)
lines[number - 1], count = re.subn(pattern, other, lines[number - 1], count=1)
open(path, "w", encoding="utf-8").write("\n".join(lines))
sys.exit(0 if count else f"{path}:{number}: there is no byte")
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
  for name in "${names[@]}"; do
    mapfile -t lines < <(grep -nE '^[0-9a-f]+: |^[A-Za-z]+ .* [0-9]+$' "${published}/${name}" | cut -d: -f1)
    line="${lines[0]}"
    if [[ "${place}" == last ]]; then line="${lines[-1]}"; fi
    other_byte "${WEIR_GOLDEN}/${name}" "${line}"
  done
  passes "another byte on the ${place} line is found in each file" all_named "${names[@]}"
done
copy
rm "${WEIR_GOLDEN}/gate_v1_vgpu.hex"
fails "a file that is gone fails" "gate_v1_vgpu.hex" compare
finish
