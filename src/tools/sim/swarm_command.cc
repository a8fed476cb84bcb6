// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/swarm_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/common/table.h"
#include "cli/common/terminal.h"
#include "platform/clock.h"
#include "sim/swarm.h"
#include "tools/sim/play.h"

namespace weir::cli {
namespace {

constexpr int kObjected = 1;          // exit status if there are objections
constexpr std::size_t kShownMax = 5;  // objections shown for each seed if there are many seeds

std::string CommandOf(std::uint64_t seed) { return fmt::format("weir sim swarm --seed {}", seed); }

nlohmann::ordered_json SeedJson(const sim::SeedPlayed& played) {
  return {{"seed", played.seed},
          {"digest", fmt::format("{:016x}", played.record.digest)},
          {"events", played.record.events},
          {"objections", played.objections}};
}

void PrintFailure(const sim::SeedPlayed& played, bool color) {
  fmt::print("{}  seed {}\n", Styled("FAILED", Style::kBad, color), played.seed);
  for (std::size_t i = 0; i < std::min(played.objections.size(), kShownMax); ++i)
    fmt::print("          {}\n", played.objections[i]);
  if (played.objections.size() > kShownMax) fmt::print("          and {} more\n", played.objections.size() - kShownMax);
  fmt::print("          repeat: {}\n", CommandOf(played.seed));
}

int OneSeed(const Session& session, std::uint64_t seed) {
  if (!session.json) fmt::print("seed {}\n{}\n", seed, sim::Describe(sim::DrawScenario(seed)));
  std::fflush(stdout);
  const sim::SeedPlayed played = sim::PlaySeed(seed);
  if (session.json) {
    nlohmann::ordered_json out = SeedJson(played);
    out["drawn"] = sim::Describe(played.scenario);
    fmt::print("{}\n", out.dump(2));
  } else {
    Table table({{"TENANT"},
                 {"GPU s", Table::Align::kRight},
                 {"FRAMES", Table::Align::kRight},
                 {"CHARGED s", Table::Align::kRight},
                 {"BOOKED s", Table::Align::kRight}});
    const auto s = [](std::int64_t ns) { return fmt::format("{:.3f}", static_cast<double>(ns) * 1e-9); };
    for (const sim::TenantRecord& tenant : played.record.tenants)
      table.Add({{tenant.name},
                 {s(tenant.gpu_ns)},
                 {fmt::format("{}", tenant.frame_count)},
                 {s(tenant.charged_ns)},
                 {s(tenant.booked_ns)}});
    fmt::print("{}\n", table.Render(StdoutTakesColor()));
    for (const std::string& objection : played.objections) fmt::print("objection  {}\n", objection);
    fmt::print("digest {:016x}, {} events, {} objections\n", played.record.digest, played.record.events,
               played.objections.size());
  }
  return played.objections.empty() ? 0 : kObjected;
}

}  // namespace

Result<int> Swarm(const Session& session, const SwarmFlags& flags) {
  if (flags.seed != 0) return OneSeed(session, static_cast<std::uint64_t>(flags.seed));
  const std::int64_t last = flags.from + flags.seeds - 1;
  if (!session.json) {
    fmt::print(
        "seeds {} … {}, {:g} s of virtual time each: 1 to 4 devices, 1 to 12 tenants, any policy,\n"
        "changes and faults until {:g} s, promises checked afterwards\n",
        flags.from, last, SecondsOf(sim::kSwarmSpan), SecondsOf(sim::kMended));
    std::fflush(stdout);
  }
  const auto progress = ProgressBar(fmt::format("seeds {} … {}", flags.from, last));
  const Instant began = platform::Now();
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::uint64_t events = 0;
  std::int64_t failed = 0;
  for (std::int64_t seed = flags.from; seed <= last; ++seed) {
    const sim::SeedPlayed played = sim::PlaySeed(static_cast<std::uint64_t>(seed));
    events += played.record.events;
    failed += played.objections.empty() ? 0 : 1;
    if (session.json)
      all.push_back(SeedJson(played));
    else if (!played.objections.empty())
      PrintFailure(played, StdoutTakesColor());
    if (progress) progress(static_cast<double>(seed - flags.from + 1) / static_cast<double>(flags.seeds));
  }
  const double wall_s = SecondsOf(platform::Now() - began);
  if (session.json)
    fmt::print("{}\n", nlohmann::ordered_json{{"failed", failed}, {"seeds", all}}.dump(2));
  else
    fmt::print("{} of {} seeds failed; {:.1f} s, {:.2f} million events/s\n", failed, flags.seeds, wall_s,
               static_cast<double>(events) * 1e-6 / wall_s);
  return failed == 0 ? 0 : kObjected;
}

}  // namespace weir::cli
