// SPDX-License-Identifier: Apache-2.0
// The facts that the doctor has gathered. Plain values, so that tests of the conclusions can construct them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/errc.h"
#include "cli/common/views.h"

namespace weir::cli {

enum class ImageType : std::uint8_t { kElf, kScript, kWindows, kOther };

/// One executable file.
struct ImageFacts {
  std::string path;
  ImageType type = ImageType::kOther;
  int bits = 0;
  std::uint16_t machine = 0;
  std::string loader;  // empty: static
  std::vector<std::string> needed;
  bool readable = false;    // the file could be read, and its headers are valid
  std::string interpreter;  // of a script
  std::string privilege;    // "setuid", "setgid", "file capabilities": ld.so ignores LD_PRELOAD; empty: none
};

struct ProgramFacts {
  std::string name;          // as given
  std::optional<Errc> code;  // it can't be executed
  std::string error;
  bool noexec = false;            // its file system forbids executing
  std::vector<ImageFacts> chain;  // the file; when it is a script, its interpreter behind it
};

struct EnvironmentFacts {
  std::string display, wayland_display;
  std::vector<std::string> preload;  // entries of LD_PRELOAD
  bool flatpak = false, steam_container = false, container = false;
};

struct LibraryFacts {
  std::string path;
  std::string error;  // the file is missing or can't be read
  int bits = 0;
  std::uint16_t machine = 0;
  bool noexec = false;
};

struct InstallFacts {
  std::string version;        // of this weir
  LibraryFacts stub, shim;    // libweir-gl-preload.so, and libweir-shim.so beside it
  std::string preload_error;  // the library's path can't be used in LD_PRELOAD
  std::uint16_t machine = 0;  // of this program
};

struct DaemonFacts {
  std::string socket;
  bool socket_named = false;  // by flag or environment: no other socket may be used
  bool socket_exists = false;
  std::optional<Errc> code;  // the reply is not that of a Weir daemon
  std::string error;
  std::string version, run_dir;
  bool is_private = false;
  std::int64_t clock_difference_ns = 0;  // the daemon's CLOCK_MONOTONIC minus this process's
  std::string run_dir_problem;           // not a folder, another user's, or writable by others
  std::vector<DeviceView> devices;
  std::vector<int> usable_cpus;  // of this process
};

/// One process of the program's tree, as /proc shows it.
struct TreeProcess {
  std::int64_t pid = 0, parent = 0;
  std::string program;
  bool maps_readable = false;
  bool stub_loaded = false, shim_loaded = false, layer_loaded = false;
  bool gl = false, egl = false, vulkan = false, angle = false, musl = false;
  bool preload_in_environment = false, attach_in_environment = false, layer_in_environment = false;
  bool environment_readable = false;
};

struct AttachedProcess {
  ProcessView process;
  std::vector<std::string> meters;  // in order of appearance; the last one is in use
  double attach_seconds = 0;        // after the program's start
  std::string started_by;           // "sh(12) > start.sh(13)": its ancestors from the started program down
};

/// The result of running the program.
struct TrialFacts {
  std::string error;  // the program could not be tried
  std::optional<Errc> code;
  std::int64_t pid = 0;
  double seconds = 0;
  std::optional<std::string> ended;  // "exit code 3"; empty: the trial ended it
  std::int64_t frames = 0;
  double fps = 0;
  std::int64_t fail_opens = 0, records_bad = 0;
  std::vector<AttachedProcess> attached;
  std::vector<TreeProcess> tree;      // every process that was seen, with every library that it has loaded
  std::vector<std::string> messages;  // output lines of Weir or ld.so
  std::string last_line;
};

struct DoctorFacts {
  InstallFacts install;
  EnvironmentFacts environment;
  DaemonFacts daemon;
  std::optional<ProgramFacts> program;
  std::optional<TrialFacts> trial;
};

}  // namespace weir::cli
