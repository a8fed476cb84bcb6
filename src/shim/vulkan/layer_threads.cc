// SPDX-License-Identifier: Apache-2.0
#include "shim/vulkan/layer_threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace weir::shim {
namespace {

/// The name of a thread of this process; empty if it has ended.
void ReadName(pid_t tid, char (&name)[32]) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/comm", static_cast<int>(tid));
  name[0] = '\0';
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  const ssize_t got = ::read(file, name, sizeof name - 1);
  ::close(file);
  name[std::max<ssize_t>(got, 0)] = '\0';
}

void WriteName(pid_t tid, std::size_t number) {
  char path[64], name[16];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/comm", static_cast<int>(tid));
  const int length = std::snprintf(name, sizeof name, "llvmpipe-cs%zu", number % 1000);
  const int file = ::open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  if (::write(file, name, static_cast<std::size_t>(length)) != length) {
    // The thread keeps its name, and its work is not charged.
  }
  ::close(file);
}

}  // namespace

bool DriverThreads::List::Has(pid_t tid) const {
  return std::binary_search(tids.begin(), tids.begin() + static_cast<std::ptrdiff_t>(count), tid);
}

void DriverThreads::Read(List& list) {
  list.count = kMost + 1;
  DIR* folder = ::opendir("/proc/self/task");
  if (folder == nullptr) return;
  list.count = 0;
  while (const dirent* entry = ::readdir(folder)) {
    const pid_t tid = static_cast<pid_t>(std::atoi(entry->d_name));
    if (tid <= 0) continue;
    if (list.count < kMost) list.tids[list.count] = tid;
    ++list.count;
  }
  ::closedir(folder);
  std::sort(list.tids.begin(), list.tids.begin() + static_cast<std::ptrdiff_t>(std::min(list.count, kMost)));
}

DriverThreads::DriverThreads() { Read(before_); }

DriverThreads::Row DriverThreads::LookAtRow(const List& now, std::size_t most) const {
  static constexpr char kRasterizer[] = "llvmpipe-";
  Row row;
  for (std::size_t i = 0; i < now.count; ++i) {
    if (before_.Has(now.tids[i])) continue;
    char name[32];
    ReadName(now.tids[i], name);
    if (std::strncmp(name, kRasterizer, sizeof kRasterizer - 1) == 0) {
      ++row.rasterizers;
    } else if (std::strchr(name, ':') == nullptr) {  // Mesa's other threads have names with a colon
      if (row.rasterizers == 0) {
        ++row.early;
      } else if (row.unnamed++ < most) {
        WriteName(now.tids[i], row.unnamed - 1);
      }
    }
  }
  return row;
}

void DriverThreads::NameNewWorkers() const {
  constexpr int kTries = 2000;
  for (int i = 0;; ++i) {
    List now;
    Read(now);
    if (before_.count > kMost || now.count > kMost) return;
    const Row row = LookAtRow(now, 0);
    // llvmpipe starts as many threads for compute shaders as rasterizers. A rasterizer that has not set its name yet
    // counts as unnamed, so the numbers then differ.
    const bool complete = row.rasterizers > 0 && row.unnamed == row.rasterizers;
    const bool none_to_come = row.rasterizers + row.unnamed + row.early == 0;
    if (none_to_come) return;
    if (complete || i == kTries) {
      LookAtRow(now, row.rasterizers);
      return;
    }
    ::usleep(1000);
  }
}

}  // namespace weir::shim
