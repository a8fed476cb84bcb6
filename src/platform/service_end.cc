// SPDX-License-Identifier: Apache-2.0
#include "platform/service_end.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <thread>
#include <utility>

#include "platform/clock.h"
#include "platform/process.h"

namespace weir::platform {

Result<Fd> WatchParent(pid_t parent) {
  if (parent == 0) return Fd();
  auto process = OpenPidFd(parent);
  if (process || process.error().code != Errc::kNotFound) return process;
  Fd ended(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));  // readable, as the pidfd of an ended process
  if (!ended) return ErrnoError("watching process " + std::to_string(parent), errno);
  return ended;
}

Result<ServiceEnd> ServiceEnd::Watch(pid_t parent) {
  WEIR_TRY(Fd parent_end, WatchParent(parent));
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  Fd stop(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!stop) return ErrnoError("waiting for signals", errno);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return ServiceEnd{.stop = std::move(stop), .parent = std::move(parent_end)};
}

bool ServiceEnd::Wait(Duration at_most) const {
  const Instant deadline = Now() + at_most;
  for (;;) {
    pollfd watched[2] = {{stop.get(), POLLIN, 0}, {parent.get(), POLLIN, 0}};  // poll skips a negative descriptor
    // Rounded up, so that the last wait does not end just before the deadline.
    const auto left = std::chrono::ceil<milliseconds>(std::max(deadline - Now(), Duration{0}));
    const int ready = ::poll(watched, 2, static_cast<int>(std::min(left, milliseconds(60'000)).count()));
    if (ready > 0) return true;
    if (Now() >= deadline || (ready < 0 && errno != EINTR)) return false;
  }
}

Status ExitAtServiceEnd(pid_t parent, std::function<void()> clean_up) {
  WEIR_TRY(ServiceEnd end, ServiceEnd::Watch(parent));
  std::thread([end = std::move(end), clean_up = std::move(clean_up)] {
    while (!end.Wait(std::chrono::hours(1))) continue;
    if (clean_up) clean_up();
    ::_exit(0);
  }).detach();
  return Ok();
}

}  // namespace weir::platform
