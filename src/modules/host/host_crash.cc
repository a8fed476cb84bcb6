// SPDX-License-Identifier: Apache-2.0
#include "modules/host/host_crash.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "modules/module_frames.h"

namespace weir::modules {
namespace {

constexpr std::size_t kSignalStackBytes = 64 * 1024;

thread_local std::uint64_t crash_run = 0;  // number of this thread's run; 0: none
int crash_fd = -1;

void TellOfCrash(std::uint32_t signal) noexcept {
  std::array<std::byte, kCrashFrameBytes> frame{};
  EncodeCrash(crash_run, signal, frame);
  [[maybe_unused]] const ssize_t told = ::send(crash_fd, frame.data(), frame.size(), MSG_NOSIGNAL);
}

void OnFatalSignal(int signal) noexcept {
  TellOfCrash(static_cast<std::uint32_t>(signal));
  ::_exit(128 + signal);
}

void OnExit() noexcept {
  if (crash_run == 0) return;
  TellOfCrash(0);
  ::_exit(1);
}

}  // namespace

void WatchForCrashes(int fd) {
  crash_fd = fd;
  struct sigaction action {};
  action.sa_handler = OnFatalSignal;
  action.sa_flags = SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP})
    ::sigaction(signal, &action, nullptr);
  std::atexit([] { OnExit(); });
}

CrashWatch::CrashWatch(std::uint64_t run) : stack_(new std::byte[kSignalStackBytes]) {
  crash_run = run;
  const stack_t stack{.ss_sp = stack_.get(), .ss_flags = 0, .ss_size = kSignalStackBytes};
  ::sigaltstack(&stack, nullptr);
}

CrashWatch::~CrashWatch() {
  const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  ::sigaltstack(&none, nullptr);
  crash_run = 0;
}

}  // namespace weir::modules
