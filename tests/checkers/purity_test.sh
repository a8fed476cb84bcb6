#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

compiler="${CXX:-c++}"

# library OBJECT CODE: a static library of one object, compiled from CODE; prints its name.
library() {
  local object="${WORK}/$1" archive="${WORK}/${1%%.*}.a"
  printf '%s\n' "$2" >"${WORK}/code.cc"
  rm -f "${archive}"
  "${compiler}" -std=c++20 -O1 -c "${WORK}/code.cc" -o "${object}"
  ar rc "${archive}" "${object}"
  printf '%s\n' "${archive}"
}

broken() {
  local fact="$1" text="$2" code="$3" archive
  archive="$(library broken.cc.o "${code}")"
  fails "${fact}" "broken.a(broken.cc.o): needs ${text}" "${SCRIPTS}/check-purity" "${archive}"
}

passes "arithmetic, strings and containers are pure" "${SCRIPTS}/check-purity" "$(library good.cc.o '
#include <cmath>
#include <map>
#include <string>
std::map<std::string, double> f(double x) { return {{std::to_string(x), std::log(x)}}; }')"
passes "check.cc may say why and abort" "${SCRIPTS}/check-purity" "$(library check.cc.o '
#include <cstdio>
#include <cstdlib>
void f(int x) { std::fprintf(stderr, "broken %d\n", x); std::abort(); }')"

broken "an object other than check.cc may not" "abort" '#include <cstdlib>
void f() { std::abort(); }'
broken "clock_gettime is found" "clock_gettime" '#include <time.h>
long f() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec; }'
broken "steady_clock::now is found" "std::chrono::_V2::steady_clock::now()" '#include <chrono>
auto f() { return std::chrono::steady_clock::now(); }'
broken "system_clock::now is found" "std::chrono::_V2::system_clock::now()" '#include <chrono>
auto f() { return std::chrono::system_clock::now(); }'
broken "getenv is found" "getenv" '#include <cstdlib>
char* f() { return std::getenv("HOME"); }'
broken "open is found" "open" '#include <fcntl.h>
int f() { return open("/", O_RDONLY); }'
broken "open64 is found" "open64" '#define _FILE_OFFSET_BITS 64
#include <fcntl.h>
int f() { return open("/", O_RDONLY); }'
broken "a fortified read is found" "__read_chk" 'extern "C" long __read_chk(int, void*, unsigned long, unsigned long);
long f(void* p) { return __read_chk(0, p, 1, 1); }'
broken "a thread is found" "std::thread" '#include <thread>
void f() { std::thread([] {}).join(); }'
broken "a lock is found" "pthread_mutex_lock" '#include <pthread.h>
int f(pthread_mutex_t* m) { return pthread_mutex_lock(m); }'
broken "a sleep is found" "nanosleep" '#include <time.h>
int f(const timespec* t) { return nanosleep(t, nullptr); }'
broken "std::random_device is found" "std::random_device" '#include <random>
unsigned f() { return std::random_device()(); }'
broken "rand is found" "rand" '#include <cstdlib>
int f() { return std::rand(); }'
broken "a file stream is found" "std::basic_ofstream" '#include <fstream>
void f() { std::ofstream("x") << 1; }'
broken "std::cerr is found" "std::cerr" '#include <iostream>
void f() { std::cerr << 1; }'
broken "a socket is found" "socket" '#include <sys/socket.h>
int f() { return socket(1, 1, 0); }'
broken "mmap is found" "mmap" '#include <sys/mman.h>
void* f() { return mmap(nullptr, 1, 0, 0, -1, 0); }'
broken "exit is found" "exit" '#include <cstdlib>
void f() { std::exit(0); }'
fails "a library that isn't there fails" "check-purity" "${SCRIPTS}/check-purity" "${WORK}/none.a"
finish
