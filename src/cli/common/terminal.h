// SPDX-License-Identifier: Apache-2.0
// Changes to the terminal's state, undone by destructors.
#pragma once

#include <termios.h>

#include <csignal>
#include <string>

#include "base/units.h"
#include "cli/common/table.h"
#include "platform/fd.h"

namespace weir::cli {

bool StdoutIsTerminal();
/// Whether stdout is a terminal, NO_COLOR is unset (no-color.org) and TERM is not "dumb".
bool StdoutTakesColor();

/// Unicode if the locale's character set is UTF-8 (LC_ALL, else LC_CTYPE, else LANG).
Glyphs TerminalGlyphs();

struct TerminalSize {
  std::size_t columns = 0, rows = 0;  // zeros: not a terminal
};
TerminalSize SizeOfTerminal(int fd);

/// Shows the terminal's alternate screen with a hidden cursor while it lives; no effect if stdout is not a terminal.
class AlternateScreen {
 public:
  explicit AlternateScreen(bool use);
  ~AlternateScreen();
  AlternateScreen(const AlternateScreen&) = delete;
  AlternateScreen& operator=(const AlternateScreen&) = delete;
  /// Shows only `lines`, without flicker; if stdout is not a terminal, appends them.
  void Show(const std::string& lines) const;

 private:
  bool used_;
};

/// Reads single keys while it lives; none unless stdin is a terminal with this process in the foreground.
class Keyboard {
 public:
  explicit Keyboard(bool use);
  ~Keyboard();
  Keyboard(const Keyboard&) = delete;
  Keyboard& operator=(const Keyboard&) = delete;
  /// Readable after a key press; -1: there is no keyboard.
  [[nodiscard]] int fd() const;
  /// Reads the pressed keys; true if a 'q' is among them.
  bool TakeQuit();

 private:
  bool used_ = false;
  termios before_{};
};

/// What ended a wait.
enum class Woke : std::uint8_t { kTimeUp, kStopSignal, kKey, kResize };

/// Blocks INT, TERM, HUP and PIPE (stdout has no reader) while it lives, so that a command ends by returning and every
/// destructor runs.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  /// Waits for at most `span`; true if one of the signals has arrived, now or earlier.
  bool WaitFor(Duration span);
  /// Also returns when `key_fd` is readable (-1: no keyboard), or when the terminal's size has changed.
  Woke WaitForMore(Duration span, int key_fd);
  [[nodiscard]] bool Stopped() const { return signal_ != 0; }
  /// Whether the user asked for the end, other than by closing a pipe.
  [[nodiscard]] bool StoppedByUser() const { return Stopped() && signal_ != SIGPIPE; }
  /// The shell's convention: 128 + the signal's number.
  [[nodiscard]] int ExitCode() const { return 128 + signal_; }

 private:
  sigset_t set_{};
  sigset_t before_{};
  platform::Fd more_;  // signalfd for the signals of set_ and for WINCH
  int signal_ = 0;
};

}  // namespace weir::cli
