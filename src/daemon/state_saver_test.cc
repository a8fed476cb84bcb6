// SPDX-License-Identifier: Apache-2.0
#include "daemon/state_saver.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>

#include "daemon/control.h"
#include "platform/clock.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir::daemon {
namespace {

using weir::testing::kPatience;

/// A disk whose writes take as long as the test wants.
class SlowDisk {
 public:
  Status Write(const SavedNode& state) {
    std::unique_lock guard(mutex_);
    ++begun_;
    changed_.notify_all();
    changed_.wait(guard, [this] { return !stalled_; });
    if (!error_.empty()) return Fail(Errc::kIo, error_);
    written_.push_back(state);
    return Ok();
  }
  void Stall(bool stalled) {
    const std::lock_guard guard(mutex_);
    stalled_ = stalled;
    changed_.notify_all();
  }
  void FailWith(std::string error) {
    const std::lock_guard guard(mutex_);
    error_ = std::move(error);
  }
  bool WaitForWrites(int count) {
    std::unique_lock guard(mutex_);
    return changed_.wait_for(guard, kPatience, [this, count] { return begun_ >= count; });
  }
  std::vector<SavedNode> Written() {
    const std::lock_guard guard(mutex_);
    return written_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stalled_ = false;
  int begun_ = 0;
  std::string error_;
  std::vector<SavedNode> written_;
};

SavedNode WithVgpus(std::size_t count) {
  SavedNode state;
  state.vgpus.resize(count);
  return state;
}

class StateSaverTest : public ::testing::Test {
 protected:
  /// Runs the loop until the condition holds.
  bool RunUntil(const std::function<bool()>& condition) {
    return weir::testing::WaitUntil([&] {
      loop_.restart();
      loop_.poll();
      return condition();
    });
  }
  SlowDisk disk_;
  boost::asio::io_context loop_{1};
  std::unique_ptr<StateSaver> saver_ = std::make_unique<StateSaver>(
      loop_, [this](const SavedNode& state) { return disk_.Write(state); }, milliseconds(1));
};

TEST_F(StateSaverTest, TheNewestStateReplacesTheOneThatWaits) {
  disk_.Stall(true);
  saver_->Save(WithVgpus(1));
  ASSERT_TRUE(disk_.WaitForWrites(1));
  saver_->Save(WithVgpus(2));
  saver_->Save(WithVgpus(3));
  std::vector<int> done;
  saver_->WhenSaved([&done](const Status& status) { done.push_back(status ? 3 : -3); });
  disk_.Stall(false);
  ASSERT_TRUE(RunUntil([&] { return !done.empty(); }));
  EXPECT_EQ(done, std::vector{3});
  const auto written = disk_.Written();
  ASSERT_EQ(written.size(), 2U);
  EXPECT_EQ(written[0].vgpus.size(), 1U);
  EXPECT_EQ(written[1].vgpus.size(), 3U);
}

TEST_F(StateSaverTest, NothingIsAcknowledgedBeforeItIsWritten) {
  disk_.Stall(true);
  saver_->Save(WithVgpus(1));
  bool done = false;
  saver_->WhenSaved([&done](const Status&) { done = true; });
  ASSERT_TRUE(disk_.WaitForWrites(1));
  loop_.poll();
  EXPECT_FALSE(done);
  disk_.Stall(false);
  EXPECT_TRUE(RunUntil([&] { return done; }));
}

TEST_F(StateSaverTest, AFailureIsReportedAndTheStateIsWrittenAgain) {
  disk_.FailWith("the disk is broken");
  saver_->Save(WithVgpus(5));
  std::string told;
  saver_->WhenSaved([&told](const Status& status) { told = status ? "saved" : status.error().message; });
  ASSERT_TRUE(RunUntil([&] { return !told.empty(); }));
  EXPECT_EQ(told, "the disk is broken");
  EXPECT_EQ(saver_->problem(), "the disk is broken");
  disk_.FailWith("");
  ASSERT_TRUE(RunUntil([&] { return saver_->problem().empty(); }));
  EXPECT_EQ(disk_.Written().back().vgpus.size(), 5U);
}

TEST_F(StateSaverTest, TheLastStateIsWrittenBeforeTheSaverEnds) {
  for (std::size_t i = 1; i <= 20; ++i) saver_->Save(WithVgpus(i));
  saver_.reset();
  EXPECT_EQ(disk_.Written().back().vgpus.size(), 20U);
}

TEST_F(StateSaverTest, WaitersAreBounded) {
  disk_.Stall(true);
  saver_->Save(WithVgpus(1));
  for (std::size_t i = 0; i < StateSaver::kWaitersMax; ++i) {
    ASSERT_TRUE(saver_->MayWait());
    saver_->WhenSaved([](const Status&) {});
  }
  EXPECT_FALSE(saver_->MayWait());
  disk_.Stall(false);
}

/// A node with the control API whose state is saved to a slow disk.
class SlowDiskNode : public StateSaverTest {
 protected:
  SlowDiskNode() {
    std::filesystem::create_directory(folder_ / "vgpu");
    std::filesystem::create_directory(folder_ / "opencl");
  }
  std::shared_ptr<unsigned> Ask(const std::string& method, const std::string& path, const std::string& body) {
    auto status = std::make_shared<unsigned>(0);
    control_.Answer({method, path, "", body, "", 0, ::getpid()}, [this, status](const http::Reply& reply) {
      *status = reply.status;
      said_ = reply.body;
    });
    return status;
  }
  std::string said_;
  weir::testing::TempFolder folder_;
  Node node_{loop_,
             folder_.path(),
             {{.spec = {"embedded", "software", {0, 1}}, .executors = {}}},
             [this](const SavedNode& state) { saver_->Save(state); }};
  Control control_{node_,
                   {.run_dir = folder_.path(),
                    .state_dir = folder_.path(),
                    .is_private = false,
                    .started = platform::Now(),
                    .stop = [] {},
                    .peers = nullptr,
                    .saver = saver_.get()}};
};

TEST_F(SlowDiskNode, HeartbeatsGoOnWhileASaveTakesLong) {
  disk_.Stall(true);
  const auto made = Ask("POST", "/v1/vgpus", R"({"name":"a"})");
  ASSERT_TRUE(disk_.WaitForWrites(1));
  // More heartbeats than an agent waits before it treats the daemon as dead.
  const std::uint64_t looks = node_.looks();
  const std::uint64_t beats = static_cast<std::uint64_t>(seconds(3) / kHousekeeping);
  EXPECT_TRUE(RunUntil([&] { return node_.looks() >= looks + beats; }));
  EXPECT_EQ(*made, 0U) << "answered before it was saved: " << said_;
  const auto shown = Ask("GET", "/v1/vgpus/a", "");
  EXPECT_EQ(*shown, 200U) << "what changes nothing does not wait";
  disk_.Stall(false);
  EXPECT_TRUE(RunUntil([&] { return *made != 0; }));
  EXPECT_EQ(*made, 201U) << said_;
}

TEST_F(SlowDiskNode, AClientThatHangsUpIsNotHeldUntilTheDiskAnswers) {
  disk_.Stall(true);
  std::function<void()> gone;
  http::Request request{"POST", "/v1/vgpus", "", R"({"name":"a"})", "", 0, ::getpid()};
  request.when_gone = [&gone](std::function<void()> then) { gone = std::move(then); };
  auto connection = std::make_shared<int>(0);
  const std::weak_ptr<int> open = connection;
  control_.Answer(request, [connection](const http::Reply&) { ADD_FAILURE() << "nobody reads it" << *connection; });
  connection.reset();
  ASSERT_TRUE(gone);
  EXPECT_FALSE(open.expired());
  gone();
  EXPECT_TRUE(open.expired()) << "its place is free while the disk stalls";
  const auto other = Ask("POST", "/v1/vgpus", R"({"name":"b"})");
  disk_.Stall(false);
  EXPECT_TRUE(RunUntil([&] { return *other != 0; }));
  EXPECT_EQ(*other, 201U) << said_;
  EXPECT_TRUE(node_.Vgpu("a")) << "the change takes effect";
}

TEST_F(SlowDiskNode, AChangeThatCouldNotBeSavedIsAnErrorForItsClient) {
  disk_.FailWith("the disk is broken");
  const auto made = Ask("POST", "/v1/vgpus", R"({"name":"a"})");
  ASSERT_TRUE(RunUntil([&] { return *made != 0; }));
  EXPECT_EQ(*made, 500U);
  EXPECT_NE(said_.find("takes effect"), std::string::npos) << said_;
  EXPECT_NE(said_.find("the disk is broken"), std::string::npos) << said_;
  const auto status = Ask("GET", "/v1/status", "");
  EXPECT_EQ(*status, 200U);
  EXPECT_EQ(nlohmann::json::parse(said_)["not_saved"], "the disk is broken");
}

TEST_F(SlowDiskNode, AnErrorOfTheRequestDoesNotWaitForTheDisk) {
  disk_.Stall(true);
  saver_->Save(WithVgpus(1));
  const auto wrong = Ask("POST", "/v1/vgpus", "[");
  EXPECT_EQ(*wrong, 400U);
  disk_.Stall(false);
}

}  // namespace
}  // namespace weir::daemon
