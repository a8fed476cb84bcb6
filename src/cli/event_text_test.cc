// SPDX-License-Identifier: Apache-2.0
#include "cli/event_text.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace weir::cli {
namespace {

class EventText : public ::testing::Test {
 protected:
  static void In(const char* zone) {
    setenv("TZ", zone, 1);
    tzset();
  }
  ~EventText() override {
    unsetenv("TZ");
    tzset();
  }
};

TEST_F(EventText, HasLocalTimeKindVgpuAndText) {
  In("UTC");
  const EventView event{1'780'000'000'123'000'000, "embedded", "sold", "game", "a ceiling of 50 %"};
  EXPECT_EQ(EventLine(event, false), "2026-05-28 20:26:40.123  sold        game            a ceiling of 50 %\n");
  In("XYZ-2");
  EXPECT_TRUE(EventLine(event, false).starts_with("2026-05-28 22:26:40.123 "));
}

TEST_F(EventText, NamesTheDeviceOfAnEventWithoutVgpu) {
  const EventView event{0, "embedded", "oversell", "", "selling is strict"};
  EXPECT_NE(EventLine(event, false).find("  embedded  "), std::string::npos);
}

TEST_F(EventText, ReplacesTerminalControlCharacters) {
  const EventView event{0, "\x1b[2J", "\x1b]0;x\x07", "", "\x1b[31m"};
  EXPECT_EQ(EventLine(event, false).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace weir::cli
