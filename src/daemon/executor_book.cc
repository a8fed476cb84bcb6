// SPDX-License-Identifier: Apache-2.0
#include "daemon/executor_book.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "platform/fd.h"
#include "platform/files.h"
#include "platform/process.h"

namespace weir::daemon {

std::vector<ExecutorBook::Entry> ExecutorBook::Living() const {
  constexpr std::size_t kLineBytesMax = 32;
  std::vector<Entry> living;
  const auto text = platform::ReadFile(path_, kEntriesMax * kLineBytesMax);
  std::istringstream lines(text ? *text : std::string());
  for (Entry entry; living.size() < kEntriesMax && lines >> entry.pid >> entry.start;) {
    const auto start = platform::StartTimeOf(entry.pid);
    if (start && *start == entry.start) living.push_back(entry);
  }
  return living;
}

bool ExecutorBook::Add(pid_t pid) {
  const auto start = platform::StartTimeOf(pid);
  if (!start) return false;
  std::vector<Entry> entries = Living();
  if (entries.size() == kEntriesMax) entries.erase(entries.begin());
  entries.push_back({pid, *start});
  std::string text;
  for (const Entry& entry : entries) text += fmt::format("{} {}\n", entry.pid, entry.start);
  // No sync is needed: after a crash of the machine no executors are left.
  const std::string next = path_ + ".new";
  {
    const platform::Fd file(::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) return false;
  }
  return std::rename(next.c_str(), path_.c_str()) == 0;
}

bool ExecutorBook::Has(pid_t pid) const {
  return std::ranges::any_of(Living(), [pid](const Entry& entry) { return entry.pid == pid; });
}

void ExecutorBook::Signal(int signal) const {
  for (const Entry& entry : Living()) {
    const auto process = platform::OpenPidFd(entry.pid);
    if (!process) continue;
    // Compared once the descriptor is open: it then belongs to this very process, also if the pid is reused later.
    const auto start = platform::StartTimeOf(entry.pid);
    if (start && *start == entry.start) platform::SignalPidFd(process->get(), signal);
  }
}

void ExecutorBook::Clear() { ::unlink(path_.c_str()); }

}  // namespace weir::daemon
