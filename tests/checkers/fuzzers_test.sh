#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

mkdir -p "${WORK}"/{scripts,src/m,tests/corpus/text_fuzz}
list="${WORK}/scripts/fuzzed-decoders"
header="${WORK}/src/m/text.h"
check() { "${SCRIPTS}/check-fuzzers" --root "${WORK}"; }
echo 'm/text.h m/text_fuzz.cc' >"${list}"
echo 'weir_module(m FUZZERS text_fuzz.cc)' >"${WORK}/src/m/CMakeLists.txt"
touch "${WORK}/src/m/text_fuzz.cc" "${WORK}/tests/corpus/text_fuzz/one"
echo 'Result<Text> ParseText(std::string_view bytes);' >"${header}"

passes "a decoder with a fuzz target passes" check
for decoder in 'Result<std::map<int, int>> DecodeMap(View bytes);' 'std::optional<Text> TextFrom(View bytes);' \
  'Status ReadTextFrom(View bytes, Text& text);' '  static Result<Text> FromText(View bytes);'; do
  echo "${decoder}" >"${WORK}/src/m/other.h"
  fails "'${decoder}' without one fails" "src/m/other.h declares" check
done
printf '// ParseText(bytes)\nint x = ParseText();\nInstant FromSeconds(double s);\n' >"${WORK}/src/m/other.h"
passes "comments, calls and conversions are no decoders" check
rm "${WORK}/src/m/other.h"
echo 'm/text.h debt soon' >"${list}"
fails "a debt fails" "m/text.h has no fuzz target" check
echo 'm/text.h - it is ours' >"${list}"
passes "a reason passes" check
echo 'm/text.h -' >"${list}"
fails "none given fails" "line 1" check
printf 'm/text.h m/text_fuzz.cc\nm/gone.h m/text_fuzz.cc\n' >"${list}"
fails "a header that isn't there fails" "src/m/gone.h" check
echo 'm/text.h m/gone_fuzz.cc' >"${list}"
fails "a target that isn't there fails" "src/m/gone_fuzz.cc is not there" check
echo 'm/text.h m/text_fuzz.cc' >"${list}"
rm "${WORK}/tests/corpus/text_fuzz/one"
fails "a target without a corpus fails" "has no corpus" check
touch "${WORK}/tests/corpus/text_fuzz/one"
echo 'weir_module(m TESTS text_test.cc)' >"${WORK}/src/m/CMakeLists.txt"
fails "a target that isn't built fails" "in no FUZZERS" check
passes "this tree passes" "${SCRIPTS}/check-fuzzers"
finish
