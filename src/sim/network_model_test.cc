// SPDX-License-Identifier: Apache-2.0
#include "sim/network_model.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace weir::sim {
namespace {

constexpr Instant kBegin = InstantFromNs(1'000'000'000);
/// A megabyte takes a second to send, and arrives ten milliseconds later.
constexpr LinkSpec kSlow{.latency = milliseconds(10), .bytes_per_s = 1e6};
constexpr Bytes kMegabyte{1'000'000};

TEST(NetworkModel, BytesTakeTimeAndThenTheLatency) {
  NetworkModel network(kSlow, 1);
  EXPECT_EQ(network.Send(kBegin, 0, 1, Bytes{}), kBegin + milliseconds(10));
  EXPECT_EQ(network.Send(kBegin, 0, 1, kMegabyte), kBegin + milliseconds(1010));
  EXPECT_EQ(network.Send(kBegin, 0, 1, kMegabyte), kBegin + milliseconds(2010));  // after the first one
  EXPECT_EQ(network.Send(kBegin, 1, 0, kMegabyte), kBegin + milliseconds(1010));  // the other direction is free
  EXPECT_EQ(network.Send(kBegin, 0, 0, kMegabyte), kBegin);
}

TEST(NetworkModel, APartitionStopsBothDirectionsAndNobodyElse) {
  NetworkModel network(kSlow, 1);
  network.Part(2, 1);
  EXPECT_FALSE(network.Send(kBegin, 1, 2, kMegabyte));
  EXPECT_FALSE(network.Send(kBegin, 2, 1, kMegabyte));
  EXPECT_TRUE(network.Send(kBegin, 1, 3, kMegabyte));
  network.Heal(1, 2);
  EXPECT_EQ(network.Send(kBegin, 1, 2, kMegabyte), kBegin + milliseconds(1010));
}

TEST(NetworkModel, LosesThePartThatItShould) {
  LinkSpec lossy = kSlow;
  lossy.loss = 0.1;
  NetworkModel network(kSlow, 1);
  network.SetLink(0, 1, lossy);
  int lost = 0;
  for (int i = 0; i < 10'000; ++i) lost += network.Send(kBegin, 0, 1, Bytes{1}) ? 0 : 1;
  EXPECT_NEAR(lost, 1'000, 120);  // four standard deviations
  EXPECT_TRUE(network.Send(kBegin, 1, 0, Bytes{1}));
}

RC_GTEST_PROP(NetworkModelLaw, WhatArrivesIsInOrderNotEarlyAndNoFasterThanTheLink, ()) {
  LinkSpec spec{.latency = microseconds(*rc::gen::inRange(0, 1'000)),
                .jitter = microseconds(*rc::gen::inRange(0, 5'000)),
                .bytes_per_s = 1e6,
                .loss = *rc::gen::element(0.0, 0.3)};
  NetworkModel network(spec, *rc::gen::arbitrary<std::uint64_t>());
  Instant now = kBegin, last{};
  double sent = 0;
  for (const int gap_us : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 3'000))) {
    now += microseconds(gap_us);
    const Bytes size{static_cast<std::uint64_t>(gap_us)};
    const auto there = network.Send(now, 0, 1, size);
    sent += static_cast<double>(size.count);
    if (!there) continue;
    RC_ASSERT(*there >= now + spec.latency);
    RC_ASSERT(*there >= last);
    RC_ASSERT(SecondsOf(*there - kBegin) * spec.bytes_per_s >= static_cast<double>(size.count) - 1);
    RC_ASSERT(SecondsOf(*there - kBegin) <=
              SecondsOf(now - kBegin) + sent / spec.bytes_per_s + SecondsOf(spec.latency + spec.jitter) + 1e-6);
    last = *there;
  }
}

RC_GTEST_PROP(NetworkModelLaw, OneLinksChanceIsItsOwn, ()) {
  LinkSpec spec{.jitter = milliseconds(5), .loss = 0.3};
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  NetworkModel quiet(spec, seed), busy(spec, seed);
  busy.Part(0, 3);
  for (int i = 0; i < 20; ++i) {
    busy.Send(kBegin, 0, 2, Bytes{100});
    busy.Send(kBegin, 0, 3, Bytes{100});
    RC_ASSERT(quiet.Send(kBegin, 0, 1, Bytes{100}) == busy.Send(kBegin, 0, 1, Bytes{100}));
  }
}

}  // namespace
}  // namespace weir::sim
