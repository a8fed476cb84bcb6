// SPDX-License-Identifier: Apache-2.0
#include "cli/common/terminal.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
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

Glyphs TerminalGlyphs() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string text(value);
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    const bool utf8 = text.find("utf-8") != std::string::npos || text.find("utf8") != std::string::npos;
    return utf8 ? Glyphs::kUnicode : Glyphs::kAscii;
  }
  return Glyphs::kAscii;
}

TerminalSize SizeOfTerminal(int fd) {
  winsize size{};
  if (isatty(fd) == 0) return {};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {80, 24};
  return {size.ws_col, size.ws_row};
}

AlternateScreen::AlternateScreen(bool use) : used_(use && StdoutIsTerminal()) {
  if (used_) fmt::print("\x1b[?1049h\x1b[?25l");
}

AlternateScreen::~AlternateScreen() {
  if (!used_) return;
  std::fputs("\x1b[?25h\x1b[?1049l", stdout);
  std::fflush(stdout);
}

void AlternateScreen::Show(const std::string& lines) const {
  if (!used_) return fmt::print("{}\n", lines);
  std::string out = "\x1b[H";  // overwrites the old lines and clears the rest of each
  for (const char c : lines) out += c == '\n' ? std::string("\x1b[K\n") : std::string(1, c);
  if (out.ends_with('\n')) out.pop_back();  // the last line's end would scroll the screen
  fmt::print("{}\x1b[J", out);
}

Keyboard::Keyboard(bool use) {
  const bool ours = use && isatty(STDIN_FILENO) != 0 && tcgetpgrp(STDIN_FILENO) == getpgrp();
  if (!ours || tcgetattr(STDIN_FILENO, &before_) != 0) return;
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  used_ = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

Keyboard::~Keyboard() {
  if (used_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

int Keyboard::fd() const { return used_ ? STDIN_FILENO : -1; }

bool Keyboard::TakeQuit() {
  char keys[64];
  const ssize_t count = used_ ? read(STDIN_FILENO, keys, sizeof keys) : 0;
  return count > 0 && std::any_of(keys, keys + count, [](char c) { return c == 'q' || c == 'Q'; });
}

StopSignals::StopSignals() {
  sigemptyset(&set_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) sigaddset(&set_, signal);
  sigset_t more = set_;
  sigaddset(&more, SIGWINCH);
  sigprocmask(SIG_BLOCK, &more, &before_);
  more_.Reset(signalfd(-1, &more, SFD_CLOEXEC | SFD_NONBLOCK));
}

StopSignals::~StopSignals() {
  WaitFor(Duration(0));  // takes a pending signal, which is obeyed already because the command ends
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

Woke StopSignals::WaitForMore(Duration span, int key_fd) {
  if (signal_ != 0) return Woke::kStopSignal;
  timespec limit{};
  limit.tv_sec = span / seconds(1);
  limit.tv_nsec = (span % seconds(1)).count();
  pollfd sources[2] = {{more_.get(), POLLIN, 0}, {key_fd, POLLIN, 0}};
  if (ppoll(sources, 2, &limit, nullptr) <= 0) return Woke::kTimeUp;
  signalfd_siginfo info{};
  if (sources[0].revents != 0 && read(more_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGWINCH) return Woke::kResize;
    signal_ = static_cast<int>(info.ssi_signo);
    return Woke::kStopSignal;
  }
  if ((sources[1].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) signal_ = SIGHUP;  // the terminal is gone
  return signal_ != 0 ? Woke::kStopSignal : sources[1].revents != 0 ? Woke::kKey : Woke::kTimeUp;
}

}  // namespace weir::cli
