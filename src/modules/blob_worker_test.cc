// SPDX-License-Identifier: Apache-2.0
#include "modules/blob_worker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "modules/sha256.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir::modules {
namespace {

class BlobWorkerTest : public ::testing::Test {
 protected:
  bool RunUntil(const std::function<bool()>& condition) {
    return weir::testing::WaitUntil([&] {
      loop_.restart();
      loop_.poll();
      return condition();
    });
  }
  /// A blob whose file is a pipe, so that reading it blocks until the test writes.
  std::string StalledBlob() {
    std::string blob = Sha256Of("what the pipe brings");
    EXPECT_EQ(::mkfifo((folder_ / ("blobs/" + blob)).c_str(), 0600), 0);
    return blob;
  }
  void EndStall(const std::string& blob) {
    const int pipe = ::open((folder_ / ("blobs/" + blob)).c_str(), O_WRONLY);
    ASSERT_GE(pipe, 0);
    EXPECT_EQ(::write(pipe, "what the pipe brings", 20), 20);
    ::close(pipe);
  }
  weir::testing::TempFolder folder_;
  boost::asio::io_context loop_{1};
  ModuleStore store_ = ModuleStore::Open(folder_ / "blobs").value();
  BlobWorker worker_{loop_, store_};
};

TEST_F(BlobWorkerTest, PutsAndGetsAsTheStoreDoes) {
  const std::string blob = Sha256Of("abc");
  std::vector<std::string> told;
  worker_.PutAs(blob, "abc", [&](const auto& stored) { told.push_back(stored && stored->added ? "added" : "?"); });
  worker_.Get(blob, [&](const auto& bytes) { told.push_back(bytes ? *bytes : bytes.error().message); });
  worker_.PutAs(blob, "abd", [&](const auto& stored) { told.emplace_back(NameOf(stored.error().code)); });
  worker_.Get(Sha256Of("x"), [&](const auto& bytes) { told.emplace_back(NameOf(bytes.error().code)); });
  ASSERT_TRUE(RunUntil([&] { return told.size() == 4; }));
  EXPECT_EQ(told, (std::vector<std::string>{"added", "abc", "invalid-argument", "not-found"}));
}

TEST_F(BlobWorkerTest, TheLoopContinuesWhileTheDiskStalls) {
  const std::string blob = StalledBlob();
  bool got = false;
  worker_.Get(blob, [&got](const auto& bytes) { got = bytes.has_value(); });
  int turns = 0;
  EXPECT_TRUE(RunUntil([&] { return ++turns > 100; }));
  EXPECT_FALSE(got);
  EndStall(blob);
  EXPECT_TRUE(RunUntil([&] { return got; }));
}

TEST_F(BlobWorkerTest, TheQueueIsBounded) {
  const std::string blob = StalledBlob();
  bool got = false;
  worker_.Get(blob, [&got](const auto&) { got = true; });
  const std::string large(BlobWorker::kWaitingBytesMax / 4, 'x');
  std::vector<std::string> refused;
  for (int i = 0; i < 5; ++i)
    worker_.PutAs(Sha256Of("x"), large, [&](const auto& stored) {
      if (!stored && stored.error().code == Errc::kUnavailable) refused.push_back(stored.error().message);
    });
  EXPECT_EQ(refused.size(), 1U);
  for (std::size_t i = 0; i < BlobWorker::kRequestsMax; ++i)
    worker_.Get(Sha256Of("x"), [&](const auto& bytes) {
      if (bytes.error().code == Errc::kUnavailable) refused.push_back(bytes.error().message);
    });
  EXPECT_GT(refused.size(), 1U);
  EndStall(blob);
  EXPECT_TRUE(RunUntil([&] { return got; }));
}

TEST(LimitBodies, OnlyABlobMayBeLarge) {
  const http::Limits limits = LimitBodies({.connections = 7});
  EXPECT_EQ(limits.connections, 7U);
  EXPECT_EQ(limits.request_bytes, ModuleStore::kBlobBytesMax);
  const auto most = [&](const std::string& path) { return limits.request_bytes_of({.method = "PUT", .path = path}); };
  EXPECT_EQ(most("/v1/blobs/" + std::string(64, 'a')), ModuleStore::kBlobBytesMax);
  for (const char* path : {"/v1/runs/blobs", "/v1/modules/m", "/v1/members/n/hello", "/v1/blobs"})
    EXPECT_EQ(most(path), kTextRequestBytesMax) << path;
  EXPECT_NE(limits.too_large->body.find("a blob has at most 64 MiB, any other body 1 MiB"), std::string::npos)
      << limits.too_large->body;
}

}  // namespace
}  // namespace weir::modules
