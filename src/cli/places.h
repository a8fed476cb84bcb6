// SPDX-License-Identifier: Apache-2.0
// Where things lie: the run folder with the daemon's sockets, the state folder, this program, the shim.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace weir::cli {

/// How the user named the daemon; empty: not at all.
struct PlaceFlags {
  std::string run_dir;
  std::string socket;
};

struct Places {
  std::string run_dir;
  std::string socket;
  bool socket_named = false;  // by flag or by WEIR_SOCKET: then only that one will do
};

/// Empty: it is not set, or empty.
std::string EnvironmentVariable(const char* name);

/// A flag wins over WEIR_SOCKET, that over a run folder's own; docs/protocol/control-api.md.
Places FindPlaces(const PlaceFlags& flags);

Result<std::filesystem::path> SelfExecutable();

/// The library that LD_PRELOAD names, beside this program's installation or in $WEIR_LIB_DIR.
Result<std::string> FindPreloadLibrary(const std::filesystem::path& self);

/// Another file of that folder, such as a program of ours that people seldom start; empty: there is none.
std::string FindHelper(const std::filesystem::path& self, const std::string& name);
inline constexpr const char* kExecutor = "weir-executor";
inline constexpr const char* kAnalyzer = "weir-analyzer";
inline constexpr const char* kRelay = "weir-relay";
inline constexpr const char* kPortal = "weir-portal";
inline constexpr const char* kManager = "weir-manager";
inline constexpr const char* kMember = "weir-member";
inline constexpr const char* kModules = "weir-modules";
inline constexpr const char* kGpuAccount = "weir-gpu-account";
inline constexpr const char* kGpuMemory = "weir-gpu-memory";

/// The program of emulated GPUs, which is beside `weir`, and the folder of their drivers; empty: there is none.
std::string FindEmulator(const std::filesystem::path& self);
std::string FindEmulatedDrivers(const std::filesystem::path& self);

/// Adds `library` to what LD_PRELOAD held before, once. ld.so knows no quoting: a blank or colon in the path is an
/// error.
Result<std::string> ComposePreload(const std::string& before, const std::string& library);

}  // namespace weir::cli
