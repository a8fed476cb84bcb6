// SPDX-License-Identifier: Apache-2.0
// Reads the accounts of an emulator that runs in this process.
#include "emulator/account_reader.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "emulator/client.h"
#include "emulator/service.h"
#include "platform/unix_socket.h"
#include "tests/harness/temp_folder.h"

namespace weir::emulator {
namespace {

class RunningEmulator {
 public:
  RunningEmulator() : socket(folder / "gpu.sock"), stop_(::eventfd(0, EFD_CLOEXEC)) {
    auto devices = ReadDevices("[[device]]\nname = \"Card\"\ncount = 2\nlaunch_overhead = \"0 us\"\n", "f");
    auto listener = platform::ListenSeqPacket(socket, 0600);
    EXPECT_TRUE(devices && listener);
    service_.emplace(std::move(*devices), std::move(*listener));
    thread_ = std::thread([this] { EXPECT_TRUE(service_->Run(stop_.get())); });
  }
  ~RunningEmulator() {
    ::eventfd_write(stop_.get(), 1);
    thread_.join();
  }

 private:
  testing::TempFolder folder;

 public:
  const std::string socket;

 private:
  platform::Fd stop_;
  std::optional<Service> service_;
  std::thread thread_;
};

void Work(Client& client, std::uint32_t device, Duration work) {
  std::promise<void> done;
  ASSERT_TRUE(client.Submit({.device = device, .work_ns = static_cast<std::uint64_t>(work.count())},
                            [&](Instant, Instant, Client::Ending ending) {
                              EXPECT_EQ(ending, Client::Ending::kDone);
                              done.set_value();
                            }));
  done.get_future().wait();
}

TEST(AccountReader, ListsWhatEachClientHasUsedAndThoseThatLeftLately) {
  RunningEmulator emulator;
  auto account = AccountReader::Connect(emulator.socket, "reader");
  ASSERT_TRUE(account) << account.error().message;
  ASSERT_EQ(account->devices().size(), 2U);
  EXPECT_TRUE(account->Read(0)->clients.empty());

  auto one = Client::Connect(emulator.socket, "one", nullptr);
  auto other = Client::Connect(emulator.socket, "other", nullptr);
  ASSERT_TRUE(one && other);
  Work(**one, 0, milliseconds(4));
  Work(**other, 0, milliseconds(6));
  Work(**other, 1, milliseconds(1));
  other->reset();

  const auto first = account->Read(0);
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_EQ(first->clients.size(), 2U);
  EXPECT_EQ(first->clients[0].compute, milliseconds(4));
  EXPECT_EQ(first->clients[1].compute, milliseconds(6));
  EXPECT_NE(first->clients[0].key, first->clients[1].key);
  EXPECT_EQ(first->clients[0].pid, ::getpid());
  EXPECT_EQ(first->busy, milliseconds(10));
  const auto second = account->Read(1);
  ASSERT_TRUE(second);
  ASSERT_EQ(second->clients.size(), 1U);
  EXPECT_EQ(second->clients[0].key, first->clients[1].key);
  EXPECT_FALSE(account->Read(2));
}

TEST(AccountReader, IsReadInPagesWhereClientsAreMany) {
  RunningEmulator emulator;
  auto account = AccountReader::Connect(emulator.socket, "reader");
  ASSERT_TRUE(account);
  constexpr std::size_t kClients = proto::emulator::kEntriesMax + 40;
  for (std::size_t i = 0; i < kClients; ++i) {
    auto client = Client::Connect(emulator.socket, "short", nullptr);
    ASSERT_TRUE(client) << client.error().message;
    Work(**client, 0, Duration{1000});
  }
  const auto use = account->Read(0);
  ASSERT_TRUE(use) << use.error().message;
  EXPECT_LE(use->clients.size(), kClients);
  Duration sum{};
  for (const ClientUse& one : use->clients) sum += one.compute;
  EXPECT_LE(sum, use->busy);
  EXPECT_EQ(use->busy, Duration{1000} * kClients);
}

}  // namespace
}  // namespace weir::emulator
