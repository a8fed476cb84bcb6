// SPDX-License-Identifier: Apache-2.0
#include "daemon/process_places.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace weir::daemon {
namespace {

/// Lets `greedy` vGPUs of `vgpus` attach processes in turn until none of them gets a place any more.
std::vector<std::size_t> Fill(const ProcessPlaces& places, std::size_t greedy, std::size_t vgpus) {
  std::vector<std::size_t> counts(greedy);
  std::size_t all = 0;
  for (bool more = true; more;) {
    more = false;
    for (std::size_t& here : counts)
      if (here < places.For(here, all, vgpus)) ++here, ++all, more = true;
  }
  return counts;
}

TEST(ProcessPlaces, AVgpuGetsAllThatItMayHaveWhereDescriptorsAreMany) {
  EXPECT_EQ(Fill(ProcessPlaces(20'000), 1, 2).front(), gate::kProcessesPerVgpuMax);
  EXPECT_GE(Fill(ProcessPlaces(8'192), 1, 1).front(), 1'000U);
}

TEST(ProcessPlaces, TheNextVgpuFindsAPlaceHoweverGreedyOthersAre) {
  for (const std::size_t descriptors : {256, 1'024, 4'096, 65'536, 1'048'576})
    for (const std::size_t greedy : {1, 2, 5, 10}) {
      const ProcessPlaces places(descriptors);
      const auto counts = Fill(places, greedy, greedy + 1);
      const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
      EXPECT_GT(places.For(0, all, greedy + 1), 0U) << descriptors << " descriptors, " << greedy << " greedy vGPUs";
      EXPECT_GT(counts.back(), 0U);
    }
}

TEST(ProcessPlaces, DescriptorsSufficeForAllPlaces) {
  for (const std::size_t descriptors : {0, 16, 160, 1'024, 4'096, 65'536})
    for (const std::size_t greedy : {1, 3, 10}) {
      const auto counts = Fill(ProcessPlaces(descriptors), greedy, greedy);
      const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
      EXPECT_LE(all * ProcessPlaces::kPerProcess, descriptors);
      EXPECT_LE(all, ProcessPlaces::kMost);
    }
}

TEST(ProcessPlaces, AVgpuKeepsWhatItHasWhenOthersCome) {
  const ProcessPlaces places(1'024);
  EXPECT_EQ(places.For(100, 240, 2), 100U);
}

}  // namespace
}  // namespace weir::daemon
