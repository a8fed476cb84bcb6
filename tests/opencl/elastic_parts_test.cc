// SPDX-License-Identifier: Apache-2.0
// Launches whose memory does not fit: they run in parts, and leave what an unsplit run leaves.
#include <fstream>
#include <sstream>

#include "tests/opencl/elastic_executor.h"

namespace weir::testing {
namespace {

namespace wire = proto::cl;

/// 64 MiB of device memory, and buffers of 40.
class ElasticParts : public ElasticExecutor {
 protected:
  static constexpr std::uint32_t kSlots = 1;
  static constexpr std::uint64_t kBytes = 40 * kMiB, kItems = kBytes / 4;
  static constexpr const char* kPartsSource =
      "kernel void number(global uint* out) { out[get_global_id(0)] = 3 * get_global_id(0) + 1; }\n"
      "kernel void plus(global const uint* in, global uint* out, uint n) {\n"
      "  out[get_global_id(0)] = in[get_global_id(0)] + n; }\n"
      "kernel void blur(global const uint* in, global uint* out) {\n"
      "  size_t i = get_global_id(0), last = get_global_size(0) - 1;\n"
      "  uint sum = in[i];\n"
      "  if (i > 0) sum += in[i - 1];\n"
      "  if (i < last) sum += in[i + 1];\n"
      "  out[i] = sum; }\n"
      "kernel void add_to(global uint* y, global const uint* x) { y[get_global_id(0)] += x[get_global_id(0)]; }\n"
      "kernel void group(global const uint* in, global uint* out) {\n"
      "  out[get_global_id(0)] = get_group_id(0) * 7 + get_num_groups(0) + (in[get_global_id(0)] & 1); }\n"
      "kernel void table(global const uint* t, global const uint* in, global uint* out) {\n"
      "  out[get_global_id(0)] = t[in[get_global_id(0)] & 1023]; }\n"
      "kernel void rounds(global const uint* in, global uint* out, int n) {\n"
      "  uint x = in[get_global_id(0)];\n"
      "  for (int i = 0; i < n; ++i) x = x * 1664525u + 1013904223u;\n"
      "  out[get_global_id(0)] = x; }\n"
      "kernel void even(global const uint* in, global uint* out) { out[2 * get_global_id(0)] = in[get_global_id(0)]; "
      "}\n"
      "kernel void scatter(global const uint* to, global uint* out) { out[to[get_global_id(0)]] = 1; }\n";

  void StartSmall(const std::vector<std::string>& more = {}) {
    Start(kSlots, kSlots, more);
    Order(kSlots, kSlots);  // all that it may have is its own
  }
  /// Other executors, which `Start` is told of by PeerOptions.
  void StartPeer() {
    const std::string socket = folder_ / ("peer" + std::to_string(peers_.size()));
    const auto pid = platform::Spawn({.argv = {WEIR_EXECUTOR, "--socket", socket, "--cpus", "1", "--idle-exit", "60"}});
    ASSERT_TRUE(pid) << pid.error().message;
    peers_.push_back(*pid);
    ASSERT_TRUE(WaitUntil([&] { return ::access(socket.c_str(), F_OK) == 0; }));
  }
  std::vector<std::string> PeerOptions() {
    std::vector<std::string> options{"--partition", "always"};
    for (std::size_t i = 0; i < peers_.size(); ++i)
      options.insert(options.end(), {"--peer", folder_ / ("peer" + std::to_string(i))});
    return options;
  }
  void EndPeer(std::size_t peer = 0) {
    if (peers_[peer] == 0) return;
    ::kill(peers_[peer], SIGKILL);
    ::waitpid(std::exchange(peers_[peer], 0), nullptr, 0);
  }
  /// What its threads have spent, in ticks of the clock.
  std::uint64_t PeerTicks(std::size_t peer = 0) const {
    std::ifstream file("/proc/" + std::to_string(peers_[peer]) + "/stat");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    std::istringstream fields(text.substr(text.rfind(')') + 1));
    std::string skipped;
    for (int i = 0; i < 11; ++i) fields >> skipped;
    std::uint64_t user = 0, system = 0;
    fields >> user >> system;
    return user + system;
  }
  void TearDown() override {
    for (std::size_t i = 0; i < peers_.size(); ++i) EndPeer(i);
    ElasticExecutor::TearDown();
  }
  RawClient Ready(std::uint64_t queue_properties = 0) { return Ready(Connected(), queue_properties); }
  RawClient Ready(RawClient client, std::uint64_t queue_properties) {
    client.Send(wire::CreateContext{.id = kContext, .devices = wire::IdList(&kDevice, 1)});
    client.Send(
        wire::CreateQueue{.id = kQueue, .context = kContext, .device = kDevice, .properties = queue_properties});
    client.Send(wire::CreateProgram{
        .id = kProgram, .context = kContext, .source = wire::Blob::Inline(wire::BytesOf(kPartsSource))});
    client.Send(wire::Build{.request = 1, .program = kProgram});
    EXPECT_EQ(client.AnswerTo(1).status, CL_SUCCESS);
    return client;
  }
  /// Each item holds 3 * i + 1.
  void MakeNumbers(RawClient& client, std::uint32_t id) {
    MakeBuffer(client, id, kBytes);
    MakeKernel(client, "number", {id});
    Launch(client, kItems);
  }
  template <typename Wanted>
  void ExpectAll(RawClient& client, std::uint32_t id, Wanted wanted, std::uint64_t step = 1) {
    EXPECT_EQ(client.Finish(kQueue), CL_SUCCESS) << (client.notices.empty() ? "" : client.notices[0]);
    const std::vector<std::uint32_t> values = Read(client, id, kBytes);
    const std::uint32_t* const value = values.data();
    for (std::uint64_t i = 0; i < kItems; i += step) {
      if (value[i] != wanted(i)) FAIL() << "item " << i << " of buffer " << id << ": " << value[i];
    }
  }
  static std::uint32_t Number(std::uint64_t i) { return static_cast<std::uint32_t>(3 * i + 1); }
  /// out[i] = in[i] after some rounds of a generator, which take their time.
  void LaunchRounds(RawClient& client, std::int32_t rounds) {
    MakeKernel(client, "rounds", {10, 12});
    SetNumber(client, 2, rounds);
    Launch(client, kItems);
  }
  void ExpectRounds(RawClient& client, std::int32_t rounds) {
    const auto wanted = [rounds](std::uint64_t i) {
      std::uint32_t x = Number(i);
      for (std::int32_t round = 0; round < rounds; ++round) x = x * 1664525U + 1013904223U;
      return x;
    };
    ExpectAll(client, 12, wanted, /*step=*/61);
  }
  std::vector<pid_t> peers_;
  std::string OnlyNotice(RawClient& client) {
    EXPECT_EQ(client.notices.size(), 1U);
    return client.notices.empty() ? std::string() : client.notices[0];
  }
};

TEST_F(ElasticParts, ALaunchThatDoesNotFitRunsInParts) {
  StartSmall();
  RawClient client = Ready();
  MakeNumbers(client, 10);
  MakeBuffer(client, 12, kBytes);
  MakeKernel(client, "plus", {10, 12});
  SetNumber(client, 2, 5);
  Launch(client, kItems);
  EXPECT_EQ(client.Finish(kQueue), CL_SUCCESS);
  ExpectAll(client, 12, [](std::uint64_t i) { return Number(i) + 5; });
  ExpectAll(client, 10, Number);
  EXPECT_TRUE(client.notices.empty()) << client.notices[0];
}

TEST_F(ElasticParts, NeighboursAcrossACutAreCopied) {
  StartSmall();
  RawClient client = Ready();
  MakeNumbers(client, 10);
  MakeBuffer(client, 12, kBytes);
  MakeKernel(client, "blur", {10, 12});
  Launch(client, kItems);
  ExpectAll(client, 12, [](std::uint64_t i) {
    return Number(i) + (i > 0 ? Number(i - 1) : 0) + (i < kItems - 1 ? Number(i + 1) : 0);
  });
}

TEST_F(ElasticParts, ReadWriteDataIsUpdatedOnce) {
  StartSmall();
  RawClient client = Ready();
  MakeNumbers(client, 10);
  MakeNumbers(client, 12);
  MakeKernel(client, "add_to", {12, 10});
  Launch(client, kItems);
  Launch(client, kItems);
  ExpectAll(client, 12, [](std::uint64_t i) { return 3 * Number(i); });
  ExpectAll(client, 10, Number);
}

TEST_F(ElasticParts, GroupsHaveTheIdsOfTheWholeLaunch) {
  StartSmall();
  RawClient client = Ready();
  MakeNumbers(client, 10);
  MakeBuffer(client, 12, kBytes);
  Fill(client, 12, kBytes);
  MakeKernel(client, "group", {10, 12});
  client.Send(wire::NdRange{.enqueue = {.queue = kQueue},
                            .kernel = kKernel,
                            .dimensions = 1,
                            .has_local = 1,
                            .offset = {64, 0, 0},
                            .global = {kItems - 64, 0, 0},
                            .local = {64, 0, 0}});
  ExpectAll(client, 12, [](std::uint64_t i) {
    if (i < 64) return PatternOf(12);
    return static_cast<std::uint32_t>((i - 64) / 64 * 7 + (kItems - 64) / 64) + (Number(i) & 1);
  });
}

TEST_F(ElasticParts, ASharedTableStaysWhole) {
  StartSmall();
  RawClient client = Ready();
  MakeNumbers(client, 10);
  MakeBuffer(client, 12, kBytes);
  MakeBuffer(client, 14, 4096);
  MakeKernel(client, "number", {14});
  Launch(client, 1024);
  MakeKernel(client, "table", {14, 10, 12});
  Launch(client, kItems);
  ExpectAll(client, 12, [](std::uint64_t i) { return Number(Number(i) & 1023); });
}

TEST_F(ElasticParts, GapsBetweenWrittenDataAreKept) {
  StartSmall();
  RawClient client = Ready();
  MakeNumbers(client, 10);
  MakeBuffer(client, 12, kBytes);
  Fill(client, 12, kBytes);
  MakeKernel(client, "even", {10, 12});
  Launch(client, kItems / 2);
  ExpectAll(client, 12, [](std::uint64_t i) { return i % 2 == 0 ? Number(i / 2) : PatternOf(12); });
}

TEST_F(ElasticParts, PartsOfOneBufferAreArgumentsToo) {
  StartSmall();
  RawClient client = Ready();
  MakeNumbers(client, 10);
  MakeNumbers(client, 12);
  for (const auto& [id, parent] : {std::pair(20U, 10U), std::pair(21U, 10U), std::pair(22U, 12U)})
    client.Send(wire::CreateSubBuffer{.id = id,
                                      .parent = parent,
                                      .flags = CL_MEM_READ_WRITE,
                                      .origin = id == 21 ? kBytes / 2 : 0,
                                      .size = kBytes / 2});
  MakeKernel(client, "add_to", {20, 21});  // fits: one buffer
  Launch(client, kItems / 2);
  MakeKernel(client, "add_to", {21, 22});  // fits where halves are given
  Launch(client, kItems / 2);
  ExpectAll(client, 10, [](std::uint64_t i) {
    return i < kItems / 2 ? Number(i) + Number(i + kItems / 2) : Number(i) + Number(i - kItems / 2);
  });
  ExpectAll(client, 12, Number);
}

TEST_F(ElasticParts, AnEventSpansAllParts) {
  StartSmall();
  RawClient client = Ready(CL_QUEUE_PROFILING_ENABLE);
  MakeNumbers(client, 10);
  MakeBuffer(client, 12, kBytes);
  MakeKernel(client, "plus", {10, 12});
  SetNumber(client, 2, 5);
  Launch(client, kItems, 50);
  EXPECT_EQ(client.EndOf(50), CL_COMPLETE);
  const wire::EventDone done = client.Ended(50);
  EXPECT_LT(done.queued_ns, done.end_ns);
  // Several parts and what is copied between them, not one marker.
  EXPECT_GT(done.end_ns - done.start_ns, 1'000'000U);
}

TEST_F(ElasticParts, AnUncuttableLaunchFailsWithAReason) {
  StartSmall();
  RawClient client = Ready();
  MakeNumbers(client, 10);
  MakeBuffer(client, 12, kBytes);
  MakeKernel(client, "scatter", {10, 12});
  Launch(client, kItems, 50);
  EXPECT_EQ(client.EndOf(50), CL_MEM_OBJECT_ALLOCATION_FAILURE);
  const std::string said = OnlyNotice(client);
  EXPECT_NE(said.find("64.0 MiB is its maximum"), std::string::npos) << said;
  EXPECT_NE(said.find("it can't run in parts: "), std::string::npos) << said;
  // The others are as they were.
  ExpectAll(client, 10, Number);
}

TEST_F(ElasticParts, AreDisabledByTheSetting) {
  StartSmall({"--partition", "never"});
  RawClient client = Ready();
  MakeNumbers(client, 10);
  MakeBuffer(client, 12, kBytes);
  MakeKernel(client, "plus", {10, 12});
  SetNumber(client, 2, 5);
  Launch(client, kItems, 50);
  EXPECT_EQ(client.EndOf(50), CL_MEM_OBJECT_ALLOCATION_FAILURE);
  const std::string said = OnlyNotice(client);
  EXPECT_NE(said.find("64.0 MiB is its maximum"), std::string::npos) << said;
  EXPECT_NE(said.find("(--partition never)"), std::string::npos) << said;
  EXPECT_EQ(FreshBooks().launches_not_cut, 0U) << "there was no attempt";
}

TEST_F(ElasticParts, AreCounted) {
  StartSmall();
  RawClient client = Ready();
  MakeNumbers(client, 10);
  MakeBuffer(client, 12, kBytes);
  EXPECT_EQ(client.Finish(kQueue), CL_SUCCESS);
  EXPECT_EQ(FreshBooks().parts, 0U) << "what fits is not cut";
  MakeKernel(client, "plus", {10, 12});
  SetNumber(client, 2, 5);
  Launch(client, kItems);
  EXPECT_EQ(client.Finish(kQueue), CL_SUCCESS);
  const proto::ExecutorStatistics once = FreshBooks();
  EXPECT_EQ(once.launches_in_parts, 1U);
  EXPECT_GE(once.parts, 2U);
  // Each byte once: no part reads what another does, and all of the output is written.
  EXPECT_EQ(once.parts_in, Bytes{kBytes});
  EXPECT_EQ(once.parts_out, Bytes{kBytes});
  Launch(client, kItems);
  MakeKernel(client, "scatter", {10, 12});
  Launch(client, kItems, 50);
  EXPECT_EQ(client.EndOf(50), CL_MEM_OBJECT_ALLOCATION_FAILURE);
  const proto::ExecutorStatistics twice = FreshBooks();
  EXPECT_EQ(twice.launches_in_parts, 2U);
  EXPECT_EQ(twice.parts, 2 * once.parts);
  EXPECT_EQ(twice.parts_out, Bytes{2 * kBytes});
  EXPECT_EQ(twice.launches_not_cut, 1U);
}

TEST_F(ElasticParts, RunOnAPeerToo) {
  StartPeer();
  StartSmall(PeerOptions());
  RawClient client = Ready();
  MakeNumbers(client, 10);
  MakeBuffer(client, 12, kBytes);
  LaunchRounds(client, 30);
  ExpectRounds(client, 30);
  const std::uint64_t before = PeerTicks();
  LaunchRounds(client, 200);
  EXPECT_EQ(client.Finish(kQueue), CL_SUCCESS);
  EXPECT_GT(PeerTicks(), before + 10)
      << "of 2,100 million rounds half are its own, fewer where it gets less of the CPUs";
  MakeKernel(client, "blur", {10, 12});
  Launch(client, kItems);
  ExpectAll(client, 12, [](std::uint64_t i) {
    return Number(i) + (i > 0 ? Number(i - 1) : 0) + (i < kItems - 1 ? Number(i + 1) : 0);
  });
  MakeKernel(client, "group", {10, 12});
  client.Send(wire::NdRange{.enqueue = {.queue = kQueue},
                            .kernel = kKernel,
                            .dimensions = 1,
                            .has_local = 1,
                            .global = {kItems, 0, 0},
                            .local = {64, 0, 0}});
  ExpectAll(client, 12,
            [](std::uint64_t i) { return static_cast<std::uint32_t>(i / 64 * 7 + kItems / 64) + (Number(i) & 1); });
  EXPECT_TRUE(client.notices.empty());
}

TEST_F(ElasticParts, OfALostPeerRunLocally) {
  StartPeer();
  StartSmall(PeerOptions());
  RawClient client = Ready();
  MakeNumbers(client, 10);
  MakeBuffer(client, 12, kBytes);
  LaunchRounds(client, 30);
  ExpectRounds(client, 30);  // it is connected
  LaunchRounds(client, 120);
  const std::uint64_t before = PeerTicks();
  ASSERT_TRUE(WaitUntil([&] { return PeerTicks() > before + 2; })) << "it has not begun";
  EndPeer();
  ExpectRounds(client, 120);
  LaunchRounds(client, 3);  // without peers
  ExpectRounds(client, 3);
  EXPECT_TRUE(client.notices.empty());
}

TEST_F(ElasticParts, RunOnTwoPeersAtOnce) {
  StartPeer();
  StartPeer();
  StartSmall(PeerOptions());
  RawClient client = Ready();
  MakeNumbers(client, 10);
  MakeBuffer(client, 12, kBytes);
  LaunchRounds(client, 3);
  ExpectRounds(client, 3);
  const std::uint64_t first = PeerTicks(0), second = PeerTicks(1);
  LaunchRounds(client, 240);
  ExpectRounds(client, 240);
  EXPECT_GT(PeerTicks(0), first + 5)
      << "of 2,500 million rounds a third is its own, less where it gets less of the CPUs";
  EXPECT_GT(PeerTicks(1), second + 5);
  LaunchRounds(client, 120);
  const std::uint64_t before = PeerTicks(1);
  ASSERT_TRUE(WaitUntil([&] { return PeerTicks(1) > before + 2; })) << "it has not begun";
  EndPeer(1);  // the other's part is as good as ever
  ExpectRounds(client, 120);
  EXPECT_TRUE(client.notices.empty());
}

TEST_F(ElasticParts, FromAPeerAreNotDividedAmongPeers) {
  StartPeer();
  StartSmall(PeerOptions());
  {
    RawClient ours = Ready();
    MakeNumbers(ours, 10);
    MakeBuffer(ours, 12, kBytes);
    LaunchRounds(ours, 30);
    ExpectRounds(ours, 30);
  }
  const std::uint64_t before = PeerTicks();
  EXPECT_GT(before, 0U);
  auto connection = opencl::Connect(folder_ / "s", std::string(opencl::kPartsProgram) + "@10.0.0.1:7700");
  ASSERT_TRUE(connection) << connection.error().message;
  RawClient others = Ready(RawClient(std::move(*connection)), 0);
  MakeNumbers(others, 10);
  MakeBuffer(others, 12, kBytes);
  LaunchRounds(others, 200);
  ExpectRounds(others, 200);
  EXPECT_LE(PeerTicks(), before + 5) << "half of 2,100 million rounds take longer";
}

}  // namespace
}  // namespace weir::testing
