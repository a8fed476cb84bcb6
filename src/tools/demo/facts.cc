// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/facts.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>

#include <ctime>
#include <fstream>
#include <set>
#include <thread>

#include "cli/common/top_view.h"
#include "cli/common/version.h"

namespace weir::cli {
namespace {

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name") || line.starts_with("Model"))
      if (const std::size_t colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "unknown CPU";
}

std::string Joined(const std::set<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : "; ") + text;
  return out;
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> CollectFacts(const ControlClient& client,
                                                                      const std::string& display) {
  WEIR_TRY(const Snapshot snapshot, TakeSnapshot(client));
  std::set<std::string> renderers, meters, devices;
  for (const VgpuView& v : snapshot.vgpus)
    for (const ProcessView& process : v.processes) {
      renderers.insert(process.renderer);
      meters.insert(process.meter);
    }
  for (const DeviceView& d : snapshot.devices)
    devices.insert(d.cpus.empty() ? fmt::format("{} ({})", d.name, d.kind)
                                  : fmt::format("{} ({}, CPUs {})", d.name, d.kind, d.cpus));
  utsname system{};
  uname(&system);
  return std::vector<std::pair<std::string, std::string>>{
      {"weir", kVersion},
      {"when", fmt::format("{:%Y-%m-%d %H:%M UTC}", fmt::gmtime(std::time(nullptr)))},
      {"machine", fmt::format("{}, {} CPUs", CpuModel(), std::thread::hardware_concurrency())},
      {"system", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
      {"device", Joined(devices)},
      {"display", display},
      {"renderer", Joined(renderers)},
      {"GPU time by", Joined(meters)},
  };
}

}  // namespace weir::cli
