// SPDX-License-Identifier: Apache-2.0
#include "daemon/state_file.h"

#include <gtest/gtest.h>

#include "tests/harness/fake_disk.h"

namespace weir::daemon {
namespace {

using weir::testing::FakeDisk;
using weir::testing::PowerCut;

const std::string kState = "/state/node.json";
constexpr int kChanges = 4;

/// Each field depends on the number, so that a mixture of two states is noticed.
SavedNode StateNumber(int number) {
  SavedNode state;
  for (int i = 0; i < 4; ++i) {
    SavedVgpu& vgpu = state.vgpus.emplace_back();
    vgpu.id = VgpuId{static_cast<std::uint64_t>(number)};
    vgpu.name = "vgpu-" + std::to_string(i);
    vgpu.device = "embedded";
  }
  return state;
}

int NumberOf(const SavedNode& state) {
  return state.vgpus.empty() ? 0 : static_cast<int>(state.vgpus.front().id.value);
}

/// Saves the states 1 … kChanges. Returns the last number that was acknowledged.
int SaveAll(FakeDisk& disk) {
  int acknowledged = 0;
  try {
    for (int number = 1; number <= kChanges; ++number)
      if (WriteState(disk, kState, StateNumber(number))) acknowledged = number;
  } catch (const PowerCut&) {
  }
  return acknowledged;
}

std::size_t CallsOfAll() {
  FakeDisk disk;
  EXPECT_EQ(SaveAll(disk), kChanges);
  return disk.calls();
}

TEST(StateFile, APowerCutAtAnyCallLosesNothingThatWasAcknowledged) {
  const std::size_t calls = CallsOfAll();
  ASSERT_GT(calls, 4U * kChanges);
  for (std::size_t at = 0; at < calls; ++at)
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      FakeDisk disk;
      disk.Break(FakeDisk::Fault{.at = at, .error = 0});
      const int acknowledged = SaveAll(disk);
      Prng prng(seed);
      disk.Restart(prng);
      const auto state = LoadState(disk, kState);
      ASSERT_TRUE(state.has_value()) << "call " << at << ", seed " << seed << ": " << state.error().message;
      EXPECT_GE(NumberOf(*state), acknowledged) << "call " << at << ", seed " << seed;
    }
}

TEST(StateFile, AFailureOfAnyCallThenAPowerCutLosesNothingThatWasAcknowledged) {
  const std::size_t calls = CallsOfAll();
  for (const int error : {EIO, ENOSPC})
    for (std::size_t at = 0; at < calls; ++at)
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        FakeDisk disk;
        disk.Break(FakeDisk::Fault{.at = at, .error = error});
        const int acknowledged = SaveAll(disk);
        Prng prng(seed);
        disk.Restart(prng);
        const auto state = LoadState(disk, kState);
        ASSERT_TRUE(state.has_value()) << "call " << at << ", seed " << seed << ": " << state.error().message;
        EXPECT_GE(NumberOf(*state), acknowledged) << "call " << at << ", seed " << seed;
      }
}

TEST(StateFile, AFailedSyncIsAnErrorAndTheNextSaveWritesEverythingAgain) {
  FakeDisk disk;
  ASSERT_TRUE(WriteState(disk, kState, StateNumber(1)));
  disk.Break(FakeDisk::Fault{.at = 2, .error = EIO});  // make, write, sync
  const Status failed = WriteState(disk, kState, StateNumber(2));
  ASSERT_FALSE(failed.has_value());
  EXPECT_NE(failed.error().message.find("syncing"), std::string::npos) << failed.error().message;
  EXPECT_EQ(NumberOf(*LoadState(disk, kState)), 1);
  ASSERT_TRUE(WriteState(disk, kState, StateNumber(3)));
  Prng prng(1);
  disk.Restart(prng);
  EXPECT_EQ(NumberOf(*LoadState(disk, kState)), 3);
}

TEST(StateFile, ADamagedFileIsRefusedWithTheWayBack) {
  FakeDisk disk;
  EXPECT_EQ(NumberOf(*LoadState(disk, kState)), 0) << "there is no file yet";
  ASSERT_TRUE(WriteState(disk, kState, StateNumber(1)));
  ASSERT_TRUE(WriteState(disk, kState, StateNumber(2)));
  disk.Content(kState)[40] ^= 1;
  auto state = LoadState(disk, kState);
  ASSERT_FALSE(state.has_value());
  EXPECT_NE(state.error().message.find("cp /state/node.json.previous /state/node.json"), std::string::npos)
      << state.error().message;
  EXPECT_NE(state.error().message.find("mv /state/node.json "), std::string::npos) << state.error().message;
  const std::string previous = disk.Content(kState + ".previous");
  EXPECT_EQ(NumberOf(*FromText(previous)), 1);
  disk.Content(kState + ".previous") = "{";
  state = LoadState(disk, kState);
  ASSERT_FALSE(state.has_value());
  EXPECT_EQ(state.error().message.find("previous"), std::string::npos) << "a bad copy is not offered";
}

}  // namespace
}  // namespace weir::daemon
