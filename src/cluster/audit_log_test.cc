// SPDX-License-Identifier: Apache-2.0
#include "cluster/audit_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/harness/temp_folder.h"

namespace weir::cluster {
namespace {

std::vector<std::string> LinesOf(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

http::Request Removal(const std::string& path) {
  return {.method = "DELETE",
          .path = path,
          .query = {},
          .body = {},
          .bearer = {},
          .holder = {.role = "tenant", .name = "lab", .address = "10.0.0.2:40312"}};
}

TEST(ClusterAuditLog, HasALineOfJsonForEachRequestAndIsKept) {
  const testing::TempFolder folder;
  const std::string path = folder / "audit.jsonl";
  for (int start = 0; start < 2; ++start) {
    auto log = AuditLog::Open(path);
    ASSERT_TRUE(log) << log.error().message;
    log->Add(1'000'000'000, Removal("/v1/runs/\n\xff\"r"), 404);
  }
  const auto lines = LinesOf(path);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(nlohmann::json::parse(lines[1]),
            nlohmann::json::parse(
                R"({"time": "2001-09-09T01:46:40Z", "role": "tenant", "name": "lab", "from": "10.0.0.2:40312",
                    "method": "DELETE", "path": "/v1/runs/\n\ufffd\"r", "status": 404})"));
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST(ClusterAuditLog, IsBounded) {
  const testing::TempFolder folder;
  const std::string path = folder / "audit.jsonl";
  auto log = AuditLog::Open(path, 1'000);
  ASSERT_TRUE(log);
  for (int i = 0; i < 100; ++i) log->Add(1'000'000'000 + i, Removal(std::string(10'000, 'r')), 403);
  EXPECT_LE(std::filesystem::file_size(path), 1'000U);
  EXPECT_LE(std::filesystem::file_size(path + ".1"), 1'000U);
  const std::string last = LinesOf(path).back();
  EXPECT_NE(last.find("2001-09-09T01:48:19Z"), std::string::npos) << last;
}

TEST(ClusterAuditLog, DoesNotFollowALink) {
  const testing::TempFolder folder;
  std::filesystem::create_symlink("/dev/null", folder / "audit.jsonl");
  EXPECT_FALSE(AuditLog::Open(folder / "audit.jsonl"));
}

}  // namespace
}  // namespace weir::cluster
