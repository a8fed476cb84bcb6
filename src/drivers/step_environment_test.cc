// SPDX-License-Identifier: Apache-2.0
#include "drivers/spank/step_environment.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace weir::drivers {
namespace {

std::string Joined(const char* name, const char* ours, const char* steps) {
  std::array<char, 256> joined{};
  return joined_value(name, ours, steps, joined.data(), joined.size());
}

TEST(StepEnvironment, WeirsLibraryIsFirstAndOnce) {
  EXPECT_EQ(Joined("LD_PRELOAD", "/w/a.so", ""), "/w/a.so");
  EXPECT_EQ(Joined("LD_PRELOAD", "/w/a.so", "libhook.so libb.so"), "/w/a.so:libhook.so libb.so");
  EXPECT_EQ(Joined("LD_PRELOAD", "/w/a.so", "/w/a.so:libhook.so"), "/w/a.so:libhook.so") << "a step within a step";
  EXPECT_EQ(Joined("LD_PRELOAD", "/w/a.so", "/w/a.so.1"), "/w/a.so:/w/a.so.1");
}

TEST(StepEnvironment, FoldersOfLibrariesPrecedeTheStepsOwn) {
  EXPECT_EQ(Joined("LD_LIBRARY_PATH", "/w/opencl", "/mine"), "/w/opencl:/mine");
}

TEST(StepEnvironment, FoldersOfDataAreAddedToTheStepsOwn) {
  const char* const ours = "/usr/local/share:/usr/share:/w/share";
  EXPECT_EQ(Joined("XDG_DATA_DIRS", ours, ""), ours);
  EXPECT_EQ(Joined("XDG_DATA_DIRS", ours, "/mine:/usr/share"), "/mine:/usr/share:/w/share");
  EXPECT_EQ(Joined("XDG_DATA_DIRS", ours, "/mine:/w/share"), "/mine:/w/share");
}

TEST(StepEnvironment, OtherVariablesAreReplaced) { EXPECT_EQ(Joined("WEIR_ATTACH", "/run/b", "/run/a"), "/run/b"); }

}  // namespace
}  // namespace weir::drivers
