// SPDX-License-Identifier: Apache-2.0
// Programs on a modelled card, as the emulator runs it for real programs: the GL driver's queue, meters, and the
// driver's account.
#include <gtest/gtest.h>

#include "sim/simulation.h"

namespace weir::sim {
namespace {

constexpr core::DeviceConfig kCard{
    .arbitration = core::Arbitration::kTimeSlice, .slice = milliseconds(2), .switch_cost = microseconds(20)};

Tenant CardProgram(const std::string& name, int gpu_ms, Meter meter) {
  Tenant tenant;
  tenant.name = name;
  tenant.scenes = {{.cpu = microseconds(100), .gpu = milliseconds(gpu_ms)}};
  tenant.present = microseconds(20);
  tenant.frames_ahead = 2;
  tenant.meter = meter;
  return tenant;
}

Scenario OnACard(std::vector<Tenant> tenants, Duration account) {
  Scenario scenario;
  scenario.name = "card";
  scenario.span = seconds(20);
  scenario.devices.front().model = kCard;
  scenario.devices.front().account = account;
  scenario.tenants = std::move(tenants);
  return scenario;
}

RunRecord PlayCard(const Scenario& scenario, const std::string& policy) {
  Run run{.label = policy, .policy = policy};
  run.params = *core::CheckParams(**core::FindPolicy(policy), {});
  Simulation simulation(scenario, run, {});
  simulation.RunUntil(scenario.span);
  return simulation.Take();
}

double UseOf(const RunRecord& run, std::size_t tenant) {
  return static_cast<double>(run.tenants[tenant].gpu_ns) / static_cast<double>(run.span_ns);
}

TEST(EmulatedCard, ClientsTakeTurnsWhateverTheirFramesCost) {
  const RunRecord run =
      PlayCard(OnACard({CardProgram("a", 4, Meter::kCall), CardProgram("b", 16, Meter::kCall)}, {}), "none");
  EXPECT_NEAR(UseOf(run, 0), 0.495, 0.002);  // switches take a hundredth
  EXPECT_NEAR(UseOf(run, 1), 0.495, 0.002);
}

TEST(EmulatedCard, APresentReturnsWhenTwoFramesAreUnderWay) {
  const RunRecord run = PlayCard(OnACard({CardProgram("a", 10, Meter::kCall)}, {}), "none");
  const std::vector<FrameRecord>& frames = run.tenants[0].frames;
  EXPECT_LT(frames[1].end_ns, 1'000'000) << "there is room for two";
  EXPECT_NEAR(static_cast<double>(frames[2].end_ns) * 1e-6, 10.2, 0.2) << "the third waits for the first";
  EXPECT_NEAR(static_cast<double>(frames[10].end_ns) * 1e-6, 90.2, 0.2);
}

/// What agents charge for frames of 4 ms, while another client has frames of 16 ms, over their true device time.
double Overcharged(Meter meter) {
  const RunRecord run = PlayCard(OnACard({CardProgram("a", 4, meter), CardProgram("b", 16, Meter::kWork)}, {}), "none");
  return static_cast<double>(run.tenants[0].charged_ns) / static_cast<double>(run.tenants[0].worked_ns);
}

TEST(EmulatedCard, MetersChargeForOtherClientsTurns) {
  EXPECT_NEAR(Overcharged(Meter::kWork), 1, 0.01);
  EXPECT_NEAR(Overcharged(Meter::kSpan), 1.5, 0.02) << "a turn of the other within each frame";
  EXPECT_NEAR(Overcharged(Meter::kCall), 2, 0.03) << "and one between two frames";
}

TEST(EmulatedCard, ATimestampSubmitsWhatWasDrawnBeforeTheGate) {
  // A frame takes 250 ms and waits at its gate during most of it; so does the last frame when the run ends.
  for (const auto& [meter, ahead] : {std::pair(Meter::kSpan, 1U), std::pair(Meter::kCall, 0U)}) {
    Tenant tenant = CardProgram("a", 5, meter);
    tenant.settings.cap = Share::FromFraction(0.02);
    const TenantRecord record = PlayCard(OnACard({tenant}, {}), "cap").tenants[0];
    EXPECT_GT(record.frame_count, 10U);
    EXPECT_EQ(record.gpu_ns, static_cast<std::int64_t>(record.frame_count + ahead) * 5'000'000);
  }
}

TEST(EmulatedCard, TheAccountCorrectsCharges) {
  for (const Meter meter : {Meter::kSpan, Meter::kCall}) {
    Tenant a = CardProgram("a", 4, meter), b = CardProgram("b", 16, meter);
    a.settings.weight = 75, b.settings.weight = 25;
    const RunRecord run = PlayCard(OnACard({a, b}, milliseconds(100)), "proportional-share");
    EXPECT_NEAR(UseOf(run, 0) / (UseOf(run, 0) + UseOf(run, 1)), 0.75, 0.005);
    // The last reading was at most 100 ms before.
    EXPECT_NEAR(static_cast<double>(run.tenants[0].booked_ns) * 1e-9, UseOf(run, 0) * 20, 0.15);
    const RunRecord uncorrected = PlayCard(OnACard({a, b}, {}), "proportional-share");
    EXPECT_GT(std::abs(static_cast<double>(uncorrected.tenants[0].booked_ns) * 1e-9 - UseOf(uncorrected, 0) * 20), 0.5);
  }
}

}  // namespace
}  // namespace weir::sim
