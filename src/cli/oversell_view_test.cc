// SPDX-License-Identifier: Apache-2.0
#include "cli/oversell_view.h"

#include <gtest/gtest.h>

namespace weir::cli {
namespace {

DeviceView Selling(const std::string& mode, double guaranteed, double oversold) {
  DeviceView device;
  device.name = "embedded";
  device.oversell.mode = mode;
  device.oversell.guaranteed = guaranteed;
  device.oversell.oversold = oversold;
  device.oversell.reason = "80 % is sold";
  return device;
}

TEST(OversellView, ShowsWhatCanBeSoldAndTheLimit) {
  EXPECT_EQ(OfferText(Selling("off", 1, 0)), "any cap: selling is off");
  EXPECT_EQ(OfferText(Selling("strict", 0.2, 0)), "20 %, guaranteed: 80 % is sold");
  EXPECT_EQ(OfferText(Selling("adaptive", 0.2, 0.4999)), "49 %, oversold; 20 % guaranteed: 80 % is sold");
  EXPECT_EQ(OfferText(Selling("adaptive", 0, 0.5)), "50 %, oversold: 80 % is sold");
  EXPECT_EQ(OfferText(Selling("static", 0, 0)), "nothing but best effort: 80 % is sold");
}

TEST(OversellView, ListsTheVgpusOfItsDevice) {
  VgpuView game;
  game.name = "game", game.device = "embedded", game.sale = "oversold", game.settings.cap = Share::FromFraction(0.5),
  game.cap_now = 1.0 / 3;
  VgpuView other = game;
  other.name = "other", other.device = "elsewhere";
  DeviceView device = Selling("static", 0, 0.5);
  device.oversell.net = -1e-6;
  const std::string text = OversellText(device, {game, other}, false);
  EXPECT_NE(text.find("game  oversold     50 %     33 %"), std::string::npos) << text;
  EXPECT_EQ(text.find("other"), std::string::npos) << text;
  EXPECT_NE(text.find("selling       static\n"), std::string::npos) << text;
  EXPECT_NE(text.find("earned        0.0000 = 0.0000 - 0.0000 penalty - 0.0000 cost\n"), std::string::npos) << text;
  EXPECT_EQ(OversellText(Selling("off", 1, 0), {}, false).find("earned"), std::string::npos);
}

TEST(OversellView, ShowsValuesBesideDefaults) {
  DeviceView device = Selling("static", 0, 0);
  device.oversell.params = {{"ratio", 1.5}};
  const std::string text = OversellParamsText({{"ratio", "devices", "of ceilings", 2, 1, 100, {}}}, {device}, false);
  EXPECT_NE(text.find("ratio           1.5        2  1 to 100 devices  of ceilings"), std::string::npos) << text;
}

}  // namespace
}  // namespace weir::cli
