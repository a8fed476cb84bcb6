// SPDX-License-Identifier: Apache-2.0
// A guest's port at run time: terminals, sockets, portals without executors, and guests that disappear, return and send
// malformed data.
#include "remote/guest_portal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "net/tcp_stream.h"
#include "platform/unix_socket.h"
#include "remote/guest_port.h"
#include "remote/handshake.h"
#include "remote/memory_line.h"
#include "remote/port_loop.h"
#include "tests/harness/code_of.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir::remote {
namespace {

using testing::CodeOf;
using testing::kPatience;

/// A thread whose `work` ends when the descriptor that it is given becomes readable.
class Stoppable {
 public:
  explicit Stoppable(std::function<void(int)> work) : stop_(::eventfd(0, EFD_CLOEXEC)) {
    thread_ = std::thread([stop = stop_.get(), work = std::move(work)] { work(stop); });
  }
  ~Stoppable() { End(); }
  void End() {
    if (!thread_.joinable()) return;
    ::eventfd_write(stop_.get(), 1);
    thread_.join();
  }

 private:
  platform::Fd stop_;
  std::thread thread_;
};

using OpenLine = std::function<Result<std::unique_ptr<PortLine>>()>;
/// Gives a loop duplicates of a descriptor as its port.
OpenLine Lend(const platform::Fd& fd) {
  return [&fd]() -> Result<std::unique_ptr<PortLine>> {
    return LineOf(platform::Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)));
  };
}

/// The guest's process that has the port open. Each connection to it gets a stream.
class GuestSide {
 public:
  explicit GuestSide(OpenLine open)
      : listener_(*platform::ListenUnixStream(folder_ / "port.sock", 0600)), loop_([this, open](int stop) {
          EXPECT_TRUE(RunPort({.side = proto::port::Side::kGuest,
                               .name = "the port",
                               .open = open,
                               .listener = listener_.get(),
                               .accept = [this] { return platform::AcceptUnix(listener_.get()); },
                               .stop = stop}));
        }) {}
  std::unique_ptr<net::Stream> Connect() {
    auto connected = ConnectByPort(folder_ / "port.sock", folder_.path(), "");
    EXPECT_TRUE(connected);
    return std::move(*connected);
  }
  void End() { loop_.End(); }

 private:
  testing::TempFolder folder_;
  platform::Fd listener_;
  Stoppable loop_;
};

/// A host whose streams echo their data.
class EchoHost {
 public:
  explicit EchoHost(OpenLine open)
      : loop_([this, open](int stop) {
          EXPECT_TRUE(RunPort({.side = proto::port::Side::kHost,
                               .name = "the guest",
                               .open = open,
                               .opened = [this](platform::Fd fd) { Answer(std::move(fd)); },
                               .stop = stop,
                               .quiet = true}));
        }) {}
  ~EchoHost() {
    loop_.End();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void Answer(platform::Fd fd) {
    threads_.emplace_back([stream = net::AdoptLocal(std::move(fd), "guest", "guest")] {
      std::vector<std::byte> bytes(40'000);
      for (;;) {
        const auto came = stream->TryReceive(bytes);
        if (!came || !net::SendAll(*stream, std::span(bytes).first(*came), kPatience)) return;
        if (*came == 0) stream->AwaitReceive(milliseconds(50));
      }
    });
  }
  std::vector<std::thread> threads_;
  Stoppable loop_;
};

std::vector<std::byte> SomeBytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 2654435761U) >> 11);
  return bytes;
}

/// Sends `size` bytes and expects to receive them again.
void ExpectEcho(net::Stream& stream, std::size_t size) {
  const std::vector<std::byte> said = SomeBytes(size);
  std::vector<std::byte> heard(size);
  std::thread saying([&] { EXPECT_TRUE(net::SendAll(stream, said, kPatience)); });
  const Status received = net::ReceiveAll(stream, heard, kPatience);
  saying.join();
  ASSERT_TRUE(received) << received.error().message;
  EXPECT_EQ(heard, said);
}

struct TwoSockets {
  TwoSockets() {
    int ends[2] = {-1, -1};
    WEIR_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    guest = platform::Fd(ends[0]);
    host = platform::Fd(ends[1]);
  }
  platform::Fd guest, host;
};

/// A terminal, which echoes and edits lines until it is put into raw mode.
struct Terminal {
  Terminal() : host(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    WEIR_CHECK(host && ::grantpt(host.get()) == 0 && ::unlockpt(host.get()) == 0);
    path = ::ptsname(host.get());
  }
  platform::Fd host;
  std::string path;
};

TEST(GuestPort, CarriesManyStreamsAtOnce) {
  TwoSockets port;
  EchoHost host(Lend(port.host));
  GuestSide guest(Lend(port.guest));
  std::vector<std::thread> programs;
  for (std::size_t i = 0; i < 4; ++i)
    programs.emplace_back([&guest, i] { ExpectEcho(*guest.Connect(), 100'000 + i * 700'001); });
  for (std::thread& program : programs) program.join();
}

TEST(GuestPort, IsATerminalThatCarriesEveryByte) {
  Terminal terminal;
  EchoHost host(Lend(terminal.host));
  GuestSide guest([&] { return OpenPortPath(terminal.path); });
  const auto stream = guest.Connect();
  ExpectEcho(*stream, 300'000);
  const auto second = OpenPortPath(terminal.path);
  ASSERT_EQ(CodeOf(second), Errc::kBusy);
  EXPECT_NE(second.error().message.find("in use"), std::string::npos) << second.error().message;
}

TEST(GuestPort, AGuestThatRestartsWithinAFrameIsServed) {
  TwoSockets port;
  EchoHost host(Lend(port.host));
  {
    GuestSide first(Lend(port.guest));
    const auto stream = first.Connect();
    ExpectEcho(*stream, 1'000);
    first.End();
    std::byte byte{};
    EXPECT_EQ(CodeOf(net::ReceiveAll(*stream, std::span(&byte, 1), kPatience)), Errc::kUnavailable);
  }
  // The last frame of a guest that was reset, and the prompt of a login on the terminal.
  const proto::port::FrameHeader half{.kind = 3, .stream = 1, .value = 9'000};
  const std::string_view login = "\r\nDebian GNU/Linux 12 vm1 hvc0\r\n\r\nvm1 login: ";
  ASSERT_EQ(::send(port.guest.get(), &half, sizeof half, MSG_NOSIGNAL), 16);
  ASSERT_EQ(::send(port.guest.get(), login.data(), login.size(), MSG_NOSIGNAL), static_cast<ssize_t>(login.size()));
  GuestSide second(Lend(port.guest));
  ExpectEcho(*second.Connect(), 50'000);
}

TEST(GuestPort, ARestartedHostIsUsed) {
  TwoSockets port;
  GuestSide guest(Lend(port.guest));
  std::unique_ptr<net::Stream> stream;
  {
    EchoHost host(Lend(port.host));
    stream = guest.Connect();
    ExpectEcho(*stream, 10'000);
  }
  EchoHost host(Lend(port.host));
  std::byte byte{};
  EXPECT_EQ(CodeOf(net::ReceiveAll(*stream, std::span(&byte, 1), kPatience)), Errc::kUnavailable)
      << "it was the old one's";
  ExpectEcho(*guest.Connect(), 10'000);
}

TEST(GuestPort, ASlowReaderDoesNotBlockOtherStreams) {
  TwoSockets port;
  EchoHost host(Lend(port.host));
  GuestSide guest(Lend(port.guest));
  const auto resting = guest.Connect();
  const std::vector<std::byte> much = SomeBytes(8 << 20);
  ASSERT_EQ(CodeOf(net::SendAll(*resting, much, milliseconds(300))), Errc::kTimeout) << "replies are not read";
  ExpectEcho(*guest.Connect(), 2'000'000);
}

/// A file that both ends map.
class SharedFile {
 public:
  [[nodiscard]] std::string path() const { return folder_ / "vm1.mem"; }
  [[nodiscard]] OpenLine Host(std::uint64_t bytes = 0) const {
    return [path = path(), bytes]() -> Result<std::unique_ptr<PortLine>> {
      WEIR_TRY(platform::Fd fd, platform::OpenOffered({path, platform::OfferedFile::How::kMake}));
      return OpenGuestMemory(std::move(fd), path, bytes);
    };
  }
  [[nodiscard]] OpenLine Guest() const {
    return [path = path()] { return OpenPortPath(path); };
  }
  void Put(const std::string& text) const { std::ofstream(path(), std::ios::binary) << text; }

 private:
  testing::TempFolder folder_;
};

TEST(GuestMemory, CarriesManyStreamsAtOnce) {
  for (const std::uint64_t bytes : {std::uint64_t{64 << 10}, std::uint64_t{0}}) {
    const SharedFile file;
    EchoHost host(file.Host(bytes));
    GuestSide guest(file.Guest());
    std::vector<std::thread> programs;
    for (std::size_t i = 0; i < 4; ++i)
      programs.emplace_back([&guest, i] { ExpectEcho(*guest.Connect(), 100'000 + i * 700'001); });
    for (std::thread& program : programs) program.join();
  }
}

TEST(GuestMemory, EitherEndMayEndAndComeBack) {
  const SharedFile file;
  auto host = std::make_unique<EchoHost>(file.Host());
  auto guest = std::make_unique<GuestSide>(file.Guest());
  std::unique_ptr<net::Stream> stream;
  for (int turn = 0; turn < 6; ++turn) {
    stream = guest->Connect();
    ExpectEcho(*stream, 200'000);
    // In the middle of a transfer.
    const std::vector<std::byte> much = SomeBytes(8 << 20);
    EXPECT_EQ(CodeOf(net::SendAll(*stream, much, milliseconds(20))), Errc::kTimeout);
    if (turn % 2 == 0) {
      host = nullptr;
      host = std::make_unique<EchoHost>(file.Host());
    } else {
      guest = nullptr;
      guest = std::make_unique<GuestSide>(file.Guest());
    }
    // The old stream ends.
    std::vector<std::byte> bytes(much.size());
    EXPECT_EQ(CodeOf(net::ReceiveAll(*stream, bytes, kPatience)), Errc::kUnavailable);
  }
}

TEST(GuestMemory, HasOneProcessAtEachEnd) {
  const SharedFile file;
  const auto host = file.Host()();
  ASSERT_TRUE(host) << host.error().message;
  EXPECT_EQ(CodeOf(file.Host()()), Errc::kBusy);
  const auto guest = file.Guest()();
  ASSERT_TRUE(guest) << guest.error().message;
  EXPECT_EQ(CodeOf(file.Guest()()), Errc::kBusy);
}

TEST(GuestMemory, OtherFilesAreRefusedWithAReason) {
  const SharedFile file;
  const auto refused = [](const OpenLine& open, Errc code, const std::string& word) {
    const auto line = open();
    ASSERT_EQ(CodeOf(line), code);
    EXPECT_NE(line.error().message.find(word), std::string::npos) << line.error().message;
  };
  file.Put("");
  refused(file.Guest(), Errc::kInvalidArgument, "too few");
  ::chmod(file.path().c_str(), 0606);
  refused(file.Host(), Errc::kPermissionDenied, "chmod 600");
  ::chmod(file.path().c_str(), 0600);
  file.Put(std::string(100'000, '\0'));
  refused(file.Guest(), Errc::kUnavailable, "weir serve --guest-memory");
  refused(file.Host(1 << 20), Errc::kInvalidArgument, "100000 bytes and not 1048576");
  file.Put(std::string(100'000, '\xff'));
  refused(file.Guest(), Errc::kUnavailable, "enable");
  file.Put(std::string(50'000, '\0') + "ISO 9660" + std::string(50'000, '\0'));
  refused(file.Host(), Errc::kInvalidArgument, "not a guest's memory");
  file.Put("short");
  refused(file.Host(), Errc::kInvalidArgument, "5 bytes");
  file.Put("");
  EXPECT_TRUE(file.Host()()) << "and it is created again";
  std::filesystem::resize_file(file.path(), kGuestMemoryBytes / 2);
  refused(file.Guest(), Errc::kInvalidArgument, "give it all of them");
  refused(file.Host(), Errc::kInvalidArgument, "remove it while its guest is off");
  std::filesystem::remove(file.path());
  std::filesystem::create_symlink("elsewhere", file.path());
  EXPECT_FALSE(file.Host()()) << "it is made where it was asked for";
}

TEST(GuestPort, ConnectionsThatFindNoHostWaitInBoundedNumber) {
  const testing::TempFolder folder;
  const auto listener = platform::ListenUnixStream(folder / "port.sock", 0600);
  ASSERT_TRUE(listener);
  std::vector<platform::Fd> silent;
  for (std::size_t i = 0; i < 2 * proto::port::kStreamsMax; ++i)
    silent.push_back(*platform::ConnectUnixStream(folder / "port.sock"));
  TwoSockets port;
  std::atomic<std::size_t> accepted{0};
  Stoppable loop([&](int stop) {
    EXPECT_TRUE(RunPort({.open = Lend(port.guest),
                         .listener = listener->get(),
                         .accept =
                             [&] {
                               auto socket = platform::AcceptUnix(listener->get());
                               if (socket && *socket) ++accepted;
                               return socket;
                             },
                         .stop = stop,
                         .quiet = true}));
  });
  EXPECT_TRUE(testing::WaitUntil([&] { return accepted >= proto::port::kStreamsMax; }));
  loop.End();
  EXPECT_EQ(accepted, proto::port::kStreamsMax);
}

TEST(GuestPort, AHypervisorThatConnectsWithoutDescriptorsLeftIsServedSoon) {
  TwoSockets port;
  const platform::Fd knock(::eventfd(1, EFD_CLOEXEC));  // stays readable, as a listener with a connection in its queue
  std::atomic<int> tries{0};
  std::atomic<bool> opened{false};
  Stoppable loop([&](int stop) {
    EXPECT_TRUE(RunPort({.side = proto::port::Side::kHost,
                         .open = [&]() -> Result<std::unique_ptr<PortLine>> {
                           if (++tries == 1) return Fail(Errc::kResourceExhausted, "no descriptors are left");
                           if (opened.exchange(true)) return Fail(Errc::kTimeout, "no client has connected");
                           return Lend(port.host)();
                         },
                         .knock = knock.get(),
                         .stop = stop,
                         .quiet = true}));
  });
  EXPECT_TRUE(testing::WaitUntil([&] { return opened.load(); }));
}

TEST(GuestPort, OtherFilesAreRefusedAsPorts) {
  testing::TempFolder folder;
  EXPECT_EQ(CodeOf(OpenPortPath(folder / "none")), Errc::kNotFound);
  EXPECT_EQ(CodeOf(OpenPortPath(folder.path())), Errc::kInvalidArgument);
  EXPECT_EQ(CodeOf(ConnectByPort(folder.path(), folder.path(), "")), Errc::kInvalidArgument);
}

/// A portal without executors, at a socket to which the test connects as the hypervisor.
class PortalWithoutVgpus {
 public:
  PortalWithoutVgpus()
      : portal_([this](int stop) {
          PortalOptions portal;
          portal.executors = folder_.path();
          portal.stop = stop;
          portal.quiet = true;
          const Status status = RunGuestPortal({.path = path(), .vgpu = "vm1"}, std::move(portal));
          EXPECT_TRUE(status) << status.error().message;
        }) {}
  [[nodiscard]] std::string path() const { return folder_ / "guest.sock"; }
  platform::Fd Connect() const {
    platform::Fd connected;
    EXPECT_TRUE(testing::WaitUntil([&] {
      auto socket = platform::ConnectUnixStream(path());
      if (socket) connected = std::move(*socket);
      return static_cast<bool>(connected);
    }));
    return connected;
  }

 private:
  testing::TempFolder folder_;
  Stoppable portal_;
};

TEST(GuestPortal, AssignsTheVgpuWhateverTheGuestClaims) {
  PortalWithoutVgpus portal;
  for (int boot = 0; boot < 2; ++boot) {
    const platform::Fd connected = portal.Connect();
    GuestSide guest(Lend(connected));
    for (int program = 0; program < 2; ++program) {
      const auto entry = Enter(*guest.Connect(), {.vgpu = "other", .program = "clinfo"});
      ASSERT_EQ(CodeOf(entry), Errc::kPermissionDenied);
      EXPECT_NE(entry.error().message.find("no vGPU 'vm1'"), std::string::npos) << entry.error().message;
    }
  }
}

TEST(GuestPortal, ASecondConnectionOfAGuestIsRefused) {
  PortalWithoutVgpus portal;
  const platform::Fd connected = portal.Connect();
  GuestSide guest(Lend(connected));
  EXPECT_EQ(CodeOf(Enter(*guest.Connect(), {})), Errc::kPermissionDenied);
  const platform::Fd second = portal.Connect();
  pollfd entry{second.get(), POLLHUP, 0};
  ASSERT_EQ(::poll(&entry, 1, 20'000), 1);
  EXPECT_EQ(CodeOf(Enter(*guest.Connect(), {})), Errc::kPermissionDenied) << "the first goes on";
}

TEST(GuestPortal, SurvivesGarbageAndDisconnections) {
  PortalWithoutVgpus portal;
  for (int i = 0; i < 20; ++i) {
    const platform::Fd connected = portal.Connect();
    const std::vector<std::byte> rubbish = SomeBytes(static_cast<std::size_t>(i) * 3'001);
    if (i % 3 != 0)  // the portal may have closed the connection already
      static_cast<void>(::send(connected.get(), rubbish.data(), rubbish.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  }
  // The portal refuses the connection until it notices that the previous one has closed.
  EXPECT_TRUE(testing::WaitUntil([&] {
    const platform::Fd connected = portal.Connect();
    GuestSide guest(Lend(connected));
    const auto entry = Enter(*guest.Connect(), {});
    return !entry && entry.error().message.find("no vGPU 'vm1'") != std::string::npos;
  }));
}

}  // namespace
}  // namespace weir::remote
