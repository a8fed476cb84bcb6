// SPDX-License-Identifier: Apache-2.0
#include "tools/record/summary_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weir::cli {
namespace {

RecordingSummary KnownRecording() {
  RecordingSummary s;
  s.vgpu.name = "game";
  s.vgpu.settings.fps = 60;
  s.ended_by = "time";
  s.recorded = seconds(5);
  s.figures.frames = 300;
  s.figures.fps = 60;
  s.figures.p50 = s.figures.p95 = milliseconds(16);
  s.figures.p99 = s.figures.max = milliseconds(20);
  s.figures.input_p50 = milliseconds(9);
  s.figures.input_p99 = microseconds(12'500);
  s.figures.low_1_percent = {50, 45, 44};
  s.figures.low_0_1_percent = {40, 39, 38};
  s.figures.late = 3;
  s.surfaces = 1;
  s.processes = {{{42, "glxgears", "gl", "llvmpipe", "worker-cpu-time"}, 300}};
  s.files = {"run.csv"};
  return s;
}

TEST(RecordingSummary, NamesTheThreeLowsApart) {
  EXPECT_EQ(SummaryText(KnownRecording()),
            "vGPU 'game', 5 s: 300 frames of glxgears(42), 1 surface\n"
            "  mean FPS (frames / time)                                    60.0 fps\n"
            "  1 % low, percentile (1 / p99)                               50.0 fps\n"
            "  1 % low, mean of slowest 1 % frames                         45.0 fps\n"
            "  1 % low, integral (worst frames filling 1 % of the time)    44.0 fps\n"
            "  frame time p50, p95, p99, max          16.00  16.00  20.00  20.00 ms\n"
            "  input to present p50, p99                             9.00  12.50 ms\n"
            "  late frames (60 fps)                                3 of 300 (1.0 %)\n"
            "  presents mispredicted (2 ms)                   nothing was predicted\n"
            "  frames lost                                                        0\n"
            "wrote run.csv\n");
}

TEST(RecordingSummary, HasEveryFigureForScripts) {
  const auto summary = SummaryJson(KnownRecording());
  EXPECT_EQ(summary["fps_low_1_percent"]["integral"], 44);
  EXPECT_EQ(summary["fps_low_0_1_percent"]["slowest_mean"], 39);
  EXPECT_EQ(summary["late_frames"], 3);
  EXPECT_EQ(summary["frame_ms"]["p99"], 20);
  EXPECT_EQ(summary["input_to_present_ms"]["p50"], 9);
  EXPECT_EQ(summary["input_to_present_ms"]["p99"], 12.5);
  EXPECT_EQ(summary["processes"][0]["program"], "glxgears");
}

TEST(RecordingSummary, WithoutFramesThereAreNoFigures) {
  RecordingSummary s;
  s.vgpu.name = "idle";
  EXPECT_EQ(SummaryText(s),
            "vGPU 'idle', 0 ms: 0 frames\n"
            "  frames lost                                                        0\n");
}

}  // namespace
}  // namespace weir::cli
