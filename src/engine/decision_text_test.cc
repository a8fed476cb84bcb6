// SPDX-License-Identifier: Apache-2.0
// The texts of decisions, which users see and programs may read: they change only on purpose.
#include "engine/decision_text.h"

#include <gtest/gtest.h>

namespace weir::engine {
namespace {

using core::BalloonNote;
using core::OversellNote;

template <typename What>
std::string Said(What what) {
  const Note note = NoteOf({.device = "gpu", .vgpu = "game", .what = what});
  EXPECT_EQ(note.device, "gpu");
  EXPECT_EQ(note.vgpu, "game");
  return note.kind + ": " + note.text;
}

std::string SaidOf(OversellNote note, const std::string& from = "") {
  note.cap = 0.4;
  note.use = 0.38;
  note.rate = 51.23;
  return Said(SaleDecided{.note = note, .from = from});
}

TEST(DecisionText, OfSalesSaysWhatMovedAndWhy) {
  using Kind = OversellNote::Kind;
  EXPECT_EQ(SaidOf({.kind = Kind::kOverload, .promised = 60}),
            "overload: overloaded: 51.2 of 60.0 frames/s, 38 % of its cap of 40 % used");
  EXPECT_EQ(SaidOf({.kind = Kind::kOverload}),
            "overload: overloaded: 38 % of its cap of 40 % used, which is below its ceiling");
  EXPECT_EQ(SaidOf({.kind = Kind::kAtCeiling, .promised = 60}),
            "at-ceiling: needs more than was sold to it: 51.2 of 60.0 frames/s at its ceiling of 40 %");
  EXPECT_EQ(
      SaidOf({.kind = Kind::kWarning}),
      "warning: several are overloaded: this one should be moved to another device (38 % of its cap of 40 % used)");
  EXPECT_EQ(SaidOf({.kind = Kind::kRelieved}), "relieved: it need not be moved any more");
  EXPECT_EQ(SaidOf({.kind = Kind::kRegained, .amount = 0.05}, "job"), "regained: takes 5 % from job, to 40 %");
  EXPECT_EQ(SaidOf({.kind = Kind::kRegained, .amount = 0.05}), "regained: takes 5 % from what was free, to 40 %");
  EXPECT_EQ(SaidOf({.kind = Kind::kStolen, .amount = 0.05}, "job"),
            "stolen: overloaded, so 5 % of the unused cap of job, the lightest, goes to it: 40 %");
  EXPECT_EQ(SaidOf({.kind = Kind::kSellable, .amount = 0.3}),
            "sellable: a cap of up to 30 % can be sold: the load is 38 %");
  EXPECT_EQ(SaidOf({.kind = Kind::kSellable}), "sellable: nothing more can be sold: the load is 38 %");
  EXPECT_EQ(SaidOf({.kind = Kind::kBroken, .promised = 60}), "broken: its promise is broken: 51.2 of 60.0 frames/s");
  EXPECT_EQ(SaidOf({.kind = Kind::kBroken}),
            "broken: its promise is broken: 38 % of its cap of 40 % used, and it wants more");
  EXPECT_EQ(SaidOf({.kind = Kind::kKept}), "kept: its promise is kept again");
  EXPECT_EQ(Said(SellingChanged{core::OversellMode::kStrict}), "oversell: selling is strict");
}

TEST(DecisionText, OfPromisesNamesWhoGivesWay) {
  EXPECT_EQ(Said(PromisesSeen{.need = 0.81, .fit = true}), "fits: its promises fit again: they need 81 % of it");
  EXPECT_EQ(Said(PromisesSeen{.need = 1.04, .giving_way = {"a", "b"}}),
            "overpromised: its promises need 104 % of it; by weight all could be kept but those of: a, b");
  EXPECT_EQ(NamesInWords({"a", "b", "c", "d", "e", "f", "g"}), "a, b, c, d, e and 2 more");
  EXPECT_EQ(NamesInWords({}), "");
}

TEST(DecisionText, OfARequestForMemorySaysWhatIsHeld) {
  using Kind = BalloonNote::Kind;
  const auto said = [](Kind kind, core::SlotChange change = {}) {
    return Said(BalloonNote{.kind = kind,
                            .slots = 2,
                            .held = 6,
                            .wanted = 9,
                            .change = change,
                            .overhead = 1.25,
                            .steal = 12,
                            .copying = 3});
  };
  EXPECT_EQ(said(Kind::kGranted), "grown: asked for 9 slots, got 2 more: it holds 6 slots now");
  EXPECT_EQ(said(Kind::kPartly, {.overlap = 4}),
            "grown: asked for 9 slots, got 2 more, shared with others 4 times: it holds 6 slots now");
  EXPECT_EQ(said(Kind::kHas), "grown: asked for 9 slots, and it holds 6 slots");
  EXPECT_EQ(said(Kind::kAtMaximum),
            "not-grown: asked for 9 slots: it holds 6 slots, its maximum. To raise it: weir vgpu set NAME --memory "
            "MIN:MAX");
  EXPECT_EQ(said(Kind::kOverhead),
            "not-grown: asked for 9 slots: not now, overhead 1.25 of 2 (steal 12 %, copying 3.0 %); it holds 6 slots");
  EXPECT_EQ(said(Kind::kJustShrunk),
            "not-grown: asked for 9 slots: not now, it gave some up a moment ago; it holds 6 slots");
  EXPECT_EQ(said(Kind::kThrash),
            "not-grown: asked for 9 slots: not now, it has grown and shrunk too often; it holds 6 slots");
}

TEST(DecisionText, OfMemoryGivenUpSaysTheOverhead) {
  using Kind = BalloonNote::Kind;
  const auto said = [](Kind kind) {
    return Said(BalloonNote{.kind = kind,
                            .slots = 2,
                            .held = 1,
                            .used = 3,
                            .pressure = core::MemoryPressure::kMiddle,
                            .overhead = 0.62,
                            .steal = 12,
                            .copying = 3});
  };
  EXPECT_EQ(
      said(Kind::kShrunkIdle),
      "shrunk: gives up 2 slots that it doesn't use: it holds 1 slot, and uses 3; overhead 0.62 of 2 (steal 12 %, "
      "copying 3.0 %)");
  EXPECT_EQ(said(Kind::kShrunkOverhead),
            "shrunk: gives up 2 slots: it holds 1 slot; overhead 0.62 of 2 (steal 12 %, copying 3.0 %)");
  EXPECT_EQ(said(Kind::kBounds), "bounds: its bounds have changed: it holds 1 slot now");
  EXPECT_EQ(said(Kind::kPressure),
            "pressure: memory pressure is middle: overhead 0.62 of 2 (steal 12 %, copying 3.0 %)");
}

TEST(DecisionText, OfADevicesMemorySaysItsSize) {
  EXPECT_EQ(Said(MemorySizeChanged{16}), "memory: memory is elastic: 16 slots of 64 MiB");
  EXPECT_EQ(Said(MemorySizeChanged{}), "memory: memory is not elastic");
  EXPECT_EQ(Said(OthersMemoryChanged{.others = 10, .all = 16, .slots = 6}),
            "memory-others: other programs hold 10 of its 16 slots: 6 are shared out");
  EXPECT_EQ(Said(OthersMemoryChanged{.others = 16, .all = 16, .slots = 1}),
            "memory-others: other programs hold 16 of its 16 slots: 1 is shared out, because they are guaranteed; some "
            "may find less");
  EXPECT_EQ(
      Said(ExecutorEnded{seconds(60)}),
      "executor-ended: its executor has not given up device memory within 60 s, as it was ordered to (answer_ms of "
      "weir memory --params)");
}

TEST(DecisionText, OfLaunchesCountsThem) {
  EXPECT_EQ(Said(LaunchesRanInParts{.launches = 2, .parts = 8, .in = MiB(80), .out = MiB(40)}),
            "parts: 2 launches ran in 8 parts, needing more memory than it may have: copied 80.0 MiB in and 40.0 MiB "
            "out");
  EXPECT_EQ(Said(LaunchesRanInParts{.launches = 1, .parts = 1, .asked = true}),
            "parts: 1 launch ran in 1 part, as is asked of it: copied 0.0 MiB in and 0.0 MiB out");
  EXPECT_EQ(Said(LaunchesNotCut{.launches = 3}),
            "not-cut: 3 launches could not be cut: it fails, and its program gets the reason");
  EXPECT_EQ(Said(LaunchesNotCut{.launches = 1, .asked = true}),
            "not-cut: 1 launch could not be cut: a launch that fits runs whole, another fails");
}

}  // namespace
}  // namespace weir::engine
