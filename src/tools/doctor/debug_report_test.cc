// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/debug_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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

TEST(DebugReport, FilesOfProgramsLeaveRoomForTheDaemonsFiles) {
  const testing::TempFolder folder;
  const std::string run_dir = folder / "run";
  const std::string cache = run_dir + "/homes/a/.cache";
  std::filesystem::create_directories(cache);
  std::filesystem::create_directories(run_dir + "/vgpu");
  for (int i = 0; i < 300; ++i) std::ofstream(cache + "/" + std::to_string(i)) << "x";
  std::ofstream(run_dir + "/vgpu/a.sock") << "";
  std::filesystem::create_directory_symlink(run_dir, run_dir + "/vgpu/back");
  const Places places{.run_dir = run_dir, .socket = run_dir + "/control.sock"};
  const auto listing = DebugReport(places, ControlClient(places.socket))["run_folder"];
  ASSERT_EQ(listing["entries"].size(), 200U);
  EXPECT_EQ(listing["left_out"], 306 - 200) << "of homes, homes/a, its cache, vgpu, two entries, and the 300 files";
  EXPECT_FALSE(listing.contains("left_out_at_least"));
  std::vector<std::string> names;
  for (const auto& entry : listing["entries"]) names.push_back(entry["name"].get<std::string>());
  EXPECT_TRUE(std::ranges::is_sorted(names));
  for (const char* name : {"homes/a/.cache", "vgpu", "vgpu/a.sock", "vgpu/back"})
    EXPECT_TRUE(std::ranges::find(names, std::string(name)) != names.end()) << name;
}

}  // namespace
}  // namespace weir::cli
