// SPDX-License-Identifier: Apache-2.0
#include "tools/record/csv.h"

#include <gtest/gtest.h>

#include <map>

#include "cli/common/text_units.h"

namespace weir::cli {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;

/// A row's cells by the names of their columns.
std::map<std::string, std::string> Cells(const std::string& line) {
  const auto names = SplitList(CsvHeader().substr(0, CsvHeader().size() - 1), ',');
  const auto values = SplitList(line.substr(0, line.size() - 1), ',');
  EXPECT_EQ(names.size(), values.size());
  std::map<std::string, std::string> cells;
  for (std::size_t i = 0; i < names.size() && i < values.size(); ++i) cells[names[i]] = values[i];
  return cells;
}

const ProcessView kGears{42, "glxgears", "gl", "llvmpipe", "worker-cpu-time"};

FrameRow KnownRow() {
  return {.pid = 42,
          .surface = 1,
          .begin_ns = 110 * kNsPerMs,
          .present_ns = 114 * kNsPerMs,
          .submit_ns = 117 * kNsPerMs,
          .end_ns = 120 * kNsPerMs,
          .gpu_ns = 5 * kNsPerMs,
          .sync_ns = kNsPerMs / 2,
          .pace_ns = kNsPerMs,
          .wait_ns = kNsPerMs / 4,
          .predicted_ns = 2 * kNsPerMs,
          .interval_ns = 16 * kNsPerMs};
}

TEST(Csv, TheDelayOfALateFrameStartIsNotTheProgramsTime) {
  FrameRow row = KnownRow();
  row.start_delay_ns = 3 * kNsPerMs;
  auto cells = Cells(CsvRows(100 * kNsPerMs, 0).Row(row, kGears));
  EXPECT_EQ(cells["MsWeirStartDelay"], "3.0000");
  EXPECT_EQ(cells["MsCPUBusy"], "1.0000");
  EXPECT_EQ(cells["MsBetweenAppStart"], "10.0000");
}

TEST(Csv, SaysWhatEachPartOfAFrameTook) {
  auto cells = Cells(CsvRows(100 * kNsPerMs, 0).Row(KnownRow(), kGears));
  EXPECT_EQ(cells["Application"], "glxgears");
  EXPECT_EQ(cells["ProcessID"], "42");
  EXPECT_EQ(cells["SwapChainAddress"], "0x1");
  EXPECT_EQ(cells["PresentRuntime"], "GL");
  EXPECT_EQ(cells["CPUStartTime"], "10.0000");
  EXPECT_EQ(cells["TimeInSeconds"], "0.014000");
  EXPECT_EQ(cells["MsBetweenAppStart"], "10.0000");
  EXPECT_EQ(cells["MsCPUBusy"], "4.0000");
  EXPECT_EQ(cells["MsCPUWait"], "6.0000");
  EXPECT_EQ(cells["MsInPresentAPI"], "3.0000");
  EXPECT_EQ(cells["MsGPUBusy"], "5.0000");
  EXPECT_EQ(cells["MsWeirSync"], "0.5000");
  EXPECT_EQ(cells["MsWeirPace"], "1.0000");
  EXPECT_EQ(cells["MsWeirWait"], "0.2500");
  EXPECT_EQ(cells["MsWeirPredictedPresent"], "2.0000");
  EXPECT_EQ(cells["MsWeirTarget"], "16.0000");
}

TEST(Csv, WhatAHookCannotKnowIsNotAvailable) {
  FrameRow row = KnownRow();
  row.predicted_ns = row.interval_ns = 0;
  auto cells = Cells(CsvRows(0, 0).Row(row, kGears));
  for (const char* name :
       {"DisplayLatency", "DisplayedTime", "MsUntilDisplayed", "MsClickToPhotonLatency", "MsAnimationError",
        "MsGPULatency", "MsRenderPresentLatency", "MsBetweenPresents", "MsWeirPredictedPresent", "MsWeirTarget"})
    EXPECT_EQ(cells[name], "NA") << name;
}

TEST(Csv, MsBetweenPresentsIsOfTwoNeighboursOfOneSurface) {
  CsvRows rows(0, 0);
  FrameRow row = KnownRow();
  EXPECT_EQ(Cells(rows.Row(row, kGears))["MsBetweenPresents"], "NA") << "the first one";
  FrameRow next{.pid = 42,
                .surface = 1,
                .begin_ns = row.end_ns,
                .present_ns = 130 * kNsPerMs,
                .submit_ns = 130 * kNsPerMs,
                .end_ns = 131 * kNsPerMs};
  FrameRow other = next;
  other.surface = 2;
  EXPECT_EQ(Cells(rows.Row(other, kGears))["MsBetweenPresents"], "NA");
  EXPECT_EQ(Cells(rows.Row(next, kGears))["MsBetweenPresents"], "16.0000");
  next.begin_ns = 140 * kNsPerMs;  // a frame between the two was lost
  next.present_ns = next.submit_ns = next.end_ns = 150 * kNsPerMs;
  EXPECT_EQ(Cells(rows.Row(next, kGears))["MsBetweenPresents"], "NA");
}

TEST(Csv, GpuTimeIsNamedByWhatItsMeterMeasures) {
  const FrameRow row = KnownRow();
  for (const auto& [meter, busy, time] : std::vector<std::array<const char*, 3>>{{"worker-cpu-time", "5.0000", "NA"},
                                                                                 {"present-cpu-time", "5.0000", "NA"},
                                                                                 {"timer-query", "NA", "5.0000"},
                                                                                 {"wall-clock", "NA", "NA"},
                                                                                 {"", "NA", "NA"}}) {
    auto cells = Cells(CsvRows(0, 0).Row(row, {42, "p", "gl", "r", meter}));
    EXPECT_EQ(cells["MsGPUBusy"], busy) << meter;
    EXPECT_EQ(cells["MsGPUTime"], time) << meter;
    EXPECT_EQ(cells["MsWeirGPU"], "5.0000") << meter;
  }
}

TEST(Csv, ASurfacesFirstPresentHasNoFrameTime) {
  FrameRow row = KnownRow();
  row.begin_ns = row.present_ns;
  auto cells = Cells(CsvRows(0, 0).Row(row, kGears));
  EXPECT_EQ(cells["MsCPUBusy"], "NA");
  EXPECT_EQ(cells["MsBetweenAppStart"], "NA");
  EXPECT_EQ(cells["MsCPUWait"], "6.0000");
}

TEST(Csv, WithoutAPaceTheTargetIsThePromise) {
  FrameRow row = KnownRow();
  row.interval_ns = 0;
  EXPECT_EQ(Cells(CsvRows(0, 20).Row(row, kGears))["MsWeirTarget"], "20.0000");
}

TEST(Csv, NamesThatATenantChoseStayInTheirCell) {
  const std::string line = CsvRows(0, 0).Row(KnownRow(), {42, "a,\"b\"\n", "gl", "", ""});
  EXPECT_TRUE(line.starts_with("\"a,\"\"b\"\"?\",42,")) << line;
}

}  // namespace
}  // namespace weir::cli
