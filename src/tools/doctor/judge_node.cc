// SPDX-License-Identifier: Apache-2.0
// Findings that need no program: the installation, the daemon, the environment.
#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/elf_image.h"
#include "tools/doctor/findings.h"

namespace weir::cli {
namespace {

constexpr std::int64_t kClockDifferenceMaxNs = 1'000'000'000;  // with a larger difference heartbeats look stale

void JudgeLibrary(const LibraryFacts& library, std::uint16_t machine, std::vector<Finding>& out) {
  if (!library.error.empty()) {
    out.push_back({"shim-missing", Level::kProblem, fmt::format("the shim can't be used: {}", library.error),
                   "without it no program is attached",
                   "reinstall weir, or set WEIR_LIB_DIR to the folder of its libraries", Errc::kNotFound});
    return;
  }
  if (library.bits != 64 || library.machine != machine)
    out.push_back({"shim-foreign", Level::kProblem,
                   fmt::format("{} is for {} ({} bits), this weir for {}", library.path, MachineName(library.machine),
                               library.bits, MachineName(machine)),
                   "ld.so prints 'wrong ELF class' and continues without it", "reinstall weir",
                   Errc::kVersionMismatch});
  if (library.noexec)
    out.push_back({"shim-noexec", Level::kProblem, fmt::format("{} lies on a file system mounted noexec", library.path),
                   "ld.so can't map it into a program", "install weir elsewhere, or mount that file system with exec",
                   Errc::kPermissionDenied});
}

void JudgeCpus(const DaemonFacts& daemon, std::vector<Finding>& out) {
  for (const DeviceView& device : daemon.devices) {
    const std::string cpus = device.cpus.empty() ? "" : fmt::format(", CPUs {}", device.cpus);
    out.push_back({"device", Level::kOk,
                   fmt::format("device {} ({}{}), policy {}", device.name, device.kind, cpus, device.policy), "", ""});
    if (device.kind == "software" && device.cpu_count > daemon.usable_cpus.size())
      out.push_back({"device-cpus", Level::kNote,
                     fmt::format("device {} has {} CPUs, this shell may use {}", device.name, device.cpu_count,
                                 daemon.usable_cpus.size()),
                     "programs started here can't use all of the device's CPUs, on which shares are based",
                     "start the daemon with --device-cpus of those, or the program without taskset"});
  }
}

}  // namespace

void JudgeInstall(const InstallFacts& install, std::vector<Finding>& out) {
  const std::size_t before = out.size();
  JudgeLibrary(install.stub, install.machine, out);
  if (install.stub.error.empty()) JudgeLibrary(install.shim, install.machine, out);
  if (!install.preload_error.empty())
    out.push_back({"shim-path", Level::kProblem, install.preload_error, "", "", Errc::kInvalidArgument});
  if (out.size() == before)
    out.push_back({"install", Level::kOk, fmt::format("weir {}, shim {}", install.version, install.stub.path), "", ""});
}

void JudgeDaemon(const DaemonFacts& daemon, const InstallFacts& install, std::vector<Finding>& out) {
  if (!daemon.run_dir_problem.empty())
    out.push_back({"run-dir", Level::kProblem, daemon.run_dir_problem,
                   "a user who may write there can replace the daemon", "remove it, or name another with --run-dir",
                   Errc::kPermissionDenied});
  if (daemon.code == Errc::kUnavailable && !daemon.socket_exists && !daemon.socket_named) {
    out.push_back({"daemon-none", Level::kNote, fmt::format("no daemon runs at {}", daemon.socket), "",
                   "'weir run' starts a private one when it is needed; 'weir serve' one that stays"});
    return;
  }
  if (daemon.code == Errc::kUnavailable) {
    out.push_back({"daemon-gone", daemon.socket_named ? Level::kProblem : Level::kNote,
                   fmt::format("no daemon answers at {}", daemon.socket),
                   daemon.socket_exists ? "a daemon has ended without removing its socket" : "no such socket",
                   "start it: 'weir serve'", Errc::kUnavailable});
    return;
  }
  if (daemon.code == Errc::kPermissionDenied) {
    out.push_back({"daemon-denied", Level::kProblem, fmt::format("you may not open {}", daemon.socket),
                   "the socket's owner and group may steer the node",
                   "ask the user who runs the daemon, or run your own", Errc::kPermissionDenied});
    return;
  }
  if (daemon.code) {
    out.push_back({"daemon-strange", Level::kProblem,
                   fmt::format("the server at {} is not a daemon of Weir: {}", daemon.socket, daemon.error), "",
                   "give the right socket with --socket, or stop the server there", *daemon.code});
    return;
  }
  out.push_back({"daemon", Level::kOk,
                 fmt::format("daemon {}{} at {}", daemon.version, daemon.is_private ? " (private)" : "", daemon.socket),
                 "", ""});
  if (daemon.version != install.version)
    out.push_back({"daemon-version", Level::kNote,
                   fmt::format("the daemon is version {}, this weir {}", daemon.version, install.version), "",
                   "restart the daemon: 'weir stop', then 'weir serve'"});
  if (std::abs(daemon.clock_difference_ns) > kClockDifferenceMaxNs)
    out.push_back({"clock", Level::kProblem,
                   fmt::format("the daemon's CLOCK_MONOTONIC is {:+.1f} s from ours",
                               static_cast<double>(daemon.clock_difference_ns) * 1e-9),
                   "one of the two is in a time namespace: programs here would treat the daemon as dead",
                   "run both in one time namespace", Errc::kVersionMismatch});
  JudgeCpus(daemon, out);
}

void JudgeEnvironment(const EnvironmentFacts& environment, bool runs_program, bool daemon_answers,
                      std::vector<Finding>& out) {
  if (runs_program && environment.display.empty() && environment.wayland_display.empty())
    out.push_back({"display-none", Level::kNote, "neither DISPLAY nor WAYLAND_DISPLAY is set",
                   "a program with a window ends before its first frame; one that renders off screen shows none",
                   "set DISPLAY, or run it under 'xvfb-run -a'"});
  for (const std::string& entry : environment.preload) {
    const bool mangohud = entry.find("MangoHud") != std::string::npos || entry.find("mangohud") != std::string::npos;
    const bool steam = entry.find("gameoverlayrenderer") != std::string::npos;
    if (mangohud || steam)
      out.push_back(
          {"preload-other", Level::kNote,
           fmt::format("LD_PRELOAD already contains {} ({})", mangohud ? "MangoHud" : "the Steam overlay", entry),
           "the first library wraps the others: it precedes weir's shim, so that its own time in a "
           "present counts as the program's thinking, not as present",
           "nothing, unless the program crashes: then try without it"});
    else if (entry.find("libweir-gl-preload") == std::string::npos)
      out.push_back({"preload-unknown", Level::kNote, fmt::format("LD_PRELOAD already contains {}", entry),
                     "if it replaces dlsym or presents too, the two may get into each other's way", ""});
  }
  if (environment.flatpak)
    out.push_back({"flatpak", Level::kNote, "this runs inside a Flatpak",
                   "the host's folders are missing: both the shim and the daemon's socket",
                   "install weir inside, and grant it the run folder: flatpak override --filesystem=/run/weir"});
  if (environment.steam_container)
    out.push_back({"steam-container", Level::kNote, "this runs inside Steam's container",
                   "it drops LD_PRELOAD entries that it doesn't know, and hides the host's libraries",
                   "put 'weir run -- %command%' into the game's launch options, and the shim into a folder that the "
                   "container shares (the home folder)"});
  else if (environment.container && !environment.flatpak && !daemon_answers)
    out.push_back(
        {"container", Level::kNote, "this runs inside a container, and no daemon answers in it", "",
         "bind-mount the vGPU's attach socket and the folder of the shim, and set WEIR_ATTACH and LD_PRELOAD"});
}

}  // namespace weir::cli
