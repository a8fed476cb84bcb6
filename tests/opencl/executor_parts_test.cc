// SPDX-License-Identifier: Apache-2.0
// Sub-devices of an executor on PoCL.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/opencl/executor_process.h"

namespace weir {
namespace {

namespace wire = proto::cl;
using namespace testing::raw;
using testing::BodyAs;
using testing::RawClient;
using Executor = testing::ExecutorProcess;

/// Memory that was freed reads as rubbish, so that who uses it is found.
class ExecutorWithParts : public Executor {
 protected:
  static constexpr std::uint32_t kPart = 10, kOtherPart = 11;
  void SetUp() override {
    ::setenv("MALLOC_PERTURB_", "165", 1);
    Start({});
    ::unsetenv("MALLOC_PERTURB_");
  }
  /// A context of two parts, with a queue on the first.
  void PrepareParts(RawClient& client) {
    constexpr std::uint64_t kEqually[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    constexpr std::uint32_t kParts[] = {kPart, kOtherPart};
    client.Send(wire::CreateSubDevices{.request = 5, .device = kDevice, .first = kPart, .properties = {kEqually, 3}});
    const auto made = BodyAs<wire::SubDeviceFacts>(client.AnswerTo(5).body);
    ASSERT_EQ(made.devices.size(), 2U);
    client.Send(wire::CreateContext{.id = kContext, .devices = wire::IdList(kParts, 2)});
    client.Send(wire::CreateQueue{.id = kQueue, .context = kContext, .device = kPart});
    client.Send(
        wire::CreateProgram{.id = kProgram, .context = kContext, .source = wire::Blob::Inline(wire::BytesOf(kSource))});
    client.Send(wire::Build{.request = 1, .program = kProgram});
  }
};

TEST_F(ExecutorWithParts, NamesThemInTheResultOfABuild) {
  RawClient client = Connected();
  PrepareParts(client);
  const auto facts = BodyAs<wire::BuildFacts>(client.AnswerTo(1).body);
  ASSERT_EQ(facts.devices.size(), 2U);
  EXPECT_EQ(facts.devices[0].device, kPart);
  EXPECT_EQ(facts.devices[1].device, kOtherPart);
  EXPECT_EQ(facts.devices[1].status, CL_BUILD_SUCCESS);
  ASSERT_FALSE(facts.kernels.empty());
  ASSERT_EQ(facts.kernels[0].groups.size(), 2U);
  EXPECT_EQ(facts.kernels[0].groups[1].device, kOtherPart);
  EXPECT_GT(facts.kernels[0].groups[1].size, 0U);
  client.Send(wire::GetBinary{.request = 2, .program = kProgram, .device = kOtherPart});
  const auto binary = client.AnswerTo(2);
  EXPECT_EQ(binary.status, CL_SUCCESS);
  EXPECT_FALSE(binary.body.empty());
}

TEST_F(ExecutorWithParts, KeepsThemWhileTheyAreUsed) {
  RawClient other = Connected();
  Prepare(other);
  for (const bool released : {false, true}) {
    RawClient client = Connected();
    PrepareParts(client);
    ASSERT_EQ(client.AnswerTo(1).status, CL_SUCCESS);
    MakeBuffer(client, kIn, 0);
    MakeBuffer(client, kOut, kBytes);
    if (released) {
      client.Send(wire::Release{.id = kPart});
      client.Send(wire::Release{.id = kOtherPart});
    }
    Launch(client, "twice", {kIn, kOut}, 1000, 30);
    ASSERT_EQ(client.EndOf(30), CL_COMPLETE);
    if (released) client.Send(wire::Release{.id = kContext});
    client.Send(wire::Release{.id = kQueue});
    client.Send(wire::Release{.id = 30});
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(other.Finish(kQueue), CL_SUCCESS);
    ::usleep(10'000);
  }
}

TEST_F(ExecutorWithParts, WaitsForCommandsOfAReleasedQueue) {
  RawClient other = Connected();
  Prepare(other);
  for (const bool parts : {false, true}) {
    RawClient client = Connected();
    parts ? PrepareParts(client) : Prepare(client);
    MakeBuffer(client, kOut, 0);
    Launch(client, "slow", {kOut}, 1);
    for (const std::uint32_t id : {kOut, kQueue, kKernel, kProgram, kContext, kPart, kOtherPart})
      client.Send(wire::Release{.id = id});
    // Whatever else comes is carried out after that.
    client.Send(wire::Finish{.request = 9, .queue = kQueue});
    EXPECT_EQ(client.AnswerTo(9).status, CL_INVALID_COMMAND_QUEUE);
  }
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(other.Finish(kQueue), CL_SUCCESS) << i;
    ::usleep(10'000);
  }
}

}  // namespace
}  // namespace weir
