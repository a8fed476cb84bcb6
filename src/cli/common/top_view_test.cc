// SPDX-License-Identifier: Apache-2.0
#include "cli/common/top_view.h"

#include <gtest/gtest.h>

#include "cli/common/text_units.h"

namespace weir::cli {
namespace {

Snapshot KnownSnapshot() {
  Snapshot snapshot;
  snapshot.devices.push_back({"embedded", "software", "reserve", "period_ms=1", "0-1", 1, 0.5});
  VgpuView a;
  a.name = "a";
  a.state = "running";
  a.settings = {.weight = 50, .fps = 60};
  a.processes = {{42, "glxgears", "gl", "llvmpipe", "worker-cpu-time"}};
  a.totals.frames = 700;
  a.totals.late_frames = 7;
  a.window.fps = 59.9;
  a.window.frame_ms_p50 = 16.7;
  a.window.frame_ms_p99 = 17.4;
  a.window.gpu_use = 0.3;
  a.window.wait_share = 0.2;
  a.window.pace_share = 0.1;
  snapshot.vgpus.push_back(a);
  return snapshot;
}

TopHistory HistoryOf(const Snapshot& snapshot, int samples = 1) {
  TopHistory history;
  for (int i = 0; i < samples; ++i) history.Add(snapshot);
  return history;
}

std::string Rendered(const Snapshot& snapshot, const TopOptions& options = {}) {
  return RenderTop(snapshot, HistoryOf(snapshot), options);
}

TEST(RenderTop, ShowsTheDeviceAndEachVgpu) {
  EXPECT_EQ(Rendered(KnownSnapshot()),
            "embedded  reserve period_ms=1  GPU █████      50 %                     ▅\n"
            "\n"
            "VGPU  STATE     GOT/PROMISED  RATE LATELY           P50 ms  P99 ms   GPU              WEIGHT/CAP   LATE  "
            "WAIT  PACE  PROGRAMS\n"
            "a     running  59.9/60 fps ✓                     █    16.7    17.4  30 %  ███           50/100 %  1.0 %  "
            "20 %  10 %  glxgears(42)\n");
}

TEST(RenderTop, InAsciiWhereTheTerminalHasNoMore) {
  const std::string text = Rendered(KnownSnapshot(), {.glyphs = Glyphs::kAscii});
  EXPECT_NE(text.find("#####....."), std::string::npos) << text;
  EXPECT_NE(text.find("59.9/60 fps ok"), std::string::npos) << text;
  for (const char c : text) EXPECT_EQ(c & 0x80, 0) << text;
}

TEST(RenderTop, MarksMissedPromises) {
  Snapshot snapshot = KnownSnapshot();
  snapshot.vgpus[0].window.fps = 31;
  snapshot.vgpus[0].settings.latency = milliseconds(17);
  const std::string text = Rendered(snapshot, {.color = true});
  EXPECT_NE(text.find("\x1b[31m31.0/60 fps ✗\x1b[0m"), std::string::npos) << text;
  EXPECT_NE(text.find("\x1b[31m17.4/17 ✗\x1b[0m"), std::string::npos) << text;
  snapshot.vgpus[0].window.fps = 0;
  EXPECT_NE(Rendered(snapshot).find(" 0.0/60 fps  "), std::string::npos) << "it shows nothing, and owes nothing";
}

TEST(RenderTop, APromiseThatThePolicyIgnoresIsNeitherKeptNorMissed) {
  Snapshot snapshot = KnownSnapshot();
  snapshot.vgpus[0].promise_ignored = true;
  snapshot.vgpus[0].settings.latency = milliseconds(17);
  for (const double fps : {0.0, 31.0, 2869.0}) {
    snapshot.vgpus[0].window.fps = fps;
    const std::string text = Rendered(snapshot);
    EXPECT_NE(text.find("/60 fps ignored"), std::string::npos) << text;
    EXPECT_EQ(text.find("✓"), std::string::npos) << text;
    EXPECT_EQ(text.find("✗"), std::string::npos) << text;
  }
}

TEST(RenderTop, AProgramThatAsksLessOftenMissesNoPromise) {
  Snapshot snapshot = KnownSnapshot();
  snapshot.vgpus[0].window.fps = 31;
  snapshot.vgpus[0].window.wait_share = 0.01;
  snapshot.vgpus[0].totals.late_frames = 700;
  EXPECT_NE(Rendered(snapshot).find("31.0/60 fps  "), std::string::npos) << Rendered(snapshot);
  snapshot.vgpus[0].totals.broken_frames = 350;
  EXPECT_NE(Rendered(snapshot).find("31.0/60 fps ✗"), std::string::npos) << "it waited for others";
}

TEST(RenderTop, WaitsAreThoseOfEachProcess) {
  Snapshot snapshot = KnownSnapshot();
  snapshot.vgpus[0].window.wait_share = 2.4;
  EXPECT_NE(Rendered(snapshot).find("  100 %"), std::string::npos) << "several threads of one process";
  snapshot.vgpus[0].processes.resize(4, snapshot.vgpus[0].processes[0]);
  EXPECT_NE(Rendered(snapshot).find("  60 %"), std::string::npos) << Rendered(snapshot);
}

TEST(RenderTop, ComparesTasksASecondWithThosePromised) {
  Snapshot snapshot = KnownSnapshot();
  snapshot.vgpus[0].settings = {.weight = 50, .tasks_per_s = 50};
  snapshot.vgpus[0].window.fps = 49.9;
  EXPECT_NE(Rendered(snapshot).find("49.9/50 tasks/s ✓"), std::string::npos) << Rendered(snapshot);
  snapshot.vgpus[0].window.fps = 30;
  EXPECT_NE(Rendered(snapshot).find("30.0/50 tasks/s ✗"), std::string::npos) << Rendered(snapshot);
}

TEST(RenderTop, DropsTheLeastImportantColumnsOnNarrowTerminals) {
  for (const std::size_t columns : {40, 60, 80, 100, 120, 200}) {
    const std::string text = Rendered(KnownSnapshot(), {.columns = columns});
    for (const std::string& line : SplitList(text, '\n')) EXPECT_LE(DisplayWidth(line), columns) << text;
    EXPECT_NE(text.find("59.9/60 fps ✓"), std::string::npos) << text;
  }
  const std::string narrow = Rendered(KnownSnapshot(), {.columns = 80});
  EXPECT_EQ(narrow.find("PROGRAMS"), std::string::npos) << narrow;
  EXPECT_NE(narrow.find("LATE"), std::string::npos) << narrow;
}

TEST(RenderTop, CutsNamesOfProgramsRatherThanLeavingThemOut) {
  Snapshot snapshot = KnownSnapshot();
  snapshot.vgpus[0].processes[0].program = std::string(100, 'x');
  const std::string text = Rendered(snapshot, {.columns = 140});
  EXPECT_NE(text.find("PROGRAMS"), std::string::npos) << text;
  EXPECT_NE(text.find("xxxx"), std::string::npos) << text;
  for (const std::string& line : SplitList(text, '\n')) EXPECT_LE(DisplayWidth(line), 140U);
}

TEST(RenderTop, ShowsTheWholeHistoryOnWideTerminals) {
  const Snapshot snapshot = KnownSnapshot();
  const TopHistory history = HistoryOf(snapshot, 60);
  std::string sixty;
  for (int i = 0; i < 60; ++i) sixty += "█";
  EXPECT_NE(RenderTop(snapshot, history, {.columns = 220}).find(sixty), std::string::npos);
  EXPECT_EQ(RenderTop(snapshot, history, {.columns = 130}).find(sixty), std::string::npos);
}

TEST(RenderTop, CountsOmittedLines) {
  Snapshot snapshot = KnownSnapshot();
  for (int i = 0; i < 30; ++i) snapshot.vgpus.push_back(snapshot.vgpus[0]);
  const std::string text = Rendered(snapshot, {.columns = 80, .rows = 20});
  EXPECT_EQ(SplitList(text, '\n').size(), 21U);  // and the empty text after the last line end
  EXPECT_NE(text.find("and 15 more\n"), std::string::npos) << text;
}

TEST(RenderTop, GivesAHintWhenThereIsNothingToShow) { EXPECT_NE(Rendered({}).find("weir run"), std::string::npos); }

TEST(TopHistory, RemembersTheLastSixtyPictures) {
  const Snapshot snapshot = KnownSnapshot();
  const TopHistory history = HistoryOf(snapshot, 100);
  EXPECT_EQ(history.OfVgpu("a").fps.size(), kHistorySamples);
  EXPECT_EQ(history.UseOfDevice("embedded").size(), kHistorySamples);
  EXPECT_TRUE(history.OfVgpu("nobody").fps.empty());
}

TEST(TopHistory, LateFramesAreOfThoseThatWereShownMeanwhile) {
  Snapshot snapshot = KnownSnapshot();
  TopHistory history = HistoryOf(snapshot);
  EXPECT_DOUBLE_EQ(history.OfVgpu("a").LateFraction(), 0.01) << "of all, while there is one picture";
  snapshot.vgpus[0].totals.frames += 100;
  snapshot.vgpus[0].totals.late_frames += 50;
  history.Add(snapshot);
  EXPECT_DOUBLE_EQ(history.OfVgpu("a").LateFraction(), 0.5);
}

TEST(TopHistory, ForgetsRemovedAndRestartedVgpus) {
  Snapshot snapshot = KnownSnapshot();
  TopHistory history = HistoryOf(snapshot, 5);
  snapshot.vgpus[0].totals.frames = 3;
  history.Add(snapshot);
  EXPECT_EQ(history.OfVgpu("a").fps.size(), 1U);
  history.Add({});
  EXPECT_TRUE(history.OfVgpu("a").fps.empty());
}

}  // namespace
}  // namespace weir::cli
