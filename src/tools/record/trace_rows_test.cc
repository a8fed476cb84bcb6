// SPDX-License-Identifier: Apache-2.0
#include "tools/record/trace_rows.h"

#include <gtest/gtest.h>

namespace weir::cli {
namespace {

TEST(TraceRows, TheSpansOfAFrameFollowEachOther) {
  const FrameRow row{.pid = 1,
                     .surface = 2,
                     .begin_ns = 100,
                     .present_ns = 130,
                     .submit_ns = 150,
                     .end_ns = 160,
                     .gpu_ns = 7,
                     .sync_ns = 1,
                     .pace_ns = 2,
                     .wait_ns = 3,
                     .predicted_ns = 9,
                     .interval_ns = 70};
  const proto::TraceFrame frame = TraceFrameOf(row, 5);
  EXPECT_EQ(frame, (proto::TraceFrame{5, 2, 100, 30, 20, 10, 7, 1, 2, 3, 9, 70}));
  EXPECT_EQ(frame.EndNs(), row.end_ns);
  FrameRow late = row;
  late.start_delay_ns = 25;
  EXPECT_EQ(TraceFrameOf(late, 5).think_ns, 5U) << "what the program does again when it is played";
  EXPECT_EQ(TraceFrameOf(late, 5).EndNs(), row.end_ns);
}

TEST(TraceRows, AChargeIsThatOfTheLastReadingOfTheAccount) {
  VgpuView vgpu;
  vgpu.totals.gpu_ns = 900;  // includes what was reported after the last reading
  vgpu.totals.settled_ns = 700;
  vgpu.totals.settled_at_ns = 50;
  EXPECT_EQ(TraceChargeOf(vgpu), (proto::TraceCharge{.at_ns = 50, .total_ns = 700}));
}

TEST(TraceRows, WhateverATenantReportsCanBeReadAgain) {
  const FrameRow row{.pid = -5,
                     .surface = -1,
                     .begin_ns = 100,
                     .present_ns = 130,
                     .submit_ns = 150,
                     .end_ns = 160,
                     .gpu_ns = -7,
                     .sync_ns = 1'000,
                     .pace_ns = INT64_MAX,
                     .wait_ns = INT64_MIN,
                     .predicted_ns = INT64_MAX,
                     .interval_ns = -1};
  proto::TraceEncoder encoder(TraceHeaderOf({}, {}, 0));
  encoder.Add(TraceProcessOf({-5, "p", "", "", ""}));
  encoder.Add(TraceFrameOf(row, 0));
  const auto trace = proto::DecodeTrace(encoder.Take());
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->frames[0].EndNs(), 160);
}

TEST(TraceRows, TheHeaderSaysUnderWhichPromisesItWasRecorded) {
  VgpuView vgpu;
  vgpu.name = "game";
  vgpu.settings = {.weight = 50, .cap = Share::FromFraction(0.75), .fps = 59.94, .latency = microseconds(16'500)};
  DeviceView device;
  device.name = "embedded";
  device.kind = "software";
  device.policy = "reserve";
  device.params = {{"period_ms", 1}};
  device.cpu_count = 2;
  const proto::TraceHeader header = TraceHeaderOf(vgpu, device, 77);
  EXPECT_EQ(
      header,
      (proto::TraceHeader{
          77, "embedded", "software", 2, "reserve", {{"period_ms", 1}}, "game", 50, 750'000, 59'940, 16'500'000}));
}

}  // namespace
}  // namespace weir::cli
