// SPDX-License-Identifier: Apache-2.0
// The part of a node that survives a restart: vGPUs, policies and sales of devices, in one JSON file that is replaced
// atomically.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "engine/events.h"

namespace weir::daemon {

inline constexpr int kSavedVersion = 1;
/// Minor version 1 added the checksum. Files of version 0 have neither this field nor a checksum.
inline constexpr int kSavedMinor = 1;

struct SavedVgpu {
  VgpuId id;
  std::string name;
  std::string device;
  engine::VgpuSettings settings;
  uid_t owner_uid = 0;
  bool ephemeral = false;
  pid_t owner_pid = 0;              // of an ephemeral vGPU
  std::uint64_t owner_started = 0;  // clock ticks: tells a reused pid apart
  bool paused = false;
  core::Sale sale = core::Sale::kGuaranteed;
};
struct SavedPolicy {
  std::string device;
  std::string policy;
  core::PolicyParams params;
};
/// How a device is sold.
struct SavedOversell {
  std::string device;
  std::string mode;
  core::PolicyParams params;
};
/// A device whose memory is elastic.
struct SavedMemory {
  std::string device;
  std::uint64_t size_bytes = 0;
  core::PolicyParams params;
  double copy_bytes_per_s = 0;
};
struct SavedNode {
  std::vector<SavedPolicy> policies;
  std::vector<SavedOversell> oversell;  // empty in files of versions without overselling
  std::vector<SavedMemory> memory;      // empty in files of versions without elastic memory
  std::vector<SavedVgpu> vgpus;
};

std::string ToText(const SavedNode& node);
/// kProtocol: the text is malformed or damaged; kVersionMismatch: another version.
Result<SavedNode> FromText(const std::string& text);

}  // namespace weir::daemon
