// SPDX-License-Identifier: Apache-2.0
#include "tools/profile/profile_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "cli/common/table.h"

namespace weir::cli {
namespace {

using core::InterferenceModel;
using modules::KernelProfile;
using modules::ProfiledKernel;
using modules::ProfiledPair;

constexpr double kBesideEnough = 0.9;   // with less overlap, the measured slowdown is marked as too small
constexpr double kHardlySlower = 0.02;  // as a fraction of times alone, on average: counts as noise
// Copies of each kernel in a scenario: the largest number in gCloud (section V.D).
constexpr int kCopies = 7;
constexpr double kFewObservations = 10;   // three kernels give twelve observations
constexpr double kFasterThanAlone = 0.9;  // a smaller ratio is a measurement error
using Weights = InterferenceModel::Weights;

std::string_view NameOfWeight(std::size_t weight) {
  return weight < core::kLoadKinds ? core::NameOf(static_cast<core::LoadKind>(weight)) : "company";
}

/// The slowdown that one run of the second kernel causes to the first, by cause.
Weights PartsOfPair(const KernelProfile& profile, const InterferenceModel& model, std::size_t one, std::size_t other) {
  const core::Neighbours beside{&profile.kernels[other].need, 1};
  return model.PartsOf(profile.kernels[one].need, std::span(&beside, 1), profile.capacity);
}

struct SlowdownCell {
  double slowdown = 0, beside = 1;
};

/// By [kernel, neighbour]. Pairs without a measurement are absent. A kernel beside itself has the mean of both times.
std::map<std::pair<std::size_t, std::size_t>, SlowdownCell> SlowdownCells(const KernelProfile& profile) {
  std::map<std::pair<std::size_t, std::size_t>, SlowdownCell> cells;
  for (const ProfiledPair& pair : profile.pairs) {
    const auto [first, second] = SlowdownsOf(profile, pair);
    cells[{pair.first, pair.second}] = {first, pair.first_beside};
    cells[{pair.second, pair.first}] = {second, pair.second_beside};
    if (pair.first == pair.second)
      cells[{pair.first, pair.first}] = {(first + second) / 2, std::min(pair.first_beside, pair.second_beside)};
  }
  return cells;
}

/// A TOML string, without characters that would control a terminal.
std::string Quoted(const std::string& text) { return nlohmann::json(Printable(text)).dump(); }

}  // namespace

std::string ProfileTables(const KernelProfile& profile, bool color) {
  constexpr auto kRight = Table::Align::kRight;
  Table kernels({{"", kRight},
                 {"KERNEL"},
                 {"ALONE ms", kRight},
                 {"LOCAL KiB", kRight},
                 {"TRAFFIC MB/s", kRight},
                 {"THREADS", kRight},
                 {"BLOCKS", kRight},
                 {"LOADS ARE"}});
  for (std::size_t i = 0; i < profile.kernels.size(); ++i) {
    const ProfiledKernel& kernel = profile.kernels[i];
    std::vector<Cell> row{
        {std::to_string(i + 1)}, {TextOf(kernel.work), Style::kStrong}, {fmt::format("{:.4g}", kernel.alone_s * 1e3)}};
    for (const std::uint64_t load : kernel.need.loads) row.push_back({std::to_string(load)});
    row.push_back({std::string(NameOf(kernel.loads_from)), Style::kFaint});
    kernels.Add(std::move(row));
  }
  std::string text = kernels.Render(color);
  if (std::ranges::any_of(profile.kernels,
                          [](const ProfiledKernel& one) { return one.loads_from == modules::LoadsFrom::kMeasured; }))
    text += "measured: means over a run's time; traffic is an estimate, each launch's buffers once\n";
  if (profile.pairs.empty()) return text;

  std::vector<Table::Column> columns{{"", kRight}, {"TIMES ALONE"}};
  for (std::size_t i = 0; i < profile.kernels.size(); ++i) columns.push_back({fmt::format("BESIDE {}", i + 1), kRight});
  Table matrix(std::move(columns));
  const auto cells = SlowdownCells(profile);
  bool flagged = false;
  for (std::size_t one = 0; one < profile.kernels.size(); ++one) {
    std::vector<Cell> row{{std::to_string(one + 1)}, {TextOf(profile.kernels[one].work), Style::kStrong}};
    for (std::size_t other = 0; other < profile.kernels.size(); ++other) {
      const auto found = cells.find({one, other});
      if (found == cells.end()) {
        row.push_back({"-", Style::kFaint});
        continue;
      }
      const bool short_of = found->second.beside < kBesideEnough;
      flagged = flagged || short_of;
      row.push_back({fmt::format("{:.2f}{}", found->second.slowdown, short_of ? "~" : "")});
    }
    matrix.Add(std::move(row));
  }
  text += "\n" + matrix.Render(color);
  if (flagged)
    text +=
        "~ the other kernel ran for less than 90 % of this one's time, because its repetitions are short and\n"
        "  starting them takes the rest; it slows this one more than shown\n";
  return text;
}

std::string FitText(const KernelProfile& profile, const InterferenceModel& model) {
  Weights sums{};
  double observed = 0, least = 1;
  for (const ProfiledPair& pair : profile.pairs) {
    for (const auto& [one, other] : {std::pair(pair.first, pair.second), std::pair(pair.second, pair.first)}) {
      const Weights parts = PartsOfPair(profile, model, one, other);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += parts[i];
    }
    for (const double slowdown : SlowdownsOf(profile, pair)) {
      observed += slowdown - 1;
      least = std::min(least, slowdown);
    }
  }
  // Weights of resources that no two kernels load are only the initial guess.
  const Weights& weights = model.weights();
  std::string line;
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (sums[i] > 0 && weights[i] >= 0.005)
      line += fmt::format("{}{:.2f} {}", line.empty() ? "" : ", ", weights[i], NameOfWeight(i));
  std::string text =
      fmt::format("weights: {}; off by {:.2f} times the time alone (root mean square, {:.0f} observations)\n",
                  line.empty() ? "nothing" : line, model.ErrorRms(), model.observations());

  const double all = std::accumulate(sums.begin(), sums.end(), 0.0);
  const double mean = observed / static_cast<double>(2 * profile.pairs.size());
  const auto most = static_cast<std::size_t>(std::ranges::max_element(sums) - sums.begin());
  if (all <= 0 || mean < kHardlySlower)
    text += "They hardly slow each other.\n";
  else
    text += fmt::format(
        "They slow each other by {:.2f} times the time alone on average. {:.0f} % of what the fit explains is {}.\n",
        mean, 100 * sums[most] / all,
        most == core::kLoadKinds ? std::string("company: whatever they load, they take turns")
                                 : fmt::format("{} that both want", NameOfWeight(most)));
  if (std::ranges::all_of(profile.kernels, [](const ProfiledKernel& one) { return one.need.loads == core::Loads{}; }))
    text += "Their loads are unknown, so the fit has only the number of neighbours.\n";
  else if (model.observations() < kFewObservations)
    text += "These are few observations for five weights: measure more kernels, and some that load other things.\n";
  if (all > 0 && mean >= kHardlySlower && model.ErrorRms() > mean / 2)
    text +=
        "The fit is far from the measurements: on devices that run launches in turns, each of many short launches "
        "waits for the other kernel, and no load shows that.\n";
  if (least < kFasterThanAlone)
    text +=
        "Some were faster beside another kernel than alone: another program used the machine meanwhile. Measure again, "
        "with more --rounds.\n";
  return text;
}

Result<std::string> ScenarioText(const KernelProfile& profile) {
  const std::vector<ProfiledKernel>& kernels = profile.kernels;
  const auto cells = SlowdownCells(profile);
  for (std::size_t one = 0; one < kernels.size(); ++one)
    for (std::size_t other = one; other < kernels.size(); ++other)
      if (!cells.contains({one, other}))
        return Fail(Errc::kInvalidArgument,
                    fmt::format("'{}' and '{}' were not measured together, and a scenario needs each pair: omit one "
                                "of them",
                                TextOf(kernels[one].work), TextOf(kernels[other].work)));
  const core::Loads& has = profile.capacity.loads;
  std::string text = fmt::format(
      "# SPDX-License-Identifier: Apache-2.0\n"
      "name = \"measured\"\n"
      "title = \"Kernels as they were measured, {0} of each\"\n"
      "source = \"weir profile\"\n"
      "about = {1}\n"
      "seconds = 1000000\n\n"
      "[cluster]\n"
      "devices = 2\n"
      "memory_mb = {2}\n"
      "kernels = {3}\n"
      "threads = {4}\n"
      "blocks = {5}\n"
      "global_gb_s = {6}\n"
      "cache_kb = {7}\n",
      kCopies,
      Quoted(fmt::format(
          "Measured on {} ({}). Two kernels take the measured times; of more than two, each adds to another's time "
          "what it added in the pair. Devices, runs and placements can be changed.",
          profile.device, profile.model)),
      profile.capacity.memory.count >> 20, profile.capacity.runs_max, has[2], has[3], static_cast<double>(has[1]) / 1e3,
      has[0]);
  for (const ProfiledKernel& kernel : kernels) {
    const core::Loads& loads = kernel.need.loads;
    text += fmt::format(
        "\n[[kernel]]\nname = {}\nmemory_mb = {}\nkernel_s = {}\n"
        "loads = {{ local_memory = {}, traffic = {}, threads = {}, blocks = {} }}\n",
        Quoted(TextOf(kernel.work)), (kernel.need.memory.count + MiB(1).count - 1) >> 20, kernel.alone_s, loads[0],
        loads[1], loads[2], loads[3]);
  }
  for (const ProfiledPair& pair : profile.pairs)
    text += fmt::format("\n[[pair]]\nfirst = {}\nsecond = {}\nfirst_s = {}\nsecond_s = {}\n",
                        Quoted(TextOf(kernels[pair.first].work)), Quoted(TextOf(kernels[pair.second].work)),
                        pair.first_s, pair.second_s);
  for (const char* placement : {"serial", "round-robin", "interference-aware"})
    text += fmt::format(
        "\n[[sweep]]\nlabel = \"{0}\"\nplacement = \"{0}\"\nruns = {1}\nshuffle = [1, 2, 3, 4, 5, 6, 7, 8]\n",
        placement, kCopies * kernels.size());
  return text;
}

}  // namespace weir::cli
