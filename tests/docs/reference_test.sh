#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: reference_test.sh BUILD. The pages of docs/reference are those that the programs of the build make.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../checkers/expect.sh"
BUILD="$1"

check() { "${SCRIPTS}/reference" --build "${BUILD}" --out "${WORK}" --check exit-codes.md; }

passes "the pages of this tree are up to date" "${SCRIPTS}/reference" --build "${BUILD}" --check
fails "a page that is missing fails" "exit-codes.md is out of date" check
passes "a page is written" "${SCRIPTS}/reference" --build "${BUILD}" --out "${WORK}" exit-codes.md
passes "a page that was just written passes" check
sed -i 's/| 5 | `busy`/| 6 | `busy`/' "${WORK}/exit-codes.md"
fails "a page with another status fails and shows the line" '-| 6 | `busy`' check
mkdir -p "${WORK}/build/bin" "${WORK}/build/lib/weir"
ln -s "${BUILD}/bin/weir" "${WORK}/build/bin/weir"
printf '#!/bin/sh\nexit 0\n' >"${WORK}/build/lib/weir/weir-mute"
chmod +x "${WORK}/build/lib/weir/weir-mute"
fails "a program without a help text fails" "'weir-mute --help' prints nothing" \
  "${SCRIPTS}/reference" --build "${WORK}/build" --out "${WORK}" --check programs.md
finish
