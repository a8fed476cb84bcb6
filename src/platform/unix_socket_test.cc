// SPDX-License-Identifier: Apache-2.0
#include "platform/unix_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>

#include "platform/files.h"
#include "tests/harness/child.h"
#include "tests/harness/code_of.h"
#include "tests/harness/temp_folder.h"

namespace weir::platform {
namespace {

using weir::testing::CodeOf;
using weir::testing::TempFolder;

std::vector<std::byte> Bytes(std::size_t size, int fill = 0x5A) {
  return std::vector<std::byte>(size, static_cast<std::byte>(fill));
}

/// Both ends of a connection.
struct Pair {
  Fd a, b;
  Pair() {
    int ends[2];
    WEIR_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    a.Reset(ends[0]);
    b.Reset(ends[1]);
  }
};

int OpenFds() {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

/// A listening socket of a different kind at `path`.
Fd ListenStream(const std::string& path) {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  WEIR_CHECK(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  WEIR_CHECK(::listen(fd.get(), 4) == 0);
  return fd;
}

Fd Accept(const Fd& listener) { return Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)); }

// -- Listening -------------------------------------------------------------------------------------------------------

TEST(ListenSeqPacket, ListensWithTheModeThatWasGiven) {
  const TempFolder folder;
  const mode_t before = ::umask(077);
  const auto listener = ListenSeqPacket(folder / "s", 0666);
  ::umask(before);
  ASSERT_TRUE(listener) << listener.error().message;
  struct stat info {};
  ASSERT_EQ(::stat((folder / "s").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0666u);
  EXPECT_TRUE(ConnectSeqPacket(folder / "s"));
}

TEST(ListenSeqPacket, ReplacesAStaleSocket) {
  const TempFolder folder;
  { ASSERT_TRUE(ListenSeqPacket(folder / "s", 0600)); }  // the file stays, but nothing listens
  ASSERT_EQ(::access((folder / "s").c_str(), F_OK), 0);
  EXPECT_EQ(CodeOf(ConnectSeqPacket(folder / "s")), Errc::kUnavailable);
  const auto listener = ListenSeqPacket(folder / "s", 0600);
  ASSERT_TRUE(listener) << listener.error().message;
  EXPECT_TRUE(ConnectSeqPacket(folder / "s"));
}

TEST(NobodyListens, TellsADeadListenerFromALivingOneWithoutAConnection) {
  const TempFolder folder;
  EXPECT_TRUE(NobodyListens(folder / "s"));
  {
    const auto listener = ListenSeqPacket(folder / "s", 0600);
    ASSERT_TRUE(listener);
    EXPECT_FALSE(NobodyListens(folder / "s"));
    EXPECT_FALSE(WaitReadable(listener->get(), 0)) << "the listener must not have been asked";
  }
  ASSERT_EQ(::access((folder / "s").c_str(), F_OK), 0);
  EXPECT_TRUE(NobodyListens(folder / "s")) << "the file alone is no listener";
}

TEST(ListenSeqPacket, KeepsALiveSocket) {
  const TempFolder folder;
  const auto first = ListenSeqPacket(folder / "s", 0600);
  ASSERT_TRUE(first);
  EXPECT_EQ(CodeOf(ListenSeqPacket(folder / "s", 0600)), Errc::kBusy);
  EXPECT_TRUE(ConnectSeqPacket(folder / "s")) << "the first one must still be reached";
}

TEST(ListenSeqPacket, KeepsALiveSocketOfAnotherType) {
  const TempFolder folder;
  const Fd stream = ListenStream(folder / "s");
  EXPECT_EQ(CodeOf(ListenSeqPacket(folder / "s", 0600)), Errc::kBusy);
  EXPECT_EQ(::access((folder / "s").c_str(), F_OK), 0);
}

TEST(ListenSeqPacket, KeepsABusyListener) {
  const TempFolder folder;
  const auto listener = ListenSeqPacket(folder / "s", 0600);
  ASSERT_TRUE(listener);
  ASSERT_EQ(::listen(listener->get(), 0), 0);  // a backlog of one
  std::vector<Fd> connections;
  for (auto made = ConnectSeqPacket(folder / "s"); made; made = ConnectSeqPacket(folder / "s"))
    connections.push_back(std::move(*made));
  EXPECT_EQ(CodeOf(ConnectSeqPacket(folder / "s")), Errc::kTimeout);
  EXPECT_EQ(CodeOf(ListenSeqPacket(folder / "s", 0600)), Errc::kBusy);
  EXPECT_EQ(::access((folder / "s").c_str(), F_OK), 0);
}

TEST(ListenSeqPacket, KeepsOtherFiles) {
  const TempFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder / "file", "precious"));
  ASSERT_TRUE(MakeFolder(folder / "folder"));
  ASSERT_EQ(::symlink((folder / "nowhere").c_str(), (folder / "link").c_str()), 0);
  for (const char* name : {"file", "folder", "link"})
    EXPECT_EQ(CodeOf(ListenSeqPacket(folder / name, 0600)), Errc::kAlreadyExists) << name;
  EXPECT_EQ(*ReadFile(folder / "file", 100), "precious");
}

TEST(ListenSeqPacket, RefusesAPathThatIsTooLongOrEmpty) {
  const TempFolder folder;
  const std::string longest = folder / std::string(107 - folder.path().size() - 1, 's');
  EXPECT_TRUE(ListenSeqPacket(longest, 0600));
  for (const std::string& path : {longest + "s", folder / std::string(5000, 's'), std::string()}) {
    EXPECT_EQ(CodeOf(ListenSeqPacket(path, 0600)), Errc::kInvalidArgument) << path.size();
    EXPECT_EQ(CodeOf(ConnectSeqPacket(path)), Errc::kInvalidArgument) << path.size();
  }
}

TEST(ListenSeqPacket, SaysThatTheFolderIsMissing) {
  const TempFolder folder;
  EXPECT_EQ(CodeOf(ListenSeqPacket(folder / "missing/s", 0600)), Errc::kNotFound);
  EXPECT_EQ(CodeOf(ConnectSeqPacket(folder / "missing/s")), Errc::kNotFound);
}

TEST(Sockets, AreNotInheritedByOtherPrograms) {
  const TempFolder folder;
  const auto listener = ListenSeqPacket(folder / "s", 0600);
  const auto connection = ConnectSeqPacket(folder / "s");
  ASSERT_TRUE(listener && connection);
  EXPECT_NE(::fcntl(listener->get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(::fcntl(connection->get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(ListenUnixStream, CarriesBytesAndKeepsALiveSocket) {
  const TempFolder folder;
  { ASSERT_TRUE(ListenUnixStream(folder / "s", 0600)); }
  EXPECT_EQ(CodeOf(ConnectUnixStream(folder / "s")), Errc::kUnavailable);
  const auto listener = ListenUnixStream(folder / "s", 0600);
  ASSERT_TRUE(listener) << listener.error().message;
  EXPECT_EQ(CodeOf(ListenUnixStream(folder / "s", 0600)), Errc::kBusy);
  EXPECT_EQ(CodeOf(ListenSeqPacket(folder / "s", 0600)), Errc::kBusy);
  auto none = AcceptUnix(listener->get());
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  const auto connected = ConnectUnixStream(folder / "s");
  ASSERT_TRUE(connected) << connected.error().message;
  auto accepted = AcceptUnix(listener->get());
  ASSERT_TRUE(accepted && *accepted);
  ASSERT_EQ(::write(connected->get(), "ab", 2), 2);
  ASSERT_EQ(::write(connected->get(), "c", 1), 1);
  char bytes[8] = {};
  EXPECT_EQ(::read(accepted->get(), bytes, sizeof bytes), 3) << "a stream has no packets";
}

TEST(AcceptUnix, SaysWhenNoDescriptorsAreLeft) {
  const TempFolder folder;
  const auto listener = ListenUnixStream(folder / "s", 0600);
  const auto connected = ConnectUnixStream(folder / "s");
  ASSERT_TRUE(listener && connected);
  EXPECT_EQ(weir::testing::Child([&] {
              const rlimit none{};
              if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return 1;
              return CodeOf(AcceptUnix(listener->get())) == Errc::kResourceExhausted ? 0 : 2;
            }).Wait(),
            0);
  auto accepted = AcceptUnix(listener->get());
  EXPECT_TRUE(accepted && *accepted) << "it stays queued";
}

// -- Who is at the other end -----------------------------------------------------------------------------------------

TEST(PeerPidFdOf, SaysWhetherThePeerIsGoneOrTheKernelTooOld) {
  const Pair pair;
  const auto own = PeerPidFdOf(pair.a.get());
  if (CodeOf(own) == Errc::kIo) GTEST_SKIP() << "this kernel knows no pidfd of a peer";
  ASSERT_TRUE(own) << own.error().message;
  const Fd without_peer(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  EXPECT_EQ(CodeOf(PeerPidFdOf(without_peer.get())), Errc::kNotFound);
}

/// A child that has connected to this process and waits.
struct ConnectedChild {
  ConnectedChild() {
    EXPECT_TRUE(WaitReadable(listener->get(), 20'000));
    connection = Accept(*listener);
  }
  const TempFolder folder;
  const Result<Fd> listener = ListenSeqPacket(folder / "s", 0666);
  weir::testing::Child child{[this] {
    const auto to_parent = ConnectSeqPacket(folder / "s");
    while (to_parent) ::pause();
    return 1;
  }};
  Fd connection;
};

TEST(PeerIsChildOf, IsTrueOfAChildThatLives) {
  ConnectedChild connected;
  EXPECT_TRUE(PeerIsChildOf(connected.connection.get(), ::getpid()));
  EXPECT_FALSE(PeerIsChildOf(connected.connection.get(), ::getppid()));
  connected.child.Kill();
  EXPECT_FALSE(PeerIsChildOf(connected.connection.get(), ::getpid())) << "another process may get its pid";
}

TEST(PeerOf, IsTheProcessThatConnected) {
  ConnectedChild connected;
  const auto peer = PeerOf(connected.connection.get());
  ASSERT_TRUE(peer) << peer.error().message;
  EXPECT_EQ(peer->pid, connected.child.pid());
  EXPECT_EQ(peer->uid, ::geteuid());
}

TEST(PeerOf, IsTheUserThatConnected) {
  if (::geteuid() != 0) GTEST_SKIP() << "becoming another user needs root";
  const TempFolder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  const auto listener = ListenSeqPacket(folder / "s", 0666);
  ASSERT_TRUE(listener);
  weir::testing::Child child([&folder] {
    if (::setuid(65'534) != 0) return 2;
    return ConnectSeqPacket(folder / "s") ? 0 : 1;
  });
  ASSERT_EQ(child.Wait(), 0);
  const Fd connection = Accept(*listener);
  EXPECT_EQ(PeerOf(connection.get())->uid, 65'534u);
}

TEST(PeerOf, FailsForOtherDescriptors) { EXPECT_FALSE(PeerOf(0 - 1)); }

// -- Packets ---------------------------------------------------------------------------------------------------------

TEST(SendLastPacket, ArrivesWhenTheOtherSideHasUnreadData) {
  for (const int sent : {0, 1, 3}) {
    Pair pair;
    for (int i = 0; i < sent; ++i) ASSERT_TRUE(SendPacket(pair.b.get(), Bytes(100)));
    SendLastPacket(std::move(pair.a), Bytes(5));
    EXPECT_FALSE(SendPacket(pair.b.get(), Bytes(1)));
    const auto last = ReceivePacket(pair.b.get(), 64);
    ASSERT_TRUE(last) << sent << ": " << last.error().message;
    EXPECT_EQ(last->bytes.size(), 5U);
    EXPECT_TRUE(ReceivePacket(pair.b.get(), 64)->bytes.empty());
  }
}

TEST(Packets, KeepTheirBounds) {
  Pair pair;
  ASSERT_TRUE(SendPacket(pair.a.get(), Bytes(3)));
  ASSERT_TRUE(SendPacket(pair.a.get(), Bytes(5)));
  EXPECT_EQ(ReceivePacket(pair.b.get(), 100)->bytes, Bytes(3));
  EXPECT_EQ(ReceivePacket(pair.b.get(), 100)->bytes, Bytes(5));
}

TEST(Packets, AreNotWaitedFor) {
  Pair pair;
  EXPECT_EQ(CodeOf(ReceivePacket(pair.b.get(), 100)), Errc::kTimeout);
  EXPECT_FALSE(WaitReadable(pair.b.get(), 0));
  ASSERT_TRUE(SendPacket(pair.a.get(), Bytes(1)));
  EXPECT_TRUE(WaitReadable(pair.b.get(), 0));
}

TEST(Packets, AreRefusedWhenTheBufferIsFull) {
  Pair pair;
  Status status = Ok();
  for (int i = 0; i < 100'000 && status; ++i) status = SendPacket(pair.a.get(), Bytes(512));
  ASSERT_FALSE(status);
  EXPECT_EQ(CodeOf(status), Errc::kTimeout);
}

TEST(Packets, AreEmptyOnceTheOtherSideHasClosed) {
  Pair pair;
  ASSERT_TRUE(SendPacket(pair.a.get(), Bytes(1)));
  pair.a.Reset();
  EXPECT_EQ(ReceivePacket(pair.b.get(), 100)->bytes, Bytes(1)) << "what was sent before is not lost";
  const auto end = ReceivePacket(pair.b.get(), 100);
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->bytes.empty());
  EXPECT_EQ(CodeOf(SendPacket(pair.b.get(), Bytes(1))), Errc::kUnavailable) << "and no SIGPIPE";
}

TEST(Packets, LongerThanTheBoundAreRefusedWhole) {
  Pair pair;
  ASSERT_TRUE(SendPacket(pair.a.get(), Bytes(101)));
  ASSERT_TRUE(SendPacket(pair.a.get(), Bytes(100)));
  EXPECT_EQ(CodeOf(ReceivePacket(pair.b.get(), 100)), Errc::kProtocol);
  EXPECT_EQ(ReceivePacket(pair.b.get(), 100)->bytes, Bytes(100)) << "the next one is not affected";
}

TEST(Packets, CarryDescriptorsThatOtherProgramsDoNotInherit) {
  Pair pair;
  int ends[2];
  ASSERT_EQ(::pipe2(ends, 0), 0);
  const Fd read_end(ends[0]), write_end(ends[1]);
  ASSERT_TRUE(SendPacket(pair.a.get(), Bytes(1), ends));
  auto packet = ReceivePacket(pair.b.get(), 100);
  ASSERT_TRUE(packet) << packet.error().message;
  ASSERT_EQ(packet->fds.size(), 2u);
  for (const Fd& fd : packet->fds) EXPECT_NE(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  ASSERT_EQ(::write(packet->fds[1].get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(read_end.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
}

/// Sends one byte and `count` copies of a descriptor, more than SendPacket allows.
void SendMany(int socket, int fd, std::size_t count) {
  std::vector<char> control(CMSG_SPACE(sizeof(int) * count));
  char byte = 0;
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int) * count);
  for (std::size_t i = 0; i < count; ++i) std::memcpy(CMSG_DATA(head) + i * sizeof(int), &fd, sizeof fd);
  ASSERT_EQ(::sendmsg(socket, &message, 0), 1);
}

TEST(Packets, WithTooManyDescriptorsAreRefusedAndNoneStaysOpen) {
  Pair pair;
  SendMany(pair.a.get(), pair.a.get(), 8);
  EXPECT_EQ(ReceivePacket(pair.b.get(), 100)->fds.size(), 8u);
  const int before = OpenFds();
  SendMany(pair.a.get(), pair.a.get(), 9);
  EXPECT_EQ(CodeOf(ReceivePacket(pair.b.get(), 100)), Errc::kProtocol);
  SendMany(pair.a.get(), pair.a.get(), 200);
  EXPECT_EQ(CodeOf(ReceivePacket(pair.b.get(), 100)), Errc::kProtocol);
  EXPECT_EQ(OpenFds(), before);
}

TEST(Packets, WithDescriptorsAreRefusedWhereNoneIsExpected) {
  Pair pair;
  const int before = OpenFds();
  SendMany(pair.a.get(), pair.a.get(), 1);
  EXPECT_EQ(CodeOf(ReceivePacket(pair.b.get(), 100, Descriptors::kRefused)), Errc::kProtocol);
  EXPECT_EQ(OpenFds(), before);
  ASSERT_TRUE(SendPacket(pair.a.get(), Bytes(2)));
  EXPECT_EQ(ReceivePacket(pair.b.get(), 100, Descriptors::kRefused)->bytes, Bytes(2));
}

TEST(WaitReadable, GoesOnWaitingAfterASignal) {
  Pair pair;
  struct sigaction action {
  }, before{};
  static std::atomic<int> signals;
  signals = 0;
  action.sa_handler = [](int) { ++signals; };
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  const pthread_t waiter = ::pthread_self();
  std::thread sender([&] {
    // The waiter is interrupted repeatedly, mostly while it sleeps, before the packet is sent.
    for (int i = 1; i <= 50; ++i) {
      ::pthread_kill(waiter, SIGUSR1);
      while (signals < i) std::this_thread::yield();
    }
    EXPECT_TRUE(SendPacket(pair.a.get(), Bytes(1)));
  });
  EXPECT_TRUE(WaitReadable(pair.b.get(), 20'000));
  sender.join();
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST(HasHungUp, IsTrueOnlyOnceTheOtherSideHasClosed) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const Fd here(ends[0]);
  Fd there(ends[1]);
  EXPECT_FALSE(HasHungUp(here.get()));
  ASSERT_EQ(::send(there.get(), "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_FALSE(HasHungUp(here.get())) << "data waits";
  ASSERT_EQ(::shutdown(there.get(), SHUT_WR), 0);
  EXPECT_FALSE(HasHungUp(here.get())) << "the other side sends no more, and data waits";
  char byte = 0;
  ASSERT_EQ(::recv(here.get(), &byte, 1, 0), 1);
  EXPECT_FALSE(HasHungUp(here.get())) << "the other side sends no more";
  there.Reset();
  EXPECT_TRUE(HasHungUp(here.get()));
}

}  // namespace
}  // namespace weir::platform
