#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program built with every flag passes; without one of them it fails, and the message says what is missing.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

check() { "${SCRIPTS}/check-hardening" --exceptions "${WORK}/exceptions" "$@"; }

cat >"${WORK}/program.cc" <<'CODE'
#include <cstdio>
#include <vector>
void Fill(char* text, const std::vector<int>& numbers, unsigned i) {
  std::sprintf(text, "%d", numbers[i]);
}
int main(int count, char**) {
  volatile char large[20'000];
  char text[16];
  large[count] = 1;
  Fill(text, {1, 2}, static_cast<unsigned>(large[count]));
  return std::printf("%s\n", text);
}
CODE
cat >"${WORK}/library.c" <<'CODE'
int weir_nothing(void) { return 0; }
CODE

flags=(-fPIE -fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -D_GLIBCXX_ASSERTIONS
  -pie -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
if [[ "$(uname -m)" == x86_64 ]]; then flags+=(-fcf-protection); fi

# built WITHOUT WITH...: the program's flags, with WITH in place of WITHOUT.
built() {
  local without="$1" chosen=() flag
  shift
  for flag in "${flags[@]}"; do
    if [[ "${flag}" == "${without}" ]]; then chosen+=("$@"); else chosen+=("${flag}"); fi
  done
  rm -rf "${WORK}/bin" && mkdir "${WORK}/bin"
  g++ -std=c++20 -O2 "${chosen[@]}" -o "${WORK}/bin/program" "${WORK}/program.cc"
}
# lacks KEY WITHOUT WITH...
lacks() {
  local key="$1"
  shift
  built "$@"
  fails "without $1 a program fails for '${key}'" "program: ${key}: " check "${WORK}/bin"
}

touch "${WORK}/exceptions"
built ""
passes "a program with all of them passes" check "${WORK}/bin"
lacks pie -pie -no-pie
lacks relro -Wl,-z,relro -Wl,-z,norelro
lacks now -Wl,-z,now -Wl,-z,lazy
lacks stack -Wl,-z,noexecstack -Wl,-z,execstack
lacks protector -fstack-protector-strong -fno-stack-protector
lacks fortify -D_FORTIFY_SOURCE=3
fails "a function that prints unchecked is named" "program: fortify:sprintf: " check "${WORK}/bin"
lacks assertions -D_GLIBCXX_ASSERTIONS
if [[ "$(uname -m)" == x86_64 ]]; then
  lacks clash -fstack-clash-protection -fno-stack-clash-protection
  # The C library's start files have it in any case; they are left out.
  g++ -std=c++20 -O2 -fPIC -shared -nostartfiles "${flags[@]/-pie/-Wl,-z,defs}" -fcf-protection=none -o "${WORK}/bin/library.so" \
    "${WORK}/program.cc"
  fails "without -fcf-protection a library fails for 'cf'" "library.so: cf: " check "${WORK}/bin/library.so"
fi

rm -rf "${WORK}/bin" && mkdir "${WORK}/bin"
gcc -O2 -fPIC -shared "${flags[@]/-pie/-Wl,-z,defs}" -o "${WORK}/bin/library.so" "${WORK}/library.c"
fails "a library without anything to protect fails" "library.so: protector: " check "${WORK}/bin"
printf 'library.so protector it has no arrays\nlibrary.so fortify it calls nothing\n' >"${WORK}/exceptions"
passes "a reason in the list of exceptions passes" check "${WORK}/bin"
printf 'library.so pie not so\n' >>"${WORK}/exceptions"
fails "an exception that isn't needed fails" "needs no exception" check "${WORK}/bin"
rm "${WORK}/bin/library.so"
fails "a folder without programs fails" "there is no program" check "${WORK}/bin"
finish
