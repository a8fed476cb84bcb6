// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/debug_report.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/harness/temp_folder.h"

namespace weir::cli {
namespace {

TEST(DebugReport, SaysWhyTheDaemonDoesNotAnswerAndLists) {
  const testing::TempFolder folder;
  const std::string run_dir = folder / "run";
  std::filesystem::create_directories(run_dir + "/opencl");
  std::ofstream(run_dir + "/opencl/secret") << "the contents of a file";
  std::ofstream(run_dir + "/private.log") << std::string(20'000, 'x') << "\nlast but one\nlast\n";
  const Places places{.run_dir = run_dir, .socket = run_dir + "/control.sock"};
  const auto report = DebugReport(places, ControlClient(places.socket));
  EXPECT_NE(report["daemon"]["status"]["problem"].get<std::string>().find(places.socket), std::string::npos);
  EXPECT_FALSE(report["daemon"].contains("devices")) << "a daemon that does not answer is asked once";
  ASSERT_EQ(report["run_folder"]["entries"].size(), 3U);
  EXPECT_EQ(report["run_folder"]["entries"][1]["name"], "opencl/secret");
  EXPECT_EQ(report["run_folder"]["entries"][1]["bytes"], 22);
  EXPECT_EQ(report["private_log_end"], nlohmann::ordered_json({"last but one", "last"}));
  EXPECT_EQ(report.dump().find("the contents"), std::string::npos);
  EXPECT_GT(report["host"]["memory_bytes"].get<std::int64_t>(), 0);
}

}  // namespace
}  // namespace weir::cli
