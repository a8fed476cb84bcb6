#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

mkdir -p "${WORK}"/{src/m,tests/{e2e,corpus},scripts,web/{src,dist}}
touch "${WORK}/src/m/empty.h"
check() { "${SCRIPTS}/check-sizes" --root "${WORK}"; }
# lines COUNT TEXT: the text so many times.
lines() { for ((i = 0; i < $1; ++i)); do printf '%s\n' "$2"; done; }
# function_of HEAD BODY END LINES [FIRST]: a source with a function of so many lines; its name is in line FIRST of HEAD.
function_of() {
  printf '%s\n' "$1"
  lines $(($4 - 1 - $(wc -l <<<"$1") + ${5:-1} - 1)) "$2"
  printf '%s\n' "$3"
}
# fails_in NAME HEAD BODY END [FIRST]: a file with such a function passes if it has 70 lines, not if it has 71.
fails_in() {
  local first="${5:-1}"
  function_of "$2" "$3" "$4" 70 "${first}" >"${WORK}/$1"
  passes "a function of 70 lines passes: $1" check
  function_of "$2" "$3" "$4" 71 "${first}" >"${WORK}/$1"
  fails "a function of 71 lines fails: $1" "$1:${first}: a function of 71 lines, 70 at most" check
  rm "${WORK}/$1"
}

lines 500 'int x;' >"${WORK}/src/m/long.cc"
passes "a file of 500 lines passes" check
lines 501 'int x;' >"${WORK}/src/m/long.cc"
fails "a file of 501 lines fails" "src/m/long.cc: 501 lines, 500 at most" check
{ printf '// SPDX-License-Identifier: X\n// Long: it is a table.\n' && lines 501 'int x;'; } >"${WORK}/src/m/long.cc"
passes "a long file that states why passes" check
{ echo '/* A list.' && echo ' * Long: it is a table. */' && lines 501 'int x;'; } >"${WORK}/src/m/long.cc"
passes "also in a comment of several lines" check
{ lines 400 'int x;' && echo '// Long: too late' && lines 101 'int x;'; } >"${WORK}/src/m/long.cc"
fails "a reason below the top does not count" "src/m/long.cc: 502 lines" check
{ echo '// Long:' && lines 501 'int x;'; } >"${WORK}/src/m/long.cc"
fails "an empty reason does not count" "src/m/long.cc: 502 lines" check
{ echo '// Long: it was.' && lines 20 'int x;'; } >"${WORK}/src/m/long.cc"
fails "a reason of a short file fails" "src/m/long.cc:1: a reason for what is not too long" check
rm "${WORK}/src/m/long.cc"
lines 501 x >"${WORK}/tests/corpus/long.c"
lines 501 x >"${WORK}/web/dist/long.js"
lines 501 x >"${WORK}/src/m/long.txt"
passes "data and what is built are not measured" check
for name in scripts/tool scripts/tool.sh tests/e2e/x_e2e.py web/src/page.ts src/m/CMakeLists.txt; do
  { echo '#!/usr/bin/env bash' && lines 500 '# x'; } >"${WORK}/${name}"
  fails "a long file fails: ${name}" "${name}: 501 lines" check
  rm "${WORK}/${name}"
done

fails_in src/m/x.cc 'int F() {' '  ++x;' '}'
fails_in src/m/method.h $'namespace weir {\nclass A {\n public:\n  int f() const {' '    x();' $'  }\n};\n}  // weir' 4
fails_in src/m/wide.cc $'std::optional<int> A::F(int a,\n                        int b) noexcept {' '  ++x;' '}'
fails_in src/m/x_test.cc $'template <typename T>\nTEST(A, B) {' '  ++x;' '}' 2
fails_in src/m/lambda.cc 'const auto kX = [] {' '  ++x;' '}();'
fails_in src/m/x.c 'int main(int argc, char** argv) {' '  if (argc) {}' '}'
fails_in tests/e2e/x_e2e.py $'class A:\n    @staticmethod\n    def f():' '        pass' '        return 1' 3
fails_in scripts/tool.sh 'f() {' '  echo' '}'
fails_in scripts/tool $'#!/usr/bin/env bash\nf() {' '  echo' '}' 2
fails_in web/src/page.ts 'export async function f(): void {' '  g();' '}'
fails_in web/src/arrow.ts 'export const f = (a: number): number => {' '  g();' '};'
fails_in web/src/method.ts $'class A {\n  f(a: number): void {' '    g();' $'  }\n}' 2
fails_in web/fake.mjs 'test("it", async () => {' '  g();' '});'

lambda="$(function_of '  const auto g = [] {' '    ++x;' '  };' 80)"
printf 'void F() {\n%s\n}\n' "${lambda}" >"${WORK}/src/m/x.cc"
fails "a lambda counts as a part of its function" "src/m/x.cc:1: a function of 82 lines" check
fails "and is not reported twice" "check-sizes: 1 breaches" check
text="$(printf 'void F() {\n  const char* text = R"(\n' && lines 80 '}' && printf ')";\n}\n')"
echo "${text}" >"${WORK}/src/m/x.cc"
fails "a text of several lines counts, whatever is in it" "src/m/x.cc:1: a function of 84 lines" check
function_of 'constexpr Row kRows[] = {' '    {1, F(2)},' '};' 80 >"${WORK}/src/m/x.cc"
passes "a table is no function" check
{ function_of 'class A {' '  void F(int);' '};' 80 && function_of 'namespace {' 'int x;' '}  // namespace' 80; } \
  >"${WORK}/src/m/x.cc"
passes "nor is a class or a namespace" check
long="$(function_of 'int F() {' '  ++x;' '}' 80)"
printf 'int x;\n// What it does.\n// Long: it is one list.\ntemplate <typename T>\n%s\n' "${long}" >"${WORK}/src/m/x.cc"
passes "a long function that states why passes" check
printf 'int x;\n// Long: it is one list.\n\n%s\n' "${long}" >"${WORK}/src/m/x.cc"
fails "a reason that is not right above it does not count" "src/m/x.cc:4: a function of 80 lines" check
printf 'int x;\n// Long: it was.\nint F();\n' >"${WORK}/src/m/x.cc"
fails "a reason of a short function fails" "src/m/x.cc:2: a reason for what is not too long" check
rm "${WORK}/src/m/x.cc"
printf 'x = 1\n# Long: it is one list.\n%s\n' "$(function_of 'def f():' '    g()' '    return 1' 80)" \
  >"${WORK}/tests/e2e/x_e2e.py"
passes "a reason in Python passes" check
printf '#!/usr/bin/env bash\ntrue\n# Long: it is one list.\nf() {\n  cat <<TEXT\n%s\nTEXT\n}\n' "$(lines 80 '}')" \
  >"${WORK}/scripts/tool"
passes "a reason in a shell script passes" check
mkdir "${WORK}/none"
fails "a tree without sources fails" "0 source files" "${SCRIPTS}/check-sizes" --root "${WORK}/none"
passes "this tree passes" "${SCRIPTS}/check-sizes"
finish
