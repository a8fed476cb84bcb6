// SPDX-License-Identifier: Apache-2.0
// What the doctor found out, before anybody judges it. Plain values: the judging is tested with made-up ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/errc.h"
#include "cli/views.h"

namespace weir::cli {

enum class ImageType : std::uint8_t { kElf, kScript, kOther };

/// One executable file.
struct ImageFacts {
  std::string path;
  ImageType type = ImageType::kOther;
  int bits = 0;
  std::uint16_t machine = 0;
  std::string loader;  // empty: static
  std::vector<std::string> needed;
  bool readable = false;    // we could look at it, and its headers make sense
  std::string interpreter;  // of a script
  std::string privilege;    // "setuid", "setgid", "file capabilities": ld.so will drop LD_PRELOAD; empty: none
};

struct ProgramFacts {
  std::string name;          // as given
  std::optional<Errc> code;  // it can't be run
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
  std::string error;  // it can't be read, or isn't there
  int bits = 0;
  std::uint16_t machine = 0;
  bool noexec = false;
};

struct InstallFacts {
  std::string version;        // of this weir
  LibraryFacts stub, shim;    // libweir-gl-preload.so, and libweir-gl.so beside it
  std::string preload_error;  // its path can't stand in LD_PRELOAD
  std::uint16_t machine = 0;  // of this program
};

struct DaemonFacts {
  std::string socket;
  bool socket_named = false;  // by flag or environment: only that one will do
  bool socket_exists = false;
  std::optional<Errc> code;  // it doesn't answer as a daemon of Weir does
  std::string error;
  std::string version, run_dir;
  bool is_private = false;
  std::int64_t clock_difference_ns = 0;  // its CLOCK_MONOTONIC less ours
  std::string run_dir_problem;           // not a folder, not ours, others may write to it
  std::vector<DeviceView> devices;
  std::vector<int> usable_cpus;  // of this process
};

/// One process of the program's tree, as /proc shows it.
struct TreeProcess {
  std::int64_t pid = 0, parent = 0;
  std::string program;
  bool maps_readable = false;
  bool stub_loaded = false, shim_loaded = false;
  bool gl = false, egl = false, vulkan = false, angle = false, musl = false;
  bool preload_in_environment = false, attach_in_environment = false;
  bool environment_readable = false;
};

struct AttachedProcess {
  ProcessView process;
  std::vector<std::string> meters;  // as they came, the last one is in use
  double attach_seconds = 0;        // after the program was started
  std::string started_by;           // "sh(12) > start.sh(13)": its ancestors down from the program that was started
};

/// What came of running the program.
struct TrialFacts {
  std::string error;  // it could not be tried
  std::optional<Errc> code;
  std::int64_t pid = 0;
  double seconds = 0;
  std::optional<std::string> ended;  // "exit code 3"; nothing: it was ended after the trial
  std::int64_t frames = 0;
  double fps = 0;
  std::int64_t fail_opens = 0, records_bad = 0;
  std::vector<AttachedProcess> attached;
  std::vector<TreeProcess> tree;      // every process that was seen, with all that it ever had loaded
  std::vector<std::string> messages;  // lines of its output that come from us or from ld.so
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
