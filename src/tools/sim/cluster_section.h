// SPDX-License-Identifier: Apache-2.0
// Reads the parts of a scenario file about a cluster that runs kernels: [cluster], [[kernel]], and the keys of runs and
// sweeps about them. Templates over the file's reader (ScenarioReader), so that this header needs no TOML library.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/placement/placement_table.h"
#include "sim/scenario.h"

namespace weir::cli {

inline constexpr double kClusterRunsMax = 10'000'000;
inline constexpr double kClusterDevicesMax = 1'000'000;

template <typename Reader>
void ReadClusterKernel(Reader& reader, sim::ClusterWorld& world) {
  sim::ClusterKernel& kernel = world.kernels.emplace_back();
  double local_kb = 0, gb_s = 0, threads_use = -1;
  reader.Text("name", kernel.name);
  reader.Memory("memory_mb", kernel.memory);
  reader.Span("host_s", kernel.host, 1);
  reader.Whole("blocks", kernel.blocks, 1, 1e6);
  reader.Whole("threads", kernel.threads, 1, 1024);
  reader.Number("local_kb", local_kb, 0, 512);
  reader.Span("thread_ns", kernel.per_thread, 1e-9);
  reader.Span("kernel_s", kernel.kernel, 1);
  if (reader.Has("processing")) reader.Number("processing", threads_use, 0, 1);
  if (reader.Has("loads"))
    reader.Sub("loads", [&](Reader& loads) {
      core::Loads& all = kernel.loads.emplace();
      constexpr std::array kKeys{"local_memory", "traffic", "threads", "blocks"};  // by core::LoadKind
      for (std::size_t i = 0; i < all.size(); ++i)
        loads.Whole(kKeys[i], all[i], 0, static_cast<double>(core::kLoadMax));
    });
  reader.Number("global_gb_s", gb_s, 0, 1e5);
  kernel.local = Bytes{static_cast<std::uint64_t>(local_kb * 1024)};
  kernel.bytes_per_s = gb_s * 1e9;
  kernel.processing = threads_use;
  if (kernel.name.empty()) reader.Complain("a kernel has no name");
  if (kernel.kernel <= Duration{0} && kernel.per_thread <= Duration{0})
    reader.Complain(fmt::format("kernel '{}' needs a kernel_s or a thread_ns", kernel.name));
  for (const sim::ClusterKernel& other : world.kernels)
    if (&other != &kernel && other.name == kernel.name)
      reader.Complain(fmt::format("two kernels are called '{}'", kernel.name));
}

/// Reads the measured pairs. Either all pairs of kernels are given, or none.
template <typename Reader>
void ReadClusterPairs(Reader& reader, sim::ClusterWorld& world) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> known;
  reader.Each("pair", [&](Reader& one) {
    sim::ClusterPair& pair = world.pairs.emplace_back();
    const auto kernel = [&](const char* key, std::uint32_t& number) {
      std::string name;
      one.Text(key, name);
      const auto found = std::ranges::find(world.kernels, name, &sim::ClusterKernel::name);
      if (found == world.kernels.end()) return one.Complain(fmt::format("'{}': no kernel '{}'", key, name));
      number = static_cast<std::uint32_t>(found - world.kernels.begin());
      if (found->kernel <= Duration{0})
        one.Complain(fmt::format("kernel '{}' of a pair needs a kernel_s, what it takes alone", name));
    };
    kernel("first", pair.first);
    kernel("second", pair.second);
    one.Number("first_s", pair.first_s, 1e-9, 1e7);
    one.Number("second_s", pair.second_s, 1e-9, 1e7);
    if (pair.first_s <= 0 || pair.second_s <= 0) one.Complain("a pair needs first_s and second_s, what each one took");
    if (!known.insert(std::minmax({pair.first, pair.second})).second)
      one.Complain("these two kernels are a pair already");
  });
  const std::size_t all = world.kernels.size() * (world.kernels.size() + 1) / 2;
  if (!world.pairs.empty() && known.size() != all)
    reader.Complain(fmt::format("there are {} pairs of {} kernels, each with itself too; {} are given", all,
                                world.kernels.size(), known.size()));
}

/// Reads the cluster, if the file has kernels.
template <typename Reader>
void ReadClusterWorld(Reader& reader, std::optional<sim::ClusterWorld>& world) {
  if (!reader.Has("kernel")) return;
  world.emplace();
  sim::ClusterDevices& devices = world->devices;
  reader.Sub("cluster", [&](Reader& one) {
    double gb_s = 0, cache_kb = 0;
    one.Whole("devices", devices.count, 1, kClusterDevicesMax);
    one.Memory("memory_mb", devices.memory);
    one.Whole("kernels", devices.runs_max, 1, core::kRunsAtOnceMax);
    one.Whole("processors", devices.processors, 1, 1e6);
    one.Whole("threads", devices.threads, 1, 1e9);
    one.Whole("blocks", devices.blocks, 1, 1e9);
    one.Number("global_gb_s", gb_s, 0.001, 1e6);
    one.Number("cache_kb", cache_kb, 0, 1e9);
    one.Span("context_s", devices.context, 1, 60);
    if (one.Has("turn_loss")) one.Number("turn_loss", devices.turn_loss, 0, 0.9);
    devices.bytes_per_s = gb_s * 1e9;
    devices.cache = Bytes{static_cast<std::uint64_t>(cache_kb * 1024)};
  });
  if (devices.threads < devices.processors || devices.blocks < devices.processors || devices.bytes_per_s <= 0)
    reader.Complain("kernels need a [cluster] with global_gb_s, and of threads and blocks one for each processor");
  reader.Each("kernel", [&](Reader& one) { ReadClusterKernel(one, *world); });
  ReadClusterPairs(reader, *world);
}

template <typename Reader>
void ReadClusterRun(Reader& reader, const sim::ClusterWorld& world, sim::ClusterRun& run) {
  std::string context = "kept";
  reader.Text("placement", run.placement);
  if (const auto entry = core::FindPlacement(run.placement); !entry) reader.Complain(entry.error().message);
  reader.Sub("placement_params", [&](Reader& all) {
    for (const auto& [key, value] : all.table()) {
      const std::string name(key.str());
      all.Number(name.c_str(), run.params[name], -1e12, 1e12);
    }
  });
  if (const auto made = core::MakePlacement(run.placement, run.params); !made) reader.Complain(made.error().message);
  reader.Text("context", context);
  run.context_each = context == "each";
  if (context != "each" && context != "kept") reader.Complain("'context' is one of: kept, each");
  reader.Names("kernels", run.kernels);
  for (const std::string& name : run.kernels)
    if (std::ranges::find(world.kernels, name, &sim::ClusterKernel::name) == world.kernels.end())
      reader.Complain(fmt::format("no kernel '{}'", name));
  const std::size_t turn = run.kernels.empty() ? world.kernels.size() : run.kernels.size();
  run.runs = static_cast<std::uint32_t>(std::max<std::size_t>(turn, 1));
  // A list instead of a number belongs to a sweep and is read there.
  if (reader.table()["runs"].is_number()) reader.Whole("runs", run.runs, 1, kClusterRunsMax);
  reader.Span("gap_ms", run.gap, 1e-3);
  if (reader.table()["shuffle"].is_number()) reader.Whole("shuffle", run.shuffle, 0, 1e9);
  reader.Flag("profiled", run.profiled);
  reader.Flag("learns", run.learns);
  if (reader.table()["blocks"].is_number()) reader.Whole("blocks", run.blocks, 0, 1e6);
  if (reader.table()["threads"].is_number()) reader.Whole("threads", run.threads, 0, 1024);
}

/// Adds a run for each number in the list of `runs`, `blocks`, `threads` or `shuffle`, called LABEL-NUMBER.
template <typename Reader, typename Add>
void ReadClusterSweep(Reader& reader, const sim::ClusterWorld& world, sim::Run run, const std::string& label, Add add) {
  ReadClusterRun(reader, world, run.cluster);
  int lists = 0;
  const auto each = [&](const char* key, double max, auto set) {
    if (!reader.Has(key) || reader.table()[key].is_number()) return;
    std::vector<double> numbers;
    reader.Numbers(key, numbers);
    ++lists;
    for (const double number : numbers) {
      const auto whole = static_cast<std::uint32_t>(std::clamp(number, 1.0, max));
      if (static_cast<double>(whole) != number)
        reader.Complain(fmt::format("'{}' are whole numbers from 1 to {:g}, not {:g}", key, max, number));
      sim::Run one = run;
      one.label = fmt::format("{}-{}", label, whole);
      set(one.cluster, whole);
      add(std::move(one));
    }
  };
  each("runs", kClusterRunsMax, [](sim::ClusterRun& one, std::uint32_t number) { one.runs = number; });
  each("blocks", 1e6, [](sim::ClusterRun& one, std::uint32_t number) { one.blocks = number; });
  each("threads", 1024, [](sim::ClusterRun& one, std::uint32_t number) { one.threads = number; });
  each("shuffle", 1e9, [](sim::ClusterRun& one, std::uint32_t number) { one.shuffle = number; });
  if (lists != 1) reader.Complain("a sweep of kernels needs one list of numbers: runs, blocks, threads or shuffle");
}

}  // namespace weir::cli
