// SPDX-License-Identifier: Apache-2.0
#include "net/door.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <thread>
#include <vector>

#include "net/tcp_stream.h"
#include "platform/unix_socket.h"
#include "remote/handshake.h"
#include "remote/portal.h"
#include "tests/harness/temp_folder.h"

namespace weir::remote {
namespace {

using net::Door;
using Places = std::vector<std::unique_ptr<Door::Place>>;

Places Fill(Door& door, const std::string& address) {
  Places places;
  while (auto place = door.Come(address)) places.push_back(std::move(place));
  return places;
}

TEST(Door, OneAddressDoesNotTakeTheOthersPlaces) {
  Door door({.waiting = 8, .waiting_per_address = 3});
  Places one = Fill(door, "192.0.2.1");
  EXPECT_EQ(one.size(), 3U);
  EXPECT_TRUE(door.Come("192.0.2.2"));
  one.front()->Admitted();
  EXPECT_TRUE(door.Come("192.0.2.1")) << "who is admitted does not wait any more";
  EXPECT_EQ(Fill(door, "").size(), 6U) << "a guest's, which have no address: all that is left, as two wait";
}

TEST(Door, OneTokenDoesNotTakeTheOthersPlaces) {
  Door door({.of_one_name = 3, .waiting_of_one_name = 2});
  Places places;
  for (int i = 0; i < 6; ++i) places.push_back(door.Come("192.0.2." + std::to_string(i)));
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

RC_GTEST_PROP(Door, GivesEveryPlaceBack, ()) {
  Door door({.all = 12, .waiting = 6, .waiting_per_address = 3, .of_one_name = 4, .waiting_of_one_name = 2});
  Places places;
  std::vector<bool> named;
  for (int step = *rc::gen::inRange(0, 200); step > 0; --step) {
    const auto any = places.empty() ? 0 : *rc::gen::inRange<std::size_t>(0, places.size());
    const auto one = static_cast<std::ptrdiff_t>(any);
    switch (*rc::gen::inRange(0, 4)) {
      case 0:
        if (auto place = door.Come(std::to_string(*rc::gen::inRange(0, 4)))) {
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
      places.push_back(door.Come(std::to_string(address)));
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

TEST(Portal, SilentConnectionsFromOneAddressLeaveRoomForOthers) {
  const testing::TempFolder folder;
  auto listener = *net::TcpListener::Listen({.host = "127.0.0.1", .port = "0"});
  const platform::Fd stop(::eventfd(0, EFD_CLOEXEC));
  std::thread portal([&] {
    EXPECT_TRUE(RunPortal({.accept = [&]() -> Result<platform::Fd> {
                             auto socket = listener.Accept();
                             return socket ? std::move(*socket) : platform::Fd();
                           },
                           .listener = listener.fd(),
                           .identify = [](platform::Fd socket) -> Result<std::unique_ptr<net::Stream>> {
                             return net::AdoptTcp(std::move(socket));
                           },
                           .plain = true,
                           .executors = folder.path(),
                           .stop = stop.get(),
                           .quiet = true}));
  });
  std::vector<platform::Fd> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(ConnectFrom("127.0.0.1", listener.port()));
  // Connections are accepted in order, so that all have been accepted when the last one is closed.
  EXPECT_TRUE(platform::WaitReadable(silent.back().get(), 8'000)) << "the last of a hundred is not closed";
  std::size_t closed = 0;
  for (const platform::Fd& one : silent) closed += platform::WaitReadable(one.get(), 0);
  EXPECT_EQ(closed, 100U - Door::Limits{}.waiting_per_address);
  // A connection from another address is served.
  platform::Fd other = ConnectFrom("127.0.0.2", listener.port());
  EXPECT_EQ(::fcntl(other.get(), F_SETFL, O_NONBLOCK), 0);
  const auto stream = net::AdoptTcp(std::move(other));
  const auto entry = Enter(*stream, {.vgpu = "nobody", .program = "test"});
  EXPECT_FALSE(entry);
  EXPECT_NE((entry ? std::string() : entry.error().message).find("no vGPU 'nobody'"), std::string::npos);
  EXPECT_EQ(::eventfd_write(stop.get(), 1), 0);
  portal.join();
}

}  // namespace
}  // namespace weir::remote
