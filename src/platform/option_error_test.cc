// SPDX-License-Identifier: Apache-2.0
#include "platform/option_error.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir::platform {
namespace {

std::string ErrorOf(std::vector<std::string> arguments) {
  static constexpr option kOptions[] = {
      {"path", required_argument, nullptr, 1}, {"quiet", no_argument, nullptr, 2}, {nullptr, 0, nullptr, 0}};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::optind = 0;  // glibc: start over
  for (int code = 0;
       (code = ::getopt_long(static_cast<int>(argv.size()) - 1, argv.data(), ":h", kOptions, nullptr)) != -1;)
    if (code == '?' || code == ':') return OptionError(code, argv.data());
  return "";
}

TEST(OptionError, NamesTheUnknownOption) {
  EXPECT_EQ(ErrorOf({"program", "--quiet", "--no-such", "x"}), "unknown option '--no-such'");
  EXPECT_EQ(ErrorOf({"program", "-x"}), "unknown option '-x'");
  EXPECT_EQ(ErrorOf({"program", "-hx", "--quiet"}), "unknown option '-x'");
  EXPECT_EQ(ErrorOf({"program", "--quiet=3"}), "unknown option '--quiet=3'");
}

TEST(OptionError, TellsAMissingValueFromAnUnknownOption) {
  EXPECT_EQ(ErrorOf({"program", "--quiet", "--path"}), "option '--path' needs a value");
}

TEST(OptionError, AcceptsKnownOptions) { EXPECT_EQ(ErrorOf({"program", "--path", "/x", "-h", "--quiet"}), ""); }

}  // namespace
}  // namespace weir::platform
