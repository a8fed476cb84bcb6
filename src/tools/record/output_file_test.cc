// SPDX-License-Identifier: Apache-2.0
#include "tools/record/output_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/harness/temp_folder.h"

namespace weir::cli {
namespace {

TEST(OutputFile, ReplacesWhatWasThereAndAppends) {
  const testing::TempFolder folder;
  const std::string path = folder / "x.csv";
  std::ofstream(path) << "an older and much longer file";
  auto file = OutputFile::Make(path);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_TRUE(file->Write("a\n"));
  ASSERT_TRUE(file->Write("b\n"));
  ASSERT_TRUE(file->Close());
  std::ifstream text(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(text), {}), "a\nb\n");
}

TEST(OutputFile, AFullDiskIsNamed) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  auto file = OutputFile::Make("/dev/full");
  ASSERT_TRUE(file) << file.error().message;
  const Status status = file->Write("row\n");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kResourceExhausted);
  EXPECT_NE(status.error().message.find("/dev/full"), std::string::npos);
}

TEST(OutputFile, APathThatCannotBeIsAnErrorAtOnce) {
  EXPECT_EQ(OutputFile::Make("/nowhere/at/all.csv").error().code, Errc::kNotFound);
  EXPECT_EQ(OutputFile::Make("/").error().code, Errc::kIo);
}

}  // namespace
}  // namespace weir::cli
