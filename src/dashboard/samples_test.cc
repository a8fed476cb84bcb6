// SPDX-License-Identifier: Apache-2.0
#include "dashboard/samples.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/code_of.h"

namespace weir::dashboard {
namespace {

using nlohmann::json;

/// Samples as the daemon sends them, with the fields in another order and one additional field.
json GoodSamples() {
  return json::parse(R"({"layout": 17, "device_fields": ["new", "gpu_use", "load", "sold", "held_slots", "revenue",
    "penalty"], "devices": [["gpu0", 9, 0.5, 0.25, 1.5, 3, 7, 1]], "vgpu_fields": ["fps", "gpu_use", "cap", "p50_ms",
    "p99_ms", "wait_share", "pace_share", "frames", "late", "processes", "held_slots"],
    "vgpus": [[3, 60, 0.24, null, 16.6, 17.9, 0.1, 0.02, 12000, 3, 1, 0]], "more": {}})");
}

TEST(DashboardSamples, FieldsAreFoundByTheirNames) {
  const auto samples = SamplesFrom(GoodSamples());
  ASSERT_TRUE(samples) << samples.error().message;
  EXPECT_EQ(samples->layout, 17U);
  ASSERT_EQ(samples->devices.size(), 1U);
  EXPECT_EQ(samples->devices[0].name, "gpu0");
  EXPECT_EQ(samples->devices[0].figures, (std::array<double, 6>{0.5, 0.25, 1.5, 3, 7, 1}));
  ASSERT_EQ(samples->vgpus.size(), 1U);
  EXPECT_EQ(samples->vgpus[0].id, 3U);
  EXPECT_EQ(samples->vgpus[0].figures[0], 0.24);
  EXPECT_TRUE(std::isnan(samples->vgpus[0].figures[1])) << "the daemon has no figure";
  EXPECT_EQ(samples->vgpus[0].figures[2], 60);
  EXPECT_EQ(samples->vgpus[0].figures[7], 12000);
}

TEST(DashboardSamples, WhatIsMalformedIsRefused) {
  const auto refused = [](const char* pointer, const json& value) {
    json body = GoodSamples();
    body[json::json_pointer(pointer)] = value;
    EXPECT_FALSE(SamplesFrom(body)) << pointer << value;
  };
  refused("/layout", -1);
  refused("/layout", "x");
  refused("/devices", 1);
  refused("/devices/0", "gpu0");
  refused("/devices/0", json::array());
  refused("/devices/0/0", 1);
  refused("/devices/0/0", std::string(256, 'x'));
  refused("/devices/0/2", "x");
  refused("/devices/0/2", 1e19);
  refused("/devices/0", json{"gpu0", 9, 0.5});
  refused("/device_fields/1", "other");
  refused("/device_fields", nullptr);
  refused("/vgpus/0/0", -3);
  refused("/vgpus/0/0", 3.5);
  refused("/vgpus/0/1", true);
  refused("/vgpus/0/1", -1e19);
  refused("/vgpu_fields/0", 1);
  for (const char* text : {"[]", "1", "{}", "null"}) EXPECT_FALSE(SamplesFrom(json::parse(text))) << text;
}

TEST(DashboardSamples, NamesAndEventsAreRead) {
  const auto names = VgpuNamesFrom(json::parse(R"({"vgpus": [{"id": 3, "name": "a", "device": "gpu0", "more": 1}]})"));
  ASSERT_TRUE(names) << names.error().message;
  ASSERT_EQ(names->size(), 1U);
  EXPECT_EQ((*names)[0].id, 3U);
  EXPECT_EQ((*names)[0].name + (*names)[0].device, "agpu0");
  for (const char* text : {"{}", R"({"vgpus": [1]})", R"({"vgpus": [{"id": "x"}]})", R"({"vgpus": [{"name": 1}]})"})
    EXPECT_FALSE(VgpuNamesFrom(json::parse(text))) << text;

  const auto page = EventPageFrom(json::parse(R"({"began_ns": 5, "next": 9, "lost": 2, "events": [{"number": 9,
    "time_ns": 1, "utc_ns": 1700000000123456789, "device": "gpu0", "kind": "sold", "vgpu": "a", "text": "t"}]})"));
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ(page->began_ns, 5);
  EXPECT_EQ(page->next, 9U);
  EXPECT_EQ(page->lost, 2U);
  ASSERT_EQ(page->events.size(), 1U);
  EXPECT_EQ(page->events[0].time_ms, 1'700'000'000'123);
  EXPECT_EQ(
      CompactText(EventsJson(2, {&page->events[0]})),
      R"({"lost":2,"events":[{"number":9,"time_ms":1700000000123,"device":"gpu0","vgpu":"a","kind":"sold","text":"t"}]})");
  for (const char* text : {"{}", R"({"events": [1]})", R"({"events": [], "began_ns": -1})",
                           R"({"events": [{"utc_ns": 18446744073709551615}]})", R"({"events": [{"text": 1}]})"})
    EXPECT_FALSE(EventPageFrom(json::parse(text))) << text;
}

TEST(DashboardSamples, LongTextsAreCutBetweenCharacters) {
  std::string text(DecisionEvent::kTextBytesMax - 1, 'x');
  text += "äöü";
  const json body{{"events", {{{"text", text}, {"vgpu", std::string(500, 'v')}}}}};
  const auto page = EventPageFrom(body);
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ(page->events[0].text, std::string(DecisionEvent::kTextBytesMax - 1, 'x') + "…");
  EXPECT_EQ(page->events[0].vgpu, std::string(DecisionEvent::kWordBytesMax, 'v') + "…");
  EXPECT_TRUE(json::accept(CompactText(EventsJson(0, {&page->events[0]}))));
}

}  // namespace
}  // namespace weir::dashboard
