// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/process_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>

#include "platform/files.h"

namespace weir::cli {
namespace {

constexpr std::size_t kMapsBytesMax = std::size_t{8} << 20;
constexpr std::size_t kEnvironBytesMax = std::size_t{1} << 20;

struct Stat {
  pid_t pid = 0, parent = 0, group = 0;
  std::string program;
  bool ended = false;
};

/// proc(5): "PID (NAME) STATE PPID PGRP …"; the name may contain any character.
std::optional<Stat> ReadStat(pid_t pid) {
  const auto text = platform::ReadFile(fmt::format("/proc/{}/stat", pid), 4096);
  if (!text) return std::nullopt;
  const std::size_t open = text->find('('), close = text->rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  Stat stat;
  stat.pid = pid;
  stat.program = text->substr(open + 1, close - open - 1);
  std::istringstream rest(text->substr(close + 1));
  std::string state;
  rest >> state >> stat.parent >> stat.group;
  stat.ended = state == "Z" || state == "X";
  return rest ? std::optional(stat) : std::nullopt;
}

std::vector<Stat> AllProcesses() {
  std::vector<Stat> all;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    const auto [stop, bad] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (bad != std::errc{} || stop != name.data() + name.size()) continue;
    if (auto stat = ReadStat(pid)) all.push_back(*std::move(stat));
  }
  return all;
}

void NoteEnvironment(TreeProcess& process) {
  const auto text = platform::ReadFile(fmt::format("/proc/{}/environ", process.pid), kEnvironBytesMax);
  if (!text || text->empty()) return;
  process.environment_readable = true;
  const std::string all = std::string(1, '\0') + *text;
  const std::size_t preload = all.find(std::string("\0LD_PRELOAD=", 12));
  process.preload_in_environment =
      preload != std::string::npos &&
      all.substr(preload + 1, all.find('\0', preload + 1) - preload - 1).find("libweir-gl-preload") !=
          std::string::npos;
  process.layer_in_environment = all.find(std::string("\0WEIR_VULKAN_LAYER=1", 20)) != std::string::npos;
  process.attach_in_environment = all.find(std::string("\0WEIR_ATTACH=", 13)) != std::string::npos;
}

}  // namespace

void NoteLibraries(std::string_view maps, TreeProcess& process) {
  while (!maps.empty()) {
    const std::string_view line = maps.substr(0, maps.find('\n'));
    maps.remove_prefix(std::min(maps.size(), line.size() + 1));
    const std::size_t slash = line.rfind('/');
    if (slash == std::string_view::npos) continue;
    const std::string_view file = line.substr(slash + 1);
    const std::string_view folder = line.substr(0, slash);
    // Chromium has its own libEGL beside libGLESv2, both from ANGLE; the system's library is libEGL.so.1.
    const bool angle = file.starts_with("libANGLE") || file.starts_with("libGLESv2_angle") || file == "libEGL.so" ||
                       (file == "libGLESv2.so" && folder.find("/lib") == std::string_view::npos);
    process.stub_loaded |= file.starts_with("libweir-gl-preload.so");
    process.shim_loaded |= file.starts_with("libweir-shim.so");
    process.layer_loaded |= file.starts_with("libweir-vulkan.so");
    process.gl |= file.starts_with("libGLX.so") || file.starts_with("libGL.so");
    process.egl |= file.starts_with("libEGL.so.");
    process.vulkan |= file.starts_with("libvulkan.so");
    process.musl |= file.starts_with("ld-musl");
    process.angle |= angle;
  }
}

std::vector<TreeProcess> LookAtTree(pid_t root) {
  const std::vector<Stat> all = AllProcesses();
  std::vector<pid_t> ours{root};
  std::vector<TreeProcess> tree;
  for (bool grew = true; grew;) {  // /proc is not sorted by ancestry
    grew = false;
    for (const Stat& one : all) {
      const bool known = std::find(ours.begin(), ours.end(), one.pid) != ours.end();
      const bool child = std::find(ours.begin(), ours.end(), one.parent) != ours.end();
      if (known || ours.size() >= kTreeProcessesMax || !(child || one.group == root)) continue;
      ours.push_back(one.pid);
      grew = true;
    }
  }
  for (const Stat& one : all) {
    if (one.ended || std::find(ours.begin(), ours.end(), one.pid) == ours.end()) continue;
    TreeProcess process;
    process.pid = one.pid;
    process.parent = one.parent;
    process.program = one.program;
    const auto maps = platform::ReadFile(fmt::format("/proc/{}/maps", one.pid), kMapsBytesMax);
    process.maps_readable = maps && !maps->empty();
    if (process.maps_readable) NoteLibraries(*maps, process);
    NoteEnvironment(process);
    tree.push_back(std::move(process));
  }
  return tree;
}

void MergeTree(const std::vector<TreeProcess>& seen, std::vector<TreeProcess>& known) {
  for (const TreeProcess& now : seen) {
    const auto before =
        std::find_if(known.begin(), known.end(), [&](const TreeProcess& one) { return one.pid == now.pid; });
    if (before == known.end()) {
      if (known.size() < kTreeProcessesMax) known.push_back(now);
      continue;
    }
    // A process that has just started is still a fork of this one, or has not loaded its libraries yet, so earlier
    // findings are kept. After exec the findings are new, but so is the name.
    TreeProcess merged = now;
    if (before->program == now.program) {
      merged.stub_loaded |= before->stub_loaded;
      merged.shim_loaded |= before->shim_loaded;
      merged.layer_loaded |= before->layer_loaded;
      merged.gl |= before->gl;
      merged.egl |= before->egl;
      merged.vulkan |= before->vulkan;
      merged.angle |= before->angle;
      merged.musl |= before->musl;
      merged.maps_readable |= before->maps_readable;
    }
    *before = merged;
  }
}

}  // namespace weir::cli
