// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/demo/summary.h"
#include "tools/demo/svg_plot.h"

namespace weir::cli {
namespace {

/// Three programs, two policies, `frames` frames each of `frames` a second.
DemoResult Made(std::int64_t frames) {
  DemoResult result;
  result.workloads = {{"a<b>", 50, 0, {"glmark2", "-b", "\"x\"&"}, ""},
                      {"phong", 30, 0, {"p"}, ""},
                      {"gears", 20, 60, {"glxgears"}, ""}};
  result.facts = {{"machine", "<script>alert(1)</script>"}};
  for (const char* policy : {"none", "proportional-share"}) {
    Phase phase{policy, 0, 1'000'000'000, {}};
    for (std::int64_t program = 0; program < 3; ++program) {
      ProgramPhase made{{}, {frames, program, 100 * (program + 1), 1000}, 0};
      const std::int64_t each = 1'000'000'000 / frames;
      for (std::int64_t i = 0; i < frames; ++i) made.frames.push_back({i * each, each + i % 7 * 1000, 100});
      phase.programs.push_back(made);
    }
    result.phases.push_back(phase);
  }
  return result;
}

/// Checks that every opened element is closed in order; void elements are skipped.
void ExpectWellFormed(const std::string& html) {
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const std::size_t end = html.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = html.substr(at + 1, end - at - 1);
    if (tag[0] == '!' || tag.back() == '/' || tag.starts_with("meta")) continue;
    if (tag[0] != '/') {
      open.push_back(tag.substr(0, tag.find_first_of(" \n")));
      continue;
    }
    ASSERT_FALSE(open.empty()) << "closes what isn't open: " << tag;
    ASSERT_EQ(open.back(), tag.substr(1)) << html.substr(at, 80);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
}

std::size_t Count(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Report, IsWellFormedAndHasARowAndTwoPlotsForEachPolicy) {
  const std::string html = RenderReport(Made(100));
  ExpectWellFormed(html);
  EXPECT_EQ(Count(html, "<tr>"), 1U + 3 * 2);
  EXPECT_EQ(Count(html, "<svg"), 2U * 2);
  EXPECT_EQ(Count(html, "class=\"band"), 3U * 2);
  EXPECT_EQ(Count(html, "class=\"area"), 3U * 2);
  EXPECT_NE(html.find("late after 17.7 ms"), std::string::npos);
  EXPECT_NE(html.find("time, s"), std::string::npos);
  EXPECT_NE(html.find("prefers-color-scheme: dark"), std::string::npos);
}

TEST(Report, EscapesNamesOfProgramsAndMachines) {
  const std::string html = RenderReport(Made(10));
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("a<b>"), std::string::npos);
  EXPECT_NE(html.find("a&lt;b&gt;"), std::string::npos);
  EXPECT_NE(html.find("&quot;x&quot;&amp;"), std::string::npos);
}

TEST(Report, RefersToNoOtherFile) {
  const std::string html = RenderReport(Made(10));
  for (const char* outside : {"http:", "https:", "src=", "href=", "url(", "@import"})
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
}

TEST(Report, StaysSmallHoweverManyFramesThereWere) { EXPECT_LT(RenderReport(Made(100'000)).size(), 300'000U); }

TEST(Report, IsWellFormedWithoutFramesAndWithoutPhases) {
  DemoResult result = Made(10);
  for (Phase& phase : result.phases)
    for (ProgramPhase& program : phase.programs) program = {};
  ExpectWellFormed(RenderReport(result));
  result.phases.clear();
  ExpectWellFormed(RenderReport(result));
}

TEST(Scale, EncompassesTheSlowestAndTheFastestFrame) {
  const MsScale scale = ScaleFor({{{"a", {{0, 0.7, 3, 1}}, 0}}, {{"a", {{0, 2, 33, 3}}, 0}}});
  EXPECT_DOUBLE_EQ(scale.low_ms, 0.5);
  EXPECT_DOUBLE_EQ(scale.high_ms, 50);
  const MsScale flat = ScaleFor({{{"a", {{0, 5, 5, 5}}, 0}}});
  EXPECT_LT(flat.low_ms, flat.high_ms);
}

TEST(Summary, ListsEveryProgramUnderEveryPolicy) {
  const std::string text = RenderSummary(Made(100), false);
  EXPECT_EQ(Count(text, "none"), 3U);
  EXPECT_EQ(Count(text, "proportional-share"), 3U);
  EXPECT_NE(text.find("33.3 %"), std::string::npos) << text;
  EXPECT_NE(text.find("2 (2.0 %)"), std::string::npos) << text;
}

TEST(Summary, HasTheSameNumbersAsJson) {
  const nlohmann::json summary = SummaryJson(Made(100));
  const nlohmann::json& gears = summary.at("phases").at(1).at("programs").at(2);
  EXPECT_EQ(gears.at("name"), "gears");
  EXPECT_DOUBLE_EQ(gears.at("promise").get<double>(), 0.2);
  EXPECT_DOUBLE_EQ(gears.at("got").get<double>(), 0.5);
  EXPECT_EQ(gears.at("late_frames"), 2);
}

TEST(Lateness, FollowsTheDefinitionOfTheControlApi) {
  Workload workload;
  EXPECT_EQ(LateAfterMs(workload), 0);
  workload.fps = 50;
  EXPECT_DOUBLE_EQ(LateAfterMs(workload), 21);
}

TEST(Report, LabelsEveryFigureOfEmulatedDevices) {
  DemoResult result = Made(10);
  result.emulated = true;
  result.workloads[2].device = "emulated1";
  const std::string html = RenderReport(result);
  ExpectWellFormed(html);
  for (const char* heading : {"Promised and got", "Share of GPU time", "Frame times", "Farthest from its promise"})
    for (std::size_t at = html.find(std::string(">") + heading); at != std::string::npos;
         at = html.find(std::string(">") + heading, at + 1))
      EXPECT_EQ(html.substr(at + 1 + std::string(heading).size(), 11), " (emulated)") << html.substr(at, 60);
  EXPECT_TRUE(SummaryJson(result)["emulated"].get<bool>());
  EXPECT_EQ(RenderReport(Made(10)).find("emulated"), std::string::npos);
}

TEST(Judged, PromisesAreRelativeToTheProgramsOfOneDevice) {
  DemoResult result = Made(10);
  result.workloads[2].device = "emulated1";
  EXPECT_DOUBLE_EQ(Judge(result, 0, 0).promise, 50.0 / 80);
  EXPECT_DOUBLE_EQ(Judge(result, 0, 2).promise, 1);
  EXPECT_DOUBLE_EQ(Judge(result, 0, 2).got, 1);
}

}  // namespace
}  // namespace weir::cli
