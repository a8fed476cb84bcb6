// SPDX-License-Identifier: Apache-2.0
#include "dashboard/history.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "tests/harness/code_of.h"

namespace weir::dashboard {
namespace {

using nlohmann::json;

constexpr std::int64_t kBegin = 1'700'000'000'000;  // the beginning of a coarse span

Samples OneOf(double use, std::uint64_t id = 1, double frames = 0) {
  return {.layout = 1,
          .devices = {{.name = "gpu0", .figures = {use, 0.5, 1, 2, frames / 10, 0}}},
          .vgpus = {{.id = id, .figures = {use, 1, 60, 16, 17, 0, 0, frames, 0, 1, 0}}}};
}

json RowsOf(const std::string& text, std::size_t series = 0) { return json::parse(text)["series"].at(series)["rows"]; }

TEST(DashboardHistory, ARowIsTheMeanOfItsSpanAndTheLastCount) {
  History history;
  for (int i = 0; i < 4; ++i) history.Add(kBegin + 250 * i, OneOf(0.1 * i, 1, 100 + i));
  history.SeeNames({{1, "a", "gpu0"}});
  EXPECT_EQ(RowsOf(history.OfDevices(kBegin + 900)), json::array()) << "its span is not over";
  history.Add(kBegin + 1000, OneOf(9, 1, 200));
  const json devices = json::parse(history.OfDevices(kBegin + 1100));
  EXPECT_EQ(devices["format"], 1);
  EXPECT_EQ(devices["seconds"], 3600);
  EXPECT_EQ(devices["fields"], json(kDeviceFields));
  ASSERT_EQ(devices["series"].size(), 1U);
  EXPECT_EQ(devices["series"][0]["name"], "gpu0");
  EXPECT_EQ(devices["series"][0]["kind"], "device");
  const json rows = devices["series"][0]["rows"];
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0][0], kBegin);
  EXPECT_NEAR(rows[0][1].get<double>(), 0.15, 1e-6);
  EXPECT_NEAR(rows[0][5].get<double>(), 10.3, 1e-6) << "revenue is the last one";
  const auto vgpu = history.OfVgpu(kBegin + 1100, "a");
  ASSERT_TRUE(vgpu) << vgpu.error().message;
  EXPECT_EQ(json::parse(*vgpu)["fields"], json(kVgpuFields));
  EXPECT_EQ(json::parse(*vgpu)["series"][0]["kind"], "vgpu");
  EXPECT_EQ(RowsOf(*vgpu)[0][8], 103);
  EXPECT_EQ(RowsOf(*vgpu)[0][3], 60);
  EXPECT_EQ(testing::CodeOf(history.OfVgpu(kBegin, "b")), Errc::kNotFound);
  EXPECT_EQ(testing::CodeOf(history.OfVgpu(kBegin, "")), Errc::kNotFound);
  EXPECT_EQ(testing::CodeOf(history.OfDevice(kBegin, "b")), Errc::kNotFound);
}

TEST(DashboardHistory, SecondsForTenMinutesAndTenSecondsBeforeWithoutAGapOrAnOverlap) {
  History history;
  const int seconds = 2 * 3600 + 7;
  for (int i = 0; i < seconds; ++i) history.Add(kBegin + 1000LL * i + 500, OneOf(1));
  const std::int64_t now = kBegin + 1000LL * (seconds - 1) + 600;
  const json rows = RowsOf(history.OfDevices(now));
  std::int64_t at = rows[0][0];
  EXPECT_LE(at, now - 3590'000);
  EXPECT_GE(at, now - 3600'999);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const std::int64_t next = rows[i][0];
    EXPECT_EQ(next - at, at < now - 600'000 ? 10'000 : 1'000) << i;
    at = next;
  }
  EXPECT_EQ(at, now / 1000 * 1000 - 1000);
  EXPECT_EQ(history.rows_most(), kFineRowsMax + kCoarseRowsMax);
}

TEST(DashboardHistory, AGapIsAGap) {
  History history;
  for (int i = 0; i < 30; ++i) history.Add(kBegin + 1000 * i, OneOf(1));
  for (int i = 90; i < 100; ++i) history.Add(kBegin + 1000 * i, OneOf(1));
  std::set<std::int64_t> seen;
  for (const json& row : RowsOf(history.OfDevices(kBegin + 100'000)))
    seen.insert((row[0].get<std::int64_t>() - kBegin) / 1000);
  for (std::int64_t i = 0; i < 99; ++i) EXPECT_EQ(seen.contains(i), i < 30 || i >= 90) << i;
}

TEST(DashboardHistory, AFigureThatIsMissingIsNull) {
  History history;
  history.Add(kBegin, OneOf(NAN));
  history.Add(kBegin + 1000, OneOf(1));
  EXPECT_EQ(RowsOf(history.OfDevices(kBegin + 1000))[0][1], nullptr);
  EXPECT_EQ(RowsOf(history.OfDevices(kBegin + 1000))[0][2], 0.5);
}

TEST(DashboardHistory, ARemovedVgpuIsForgottenAfterAnHour) {
  History history;
  history.Add(kBegin, OneOf(0.5, 7));
  history.SeeNames({{7, "gone", "gpu0"}});
  for (int i = 1; i <= 3600; ++i) history.Add(kBegin + 1000LL * i, OneOf(1, 8));
  EXPECT_TRUE(history.OfVgpu(kBegin + 3'600'000, "gone"));
  EXPECT_EQ(history.vgpus(), 2U);
  history.Add(kBegin + 3'601'000, OneOf(1, 8));
  EXPECT_FALSE(history.OfVgpu(kBegin + 3'601'000, "gone"));
  EXPECT_EQ(history.vgpus(), 1U);
}

TEST(DashboardHistory, AnIdWithAnotherNameIsAnotherVgpu) {
  History history;
  history.Add(kBegin, OneOf(1));
  history.SeeNames({{1, "a", "gpu0"}});
  history.Add(kBegin + 1000, OneOf(1));
  history.SeeNames({{1, "a", "gpu0"}, {5, "unknown", "gpu0"}});
  EXPECT_EQ(RowsOf(*history.OfVgpu(kBegin + 1000, "a")).size(), 1U);
  history.SeeNames({{1, "b", "gpu0"}});
  EXPECT_FALSE(history.OfVgpu(kBegin + 1000, "a"));
  EXPECT_EQ(RowsOf(*history.OfVgpu(kBegin + 1000, "b")).size(), 0U);
}

TEST(DashboardHistory, AClockThatIsSetBackBeginsAgain) {
  History history;
  for (int i = 0; i < 5; ++i) history.Add(kBegin + 1000 * i, OneOf(1));
  history.Add(kBegin - 10'000, OneOf(1));
  history.Add(kBegin - 9'000, OneOf(1));
  const json rows = RowsOf(history.OfDevices(kBegin - 9'000));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0][0], kBegin - 10'000);
}

TEST(DashboardHistory, TheUseOfADeviceIsThatOfItsLargestVgpusAndOfTheOthers) {
  constexpr std::size_t kVgpus = kUseSeriesMax + 3;
  History history;
  std::vector<VgpuName> names;
  Samples samples = OneOf(0.9);
  samples.vgpus.clear();
  for (std::uint64_t id = 1; id <= kVgpus; ++id) {
    samples.vgpus.push_back({.id = id, .figures = {}});
    samples.vgpus.back().figures[0] = 0.001 * static_cast<double>(id);
    names.push_back({id, "v" + std::to_string(id), "gpu0"});
  }
  samples.vgpus.push_back({.id = 100, .figures = {0.5}});
  names.push_back({100, "elsewhere", "gpu1"});
  for (int i = 0; i < 3; ++i) history.Add(kBegin + 1000 * i, samples);
  history.SeeNames(names);
  const auto text = history.OfDevice(kBegin + 2000, "gpu0");
  ASSERT_TRUE(text) << text.error().message;
  const json use = json::parse(*text)["series"].at(1);
  EXPECT_EQ(use["kind"], "use");
  ASSERT_EQ(use["fields"].size(), kUseSeriesMax + 1);
  EXPECT_EQ(use["fields"][0], "v" + std::to_string(kVgpus));
  EXPECT_EQ(use["fields"].back(), "others");
  ASSERT_EQ(use["rows"].size(), 2U);
  EXPECT_EQ(use["rows"][0][0], kBegin);
  EXPECT_NEAR(use["rows"][0][1].get<double>(), 0.001 * kVgpus, 1e-6);
  EXPECT_NEAR(use["rows"][0].back().get<double>(), 0.001 + 0.002 + 0.003, 1e-6);
  EXPECT_EQ(text->find("elsewhere"), std::string::npos);
}

TEST(DashboardHistory, EventsAreBoundedAndCountedWhereTheyAreLost) {
  History history;
  for (std::uint64_t i = 1; i <= kHistoryEventsMax + 5; ++i)
    history.AddEvents(
        i == 1 ? 3 : 0,
        {{.number = i, .time_ms = 1, .device = i % 2 ? "gpu0" : "gpu1", .vgpu = "a", .kind = "sold", .text = "t"}});
  const json events = json::parse(history.OfDevices(kBegin))["events"];
  EXPECT_EQ(events["lost"], 8);
  EXPECT_EQ(events["events"].size(), kHistoryEventsMax);
  EXPECT_EQ(events["events"].back()["number"], kHistoryEventsMax + 5);
  history.Add(kBegin, OneOf(1));
  EXPECT_EQ(json::parse(*history.OfDevice(kBegin, "gpu0"))["events"]["events"].size(), kHistoryEventsMax / 2);
}

TEST(DashboardHistory, AFullNodeStaysWithinTheBound) {
  History history;
  Samples samples;
  for (std::size_t i = 0; i < kHistoryDevicesMax + 10; ++i)
    samples.devices.push_back({.name = "device-" + std::to_string(i) + std::string(200, 'x'), .figures = {}});
  for (std::uint64_t id = 1; id <= kHistoryVgpusMax + 100; ++id) samples.vgpus.push_back({.id = id, .figures = {}});
  // One sample in ten seconds makes a row of each resolution, so this fills an hour.
  for (int i = 0; i < 365; ++i) history.Add(kBegin + 10'000LL * i, samples);
  std::vector<VgpuName> names;
  for (const VgpuSample& vgpu : samples.vgpus) names.push_back({vgpu.id, std::string(255, 'n'), std::string(255, 'd')});
  history.SeeNames(names);
  for (std::size_t i = 0; i < 2 * kHistoryEventsMax; ++i)
    history.AddEvents(0, {{.number = i,
                           .time_ms = 0,
                           .device = std::string(128, 'd'),
                           .vgpu = std::string(128, 'v'),
                           .kind = std::string(128, 'k'),
                           .text = std::string(1000, 't')}});
  EXPECT_EQ(history.devices(), kHistoryDevicesMax);
  EXPECT_EQ(history.vgpus(), kHistoryVgpusMax);
  EXPECT_EQ(history.rows_most(), 364 + kCoarseRowsMax);
  EXPECT_LE(history.bytes(), kHistoryBytesMax);
  EXPECT_GT(history.bytes(), kHistoryBytesMax / 2);
}

/// For any samples at any times, bounds hold, rows are in order, and each mean is within the sampled values.
RC_GTEST_PROP(DashboardHistoryLaw, BoundsAndOrderHold, ()) {
  History history;
  std::int64_t now = kBegin;
  double least = 1, most = 0;
  const auto looks = *rc::gen::inRange(1, 40);
  for (int look = 0; look < looks; ++look) {
    now += *rc::gen::weightedOneOf<int>({{8, rc::gen::inRange(100, 3000)}, {1, rc::gen::inRange(3000, 900'000)}});
    const double use = *rc::gen::inRange(0, 1001) / 1000.0;
    least = std::min(least, use);
    most = std::max(most, use);
    const auto first = static_cast<std::uint64_t>(*rc::gen::inRange(1, 2000));
    const auto count = static_cast<std::uint64_t>(
        *rc::gen::weightedOneOf<int>({{9, rc::gen::inRange(0, 20)}, {1, rc::gen::inRange(500, 600)}}));
    Samples samples = OneOf(use, first);
    for (std::uint64_t id = first + 1; id < first + count; ++id) samples.vgpus.push_back({.id = id, .figures = {use}});
    history.Add(now, samples);
    RC_ASSERT(history.vgpus() <= kHistoryVgpusMax);
    RC_ASSERT(history.rows_most() <= kFineRowsMax + kCoarseRowsMax);
    RC_ASSERT(history.bytes() <= kHistoryBytesMax);
  }
  std::int64_t last = 0;
  for (const json& row : RowsOf(history.OfDevices(now))) {
    const std::int64_t at = row[0];
    RC_ASSERT(at > last);
    RC_ASSERT(at >= now - 3'601'000);
    RC_ASSERT(at <= now);
    RC_ASSERT(row[1].get<double>() >= least - 1e-6);
    RC_ASSERT(row[1].get<double>() <= most + 1e-6);
    last = at;
  }
}

}  // namespace
}  // namespace weir::dashboard
