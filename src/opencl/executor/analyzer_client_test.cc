// SPDX-License-Identifier: Apache-2.0
// The client of an analyzer that ends: a script takes its place.
#include "opencl/executor/analyzer_client.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/harness/code_of.h"
#include "tests/harness/temp_folder.h"

namespace weir::opencl {
namespace {

using weir::testing::CodeOf;

class AnalyzerThatEnds : public ::testing::Test {
 protected:
  /// `number`: how many of the processes end without an answer. The next ones answer one request each.
  AnalyzerClient ClientOfAnalyzersOfWhichTheFirstEnd(int number) {
    const std::vector<std::byte> reply = kernel::FrameOf(kernel::EncodeAnalysisReply(kernel::ProgramAnalysis{}));
    std::ofstream(folder_ / "reply", std::ios::binary)
        .write(reinterpret_cast<const char*>(reply.data()), static_cast<std::streamsize>(reply.size()));
    std::ofstream(folder_ / "analyzer") << "#!/bin/sh\n"
                                        << "echo >> " << folder_ / "runs"
                                        << "\n"
                                        << "[ $(wc -l < " << folder_ / "runs"
                                        << ") -gt " << number << " ] || exit 0\n"
                                        << "cat " << folder_ / "reply"
                                        << "\n"
                                        << "exec cat > /dev/null\n";
    std::filesystem::permissions(folder_ / "analyzer", std::filesystem::perms::owner_all);
    return AnalyzerClient(folder_ / "analyzer");
  }
  [[nodiscard]] int Runs() const {
    std::ifstream runs(folder_ / "runs");
    int lines = 0;
    for (std::string line; std::getline(runs, line);) ++lines;
    return lines;
  }

  testing::TempFolder folder_;
};

TEST_F(AnalyzerThatEnds, IsStartedAgainForTheSameRequest) {
  AnalyzerClient client = ClientOfAnalyzersOfWhichTheFirstEnd(1);
  client.Start();
  const auto answer = client.Ask({.source = "a"});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_TRUE((*answer)->kernels.empty());
  EXPECT_EQ(Runs(), 2);
}

TEST_F(AnalyzerThatEnds, IsStartedAgainOnceForARequest) {
  AnalyzerClient client = ClientOfAnalyzersOfWhichTheFirstEnd(3);
  EXPECT_EQ(CodeOf(client.Ask({.source = "a"})), Errc::kUnavailable);
  EXPECT_EQ(Runs(), 2);
  EXPECT_TRUE(client.Ask({.source = "a"})) << "the fourth one answers";
  EXPECT_EQ(Runs(), 4);
}

}  // namespace
}  // namespace weir::opencl
