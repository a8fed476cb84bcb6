// SPDX-License-Identifier: Apache-2.0
#include "daemon/folder_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <filesystem>
#include <fstream>
#include <thread>

#include "http/server.h"
#include "tests/harness/temp_folder.h"

namespace weir::daemon {
namespace {

using weir::testing::TempFolder;

TEST(FolderLock, ASecondDaemonNamesTheProcessThatLocksTheFolder) {
  const TempFolder folder;
  auto first = LockFolder(folder.path(), "keeps its state in", "stop it");
  ASSERT_TRUE(first.has_value()) << first.error().message;
  const auto second = LockFolder(folder.path(), "keeps its state in", "stop it");
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Errc::kBusy);
  EXPECT_EQ(second.error().message, "another daemon (process " + std::to_string(::getpid()) + ") keeps its state in " +
                                        folder.path() + "; stop it");
  first = Fail(Errc::kInternal, "released");
  EXPECT_TRUE(LockFolder(folder.path(), "keeps its state in", "stop it").has_value());
}

TEST(FolderLock, AnythingElseInTheLockFileIsNotRepeated) {
  const TempFolder folder;
  const auto first = LockFolder(folder.path(), "serves", "stop it");
  ASSERT_TRUE(first.has_value());
  std::ofstream(folder / "lock") << "\033[2J";
  EXPECT_EQ(LockFolder(folder.path(), "serves", "stop it").error().message,
            "another daemon serves " + folder.path() + "; stop it");
}

TEST(ServingMark, IsThereUntilItsDaemonEndsAlsoWhenACrashHasLeftOne) {
  const TempFolder folder;
  const std::string path = ServingMark::PathIn(folder.path());
  std::ofstream(path) << "";
  {
    auto made = ServingMark::Make(folder.path());
    ASSERT_TRUE(made.has_value()) << made.error().message;
    const ServingMark mark(std::move(*made));
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

/// A daemon that holds the run folder and sends the replies that the test sets.
class OtherDaemon {
 public:
  OtherDaemon(const TempFolder& folder, std::string status) : status_(std::move(status)) {
    lock_ = std::move(*LockFolder(folder.path(), "serves", "stop it"));
    server_ = std::move(*http::Server::ListenUnix(loop_, folder / "control.sock", {},
                                                  [this](const http::Request& request, const http::Respond& respond) {
                                                    respond({200, "application/json", status_});
                                                    if (request.path != "/v1/shutdown") return;
                                                    stopped_ = true;
                                                    lock_.Reset();
                                                  }));
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~OtherDaemon() {
    loop_.stop();
    thread_.join();
  }
  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  const std::string status_;
  boost::asio::io_context loop_{1};
  platform::Fd lock_;
  std::unique_ptr<http::Server> server_;
  std::atomic<bool> stopped_ = false;
  std::thread thread_;
};

TEST(RunFolder, IsTakenOverFromAPrivateDaemonWithoutVgpus) {
  const TempFolder folder;
  const OtherDaemon other(folder, R"({"private":true,"vgpus":0,"pid":7})");
  const auto lock = LockRunFolder(folder.path(), folder / "control.sock", false);
  EXPECT_TRUE(lock.has_value()) << lock.error().message;
  EXPECT_TRUE(other.stopped());
}

TEST(RunFolder, IsLeftToAPrivateDaemonWithVgpusAndTheErrorSaysHowToEndIt) {
  const TempFolder folder;
  const OtherDaemon other(folder, R"({"private":true,"vgpus":2,"pid":7})");
  const auto lock = LockRunFolder(folder.path(), folder / "control.sock", false);
  ASSERT_FALSE(lock.has_value());
  EXPECT_EQ(lock.error().code, Errc::kBusy);
  for (const char* says : {"private daemon (process 7)", "2 vGPUs", "stop'"})
    EXPECT_NE(lock.error().message.find(says), std::string::npos) << lock.error().message;
  EXPECT_FALSE(other.stopped());
}

TEST(RunFolder, IsLeftToADaemonThatIsNotPrivate) {
  const TempFolder folder;
  for (const char* status : {R"({"private":false,"vgpus":0})", R"({"private":1})", "nonsense"}) {
    const OtherDaemon other(folder, status);
    const auto lock = LockRunFolder(folder.path(), folder / "control.sock", false);
    ASSERT_FALSE(lock.has_value()) << status;
    EXPECT_NE(lock.error().message.find("weir stop"), std::string::npos) << lock.error().message;
    EXPECT_FALSE(other.stopped()) << status;
  }
}

TEST(RunFolder, IsNotTakenOverByAnotherPrivateDaemon) {
  const TempFolder folder;
  const OtherDaemon other(folder, R"({"private":true,"vgpus":0,"pid":7})");
  EXPECT_EQ(LockRunFolder(folder.path(), folder / "control.sock", true).error().code, Errc::kBusy);
  EXPECT_FALSE(other.stopped());
}

}  // namespace
}  // namespace weir::daemon
