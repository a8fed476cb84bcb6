// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/build_options.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace weir::opencl {
namespace {

std::string Made(std::string_view client) {
  auto made = MakeBuildOptions("-own", client);
  return made ? *made : "invalid";
}

TEST(BuildOptions, FollowWeirsOwnOptions) {
  EXPECT_EQ(Made(""), "-own");
  EXPECT_EQ(Made("  -w\t-cl-std=CL1.2 "), "-own -w -cl-std=CL1.2");
  EXPECT_EQ(Made("-D X=1 -DY=2 -D  Z=\"a b\""), "-own -D X=1 -DY=2 -D Z=\"a b\"");
  EXPECT_EQ(Made("-D \"A=1\" -DS='x -I y'"), "-own -D \"A=1\" -DS='x -I y'");
  EXPECT_EQ(Made("-x clc++"), "-own -x clc++");
}

TEST(BuildOptions, AreInvalidWithoutAnArgumentOrTheEndOfAQuote) {
  for (const char* options : {"-D", "-I", "-D ", "-w -I", "-DX=\"a", "-D 'X", "-w \\", "-D\\"})
    EXPECT_EQ(Made(options), "invalid") << options;
  EXPECT_EQ(Made(std::string_view("-w\0 -w", 6)), "invalid");
}

// For any client text, the result begins with the executor's options, and parsing the rest again changes nothing.
RC_GTEST_PROP(BuildOptionsLaws, WeirsOptionsComeFirstAndParsingIsStable, ()) {
  const auto piece = rc::gen::element<std::string>("-D", "-I", " ", "\"", "'", "\\", "a", "-", "-w", "=", "\t");
  std::string client;
  for (const std::string& part : *rc::gen::container<std::vector<std::string>>(piece)) client += part;
  const auto made = MakeBuildOptions("-own", client);
  if (!made) return;
  RC_ASSERT(made->starts_with("-own"));
  const auto again = MakeBuildOptions("", std::string_view(*made).substr(4));
  RC_ASSERT(static_cast<bool>(again));
  RC_ASSERT(*made == (again->empty() ? "-own" : "-own " + *again));
}

}  // namespace
}  // namespace weir::opencl
