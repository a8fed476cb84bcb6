// SPDX-License-Identifier: Apache-2.0
// The devices that a node shares: what each is, how its driver is opened, and the programs that serve it.
#pragma once

#include <string>
#include <vector>

#include "engine/events.h"

namespace weir::device {

inline constexpr const char* kSoftware = "software";  // DeviceSpec::kind of the embedded device
inline constexpr const char* kGpu = "gpu";
inline constexpr const char* kEmulated = "emulated";

/// How an executor opens the device.
struct Driver {
  std::string library;  // the vendor's OpenCL library; empty: the first that works and has the device
  std::string device;   // as the driver knows it: number, UUID or PCI address; empty: the first
  std::vector<std::string> environment{};  // NAME=VALUE
};

struct Device {
  engine::DeviceSpec spec;
  Driver driver;
  /// NAME=VALUE for programs that use the device without an executor; `weir run` sets them.
  std::vector<std::string> environment{};
};

/// The watcher of a real GPU's memory in use (docs/memory.md, "What others hold").
struct MemoryWatch {
  std::string program;       // weir-gpu-memory
  std::string gpu;           // in NVML's notation: an index, a UUID or a PCI address
  std::string nvml_library;  // empty: the system's
  std::string device;        // the device's name on this node
};

/// Emulated GPUs (docs/emulated-gpu.md).
struct Emulator {
  std::string program;      // weir-emulated-gpu
  std::string description;  // of its devices: a file, or the name of a built-in description
  std::string socket;       // where drivers connect
};

/// Reports to the daemon how long each process has used devices (docs/accounting.md).
struct Account {
  std::string program;               // weir-gpu-account
  std::vector<std::string> source;   // options that select where the account is read
  std::vector<std::string> devices;  // the daemon's device names, in the order of the source's devices
};

struct Devices {
  std::vector<Device> devices;
  std::vector<Emulator> emulators{};
  std::vector<MemoryWatch> memory{};
  std::vector<Account> accounts{};
};

/// This machine's CPUs, with Mesa's software renderer and PoCL.
Device EmbeddedDevice();

/// `control` is the daemon's control socket, `parent` its pid.
std::vector<std::string> ArgvOf(const Emulator& emulator, int parent);
std::vector<std::string> ArgvOf(const Account& account, const std::string& control, int parent);
std::vector<std::string> ArgvOf(const MemoryWatch& watch, const std::string& control, int parent);

}  // namespace weir::device
