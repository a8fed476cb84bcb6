// SPDX-License-Identifier: Apache-2.0
// A client whose connection goes from one executor to another and back, on PoCL, by way of a relay and portals:
// whatever it does meanwhile, its contents are those that a model of its commands has. Of what is sent bytes are
// counted.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "tests/opencl/moved_client.h"

namespace weir {
namespace {

namespace wire = proto::cl;
using namespace testing::moved;

TEST_F(MovedClient, UnchangedContentsAreSentBeforeThePause) {
  MakeBuffer(3'000'001, CL_MEM_READ_WRITE, 3, false);
  MakeBuffer(4 << 20, CL_MEM_READ_WRITE, 4, true);
  MakeImage(CL_MEM_OBJECT_IMAGE2D, 700, 500, 1, CL_MEM_READ_WRITE, 5);
  Stir(memories[0], 2'900'000, 9);
  ASSERT_EQ(client->Finish(kQueue), CL_SUCCESS);
  for (int turn = 0; turn < 2; ++turn) {
    auto figures = ground->Move();
    EXPECT_EQ(figures["memories"], 3U);
    EXPECT_EQ(figures["bytes_before"], AllBytes());
    EXPECT_EQ(figures["bytes_in_pause"], 0U);
    EXPECT_EQ(figures["bytes_unchanged"], AllBytes());
  }
  ExpectAllRight();
}

TEST_F(MovedClient, HostInaccessibleBuffersMove) {
  for (const std::uint64_t access : kHostAccess) {
    MakeBuffer(1'500'001, CL_MEM_READ_WRITE | access, 11, false);
    MakeImage(CL_MEM_OBJECT_IMAGE2D, 600, 500, 1, CL_MEM_READ_WRITE | access, 12);
  }
  Stir(memories[0], 1'500'001, 77);
  for (std::size_t i = 1; i < memories.size(); ++i) {
    if (memories[i].image())
      CopyToImage(memories[0], memories[i], 5, 400 + i, 0);
    else
      Copy(memories[0], memories[i], 3, 100'000 * i, 700'000);
  }
  auto figures = ground->Move();
  EXPECT_EQ(figures["bytes_in_pause"] + figures["bytes_unchanged"], AllBytes());
  EXPECT_EQ(figures["bytes_before"], memories[0].bytes.size() + memories[1].bytes.size());
  ExpectAllRight();
  ground->Move();
  ExpectAllRight();
}

TEST_F(MovedClient, ImagesOfAllKindsMove) {
  MakeBuffer(1 << 20, CL_MEM_READ_WRITE, 1, false);
  Stir(memories[0], 1 << 20, 5);
  MakeImage(CL_MEM_OBJECT_IMAGE1D, 4000, 1, 1, CL_MEM_READ_WRITE, 2);
  MakeImage(CL_MEM_OBJECT_IMAGE1D_ARRAY, 300, 20, 1, CL_MEM_READ_WRITE, 3);
  MakeImage(CL_MEM_OBJECT_IMAGE2D_ARRAY, 100, 70, 9, CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS, 4);
  MakeImage(CL_MEM_OBJECT_IMAGE3D, 130, 90, 30, CL_MEM_READ_ONLY, 5);
  for (std::size_t i = 1; i < memories.size(); ++i)
    CopyToImage(memories[0], memories[i], 7, memories[i].rows - 1, memories[i].slices - 1);
  // An image that is a buffer's bytes is no content of its own.
  client->Send(wire::CreateImage{.id = 900,
                                 .context = kContext,
                                 .flags = CL_MEM_READ_WRITE,
                                 .channel_order = CL_RGBA,
                                 .channel_type = CL_UNSIGNED_INT8,
                                 .type = CL_MEM_OBJECT_IMAGE1D_BUFFER,
                                 .width = 1000,
                                 .buffer = memories[0].id});
  auto figures = ground->Move();
  EXPECT_EQ(figures["memories"], 5U);
  ExpectAllRight();
  EXPECT_EQ(ground->Move()["bytes_in_pause"], memories[3].bytes.size());
  ExpectAllRight();
}

TEST_F(MovedClient, ABufferMovesWhoseContextHasNoQueue) {
  client->Send(wire::CreateContext{.id = kOther, .devices = wire::IdList(&kDevice, 1)});
  client->Send(wire::CreateQueue{.id = kOtherQueue, .context = kOther, .device = kDevice});
  MakeBuffer(300'000, CL_MEM_READ_WRITE, 7, false, kOther, kOtherQueue);
  MakeBuffer(300'000, CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS, 8, false, kOther, kOtherQueue);
  MakeBuffer(300'000, CL_MEM_READ_WRITE, 9, true, kOther, kOtherQueue);
  ASSERT_EQ(client->Finish(kOtherQueue), CL_SUCCESS);
  client->Send(wire::Release{.id = kOtherQueue});
  ground->Move();
  ground->Move();
  client->Send(wire::CreateQueue{.id = kOtherQueue, .context = kOther, .device = kDevice});
  for (const ModelMemory& memory : memories) EXPECT_TRUE(Read(memory, kOther, kOtherQueue) == memory.bytes);
  EXPECT_TRUE(client->notices.empty());
}

// What is dirty again is read again, and of that only what has changed is sent.
TEST_F(MovedClient, ThePauseSendsOnlyChangedContents) {
  ModelMemory& buffer = MakeBuffer(5 << 20, CL_MEM_READ_WRITE, 1, false);
  MakeBuffer(2 << 20, CL_MEM_READ_WRITE, 2, false);
  ASSERT_EQ(client->Finish(kQueue), CL_SUCCESS);
  for (int turn = 0; turn < 2; ++turn) {
    std::atomic<bool> moved{false};
    Ground::Figures figures;
    std::thread mover([&] {
      figures = ground->Move();
      moved = true;
    });
    for (std::uint8_t value = 0; !moved; ++value) {
      Write(buffer, 3 << 20, Bytes8(100, value));
      EXPECT_EQ(client->Finish(kQueue), CL_SUCCESS);
    }
    mover.join();
    EXPECT_GE(figures["bytes_before"], AllBytes());
    EXPECT_LE(figures["bytes_in_pause"], 64U << 10);
    EXPECT_EQ(figures["bytes_in_pause"] + figures["bytes_unchanged"], AllBytes());
    ExpectAllRight();
  }
}

// Random commands, and moves at random moments of them.
TEST_F(MovedClient, RandomCommandsGiveTheSameResultsAsUnmoved) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Connect();
    Prng draw(seed), moments(seed + 1000);
    std::atomic<bool> done{false};
    std::thread mover([&] {
      for (int turn = 0; turn < 3; ++turn) {
        ::usleep(static_cast<useconds_t>(moments.Between(0, 60'000)));
        ground->Move();
      }
      done = true;
    });
    for (int i = 0; !done || i < 50; ++i) {
      DrawAndDo(draw);
      if (i % 8 == 7) {
        EXPECT_EQ(client->Finish(kQueue), CL_SUCCESS);
      }
    }
    mover.join();
    ASSERT_NO_FATAL_FAILURE(ExpectAllRight());
  }
}

// The new node's portal is killed at some moment of a move. When that comes too late the program is there, and lost.
TEST_F(MovedClient, AFailedMoveChangesNothing) {
  EXPECT_FALSE(ground->MoveTo("127.0.0.1:1"));
  int stayed = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng draw(seed), moments(seed + 2000);
    for (int i = 0; i < 40; ++i) DrawAndDo(draw);
    ASSERT_EQ(client->Finish(kQueue), CL_SUCCESS);
    TestNode& there = *ground->nodes[1 - ground->at];
    std::thread killer([&] {
      ::usleep(static_cast<useconds_t>(moments.Between(0, 40'000)));
      there.portal->Kill();
    });
    std::atomic<bool> ended{false};
    Result<Ground::Figures> moved = Ground::Figures();
    std::thread mover([&] {
      moved = ground->MoveTo(there.address);
      ended = true;
    });
    for (int i = 0; !ended && !client->Gone(milliseconds(0)); ++i) {
      if (i < 20) Stir(memories[0], 1000, static_cast<std::uint32_t>(i));
      ::usleep(2'000);
    }
    mover.join();
    killer.join();
    there.OpenPortal();
    if (moved) {
      ground->OpenRelay();
    } else {
      ++stayed;
      ASSERT_FALSE(client->Gone(milliseconds(0))) << moved.error().message;
      ASSERT_NO_FATAL_FAILURE(ExpectAllRight()) << moved.error().message;
    }
    if (HasFatalFailure()) return;
    Connect();
  }
  EXPECT_GT(stayed, 0);
  EXPECT_TRUE(ground->Move()["objects"] > 0);
  ExpectAllRight();
}

}  // namespace
}  // namespace weir
