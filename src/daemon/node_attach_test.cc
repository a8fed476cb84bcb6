// SPDX-License-Identifier: Apache-2.0
// Attaching to a node's gates and detaching from them: a real node with real sockets on the test's own loop.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "daemon/executor_book.h"
#include "daemon/node.h"
#include "platform/clock.h"
#include "platform/unix_socket.h"
#include "tests/harness/child.h"
#include "tests/harness/raw_client.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir::daemon {
namespace {

class NodeAttachTest : public ::testing::Test {
 protected:
  NodeAttachTest() {
    for (const char* name : {"vgpu", "opencl"}) std::filesystem::create_directory(folder_ / name);
    const auto made = node_.Create({.name = "v", .device = {}, .settings = {}, .owner_uid = ::geteuid()});
    EXPECT_TRUE(made) << made.error().message;
    attach_ = made->attach;
  }
  bool RunUntil(const std::function<bool()>& holds) {
    for (const Instant until = platform::Now() + seconds(20); !holds() && platform::Now() < until;) {
      loop_.restart();
      loop_.run_for(milliseconds(5));
    }
    return holds();
  }

  testing::TempFolder folder_;
  boost::asio::io_context loop_{1};
  Node node_{
      loop_, folder_.path(), {{.spec = {"embedded", "software", {0, 1}}, .executors = {}}}, [](const SavedNode&) {}};
  std::string attach_;
};

TEST_F(NodeAttachTest, SilentConnectionsGiveWayToAnAgentThatSpeaks) {
  std::vector<testing::RawClient> silent;
  for (int i = 0; i < 300; ++i) {
    silent.emplace_back(attach_);
    loop_.restart();
    loop_.run_for(milliseconds(1));
  }
  const testing::RawClient early(attach_);  // accepted before it sends anything
  loop_.restart();
  loop_.run_for(milliseconds(5));
  ASSERT_TRUE(early.Send(proto::AttachMessage{testing::RawClient::GoodHello()}));
  EXPECT_TRUE(RunUntil([this] { return node_.processes() == 1; }));
  const testing::RawClient late(attach_);
  ASSERT_TRUE(late.Send(proto::AttachMessage{testing::RawClient::GoodHello()}));
  EXPECT_TRUE(RunUntil([this] { return node_.processes() == 2; }));
}

TEST_F(NodeAttachTest, TheLayoutGrowsWhenAProcessAttachesAndWhenItDetaches) {
  const std::uint64_t before = node_.Samples().layout;
  auto client = std::make_unique<testing::RawClient>(attach_);
  ASSERT_TRUE(client->Send(proto::AttachMessage{testing::RawClient::GoodHello()}));
  ASSERT_TRUE(RunUntil([this] { return node_.processes() == 1; }));
  const NodeSamples with = node_.Samples();
  EXPECT_GT(with.layout, before);
  ASSERT_EQ(with.vgpus.size(), 1U);
  EXPECT_EQ(with.vgpus[0].processes, 1U);
  EXPECT_EQ(node_.Samples().layout, with.layout);
  client.reset();
  ASSERT_TRUE(RunUntil([this] { return node_.processes() == 0; }));
  EXPECT_GT(node_.Samples().layout, with.layout);
}

TEST_F(NodeAttachTest, UseReportedByANonExecutorIsIgnored) {
  testing::RawClient client(attach_);
  proto::Hello hello = testing::RawClient::GoodHello();
  hello.api = proto::Api::kOpenCl;
  ASSERT_TRUE(client.Send(proto::AttachMessage{hello}));
  ASSERT_TRUE(RunUntil([this] { return node_.processes() == 1; }));
  ASSERT_TRUE(client.Receive());
  auto mapped = platform::MapForeignRegion(client.fd(proto::kProcessRegionFd), proto::kProcessRegionBytes);
  ASSERT_TRUE(mapped);
  mapped->As<proto::ProcessRegion>()->work_items = 1'000;
  mapped->As<proto::ProcessRegion>()->memory_bytes = 1ULL << 40;
  EXPECT_EQ(node_.Vgpu("v").value().use.work_items, 0U);
  EXPECT_EQ(node_.Vgpu("v").value().use.memory.count, 0U);
}

// The connection stays in the queue, so that the listener stays readable.
TEST_F(NodeAttachTest, WithoutDescriptorsAttachingWaitsAndNothingSpins) {
  const testing::RawClient client(attach_);
  ASSERT_TRUE(client.Send(proto::AttachMessage{testing::RawClient::GoodHello()}));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int free = ::dup(STDIN_FILENO);
  ASSERT_GE(free, 0);
  ::close(free);
  const rlimit none{.rlim_cur = static_cast<rlim_t>(free), .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  loop_.restart();
  const std::size_t handlers = loop_.run_for(milliseconds(250));
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_LT(handlers, 100U) << "the node asked the listener again and again";
  EXPECT_EQ(node_.processes(), 0U);
  EXPECT_TRUE(RunUntil([this] { return node_.processes() == 1; }));
}

// The daemon derives the number of places from its limit of open files. The test lowers that limit before it makes a
// node.
TEST_F(NodeAttachTest, ManyProcessesOfOneVgpuLeavePlacesForAnothers) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{.rlim_cur = 256, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  Node node(loop_, folder_.path(), {{.spec = {"embedded", "software", {0, 1}}, .executors = {}}},
            [](const SavedNode&) {});
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  std::vector<std::string> attach;
  for (const char* name : {"greedy", "modest"})
    attach.push_back(node.Create({.name = name, .device = {}, .settings = {}, .owner_uid = ::geteuid()})->attach);
  std::vector<testing::RawClient> clients;
  const auto attach_to = [&](const std::string& path) {
    const testing::RawClient& client = clients.emplace_back(path);
    EXPECT_TRUE(client.Send(proto::AttachMessage{testing::RawClient::GoodHello()}));
    EXPECT_TRUE(RunUntil([&client] { return platform::WaitReadable(client.socket(), 0); }));
    const auto answer = clients.back().Receive();
    return answer && std::holds_alternative<proto::Welcome>(*answer);
  };
  std::size_t greedy = 0;
  while (greedy < 100 && attach_to(attach[0])) ++greedy;
  EXPECT_GT(greedy, 10U);
  EXPECT_LT(greedy, 100U) << "it may not have the places of others";
  EXPECT_TRUE(attach_to(attach[1])) << "another vGPU's program finds a place";
  EXPECT_FALSE(attach_to(attach[0]));
  const EventLog::Slice events = node.events().After(0, 100);
  EXPECT_EQ(std::ranges::count_if(events.events, [](const NodeEvent& event) { return event.note.kind == "full"; }), 1)
      << "an event says so, once";
}

// An executor that an earlier daemon started attaches to this node. Other processes that call themselves executors are
// the owner's.
TEST_F(NodeAttachTest, AnEarlierDaemonsExecutorEndsWithItsVgpuButAProgramDoesNot) {
  const auto attached = [this](proto::Api api) {
    return testing::Child([this, api] {
      const testing::RawClient client(attach_);
      proto::Hello hello = testing::RawClient::GoodHello();
      hello.api = api;
      if (!client.Send(proto::AttachMessage{hello})) return 1;
      for (;;) ::pause();
      return 0;
    });
  };
  testing::Child executor = attached(proto::Api::kOpenCl);
  ASSERT_TRUE(ExecutorBook(folder_ / "opencl/v.sock.executors").Add(executor.pid()));
  testing::Child game = attached(proto::Api::kGl), pretender = attached(proto::Api::kOpenCl);
  ASSERT_TRUE(RunUntil([this] { return node_.processes() == 3; }));
  ASSERT_TRUE(node_.Remove("v", /*force=*/true));
  EXPECT_TRUE(testing::WaitUntil([&] {
    siginfo_t ended{};
    return ::waitid(P_PID, static_cast<id_t>(executor.pid()), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == executor.pid();
  }));
  for (testing::Child* program : {&game, &pretender}) {
    EXPECT_EQ(::kill(program->pid(), 0), 0);
    EXPECT_EQ(program->Kill(), 128 + SIGKILL) << "it was left alone";
  }
}

}  // namespace
}  // namespace weir::daemon
