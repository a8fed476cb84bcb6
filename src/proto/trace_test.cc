// SPDX-License-Identifier: Apache-2.0
#include "proto/trace.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "proto/wire.h"
#include "tests/harness/golden.h"

namespace weir::proto {
namespace {

constexpr const char* kGolden = "trace_v1_1.hex";
constexpr const char* kGoldenOfVersion0 = "trace_v1.hex";
constexpr std::size_t kPrelude = 8;  // magic and version

Trace KnownTrace() {
  Trace trace;
  trace.header = {.start_ns = 1'000'000'000,
                  .device = "embedded",
                  .device_kind = "software",
                  .device_cpus = 2,
                  .policy = "reserve",
                  .policy_params = {{"period_ms", 1.5}},
                  .vgpu = "game",
                  .weight = 50,
                  .cap_ppm = 750'000,
                  .fps_milli = 60'000,
                  .latency_ns = 20'000'000};
  trace.processes = {{4242, "glxgears", "gl", "llvmpipe", "worker-cpu-time"}};
  trace.frames = {{.process = 0,
                   .surface = 1,
                   .begin_ns = 1'000'000'500,
                   .think_ns = 3'000'000,
                   .held_ns = 600'000,
                   .present_ns = 2'000'000,
                   .gpu_ns = 4'000'000,
                   .sync_ns = 100'000,
                   .pace_ns = 200'000,
                   .wait_ns = 300'000,
                   .predicted_ns = 1'900'000,
                   .interval_ns = 16'666'667},
                  {.process = 0, .surface = 0, .begin_ns = 1'000'000'000, .think_ns = 1}};
  trace.charges = {{1'100'000'000, 5'000'000}, {1'200'000'000, 9'000'000}};
  trace.lost = 300;
  trace.complete = true;
  trace.recorded_until_ns = 2'000'000'000;
  return trace;
}

Error FaultOf(std::span<const std::byte> bytes) {
  const auto decoded = DecodeTrace(bytes);
  EXPECT_FALSE(decoded.has_value());
  return decoded ? Error{} : decoded.error();
}

/// A trace with a process and one more record, given as raw numbers.
std::vector<std::byte> WithRecord(std::uint8_t kind, const std::vector<std::uint64_t>& numbers) {
  TraceEncoder encoder{TraceHeader{}};
  encoder.Add(TraceProcess{1, "p", "gl", "r", "m"});
  std::vector<std::byte> bytes = encoder.Take();
  WireWriter body;
  for (const std::uint64_t number : numbers) body.PutVarint(number);
  bytes.push_back(static_cast<std::byte>(kind));
  bytes.push_back(static_cast<std::byte>(body.bytes().size()));
  bytes.insert(bytes.end(), body.bytes().begin(), body.bytes().end());
  return bytes;
}

// -- What was published ------------------------------------------------------------------------------------------

TEST(Trace, IsEncodedIntoItsGoldenBytes) { testing::ExpectGolden(kGolden, EncodeTrace(KnownTrace())); }

TEST(Trace, GoldenBytesAreDecoded) {
  const auto decoded = DecodeTrace(testing::ReadGolden(kGolden).bytes);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, KnownTrace());
}

TEST(Trace, GoldenBytesOfVersion0AreDecoded) {
  const auto decoded = DecodeTrace(testing::ReadGolden(kGoldenOfVersion0).bytes);
  ASSERT_TRUE(decoded) << kGoldenOfVersion0 << ": " << decoded.error().message;
  Trace without = KnownTrace();
  without.charges.clear();
  EXPECT_EQ(*decoded, without) << kGoldenOfVersion0;
}

TEST(Trace, AppendingInPiecesGivesTheSame) {
  const Trace trace = KnownTrace();
  TraceEncoder encoder(trace.header);
  std::vector<std::byte> bytes;
  auto append = [&] {
    const auto piece = encoder.Take();
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  };
  append();
  encoder.Add(trace.processes[0]);
  for (const TraceFrame& frame : trace.frames) {
    encoder.Add(frame);
    append();
  }
  for (const TraceCharge& charge : trace.charges) encoder.Add(charge);
  encoder.AddLost(trace.lost);
  encoder.AddEnd(trace.recorded_until_ns);
  append();
  EXPECT_EQ(bytes, EncodeTrace(trace));
}

RC_GTEST_PROP(Trace, SurvivesTheRoundTrip, (std::string name, std::vector<std::int32_t> numbers)) {
  Trace trace;
  trace.header.vgpu = name.substr(0, kTraceTextBytesMax);
  trace.header.policy_params = {{"p", static_cast<double>(numbers.size()) / 3}};
  trace.processes = {{7, trace.header.vgpu, "", "", ""}, {8, "b", "", "", ""}};
  for (const std::int32_t number : numbers) {
    const auto magnitude = static_cast<std::uint64_t>(std::abs(static_cast<std::int64_t>(number)));
    trace.frames.push_back({.process = static_cast<std::uint32_t>(magnitude % 2),
                            .surface = static_cast<std::uint32_t>(magnitude),
                            .begin_ns = static_cast<std::int64_t>(magnitude) * 1000,
                            .think_ns = magnitude,
                            .held_ns = magnitude * 3,
                            .present_ns = magnitude / 2,
                            .gpu_ns = magnitude << 20,
                            .wait_ns = magnitude});
  }
  for (const TraceFrame& frame : trace.frames) trace.charges.push_back({frame.begin_ns, frame.gpu_ns});
  trace.lost = numbers.size();
  RC_ASSERT(*DecodeTrace(EncodeTrace(trace)) == trace);
}

// -- What a file may have wrong ----------------------------------------------------------------------------------

TEST(Trace, AnUnfinishedTraceIsReported) {
  Trace trace = KnownTrace();
  trace.complete = false;
  trace.recorded_until_ns = 0;
  const auto decoded = DecodeTrace(EncodeTrace(trace));
  ASSERT_TRUE(decoded);
  EXPECT_FALSE(decoded->complete);
  EXPECT_EQ(decoded->frames.size(), 2U);
}

TEST(Trace, ATruncatedTraceReportsTheOffsetAndTheCompletePart) {
  auto bytes = EncodeTrace(KnownTrace());
  Trace two = KnownTrace();
  two.lost = 0;
  two.complete = false;
  const std::size_t frames_end = EncodeTrace(two).size();
  const Error fault = FaultOf(std::span(bytes).first(frames_end + 1));
  EXPECT_EQ(fault.code, Errc::kProtocol);
  EXPECT_NE(fault.message.find("the 2 frames before it are whole"), std::string::npos) << fault.message;
  EXPECT_NE(fault.message.find("at byte " + std::to_string(frames_end)), std::string::npos) << fault.message;
}

TEST(Trace, EveryStrictPrefixDecodesOrIsRefused) {
  const auto whole = EncodeTrace(KnownTrace());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto decoded = DecodeTrace(std::span(whole).first(size));
    EXPECT_FALSE(decoded && decoded->complete) << size;
  }
}

TEST(Trace, OfAnotherMajorVersionIsRefusedAndOfALaterMinorOneRead) {
  auto bytes = EncodeTrace(KnownTrace());
  bytes[6] = std::byte{9};  // minor
  EXPECT_TRUE(DecodeTrace(bytes));
  bytes[4] = std::byte{2};  // major
  EXPECT_EQ(FaultOf(bytes).code, Errc::kVersionMismatch);
}

TEST(Trace, ForeignFilesAreRefused) {
  const std::string text = "Application,ProcessID\n";
  EXPECT_NE(FaultOf(std::as_bytes(std::span(text))).message.find("not a trace"), std::string::npos);
  EXPECT_EQ(FaultOf({}).code, Errc::kProtocol);
}

TEST(Trace, RecordsOfKindsThatCameLaterAreSkipped) {
  const auto decoded = DecodeTrace(WithRecord(200, {1, 2, 3}));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->processes.size(), 1U);
}

TEST(Trace, FieldsThatCameLaterAreSkipped) {
  const auto decoded = DecodeTrace(WithRecord(3, {17, 99, 99}));  // lost frames and two unknown numbers
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->lost, 17U);
}

TEST(Trace, ImpossibleFramesAreRefused) {
  constexpr std::uint64_t kHuge = kTraceNsMax - 1;
  for (const auto& [numbers, says] : std::vector<std::pair<std::vector<std::uint64_t>, const char*>>{
           {{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "process that isn't listed"},
           {{0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "impossible"},  // began before the first nanosecond
           {{0, 0, 0, kHuge, kHuge, kHuge, 0, 0, 0, 0, 0, 0}, "impossible"},
           {{0, 0, 2 * kHuge, 5, 0, 0, 0, 0, 0, 0, 0, 0}, "impossible"},
           {{0, 0, 0, kTraceNsMax, 0, 0, 0, 0, 0, 0, 0, 0}, "think time"},
           {{0, 0, 0, 0, 5, 0, 0, 0, 0, 6, 0, 0}, "held for less"},
           {{0, 0, 0, 0}, "shorter than its fields"},
           {{std::numeric_limits<std::uint64_t>::max(), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "out of range"}}) {
    const Error fault = FaultOf(WithRecord(2, numbers));
    EXPECT_EQ(fault.code, Errc::kProtocol);
    EXPECT_NE(fault.message.find(says), std::string::npos) << fault.message;
  }
}

TEST(Trace, DataAfterTheEndIsRefused) {
  auto bytes = EncodeTrace(KnownTrace());
  bytes.insert(bytes.end(), {std::byte{3}, std::byte{1}, std::byte{1}});
  EXPECT_NE(FaultOf(bytes).message.find("after the end"), std::string::npos);
}

TEST(Trace, TextsAreCutAtTheBound) {
  Trace trace;
  trace.header.device = std::string(1000, 'x');
  EXPECT_EQ(DecodeTrace(EncodeTrace(trace))->header.device.size(), kTraceTextBytesMax);
}

TEST(Trace, AMalformedHeaderIsRefused) {
  auto bytes = EncodeTrace(Trace{});
  bytes[kPrelude] = std::byte{0x7F};  // its length
  EXPECT_NE(FaultOf(bytes).message.find("cut off within the header"), std::string::npos);
  bytes[kPrelude] = std::byte{2};
  EXPECT_NE(FaultOf(bytes).message.find("header: "), std::string::npos);
}

}  // namespace
}  // namespace weir::proto
