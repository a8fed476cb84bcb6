// SPDX-License-Identifier: Apache-2.0
#include "proto/gate_layout.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <new>

#include "proto/attach_messages.h"
#include "tests/harness/golden.h"

namespace weir::proto {
namespace {

constexpr std::uint64_t kId = 0x1122334455667788;

/// A region as the daemon creates it: zeroed, with a header of layout 1.0.
template <typename Region>
std::unique_ptr<Region> NewRegion(std::uint32_t magic, std::uint64_t size_bytes) {
  auto region = std::make_unique<Region>();
  std::memset(static_cast<void*>(region.get()), 0, sizeof(Region));
  InitHeader(region->header, magic, size_bytes, kId);
  region->header.version_minor = 0;  // the golden bytes have layout 1.0, whatever the present minor version is
  return region;
}

std::vector<std::byte> BytesOf(const void* region, std::size_t size, std::size_t padded_to = 0) {
  std::vector<std::byte> bytes(std::max(size, padded_to));
  std::memcpy(bytes.data(), region, size);
  return bytes;
}

TEST(GateLayout, VgpuRegionHasItsGoldenBytes) {
  auto region = NewRegion<VgpuRegion>(kVgpuRegionMagic, kVgpuRegionBytes);
  region->mode = static_cast<std::uint32_t>(GateMode::kGated);
  region->doorbell_wanted = 1;
  region->heartbeat_ns = 0x0102030405060708;
  region->frame_interval_ns = 16'666'667;
  region->cap_ppm = 250'000;
  region->memory_limit_slots = 48;
  region->messages_sent = 0x2122232425262728;
  region->frame_sync = static_cast<std::uint32_t>(FrameSync::kFence);
  region->wake_word = 0x31323334;
  region->allowance_ns = -1'500'000;
  region->fail_opens = 0x4142434445464748;
  testing::ExpectGolden("gate_v1_vgpu.hex", BytesOf(region.get(), offsetof(VgpuRegion, memory)));
}

TEST(GateLayout, VgpuRegionOf11HasItsGoldenBytes) {
  auto region = NewRegion<VgpuRegion>(kVgpuRegionMagic, kVgpuRegionBytes);
  region->header.version_minor = 1;
  region->memory_limit_slots = 16;
  region->memory_elastic = 1;
  region->memory_here_slots = 0x11121314;
  region->memory_max_slots = 0x21222324;
  region->memory_order = 0x31323334;
  testing::ExpectGolden("gate_v1_1_vgpu.hex", BytesOf(region.get(), offsetof(VgpuRegion, memory)));
}

TEST(GateLayout, VgpuRegionOf18HasItsGoldenBytes) {
  auto region = NewRegion<VgpuRegion>(kVgpuRegionMagic, kVgpuRegionBytes);
  region->header.version_minor = 8;
  region->frame_interval_ns = 16'666'667;
  region->memory_order = 0x31323334;
  region->frame_start = static_cast<std::uint32_t>(FrameStart::kLate);
  testing::ExpectGolden("gate_v1_8_vgpu.hex", BytesOf(region.get(), offsetof(VgpuRegion, memory)));
}

TEST(GateLayout, MemoryWordsOf11HaveTheirGoldenBytes) {
  auto region = NewRegion<ProcessRegion>(kProcessRegionMagic, kProcessRegionBytes);
  region->header.version_minor = 1;
  MemoryWords& memory = region->memory;
  memory.order_done = 0x01020304;
  memory.resident_slots = 0x11121314;
  memory.need_bytes = 0x2122232425262728;
  memory.must_bytes = 0x3132333435363738;
  memory.in_use_bytes = 0x4142434445464748;
  memory.made_bytes = 0x5152535455565758;
  memory.switch_copy_ns = 0x6162636465666768;
  memory.copied_out = 0x7172737475767778;
  memory.copied_in = 0x0102030405060708;
  memory.evictions = 0x1112131415161718;
  memory.steal_ns = 0x2A2B2C2D2E2F2021;
  memory.elsewhere_ns = 0x3A3B3C3D3E3F3031;
  memory.threads = 0x4A4B4C4D;
  const auto bytes = BytesOf(region.get(), offsetof(ProcessRegion, records));
  testing::ExpectGolden("gate_v1_1_memory.hex", std::span(bytes).subspan(offsetof(ProcessRegion, memory)));
}

TEST(GateLayout, MemoryWordsOf12HaveTheirGoldenBytes) {
  auto region = NewRegion<ProcessRegion>(kProcessRegionMagic, kProcessRegionBytes);
  region->header.version_minor = 2;
  MemoryWords& memory = region->memory;
  memory.threads = 0x4A4B4C4D;
  memory.launches_not_cut = 0x01020304;
  memory.launches_in_parts = 0x1112131415161718;
  memory.parts = 0x2122232425262728;
  memory.parts_in = 0x3132333435363738;
  memory.parts_out = 0x4142434445464748;
  const auto bytes = BytesOf(region.get(), offsetof(ProcessRegion, records));
  testing::ExpectGolden("gate_v1_2_memory.hex", std::span(bytes).subspan(offsetof(ProcessRegion, memory)));
}

TEST(GateLayout, ProcessRegionHasItsGoldenBytes) {
  auto region = NewRegion<ProcessRegion>(kProcessRegionMagic, kProcessRegionBytes);
  region->waiting = 3;
  region->in_flight = 2;
  region->reserved_ns = 0x0102030405060708;
  region->meter = static_cast<std::uint32_t>(MeterKind::kWorkerCpuTime);
  region->paused = 1;
  region->records_dropped = 0x5152535455565758;
  region->gpu_ns_total = 0x6162636465666768;
  region->head = 0x7172737475767778;
  region->tail = 0x2122232425262728;
  std::strcpy(region->renderer, "llvmpipe (LLVM 15.0.6, 256 bits)");
  testing::ExpectGolden("gate_v1_process_head.hex", BytesOf(region.get(), offsetof(ProcessRegion, records)));
}

TEST(GateLayout, ProcessRegionOf14HasItsGoldenBytes) {
  auto region = NewRegion<ProcessRegion>(kProcessRegionMagic, kProcessRegionBytes);
  region->header.version_minor = 4;
  region->gpu_ns_total = 0x6162636465666768;
  region->work_items = 0x0102030405060708;
  region->memory_bytes = 0x1112131415161718;
  testing::ExpectGolden("gate_v1_4_process_head.hex", BytesOf(region.get(), offsetof(ProcessRegion, records)));
}

TEST(GateLayout, ProcessRegionOf15HasItsGoldenBytes) {
  auto region = NewRegion<ProcessRegion>(kProcessRegionMagic, kProcessRegionBytes);
  region->header.version_minor = 5;
  region->memory_bytes = 0x1112131415161718;
  region->parts_decide_us = 0x21222324;
  region->parts_compile_us = 0x31323334;
  region->resident_bytes = 0x4142434445464748;
  testing::ExpectGolden("gate_v1_5_process_head.hex", BytesOf(region.get(), offsetof(ProcessRegion, records)));
}

TEST(GateLayout, ProcessRegionOf18HasItsGoldenBytes) {
  auto region = NewRegion<ProcessRegion>(kProcessRegionMagic, kProcessRegionBytes);
  region->header.version_minor = 8;
  region->resident_bytes = 0x4142434445464748;
  region->off_screen = 0x51525354;
  testing::ExpectGolden("gate_v1_8_process_head.hex", BytesOf(region.get(), offsetof(ProcessRegion, records)));
}

TEST(GateLayout, ProcessRegionOf19HasItsGoldenBytes) {
  auto region = NewRegion<ProcessRegion>(kProcessRegionMagic, kProcessRegionBytes);
  region->header.version_minor = 9;
  region->off_screen = 0x51525354;
  region->memory_refused = 0x61626364;
  testing::ExpectGolden("gate_v1_9_process_head.hex", BytesOf(region.get(), offsetof(ProcessRegion, records)));
}

TEST(GateLayout, VgpuRegionOf110HasItsGoldenBytes) {
  auto region = NewRegion<VgpuRegion>(kVgpuRegionMagic, kVgpuRegionBytes);
  region->header.version_minor = 10;
  region->memory.others_pages = 0x01020304;
  region->memory.words[0] = 0x1112131421222324;
  region->memory.words[kMemoryWords - 1] = 0x3132333441424344;
  testing::ExpectGolden("gate_v1_10_vgpu.hex", BytesOf(region.get(), sizeof *region));
}

TEST(GateLayout, ProcessRegionOf110HasItsGoldenBytes) {
  auto region = NewRegion<ProcessRegion>(kProcessRegionMagic, kProcessRegionBytes);
  region->header.version_minor = 10;
  region->memory_bytes = 0x1112131415161718;
  region->memory_refused = 0x61626364;
  region->memory_word = 0x71727374;
  testing::ExpectGolden("gate_v1_10_process_head.hex", BytesOf(region.get(), offsetof(ProcessRegion, records)));
}

TEST(GateLayout, ExecutorsRegionOf111HasItsGoldenBytes) {
  auto region = NewRegion<VgpuRegion>(kVgpuRegionMagic, kVgpuRegionBytes);
  region->header.version_minor = 11;
  region->memory.others_pages = 0x51525354;
  testing::ExpectGolden("gate_v1_11_executors.hex", BytesOf(region.get(), sizeof *region));
}

Record KnownRecord() {
  return {.sequence = 0x0102030405060708,
          .kind = static_cast<std::uint32_t>(RecordKind::kFrame),
          .surface = 7,
          .begin_ns = 0x1112131415161718,
          .present_ns = 0x2122232425262728,
          .submit_ns = 0x2A2B2C2D2E2F2021,
          .end_ns = 0x3132333435363738,
          .gpu_ns = 0x4142434445464748,
          .sync_ns = 0x4A4B4C4D4E4F4041,
          .pace_ns = 0x4958575655545352,
          .wait_ns = 0x5152535455565758,
          .predicted_ns = 0x5A5B5C5D5E5F5051,
          .interval_ns = 0x6A6B6C6D6E6F6061,
          .reserved_ns = 0x6162636465666768,
          .tasks = 0,
          .reserved0 = {},
          .start_delay_ns = 0,
          .reserved = {}};
}

TEST(GateLayout, RecordHasItsGoldenBytes) {
  const Record record = KnownRecord();
  testing::ExpectGolden("gate_v1_record.hex", BytesOf(&record, sizeof record));
}

TEST(GateLayout, RecordOfABatchHasItsGoldenBytes) {
  Record record = KnownRecord();
  record.tasks = kRecordCountsTasks | 0x0A0B;
  testing::ExpectGolden("gate_v1_3_record.hex", BytesOf(&record, sizeof record));
}

TEST(GateLayout, RecordOfALateFrameStartHasItsGoldenBytes) {
  Record record = KnownRecord();
  record.start_delay_ns = 0x7172737475767778;
  testing::ExpectGolden("gate_v1_8_record.hex", BytesOf(&record, sizeof record));
}

TEST(GateLayout, RecordsLieOneAfterTheOtherBehindTheHead) {
  auto region = NewRegion<ProcessRegion>(kProcessRegionMagic, kProcessRegionBytes);
  region->records[kRingRecords - 1] = KnownRecord();
  const auto bytes = BytesOf(region.get(), sizeof *region);
  ASSERT_EQ(bytes.size(), 512u + 1024u * 128u);
  testing::ExpectGolden("gate_v1_record.hex", std::span(bytes).subspan(512 + 1023 * 128));
}

TEST(GateLayout, TurnRegionHasItsGoldenBytes) {
  auto region = NewRegion<TurnRegion>(kTurnRegionMagic, kTurnRegionBytes);
  region->holder = 0x0102030405060708;
  region->turn_word = 0x11121314;
  region->waiting = 5;
  region->held_since_ns = 0x2122232425262728;
  region->quantum_ns = 2'000'000;
  region->max_hold_ns = 20'000'000;
  region->hand_overs = 0x3132333435363738;
  region->order[0] = 0x4142434445464748;
  region->order[1] = 0x5152535455565758;
  region->order[std::size(region->order) - 1] = 0x6162636465666768;
  testing::ExpectGolden("gate_v1_turn.hex", BytesOf(region.get(), sizeof *region, kTurnRegionBytes));
}

// Every value is written out, so that this list and the golden one can only be changed deliberately.
std::map<std::string, std::uint64_t> Enumerators() {
  std::map<std::string, std::uint64_t> all{
      {"GateMode open", static_cast<std::uint64_t>(GateMode::kOpen)},
      {"GateMode gated", static_cast<std::uint64_t>(GateMode::kGated)},
      {"GateMode paused", static_cast<std::uint64_t>(GateMode::kPaused)},
      {"FrameSync auto", static_cast<std::uint64_t>(FrameSync::kAuto)},
      {"FrameSync none", static_cast<std::uint64_t>(FrameSync::kNone)},
      {"FrameSync flush", static_cast<std::uint64_t>(FrameSync::kFlush)},
      {"FrameSync fence", static_cast<std::uint64_t>(FrameSync::kFence)},
      {"FrameSync finish", static_cast<std::uint64_t>(FrameSync::kFinish)},
      {"FrameStart early", static_cast<std::uint64_t>(FrameStart::kEarly)},
      {"FrameStart late", static_cast<std::uint64_t>(FrameStart::kLate)},
      {"MeterKind none", static_cast<std::uint64_t>(MeterKind::kNone)},
      {"MeterKind worker-cpu-time", static_cast<std::uint64_t>(MeterKind::kWorkerCpuTime)},
      {"MeterKind timer-query", static_cast<std::uint64_t>(MeterKind::kTimerQuery)},
      {"MeterKind wall-clock", static_cast<std::uint64_t>(MeterKind::kWallClock)},
      {"MeterKind present-cpu-time", static_cast<std::uint64_t>(MeterKind::kPresentCpuTime)},
      {"RecordKind frame", static_cast<std::uint64_t>(RecordKind::kFrame)},
      {"RecordKind launch", static_cast<std::uint64_t>(RecordKind::kLaunch)},
      {"RecordKind allocation", static_cast<std::uint64_t>(RecordKind::kAllocation)},
      {"RecordKind eviction", static_cast<std::uint64_t>(RecordKind::kEviction)},
      {"WelcomeDescriptor vgpu-region", kVgpuRegionFd},
      {"WelcomeDescriptor process-region", kProcessRegionFd},
      {"WelcomeDescriptor doorbell", kDoorbellFd},
      {"Api unknown", static_cast<std::uint64_t>(Api::kUnknown)},
      {"Api gl", static_cast<std::uint64_t>(Api::kGl)},
      {"Api vulkan", static_cast<std::uint64_t>(Api::kVulkan)},
      {"Api cuda", static_cast<std::uint64_t>(Api::kCuda)},
      {"Api opencl", static_cast<std::uint64_t>(Api::kOpenCl)},
      {"Api module", static_cast<std::uint64_t>(Api::kModule)},
      {"CommandKind pause", static_cast<std::uint64_t>(CommandKind::kPause)},
      {"CommandKind resume", static_cast<std::uint64_t>(CommandKind::kResume)},
      {"CommandKind evict", static_cast<std::uint64_t>(CommandKind::kEvict)},
      {"CommandKind drain", static_cast<std::uint64_t>(CommandKind::kDrain)},
      {"CommandKind migrate", static_cast<std::uint64_t>(CommandKind::kMigrate)},
      {"CommandKind detach", static_cast<std::uint64_t>(CommandKind::kDetach)},
  };
  for (const ErrcEntry& entry : kErrcTable)
    all["Errc " + std::string(entry.name)] = static_cast<std::uint64_t>(entry.code);
  return all;
}

TEST(GateLayout, PublishedEnumeratorsKeepTheirValues) {
  std::map<std::string, std::uint64_t> published;
  std::ifstream file(testing::GoldenPath("published_enums_v1.txt"));
  ASSERT_TRUE(file);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t space = line.rfind(' ');
    published[line.substr(0, space)] = std::stoull(line.substr(space + 1));
  }
  EXPECT_EQ(Enumerators(), published) << "published_enums_v1.txt";
}

TEST(GateLayout, EnumeratorsAreNamedAsTheyWerePublished) {
  for (std::uint32_t i = 0; i <= kMeterKindMax; ++i)
    EXPECT_EQ(Enumerators().at(std::string("MeterKind ") + NameOf(static_cast<MeterKind>(i))), i);
  for (std::uint16_t i = 0; i <= kApiMax; ++i)
    EXPECT_EQ(Enumerators().at(std::string("Api ") + NameOf(static_cast<Api>(i))), i);
}

TEST(GateLayout, TheLargestEnumeratorIsTheLastOne) {
  EXPECT_EQ(kGateModeMax, static_cast<std::uint32_t>(GateMode::kPaused));
  EXPECT_EQ(kFrameSyncMax, static_cast<std::uint32_t>(FrameSync::kFinish));
  EXPECT_EQ(kFrameStartMax, static_cast<std::uint32_t>(FrameStart::kLate));
  EXPECT_EQ(kMeterKindMax, static_cast<std::uint32_t>(MeterKind::kPresentCpuTime));
  EXPECT_EQ(kApiMax, static_cast<std::uint16_t>(Api::kModule));
  EXPECT_EQ(kCommandKindMax, static_cast<std::uint16_t>(CommandKind::kDetach));
  EXPECT_STREQ(NameOf(static_cast<MeterKind>(kMeterKindMax + 1)), "unknown");
  EXPECT_STREQ(NameOf(static_cast<Api>(kApiMax + 1)), "unknown");
}

// -- Headers from untrusted sources --------------------------------------------------------------------------------

RegionHeader GoodHeader() {
  RegionHeader header{};
  InitHeader(header, kVgpuRegionMagic, kVgpuRegionBytes, 7);
  return header;
}

TEST(HeaderFault, AGoodHeaderHasNone) {
  EXPECT_EQ(HeaderFault(GoodHeader(), kVgpuRegionMagic, kVgpuRegionBytes), nullptr);
}

TEST(HeaderFault, AnotherMinorVersionIsAccepted) {
  for (const std::uint16_t minor : {0, 1, 2, 65'535}) {
    RegionHeader header = GoodHeader();
    header.version_minor = minor;
    EXPECT_EQ(HeaderFault(header, kVgpuRegionMagic, kVgpuRegionBytes), nullptr) << minor;
  }
}

TEST(HeaderFault, AnotherMajorVersionIsRefused) {
  for (const std::uint16_t major : {0, 2, 65'535}) {
    RegionHeader header = GoodHeader();
    header.version_major = major;
    EXPECT_STREQ(HeaderFault(header, kVgpuRegionMagic, kVgpuRegionBytes), "another major version");
  }
}

TEST(HeaderFault, AnotherKindOfRegionIsRefused) {
  const RegionHeader header = GoodHeader();
  EXPECT_STREQ(HeaderFault(header, kProcessRegionMagic, kVgpuRegionBytes), "wrong magic");
  EXPECT_STREQ(HeaderFault(header, kTurnRegionMagic, kVgpuRegionBytes), "wrong magic");
  EXPECT_STREQ(HeaderFault(RegionHeader{}, kVgpuRegionMagic, kVgpuRegionBytes), "wrong magic");
}

TEST(HeaderFault, ASizeThatIsNotTheMappedOneIsRefused) {
  const RegionHeader header = GoodHeader();
  for (const std::uint64_t mapped : {std::uint64_t{0}, kVgpuRegionBytes - 1, kVgpuRegionBytes + 1, ~std::uint64_t{0}})
    EXPECT_STREQ(HeaderFault(header, kVgpuRegionMagic, mapped), "stated size differs from the mapped size") << mapped;
}

TEST(HeaderFault, IdZeroIsRefused) {
  RegionHeader header = GoodHeader();
  header.id = 0;
  EXPECT_STREQ(HeaderFault(header, kVgpuRegionMagic, kVgpuRegionBytes), "id is zero");
}

}  // namespace
}  // namespace weir::proto
