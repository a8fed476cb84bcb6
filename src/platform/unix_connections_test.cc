// SPDX-License-Identifier: Apache-2.0
#include "platform/unix_connections.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "platform/fd.h"
#include "tests/harness/child.h"
#include "tests/harness/code_of.h"
#include "tests/harness/temp_folder.h"

namespace weir::platform {
namespace {

using weir::testing::CodeOf;

class UnixConnections : public ::testing::Test {
 protected:
  [[nodiscard]] sockaddr_un Address() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
    return address;
  }
  void Listen(int type) {
    ::unlink(path_.c_str());
    listener_.Reset(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    const sockaddr_un address = Address();
    ASSERT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(listener_.get(), 4), 0);
  }
  [[nodiscard]] Fd Connect(int type) const {
    Fd client(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    const sockaddr_un address = Address();
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return client;
  }
  [[nodiscard]] bool HasClient(const std::string& path) const {
    const auto has = HasClientAt(path, ::getpid());
    EXPECT_TRUE(has) << has.error().message;
    return has && *has;
  }

  weir::testing::TempFolder folder_;
  const std::string path_ = folder_.path() + "/socket";
  Fd listener_;
};

TEST_F(UnixConnections, AClientIsThereUntilItClosesItsEnd) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    Listen(type);
    EXPECT_FALSE(HasClient(path_)) << "the listening socket has the same name";
    Fd client = Connect(type);
    const Fd accepted(::accept(listener_.get(), nullptr, nullptr));
    ASSERT_TRUE(accepted);
    EXPECT_TRUE(HasClient(path_));
    client.Reset();
    EXPECT_FALSE(HasClient(path_));
  }
}

TEST_F(UnixConnections, OtherConnectionsAreNoClients) {
  Listen(SOCK_STREAM);
  const Fd client = Connect(SOCK_STREAM);  // has no name itself
  const Fd accepted(::accept(listener_.get(), nullptr, nullptr));
  EXPECT_FALSE(HasClient(path_ + "2"));
  EXPECT_FALSE(HasClient(""));
  EXPECT_TRUE(HasClient(path_));
}

TEST_F(UnixConnections, AProcessThatHasEndedHasNone) {
  weir::testing::Child child([] { return 0; });
  const pid_t pid = child.pid();
  child.Wait();
  EXPECT_EQ(CodeOf(HasClientAt(path_, pid)), Errc::kNotFound);
}

}  // namespace
}  // namespace weir::platform
