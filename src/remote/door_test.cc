// SPDX-License-Identifier: Apache-2.0
#include "net/door.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "net/tcp_stream.h"
#include "platform/failure_lines.h"
#include "platform/unix_socket.h"
#include "remote/handshake.h"
#include "remote/portal.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir::remote {
namespace {

using net::Door;
using Places = std::vector<std::unique_ptr<Door::Place>>;

Places Fill(Door& door, const std::string& address) {
  Places places;
  while (auto place = door.Come(address, nullptr)) places.push_back(std::move(place));
  return places;
}

TEST(Door, OneAddressDoesNotTakeTheOthersPlaces) {
  Door door({.waiting = 8, .waiting_per_address = 3});
  Places one = Fill(door, "192.0.2.1");
  EXPECT_EQ(one.size(), 3U);
  EXPECT_TRUE(door.Come("192.0.2.2", nullptr));
  one.front()->Admitted();
  EXPECT_TRUE(door.Come("192.0.2.1", nullptr)) << "who is admitted does not wait any more";
  EXPECT_EQ(Fill(door, "").size(), 6U) << "a guest's, which have no address: all that is left, as two wait";
}

TEST(Door, OneTokenDoesNotTakeTheOthersPlaces) {
  Door door({.of_one_name = 3, .waiting_of_one_name = 2});
  Places places;
  for (int i = 0; i < 6; ++i) places.push_back(door.Come("192.0.2." + std::to_string(i), nullptr));
  EXPECT_TRUE(places[0]->Name("game"));
  EXPECT_TRUE(places[1]->Name("game"));
  EXPECT_FALSE(places[2]->Name("game")) << "two wait already";
  places[0]->Admitted();
  EXPECT_TRUE(places[3]->Name("game"));
  places[1]->Admitted();
  EXPECT_FALSE(places[4]->Name("game")) << "there are three";
  EXPECT_TRUE(places[4]->Name("other"));
  places[0].reset();
  EXPECT_TRUE(places[5]->Name("game"));
}

TEST(Door, AConnectionOfTheAddressWithTheMostGivesWayToANewcomer) {
  Door door({.waiting = 4});
  std::vector<std::string> ended;
  const auto come = [&](const std::string& address, const std::string& name) {
    return door.Come(address, [&ended, name] { ended.push_back(name); });
  };
  Places places;
  places.push_back(come("192.0.2.1", "lone"));
  for (const char* name : {"first", "second", "third"}) places.push_back(come("192.0.2.2", name));
  EXPECT_FALSE(come("192.0.2.2", "fourth")) << "its own address has the most";
  places.push_back(come("192.0.2.3", "new"));
  EXPECT_TRUE(places.back());
  EXPECT_EQ(ended, std::vector<std::string>{"first"});
  places[2]->Admitted();  // "second": it does not wait any more
  places.push_back(come("192.0.2.4", "newer"));
  EXPECT_EQ(ended.size(), 1U) << "there was a place";
  places.push_back(come("192.0.2.5", "newest"));
  EXPECT_EQ(ended.back(), "lone") << "all addresses have one: the one that came first";
  places.push_back(come("192.0.2.1", "again"));
  EXPECT_EQ(ended.back(), "third");
}

TEST(Door, ConnectionsOfATokenGiveWayLast) {
  Door door({.waiting = 4});
  int strangers = 0, tenants = 0;
  Places places;
  for (int i = 0; i < 3; ++i) {
    places.push_back(door.Come("192.0.2.1", [&tenants] { ++tenants; }));
    EXPECT_TRUE(places.back()->Name("game"));
  }
  places.push_back(door.Come("192.0.2.2", [&strangers] { ++strangers; }));
  places.push_back(door.Come("192.0.2.3", [&strangers] { ++strangers; }));
  EXPECT_EQ(strangers, 1) << "although its address has fewer";
  EXPECT_TRUE(places.back()->Name("other"));
  places.push_back(door.Come("192.0.2.4", nullptr));
  EXPECT_EQ(tenants, 1) << "all have tokens: one of the token that has the most";
}

/// However many addresses try, each with as many connections as it can get: a connection from an address of which none
/// waits gets a place, as long as the service has any, and what waits stays bounded.
RC_GTEST_PROP(Door, ManyAddressesKeepNobodyOut, ()) {
  const std::size_t waiting = *rc::gen::inRange<std::size_t>(1, 8);
  Door door({.all = 1000, .waiting = waiting, .waiting_per_address = 3});
  Places places;
  std::size_t ended = 0;
  for (const int address : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 10)))
    if (auto place = door.Come(std::to_string(address), [&ended] { ++ended; })) places.push_back(std::move(place));
  RC_ASSERT(places.size() - ended <= waiting);
  for (const char* newcomer : {"a", "b", "c"}) {
    const std::size_t before = ended;
    RC_ASSERT(places.emplace_back(door.Come(newcomer, [&ended] { ++ended; })) != nullptr);
    RC_ASSERT(ended - before <= 1U);
    RC_ASSERT(places.size() - ended <= waiting);
  }
}

RC_GTEST_PROP(Door, GivesEveryPlaceBack, ()) {
  Door door({.all = 12, .waiting = 6, .waiting_per_address = 3, .of_one_name = 4, .waiting_of_one_name = 2});
  Places places;
  std::vector<bool> named;
  for (int step = *rc::gen::inRange(0, 200); step > 0; --step) {
    const auto any = places.empty() ? 0 : *rc::gen::inRange<std::size_t>(0, places.size());
    const auto one = static_cast<std::ptrdiff_t>(any);
    switch (*rc::gen::inRange(0, 4)) {
      case 0:
        if (auto place = door.Come(std::to_string(*rc::gen::inRange(0, 4)), nullptr)) {
          places.push_back(std::move(place));
          named.push_back(false);
        }
        RC_ASSERT(places.size() <= 12U);
        break;
      case 1:
        if (!places.empty() && !named[any]) named[any] = places[any]->Name(std::to_string(*rc::gen::inRange(0, 3)));
        break;
      case 2:
        if (!places.empty()) places[any]->Admitted();
        break;
      default:
        if (places.empty()) break;
        places.erase(places.begin() + one);
        named.erase(named.begin() + one);
    }
  }
  places.clear();
  for (int address = 0; address < 2; ++address)
    for (int n = 0; n < 3; ++n) {
      places.push_back(door.Come(std::to_string(address), nullptr));
      RC_ASSERT(places.back() != nullptr);
    }
  RC_ASSERT(places[0]->Name("0"));
}

/// Connects to the portal from an address of this machine.
platform::Fd ConnectFrom(const char* from, std::uint16_t port) {
  platform::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  EXPECT_EQ(::inet_pton(AF_INET, from, &address.sin_addr), 1);
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  address.sin_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr), 1);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return socket;
}

class PortalWithStrangers : public ::testing::Test {
 protected:
  PortalWithStrangers() {
    portal_ = std::thread([this] {
      EXPECT_TRUE(RunPortal({.accept = [this]() -> Result<platform::Fd> {
                               auto socket = listener_.Accept();
                               return socket ? std::move(*socket) : platform::Fd();
                             },
                             .listener = listener_.fd(),
                             .identify = [](platform::Fd socket) -> Result<std::unique_ptr<net::Stream>> {
                               return net::AdoptTcp(std::move(socket));
                             },
                             .plain = true,
                             .executors = folder_.path(),
                             .stop = stop_.get(),
                             .quiet = true}));
    });
  }
  ~PortalWithStrangers() override {
    EXPECT_EQ(::eventfd_write(stop_.get(), 1), 0);
    portal_.join();
  }
  void Connect(const std::string& from) { silent_.push_back(ConnectFrom(from.c_str(), listener_.port())); }
  [[nodiscard]] std::size_t Closed() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(silent_, [](const platform::Fd& one) { return platform::WaitReadable(one.get(), 0); }));
  }
  /// A connection from an address that has no other is served.
  void ExpectServed(const char* from) {
    platform::Fd other = ConnectFrom(from, listener_.port());
    EXPECT_EQ(::fcntl(other.get(), F_SETFL, O_NONBLOCK), 0);
    const auto stream = net::AdoptTcp(std::move(other));
    const auto entry = Enter(*stream, {.vgpu = "nobody", .program = "test"});
    EXPECT_FALSE(entry);
    EXPECT_NE((entry ? std::string() : entry.error().message).find("no vGPU 'nobody'"), std::string::npos);
  }

  const testing::TempFolder folder_;
  net::TcpListener listener_ = *net::TcpListener::Listen({.host = "127.0.0.1", .port = "0"});
  const platform::Fd stop_{::eventfd(0, EFD_CLOEXEC)};
  std::vector<platform::Fd> silent_;
  std::thread portal_;
};

TEST_F(PortalWithStrangers, SilentConnectionsFromOneAddressLeaveRoomForOthers) {
  for (int i = 0; i < 100; ++i) Connect("127.0.0.1");
  // Connections are accepted in order, so that all have been accepted when the last one is closed.
  EXPECT_TRUE(platform::WaitReadable(silent_.back().get(), 8'000)) << "the last of a hundred is not closed";
  EXPECT_EQ(Closed(), 100U - Door::Limits{}.waiting_per_address);
  ExpectServed("127.0.0.2");
}

TEST_F(PortalWithStrangers, ConnectionsThatFailDoNotFillTheLog) {
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 2 * platform::FailureLines::kLinesMax; ++i) {
    const platform::Fd other = ConnectFrom("127.0.0.1", listener_.port());
    EXPECT_EQ(::send(other.get(), "not a Hello", 11, MSG_NOSIGNAL), 11);
    static_cast<void>(::shutdown(other.get(), SHUT_WR));  // fails if the portal has closed it already
    // The portal logs the failure before it closes the connection.
    char byte = 0;
    while (platform::WaitReadable(other.get(), 20'000) && ::recv(other.get(), &byte, 1, 0) > 0) continue;
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(said, '\n'), platform::FailureLines::kLinesMax) << said;
}

TEST_F(PortalWithStrangers, SilentConnectionsFromManyAddressesLeaveRoomForOthers) {
  for (int address = 1; address <= 100; ++address)
    for (int i = 0; i < 2; ++i) Connect("127.0.1." + std::to_string(address));
  ExpectServed("127.0.0.2");
  EXPECT_TRUE(testing::WaitUntil([this] { return Closed() >= 200 - Door::Limits{}.waiting; }));
}

}  // namespace
}  // namespace weir::remote
