// SPDX-License-Identifier: Apache-2.0
// What may be done to the terminal, and undoing it.
#pragma once

#include <termios.h>

#include <csignal>
#include <string>

#include "base/units.h"
#include "cli/table.h"
#include "platform/fd.h"

namespace weir::cli {

bool StdoutIsTerminal();
/// On a terminal, unless NO_COLOR is set (no-color.org) or TERM is "dumb".
bool StdoutTakesColor();

/// Unicode if the locale's character set is UTF-8 (LC_ALL, else LC_CTYPE, else LANG).
Glyphs TerminalGlyphs();

struct TerminalSize {
  std::size_t columns = 0, rows = 0;  // zeros: not a terminal
};
TerminalSize SizeOfTerminal(int fd);

/// The terminal's alternate screen, with the cursor hidden, while it lives; nothing where stdout isn't a terminal.
class AlternateScreen {
 public:
  explicit AlternateScreen(bool use);
  ~AlternateScreen();
  AlternateScreen(const AlternateScreen&) = delete;
  AlternateScreen& operator=(const AlternateScreen&) = delete;
  /// Shows `lines` and nothing else, without flicker; where stdout isn't a terminal, below what is there.
  void Show(const std::string& lines) const;

 private:
  bool used_;
};

/// Single keys, as they are pressed, while it lives; none where stdin isn't a terminal whose foreground we are in.
class Keyboard {
 public:
  explicit Keyboard(bool use);
  ~Keyboard();
  Keyboard(const Keyboard&) = delete;
  Keyboard& operator=(const Keyboard&) = delete;
  /// Readable when a key was pressed; -1: there is no keyboard.
  [[nodiscard]] int fd() const;
  /// Takes what was pressed; true when a 'q' is among it.
  bool TakeQuit();

 private:
  bool used_ = false;
  termios before_{};
};

/// What ended a wait.
enum class Woke : std::uint8_t { kTimeUp, kStopSignal, kKey, kResize };

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
  /// Also until something can be read from `key_fd` (-1: nothing ever), or the terminal's size has changed.
  Woke WaitForMore(Duration span, int key_fd);
  [[nodiscard]] bool Stopped() const { return signal_ != 0; }
  /// The user asked for it, other than by closing a pipe.
  [[nodiscard]] bool Asked() const { return Stopped() && signal_ != SIGPIPE; }
  /// The shell's convention: 128 + the signal's number.
  [[nodiscard]] int ExitCode() const { return 128 + signal_; }

 private:
  sigset_t set_{};
  sigset_t before_{};
  platform::Fd more_;  // signalfd: those of the set, and WINCH
  int signal_ = 0;
};

}  // namespace weir::cli
