// SPDX-License-Identifier: Apache-2.0
#include "platform/file_requests.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "platform/unix_socket.h"
#include "tests/harness/temp_folder.h"

namespace weir::platform {
namespace {

using How = OfferedFile::How;

/// A service and the process that started it, in one.
class FileRequestsTest : public ::testing::Test {
 protected:
  void Offer(std::vector<OfferedFile> files) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    service_.Reset(ends[0]);
    daemon_.Reset(ends[1]);
    offered_ = std::move(files);
  }
  /// Asks for each number in turn while another thread answers.
  std::vector<Result<Fd>> Ask(const std::vector<unsigned char>& numbers) {
    std::atomic<bool> over{false};
    std::thread answering([&] {
      while (!over.load())
        if (WaitReadable(daemon_.get(), 10) && !AnswerFileRequest(daemon_.get(), offered_)) return;
    });
    FileRequests requests(std::move(service_), offered_);
    std::vector<Result<Fd>> opened;
    for (const unsigned char number : numbers) opened.push_back(requests.Open(number));
    over = true;
    answering.join();
    return opened;
  }
  static std::string TextOf(const Fd& fd) {
    char text[64];
    const ssize_t got = ::read(fd.get(), text, sizeof text);
    return {text, got < 0 ? 0 : static_cast<std::size_t>(got)};
  }

  testing::TempFolder folder_;
  std::vector<OfferedFile> offered_;
  Fd service_, daemon_;
};

TEST_F(FileRequestsTest, OpenWhatWasOffered) {
  std::ofstream(folder_ / "list") << "first";
  Offer({{folder_ / "missing"}, {folder_ / "list"}, {folder_ / "made", How::kMake}});
  const auto opened = Ask({1, 0, 2, 1});
  ASSERT_TRUE(opened[0]) << opened[0].error().message;
  EXPECT_EQ(TextOf(*opened[0]), "first");
  EXPECT_LT(::write(opened[0]->get(), "x", 1), 0) << "it was opened for reading";
  EXPECT_EQ(opened[1].error().code, Errc::kNotFound);
  EXPECT_EQ(opened[1].error().message.find("opening " + folder_ / "missing"), 0U) << opened[1].error().message;
  ASSERT_TRUE(opened[2]) << opened[2].error().message;
  EXPECT_EQ(::write(opened[2]->get(), "x", 1), 1);
  struct stat info {};
  ASSERT_EQ(::stat((folder_ / "made").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  ASSERT_TRUE(opened[3]) << "each request opens the file again";
  EXPECT_EQ(TextOf(*opened[3]), "first");
}

TEST_F(FileRequestsTest, APortIsASocketOrAFile) {
  auto listener = ListenUnixStream(folder_ / "port", 0600);
  ASSERT_TRUE(listener);
  std::ofstream(folder_ / "memory") << "memory";
  Offer({{folder_ / "port", How::kPort}, {folder_ / "memory", How::kPort}, {folder_.path(), How::kPort}});
  const auto opened = Ask({0, 1, 2});
  ASSERT_TRUE(opened[0]) << opened[0].error().message;
  ASSERT_EQ(::send(opened[0]->get(), "hello", 5, 0), 5);
  EXPECT_EQ(TextOf(*AcceptUnix(listener->get())), "hello");
  ASSERT_TRUE(opened[1]) << opened[1].error().message;
  EXPECT_EQ(TextOf(*opened[1]), "memory");
  EXPECT_EQ(opened[2].error().code, Errc::kInvalidArgument);
}

TEST_F(FileRequestsTest, OtherRequestsEndTheConversation) {
  for (const auto& request : std::vector<std::string>{{"\1"}, {"\xff"}, {"\0\0", 2}, {}}) {
    Offer({{folder_ / "list"}});
    ASSERT_EQ(::send(service_.get(), request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
    if (request.empty()) service_.Reset();
    EXPECT_FALSE(AnswerFileRequest(daemon_.get(), offered_)) << request;
  }
  Offer({{folder_ / "list"}});
  EXPECT_TRUE(AnswerFileRequest(daemon_.get(), offered_)) << "nothing was asked for";
}

TEST_F(FileRequestsTest, WithoutADaemonNothingIsOpened) {
  Offer({{folder_ / "list"}});
  daemon_.Reset();
  FileRequests requests(std::move(service_), offered_);
  for (int i = 0; i < 2; ++i) {
    const auto opened = requests.Open(0);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::kUnavailable);
    EXPECT_EQ(opened.error().message, folder_ / "list" + " is not opened: the daemon does not answer");
  }
}

}  // namespace
}  // namespace weir::platform
