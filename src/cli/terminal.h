// SPDX-License-Identifier: Apache-2.0
// What may be done to the terminal, and undoing it.
#pragma once

#include <csignal>

#include "base/units.h"

namespace weir::cli {

bool StdoutIsTerminal();
/// On a terminal, unless NO_COLOR is set (no-color.org) or TERM is "dumb".
bool StdoutTakesColor();

/// The terminal's alternate screen, with the cursor hidden, while it lives; nothing where stdout isn't a terminal.
class AlternateScreen {
 public:
  explicit AlternateScreen(bool use);
  ~AlternateScreen();
  AlternateScreen(const AlternateScreen&) = delete;
  AlternateScreen& operator=(const AlternateScreen&) = delete;
  /// To the top left, clearing what was there.
  void Home() const;

 private:
  bool used_;
};

/// Holds INT, TERM, HUP and PIPE (nobody reads our stdout any more) back while it lives, so that a command ends by
/// returning and every destructor runs.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  /// Waits, at most `span`; true when one of the signals came, now or earlier.
  bool WaitFor(Duration span);
  [[nodiscard]] bool Stopped() const { return signal_ != 0; }
  /// The user asked for it, other than by closing a pipe.
  [[nodiscard]] bool Asked() const { return Stopped() && signal_ != SIGPIPE; }
  /// The shell's convention: 128 + the signal's number.
  [[nodiscard]] int ExitCode() const { return 128 + signal_; }

 private:
  sigset_t set_{};
  sigset_t before_{};
  int signal_ = 0;
};

}  // namespace weir::cli
