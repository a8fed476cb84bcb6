// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>

namespace weir::cli {

bool StdoutIsTerminal() { return isatty(STDOUT_FILENO) != 0; }

bool StdoutTakesColor() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool refused = no_color != nullptr && *no_color != '\0';
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  return StdoutIsTerminal() && !refused && !dumb;
}

AlternateScreen::AlternateScreen(bool use) : used_(use && StdoutIsTerminal()) {
  if (used_) fmt::print("\x1b[?1049h\x1b[?25l");
}

AlternateScreen::~AlternateScreen() {
  if (!used_) return;
  std::fputs("\x1b[?25h\x1b[?1049l", stdout);
  std::fflush(stdout);
}

void AlternateScreen::Home() const {
  if (used_) fmt::print("\x1b[H\x1b[J");
}

StopSignals::StopSignals() {
  sigemptyset(&set_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) sigaddset(&set_, signal);
  sigprocmask(SIG_BLOCK, &set_, &before_);
}

StopSignals::~StopSignals() {
  WaitFor(Duration(0));  // one that is still pending has been obeyed: the command is ending
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

bool StopSignals::WaitFor(Duration span) {
  if (signal_ != 0 && span > Duration(0)) return true;
  timespec limit{};
  limit.tv_sec = span / seconds(1);
  limit.tv_nsec = (span % seconds(1)).count();
  const int signal = sigtimedwait(&set_, nullptr, &limit);
  if (signal > 0) signal_ = signal;
  return signal_ != 0;
}

}  // namespace weir::cli
