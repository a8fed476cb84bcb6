// SPDX-License-Identifier: Apache-2.0
// What an executor does when it is ordered to hold less or more, and what it says of itself.
#include "tests/opencl/elastic_executor.h"

namespace weir::testing {
namespace {

namespace wire = proto::cl;

class ElasticOrders : public ElasticExecutor {};

TEST_F(ElasticOrders, AreAnsweredWithoutEvictions) {
  Start(2);
  RawClient client = Prepared();
  AwaitDone();
  for (const std::uint32_t here : {0U, 3U, 1U}) OrderAndAwait(here);
  EXPECT_EQ(Books().evictions, 0U);
  EXPECT_EQ(BodyAs<wire::PlatformFacts>(client.AnswerTo(0).body).devices.at(0).shares_arena, 0);
  EXPECT_TRUE(WaitUntil([this] { return Books().threads > 0 && Books().elsewhere.count() > 0; }));
}

TEST_F(ElasticOrders, EvictTheLeastRecentlyUsed) {
  Start(4);
  RawClient client = Prepared();
  for (const std::uint32_t id : {10U, 11U, 12U}) {
    MakeBuffer(client, id, 40 * kMiB);
    Fill(client, id, 4096);
    ASSERT_EQ(client.Finish(kQueue), CL_SUCCESS);
  }
  Fill(client, 10, 4096);  // the first one again
  ASSERT_EQ(client.Finish(kQueue), CL_SUCCESS);
  OrderAndAwait(1);
  EXPECT_EQ(Books().evictions, 2U);
  EXPECT_TRUE(Holds(client, 10, 4096, PatternOf(10)));
  EXPECT_EQ(FreshBooks().copied_in.count, 0U);  // it had stayed
  EXPECT_EQ(Books().resident_slots, 1U);
}

TEST_F(ElasticOrders, AreDoneAfterRunningCommands) {
  Start(2);
  RawClient client = Prepared();
  MakeBuffer(client, 10, 40 * kMiB);
  MakeBuffer(client, 11, 40 * kMiB);
  for (const std::uint32_t id : {10U, 11U}) Fill(client, id, 4096);
  MakeKernel(client, "slow", {10});
  ASSERT_EQ(client.Finish(kQueue), CL_SUCCESS);
  Launch(client, 1, 30);
  client.Send(wire::Flush{.queue = kQueue});
  ASSERT_TRUE(WaitUntil([this] { return InFlight() > 0; }));
  ::usleep(200'000);  // it is behind the gate: what it uses is pinned at once
  Order(0);
  ASSERT_EQ(client.EndOf(30), CL_COMPLETE);
  AwaitDone();
  EXPECT_EQ(Books().resident_slots, 0U);
  EXPECT_EQ(Books().evictions, 2U);
  Order(2);
  EXPECT_EQ(Read(client, 10, 4)[0], PatternOf(10) + 1);
}

TEST_F(ElasticOrders, ForMoreMemoryWakeWaiters) {
  Start(0);
  RawClient client = Prepared();
  MakeBuffer(client, 10, 40 * kMiB);
  MakeBuffer(client, 11, 30 * kMiB);
  MakeKernel(client, "add", {10, 11});
  SetNumber(client, 2, 1);
  Launch(client, 1024, 30);
  client.Send(wire::Flush{.queue = kQueue});
  ASSERT_TRUE(WaitUntil([this] { return Books().must.count == 70 * kMiB; }));
  EXPECT_EQ(Books().need.count, 70 * kMiB);
  OrderAndAwait(1);  // not enough: what fits of it comes ahead
  ASSERT_TRUE(WaitUntil([this] { return Books().resident_slots == 1; }));
  EXPECT_EQ(Books().must.count, 70 * kMiB);
  Order(2);
  EXPECT_EQ(client.EndOf(30), CL_COMPLETE);
  EXPECT_TRUE(WaitUntil([this] { return Books().must.count == 0; }));
  EXPECT_LE(Books().resident_slots, 2U);
}

TEST_F(ElasticOrders, ALaunchThatNeverFitsFailsWithAReason) {
  Start(2, 2);
  RawClient client = Prepared();
  Order(2, 2);
  AwaitDone();
  // A command can use two slots, so that no buffer is larger; all of them together may be.
  MakeBuffer(client, 10, 100 * kMiB);
  MakeBuffer(client, 11, 128 * kMiB + 1);
  EXPECT_EQ(client.Finish(kQueue), CL_SUCCESS);
  ASSERT_EQ(client.notices.size(), 1U);  // of the second buffer
  client.Send(wire::Release{.id = 11});
  MakeBuffer(client, 13, 100 * kMiB);
  for (const std::uint32_t id : {10U, 13U}) {
    Fill(client, id, 4096);
    EXPECT_EQ(client.Finish(kQueue), CL_SUCCESS);
  }
  EXPECT_EQ(client.notices.size(), 1U);
  max_ = 1;
  Order(1, 1);
  AwaitDone();
  Fill(client, 10, 4096);
  EXPECT_EQ(client.Finish(kQueue), CL_MEM_OBJECT_ALLOCATION_FAILURE);
  ASSERT_EQ(client.notices.size(), 2U);
  EXPECT_NE(client.notices[1].find("needs 100.0 MiB"), std::string::npos) << client.notices[1];
  EXPECT_NE(client.notices[1].find("64.0 MiB is its maximum"), std::string::npos) << client.notices[1];
  MakeBuffer(client, 12, 4096);
  EXPECT_EQ(client.Finish(kQueue), CL_SUCCESS);
}

TEST_F(ElasticOrders, EvictsItsOwnColdBuffersAndRequestsMore) {
  Start(1);
  Order(1, 1);
  RawClient client = Prepared();
  for (const std::uint32_t id : {10U, 11U}) MakeBuffer(client, id, 40 * kMiB);
  for (int round = 0; round < 4; ++round)
    for (const std::uint32_t id : {10U, 11U}) {
      Fill(client, id, 4096);
      ASSERT_EQ(client.Finish(kQueue), CL_SUCCESS);
    }
  const proto::ExecutorStatistics books = FreshBooks();
  EXPECT_EQ(books.need.count, 80 * kMiB);
  EXPECT_GE(books.evictions, 7U);
  EXPECT_EQ(books.switch_copy.count(), 0);
  EXPECT_EQ(books.must.count, 0U);
  for (const std::uint32_t id : {10U, 11U}) EXPECT_TRUE(Holds(client, id, 4096, PatternOf(id)));
}

TEST_F(ElasticOrders, CopiesTakeTheModelledLinksTime) {
  Start(2, 8, {"--copy-bandwidth", "0.1"});
  RawClient client = Prepared();
  MakeBuffer(client, 10, 20 * kMiB);
  Fill(client, 10, 20 * kMiB);
  ASSERT_EQ(client.Finish(kQueue), CL_SUCCESS);
  OrderAndAwait(0);
  EXPECT_GE(Books().switch_copy.count(), 200'000'000);
  Order(2);
  EXPECT_TRUE(Holds(client, 10, 20 * kMiB, PatternOf(10)));
  EXPECT_GE(FreshBooks().switch_copy.count(), 400'000'000);
}

TEST_F(ElasticOrders, ShareOneStoreAmongSessions) {
  Start(2);
  Order(2, 2);  // all that it holds: no vGPU waits for a turn
  RawClient one = Prepared(), other = Prepared();
  for (RawClient* client : {&one, &other}) {
    for (const std::uint32_t id : {10U, 11U}) {
      MakeBuffer(*client, id, 40 * kMiB);
      Fill(*client, id, 4096);
    }
    MakeKernel(*client, "more", {10});
    MakeKernel(*client, "more", {11}, 6);
  }
  for (std::uint32_t round = 0; round < 20; ++round) {
    for (RawClient* client : {&one, &other})
      for (const std::uint32_t kernel : {kKernel, 6U}) {
        Launch(*client, 1024, 0, kernel);
        client->Send(wire::Flush{.queue = kQueue});
      }
    if (round % 5 == 0) Order(1, 1);
    if (round % 5 == 3) Order(2, 2);
  }
  for (RawClient* client : {&one, &other})
    for (const std::uint32_t id : {10U, 11U}) EXPECT_TRUE(Holds(*client, id, 4096, PatternOf(id) + 20));
  AwaitDone();
  EXPECT_LE(FreshBooks().resident_slots, 2U);
  EXPECT_EQ(Books().made.count, 160 * kMiB);
}

TEST_F(ElasticOrders, AClientThatGoesAwayLeavesNothing) {
  Start(1);
  RawClient watcher = Prepared();
  {
    RawClient client = Prepared();
    for (const std::uint32_t id : {10U, 11U, 12U}) {
      MakeBuffer(client, id, 30 * kMiB);
      Fill(client, id, kMiB);
    }
    MakeKernel(client, "add", {10, 11});
    SetNumber(client, 2, 1);
    Order(0);
    Launch(client, 1024);  // waits for a place
    client.Send(wire::Flush{.queue = kQueue});
    ASSERT_TRUE(WaitUntil([this] { return Books().must.count > 0; }));
  }
  EXPECT_TRUE(WaitUntil([this] { return Books().made.count == 0; }));
  EXPECT_TRUE(WaitUntil([this] { return Books().must.count == 0 && Books().resident_slots == 0; }));
  AwaitDone();
  EXPECT_EQ(watcher.Finish(kQueue), CL_SUCCESS);
}

TEST_F(ElasticOrders, WaitForUserEventsWithoutBlockingCommandsForever) {
  Start(2);
  RawClient client = Prepared();
  MakeBuffer(client, 10, 60 * kMiB);
  MakeBuffer(client, 11, 60 * kMiB);
  Fill(client, 10, 4096);
  ASSERT_EQ(client.Finish(kQueue), CL_SUCCESS);
  client.Send(wire::CreateUserEvent{.id = 40, .context = kContext});
  const std::uint32_t start = 40;
  MakeKernel(client, "more", {10});
  client.Send(wire::NdRange{.enqueue = {.queue = kQueue, .event = 41, .waits = wire::IdList(&start, 1)},
                            .kernel = kKernel,
                            .dimensions = 1,
                            .global = {1024, 0, 0}});
  client.Send(wire::Flush{.queue = kQueue});
  ASSERT_TRUE(WaitUntil([this] { return InFlight() > 0; }));
  ::usleep(200'000);       // it is behind the gate: what it uses is pinned at once
  OrderAndAwait(1);        // before the next command comes: it would be pinned as well, and the order not kept to
  Fill(client, 11, 4096);  // has no room beside what is pinned
  client.Send(wire::Flush{.queue = kQueue});
  ::usleep(700'000);  // the command has come, and waits; else it would be refused for another reason
  Order(0);
  client.Send(wire::SetUserEvent{.id = 40});
  ASSERT_EQ(client.EndOf(41), CL_COMPLETE);
  EXPECT_EQ(client.Finish(kQueue), CL_MEM_OBJECT_ALLOCATION_FAILURE);
  ASSERT_EQ(client.notices.size(), 1U);
  EXPECT_NE(client.notices[0].find("event that the program has not set"), std::string::npos) << client.notices[0];
  AwaitDone();
  Order(2);
  EXPECT_TRUE(Holds(client, 10, 4096, PatternOf(10) + 1));
}

TEST_F(ElasticOrders, PersistWithoutADaemonAndAreFoundAgain) {
  Start(0);
  RawClient client = Prepared();
  MakeBuffer(client, 10, kMiB);
  Fill(client, 10, 4096);
  client.Send(wire::Flush{.queue = kQueue});
  ASSERT_TRUE(WaitUntil([this] { return Books().must.count == kMiB; }));
  CloseGate();
  ::usleep(200'000);
  Open();
  Order(1);
  EXPECT_TRUE(Holds(client, 10, 4096, PatternOf(10)));  // a waiting executor does not pass the gate, but attaches
  AwaitDone();
}

TEST_F(ElasticOrders, AppliedLateCoverAllBuffers) {
  max_ = 8;
  Open();
  Order(0, 4, /*elastic=*/false);
  const auto pid = platform::Spawn(
      {.argv = {WEIR_EXECUTOR, "--socket", folder_ / "s", "--cpus", "2", "--attach", folder_ / "gate.sock"}});
  ASSERT_TRUE(pid);
  pid_ = *pid;
  RawClient client = Prepared();
  EXPECT_EQ(BodyAs<wire::PlatformFacts>(client.AnswerTo(0).body).devices.at(0).shares_arena, 1);
  MakeBuffer(client, 10, 65 * kMiB);
  Fill(client, 10, 4096);
  ASSERT_EQ(client.Finish(kQueue), CL_SUCCESS);
  Order(0);
  AwaitDone();
  EXPECT_EQ(Books().resident_slots, 2U);
  EXPECT_EQ(Books().made.count, 65 * kMiB);
  EXPECT_TRUE(Holds(client, 10, 4096, PatternOf(10)));
}

TEST_F(ElasticOrders, LeaveCommandsTheirTimes) {
  Start(1);
  RawClient client = Prepared();
  client.Send(
      wire::CreateQueue{.id = 33, .context = kContext, .device = kDevice, .properties = CL_QUEUE_PROFILING_ENABLE});
  MakeBuffer(client, 10, kMiB);
  MakeKernel(client, "more", {10});
  for (const std::uint32_t event : {50U, 51U}) {
    client.Send(wire::NdRange{
        .enqueue = {.queue = 33, .event = event}, .kernel = kKernel, .dimensions = 1, .global = {1024, 0, 0}});
    ASSERT_EQ(client.EndOf(event), CL_COMPLETE);
    OrderAndAwait(0);
    const wire::EventDone done = client.Ended(event);
    EXPECT_LE(done.queued_ns, done.submit_ns);
    EXPECT_LE(done.submit_ns, done.start_ns);
    EXPECT_LT(done.start_ns, done.end_ns);
    OrderAndAwait(1);
  }
}

}  // namespace
}  // namespace weir::testing
