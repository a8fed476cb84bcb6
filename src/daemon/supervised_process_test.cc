// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervised_process.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <fstream>

#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir::daemon {
namespace {

TEST(SupervisedProcess, SaysWhyItDoesNotRun) {
  boost::asio::io_context loop{1};
  const auto kept = SupervisedProcess::Start(loop, "portal", {"/bin/sh", "-c", "exit 4"});
  ASSERT_TRUE(kept.has_value()) << kept.error().message;
  EXPECT_EQ((*kept)->name(), "portal");
  EXPECT_EQ((*kept)->problem(), "");
  EXPECT_TRUE(weir::testing::WaitUntil([&] {
    loop.restart();
    loop.poll();
    return !(*kept)->problem().empty();
  }));
  EXPECT_EQ((*kept)->problem(), "it ended with the error 'already-exists'");
  EXPECT_EQ((*kept)->pid(), 0) << "another process may have that number";
}

TEST(SupervisedProcess, AProcessThatCannotBeWatchedIsEnded) {
  boost::asio::io_context loop{1};
  pid_t pid = 0;
  const auto kept = SupervisedProcess::Start(loop, "portal", {"/bin/sleep", "600"}, {}, [&pid](pid_t started) {
    pid = started;
    return Fail(Errc::kResourceExhausted, "no descriptors are left");
  });
  ASSERT_FALSE(kept.has_value());
  EXPECT_EQ(kept.error().code, Errc::kResourceExhausted);
  ASSERT_GT(pid, 0);
  EXPECT_EQ(::kill(pid, 0), -1) << "it runs, and nobody waits for it";
  EXPECT_EQ(errno, ESRCH);
}

TEST(SupervisedProcess, AProgramThatIsNotInstalledIsAnError) {
  boost::asio::io_context loop{1};
  EXPECT_EQ(SupervisedProcess::Start(loop, "portal", {""}).error().code, Errc::kNotFound);
}

TEST(SupervisedProcess, GetsFilesOfTheDaemonWithItsUser) {
  const weir::testing::TempFolder folder;
  std::ofstream(folder / "secret") << "the secret";
  boost::asio::io_context loop{1};
  // A service in Python: asks for the file on the descriptor after --files and writes what it was given.
  const std::string service =
      "import array, socket, sys\n"
      "given = dict(zip(sys.argv[2::2], sys.argv[3::2]))\n"
      "requests = socket.socket(fileno=int(given['--files']))\n"
      "requests.setblocking(True)\n"
      "requests.send(b'\\0')\n"
      "answer, passed, _, _ = requests.recvmsg(4096, 64)\n"
      "fd = array.array('i', passed[0][2])[0]\n"
      "open(sys.argv[1], 'w').write(given['--as'] + ' ' + open(fd).read())\n";
  const auto kept = SupervisedProcess::Start(loop, "portal", {"/usr/bin/python3", "-c", service, folder / "said"},
                                             {.user = 12'345, .files = {{folder / "secret"}}});
  ASSERT_TRUE(kept.has_value()) << kept.error().message;
  std::string said;
  EXPECT_TRUE(weir::testing::WaitUntil([&] {
    loop.restart();
    loop.poll();
    std::getline(std::ifstream(folder / "said"), said);
    return said == "12345 the secret";
  })) << said;
}

}  // namespace
}  // namespace weir::daemon
