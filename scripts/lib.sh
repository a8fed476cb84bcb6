# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts in this folder: `source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"`.
# shellcheck shell=bash

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
LOGS="${ROOT}/build/log"

# scripts/install-deps installs packages for the system's python3. That of a version manager may be a script that takes a
# third of a second to start, and tests start hundreds.
if [[ -x /usr/bin/python3 && "$(command -v python3 || true)" != /usr/bin/python3 ]]; then PATH="/usr/bin:${PATH}"; fi

# glibc's allocator takes its memory in pages of 2 MiB, where the kernel has them. Page faults are a fifth of a compiler's
# time in a virtual machine, and a third of the time in which an OpenCL driver compiles a kernel.
LARGE_PAGES=glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864

say() { printf '%s\n' "$*"; }

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# The number of parallel compilers: one per core, fewer where memory is short (a file that uses Beast takes about 1
# GiB).
jobs_count() {
  local cores gib
  cores="$(nproc)"
  gib="$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo)"
  if ((gib < cores)); then cores="${gib}"; fi
  printf '%s\n' "${WEIR_JOBS:-$((cores > 0 ? cores : 1))}"
}

# run_logged TITLE LOG COMMAND...: runs the command with its output in build/log/LOG. On a terminal it shows ninja's
# progress. On failure it prints the log's end and returns the command's status.
run_logged() {
  local title="$1" log="${LOGS}/$2" started="${SECONDS}" status=0
  shift 2
  mkdir -p "${LOGS}"
  if [[ -t 1 ]]; then
    "$@" 2>&1 </dev/null | tee "${log}" | show_progress "${title}" || status="${PIPESTATUS[0]}"
    printf '\r\033[K'
  else
    "$@" >"${log}" 2>&1 </dev/null || status="$?"
  fi
  if ((status == 0)); then
    say "${title}: done in $((SECONDS - started)) s"
  else
    say "${title}: FAILED with status ${status} after $((SECONDS - started)) s; the end of ${log#"${ROOT}/"}:" >&2
    tail -n 60 "${log}" >&2
  fi
  return "${status}"
}

show_progress() {
  local title="$1" line
  printf '%s ...' "${title}"
  while IFS= read -r line; do
    if [[ "${line}" =~ ^\[([0-9]+/[0-9]+)\] ]]; then
      printf '\r\033[K%s %s' "${title}" "${BASH_REMATCH[1]}"
    fi
  done
}

# configure_and_build PRESET: configures the preset's own folder and builds the preset's own targets. An existing folder
# keeps its compiler and its choice of WEIR_UNITY.
configure_and_build() {
  local preset="$1" options=()
  if [[ "${preset}" == dev && ! -e "${ROOT}/build/dev/CMakeCache.txt" ]]; then
    options+=(-DWEIR_UNITY=ON)
    # Of the same files clang compiles in two thirds of g++'s time.
    if command -v clang++ >/dev/null; then options+=(-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++); fi
  fi
  # On a miss ccache would preprocess the file before it compiles it; the compiler's own list of includes serves as
  # well. What uses a precompiled header is kept only if these macros may differ, which no source of ours uses.
  export CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros
  run_logged "configure ${preset}" "configure-${preset}.log" cmake -S "${ROOT}" --preset "${preset}" "${options[@]}" || return
  run_logged "build ${preset}" "build-${preset}.log" \
    env GLIBC_TUNABLES="${LARGE_PAGES}" cmake --build "${ROOT}/build/${preset}" --parallel "$(jobs_count)" "${@:2}"
}
