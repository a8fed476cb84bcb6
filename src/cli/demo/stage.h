// SPDX-License-Identifier: Apache-2.0
// What the demo plays on: a temporary folder, an X display, a daemon of its own and the programs. All of it goes when
// the stage does, in the reverse order.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/child.h"
#include "cli/control_client.h"
#include "cli/demo/plan.h"
#include "cli/terminal.h"

namespace weir::cli {

/// A folder under $TMPDIR or /tmp, removed with all that is in it unless it is to be kept.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> Make(bool keep);
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})), keep_(other.keep_) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();
  [[nodiscard]] std::string File(const std::string& name) const { return path_ / name; }

 private:
  TemporaryFolder(std::filesystem::path path, bool keep) : path_(std::move(path)), keep_(keep) {}
  std::filesystem::path path_;
  bool keep_;
};

class Stage {
 public:
  /// Starts the display and the daemon.
  static Result<std::unique_ptr<Stage>> Open(const DemoOptions& options);
  /// Starts the programs and waits until each has shown a frame. kTimeout when one doesn't, kUnavailable when one ends
  /// or the user does.
  Status Start(const std::vector<Workload>& workloads, StopSignals& signals);

  /// An error that shows what it printed, when the daemon or a program has ended.
  Status AllAlive();
  [[nodiscard]] ControlClient client() const { return ControlClient(folder_.File("run/control.sock")); }
  /// "Xvfb :99", or the user's display.
  [[nodiscard]] const std::string& display() const { return display_name_; }

 private:
  struct Player {
    std::string name, log_path;
    Child child;
  };

  explicit Stage(TemporaryFolder folder) : folder_(std::move(folder)) {}
  Status StartDisplay(bool own);
  Status StartDaemon(const DemoOptions& options);
  Status StartProgram(const Workload& workload);
  Status AwaitFrames(const std::vector<Workload>& workloads, StopSignals& signals);

  // In this order: the last one is ended first.
  TemporaryFolder folder_;
  std::vector<std::pair<std::string, std::string>> environment_;  // of the programs
  std::string display_name_;
  std::vector<Player> players_;  // the display, the daemon, then the programs
};

/// Nothing missing, or an error that names each missing program and its package.
Status CheckPrograms(const std::vector<Workload>& workloads, bool own_display);

/// Whether the demo brings its own display: it was asked to, or there is none. ($WAYLAND_DISPLAY is of no use: the
/// programs speak X.)
bool NeedsOwnDisplay(const DemoOptions& options);

}  // namespace weir::cli
