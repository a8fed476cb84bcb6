// SPDX-License-Identifier: Apache-2.0
// Locations: the run folder with the daemon's sockets, the state folder, this program, the shim.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace weir::cli {

/// The user's choice of a daemon; empty: none.
struct PlaceFlags {
  std::string run_dir;
  std::string socket;
};

struct Places {
  std::string run_dir;
  std::string socket;
  bool socket_named = false;  // by flag or WEIR_SOCKET: no other socket may be used
};

/// Empty: the variable is unset or empty.
std::string EnvironmentVariable(const char* name);

/// A flag takes precedence over WEIR_SOCKET, which takes precedence over the run folder's socket
/// (docs/protocol/control-api.md).
Places FindPlaces(const PlaceFlags& flags);

Result<std::filesystem::path> SelfExecutable();

/// The library for LD_PRELOAD, from this program's installation or $WEIR_LIB_DIR.
Result<std::string> FindPreloadLibrary(const std::filesystem::path& self);

/// Another file of that folder, such as a helper program; empty: the file does not exist.
std::string FindHelper(const std::filesystem::path& self, const std::string& name);
inline constexpr const char* kExecutor = "weir-executor";
inline constexpr const char* kAnalyzer = "weir-analyzer";
inline constexpr const char* kRelay = "weir-relay";
inline constexpr const char* kPortal = "weir-portal";
inline constexpr const char* kManager = "weir-manager";
inline constexpr const char* kMember = "weir-member";
inline constexpr const char* kModules = "weir-modules";
inline constexpr const char* kDashboard = "weir-dashboard";
inline constexpr const char* kGpuAccount = "weir-gpu-account";
inline constexpr const char* kGpuMemory = "weir-gpu-memory";

/// The emulator, which lies beside `weir`; empty: not installed. FindEmulatedDrivers: the folder of its drivers.
std::string FindEmulator(const std::filesystem::path& self);
std::string FindEmulatedDrivers(const std::filesystem::path& self);

/// Adds `library` to the value of LD_PRELOAD, once. ld.so knows no quoting, so that a blank or colon in the path is an
/// error.
Result<std::string> ComposePreload(const std::string& before, const std::string& library);

/// The folder with the Vulkan layer's manifest, for XDG_DATA_DIRS, beside the preloaded library; empty: not installed.
std::string FindVulkanLayer(const std::filesystem::path& preload_library);

/// Adds `folder` to the value of XDG_DATA_DIRS, once, behind the program's own and the default of an empty value.
std::string ComposeDataDirs(const std::string& before, const std::string& folder);

}  // namespace weir::cli
