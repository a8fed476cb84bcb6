// SPDX-License-Identifier: Apache-2.0
#include "cli/common/places.h"

#include <fmt/format.h>

#include <cstdlib>
#include <vector>

#include "cli/common/text_units.h"
#include "platform/files.h"

namespace weir::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPreloadLibrary = "libweir-gl-preload.so";

}  // namespace

std::string EnvironmentVariable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

Places FindPlaces(const PlaceFlags& flags) {
  Places places;
  // Made absolute, because a private daemon changes its current folder.
  std::error_code unreadable_cwd;
  const std::string run_dir = flags.run_dir.empty() ? platform::DefaultRunDir() : flags.run_dir;
  places.run_dir = fs::absolute(run_dir, unreadable_cwd).string();
  // A run folder given by flag takes precedence over the environment.
  const std::string environment = flags.run_dir.empty() ? EnvironmentVariable("WEIR_SOCKET") : std::string();
  const std::string& named = flags.socket.empty() ? environment : flags.socket;
  places.socket_named = !named.empty();
  places.socket = places.socket_named ? named : places.run_dir + "/control.sock";
  return places;
}

Result<fs::path> SelfExecutable() {
  std::error_code error;
  fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error)
    return Fail(Errc::kUnavailable, fmt::format("cannot tell where weir is installed: reading /proc/self/exe: {}; is "
                                                "/proc mounted?",
                                                error.message()));
  return self;
}

namespace {

/// The folders in which libraries and helper programs of `weir` may lie.
std::vector<fs::path> LibraryFolders(const fs::path& self) {
  const fs::path prefix = self.parent_path().parent_path();
  std::vector<fs::path> folders{prefix / "lib/weir", prefix / WEIR_INSTALL_LIBDIR / "weir"};
  if (const std::string extra = EnvironmentVariable("WEIR_LIB_DIR"); !extra.empty())
    folders.insert(folders.begin(), extra);
  return folders;
}

}  // namespace

std::string FindEmulator(const fs::path& self) {
  std::error_code error;
  const fs::path program = self.parent_path() / "weir-emulated-gpu";
  return fs::is_regular_file(program, error) ? program.string() : std::string();
}

std::string FindEmulatedDrivers(const fs::path& self) {
  for (const fs::path& folder : LibraryFolders(self)) {
    std::error_code error;
    if (fs::is_directory(folder / "emulated", error)) return fs::absolute(folder / "emulated").lexically_normal();
  }
  return {};
}

std::string FindHelper(const fs::path& self, const std::string& name) {
  for (const fs::path& folder : LibraryFolders(self)) {
    std::error_code error;
    if (fs::is_regular_file(folder / name, error)) return fs::absolute(folder / name).lexically_normal().string();
  }
  return {};
}

Result<std::string> FindPreloadLibrary(const fs::path& self) {
  if (std::string library = FindHelper(self, kPreloadLibrary); !library.empty()) return library;
  std::string tried;
  for (const fs::path& folder : LibraryFolders(self)) tried += (tried.empty() ? "" : ", ") + folder.string();
  return Fail(Errc::kNotFound, fmt::format("cannot find {} in {}; reinstall weir, or set WEIR_LIB_DIR to its folder",
                                           kPreloadLibrary, tried));
}

Result<std::string> ComposePreload(const std::string& before, const std::string& library) {
  if (library.find_first_of(" :\t\n") != std::string::npos)
    return Fail(Errc::kInvalidArgument,
                fmt::format("cannot preload '{}': LD_PRELOAD accepts no path with a blank or a colon; install weir "
                            "elsewhere, or set WEIR_LIB_DIR",
                            library));
  if (before.empty()) return library;
  for (const std::string& part : SplitList(before, ':'))
    for (const std::string& entry : SplitList(part, ' '))
      if (entry == library) return before;
  // The library must be first: libraries that hook the same names (MangoHud) skip all later libraries when they look up
  // the driver's functions.
  return library + ":" + before;
}

std::string FindVulkanLayer(const fs::path& preload_library) {
  const fs::path folder = preload_library.parent_path() / "share";
  std::error_code error;
  return fs::is_directory(folder / "vulkan/implicit_layer.d", error) ? folder.string() : std::string();
}

std::string ComposeDataDirs(const std::string& before, const std::string& folder) {
  // The default for an empty value (XDG Base Directory Specification).
  const std::string own = before.empty() ? "/usr/local/share:/usr/share" : before;
  for (const std::string& entry : SplitList(own, ':'))
    if (entry == folder) return own;
  return own + ":" + folder;
}

}  // namespace weir::cli
