#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

# A small tree that keeps every rule.
good_tree() {
  local src="$1/src"
  mkdir -p "${src}"/{base,core/schedule,platform,gpu/ring,gpu/log}
  printf '# comment\nbase pure:\ncore pure: base\nplatform : base\ngpu/ring : base\ngpu/log : base\n' >"${src}/LAYERS"
  printf '#pragma once\n#include <vector>\n#include <chrono>\n#include <fmt/format.h>\n' >"${src}/base/units.h"
  printf '#include "base/check.h"\n#include <cstdio>\n#include <cstdlib>\n' >"${src}/base/check.cc"
  printf '#include "base/units.h"\n#include "core/schedule/policy.h"\n' >"${src}/core/schedule/policy.cc"
  printf '#include "core/schedule/policy.h"\n#include <gtest/gtest.h>\n#include <fstream>\n#include "tests/harness/x.h"\n' \
    >"${src}/core/schedule/policy_test.cc"
  printf '#include "base/units.h"\n#include <thread>\n#include <sys/socket.h>\n#include <boost/asio.hpp>\n' \
    >"${src}/platform/socket.cc"
}

# broken FACT TEXT FILE LINE: with LINE appended to FILE of a good tree, check-layers fails and says TEXT.
broken() {
  local fact="$1" text="$2" file="$3" line="$4" tree="${WORK}/broken"
  rm -rf "${tree}"
  good_tree "${tree}"
  mkdir -p "$(dirname "${tree}/src/${file}")"
  printf '%s\n' "${line}" >>"${tree}/src/${file}"
  fails "${fact}" "${text}" "${SCRIPTS}/check-layers" --root "${tree}"
}

good_tree "${WORK}/good"
passes "a tree that keeps the rules passes" "${SCRIPTS}/check-layers" --root "${WORK}/good"
mkdir -p "${WORK}/empty/src"
printf 'base pure:\n' >"${WORK}/empty/src/LAYERS"
fails "a tree without the folders it lists fails" "src/LAYERS:1: base" "${SCRIPTS}/check-layers" --root "${WORK}/empty"

broken "a module that isn't listed may not be included" 'src/core/schedule/policy.cc:3: includes "platform/socket.h"' \
  core/schedule/policy.cc '#include "platform/socket.h"'
broken "nor by way of another module" "src/LAYERS lets platform include base" platform/socket.cc \
  '#include "core/schedule/policy.h"'
broken "nor by a test beside the code" "src/LAYERS lets core include base" core/schedule/policy_test.cc \
  '  #  include "platform/socket.h"'
broken "an include in a folder below the module is seen" "src/platform/linux/futex.cc:1" platform/linux/futex.cc \
  '#include "core/schedule/policy.h"'
broken "our headers go in quotes" 'in quotes: "base/units.h"' core/schedule/policy.cc '#include <base/units.h>'
broken "an include without its module fails" "root-relative" core/schedule/policy.cc '#include "policy.h"'
broken "an include of .. fails" "root-relative" core/schedule/policy.cc '#include "core/../platform/socket.h"'
broken "an include that no tool can read fails" "an include names its file" base/units.h '#include WEIR_HEADER'
for header in thread iostream fstream filesystem random ctime cstdio unistd.h fcntl.h sys/mman.h boost/asio.hpp; do
  broken "a pure module may not include <${header}>" "includes <${header}>: core is pure" core/schedule/policy.cc \
    "#include <${header}>"
done
broken "the exception of check.cc is its own" "base is pure" base/units.h '#include <cstdio>'
broken "test libraries stay in tests" "only *_test" platform/socket.cc '#include <gtest/gtest.h>'
broken "so does the harness" "only *_test" platform/socket.cc '#include "tests/harness/x.h"'
broken "a nested module is allowed only what its own line says" "src/LAYERS lets gpu/log include base" gpu/log/log.cc \
  '#include "platform/socket.h"'
broken "its neighbours are other modules" "src/LAYERS lets gpu/log include base" gpu/log/log.cc '#include "gpu/ring/ring.h"'
broken "a file between nested modules belongs to none" "src/gpu/stray.cc: src/gpu has no line" gpu/stray.cc '// nothing'
broken "a folder without a line fails" "src/stray: has no line" stray/x.cc '// nothing'
broken "a source file outside a module fails" "src/stray.cc" stray.cc '// nothing'
broken "a cycle fails" "so that there is no cycle" LAYERS $'gate : daemon\ndaemon : gate'
broken "a pure module may not depend on one that isn't" "pure depends on pure" LAYERS 'engine pure: platform'
broken "an unknown module fails" "no such module" LAYERS 'gate : bse'
broken "a second line for a module fails" "has a line already" LAYERS 'core : base platform'
broken "a line that can't be read fails" "src/LAYERS:7" LAYERS 'gate base'
finish
