// SPDX-License-Identifier: Apache-2.0
#include "cli/top_view.h"

#include <gtest/gtest.h>

namespace weir::cli {
namespace {

TEST(RenderTop, ShowsTheDeviceAndEachVgpu) {
  Snapshot snapshot;
  snapshot.devices.push_back({"embedded", "software", "reserve", "period_ms=1", "0-1", 1, 0.5});
  VgpuView a;
  a.name = "a";
  a.state = "running";
  a.settings = {50, 1, 60, 0, 0, 0};
  a.processes = {{42, "glxgears", "gl", "llvmpipe", "worker-cpu-time"}};
  a.totals.late_frames = 7;
  a.window = {59.9, 16.7, 17.4, 0.3, 0.5, 0.2};
  snapshot.vgpus.push_back(a);
  EXPECT_EQ(
      RenderTop(snapshot, false),
      "embedded  reserve period_ms=1  GPU ██████████           50 %\n"
      "\n"
      "VGPU  STATE    WEIGHT    CAP  PROMISE   FPS  MEAN ms  P99 ms   GPU  SHARE              WAIT  LATE  PROGRAMS\n"
      "a     running      50  100 %  60 fps   59.9    16.70   17.40  30 %   50 %  █████       20 %     7  "
      "glxgears(42)\n");
}

TEST(RenderTop, MarksARateBelowItsPromise) {
  Snapshot snapshot;
  VgpuView slow;
  slow.name = "slow";
  slow.settings.fps = 60;
  slow.window.fps = 31;
  snapshot.vgpus.push_back(slow);
  EXPECT_NE(RenderTop(snapshot, true).find("\x1b[31m31.0\x1b[0m"), std::string::npos);
}

TEST(RenderTop, SaysWhatToDoWhenThereIsNothingToShow) {
  EXPECT_NE(RenderTop({}, false).find("weir run"), std::string::npos);
}

}  // namespace
}  // namespace weir::cli
