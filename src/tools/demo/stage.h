// SPDX-License-Identifier: Apache-2.0
// The demo's environment: a temporary folder, an X display, a private daemon and the programs. The destructor ends all
// of them in reverse order.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/child.h"
#include "cli/common/control_client.h"
#include "cli/common/terminal.h"
#include "tools/demo/plan.h"

namespace weir::cli {

/// A folder under $TMPDIR or /tmp; the destructor removes it unless it is to be kept.
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
  /// Starts the display, the daemon and, if one is wanted, the dashboard.
  static Result<std::unique_ptr<Stage>> Open(const DemoOptions& options);
  /// Starts the programs and waits until each has shown a frame. kTimeout: a program shows none; kUnavailable: a
  /// program has ended or the user has interrupted.
  Status Start(const std::vector<Workload>& workloads, StopSignals& signals);

  /// An error with the log's end if the daemon or a program has ended.
  Status AllAlive();
  [[nodiscard]] ControlClient client() const { return ControlClient(folder_.File("run/control.sock")); }
  /// The address of the dashboard, with its token; empty: there is none.
  [[nodiscard]] const std::string& dashboard() const { return dashboard_address_; }
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
  Status StartDashboard(const std::string& listen);
  Status StartProgram(const Workload& workload);
  Status AwaitFrames(const std::vector<Workload>& workloads, StopSignals& signals);

  // Destroyed in reverse order.
  TemporaryFolder folder_;
  std::vector<std::pair<std::string, std::string>> environment_;  // of the programs
  std::string display_name_, dashboard_address_;
  std::vector<Player> players_;  // the display, the daemon, the dashboard, then the programs
};

/// An error names each missing program and its package.
Status CheckPrograms(const std::vector<Workload>& workloads, bool own_display);

/// Whether the demo starts its own display: on request, or if there is none. $WAYLAND_DISPLAY does not count, because
/// the programs use X.
bool NeedsOwnDisplay(const DemoOptions& options);

}  // namespace weir::cli
