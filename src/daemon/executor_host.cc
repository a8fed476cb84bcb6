// SPDX-License-Identifier: Apache-2.0
#include "daemon/executor_host.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <utility>

#include "daemon/reaper.h"
#include "platform/accept_pause.h"
#include "platform/clock.h"
#include "platform/process.h"
#include "platform/refusals.h"
#include "platform/spawn.h"
#include "platform/unix_socket.h"
#include "proto/opencl_messages.h"

namespace weir::daemon {
namespace {

/// An executor that ends this soon would fail again, so that waiting clients get an error instead of another start.
constexpr Duration kAtOnce = seconds(5);
constexpr Duration kBetweenErrors = milliseconds(20);   // at most 4 KiB of what an executor says are read in each
constexpr int kReadsAtEnd = 16;                         // as much as a pipe holds
constexpr Duration kBetweenRefusals = milliseconds(1);  // after platform::kRefusalsAtOnce of them
constexpr double kEphemeralIdleSeconds = 1;             // an ephemeral vGPU should end soon after its program
constexpr double kIdleSeconds = 10;

}  // namespace

Result<std::unique_ptr<ExecutorHost>> ExecutorHost::Listen(boost::asio::io_context& loop, const std::string& path,
                                                           const ExecutorSetup& setup, ExecutorUsers& users,
                                                           Tenant tenant) {
  std::unique_ptr<ExecutorHost> host(new ExecutorHost(loop, path, setup, users, std::move(tenant)));
  // An executor of an earlier daemon may still be listening at this path; it keeps the clients that it has. The run
  // folder belongs to this daemon.
  ::unlink(path.c_str());
  // The user's home is made before the socket: module hosts have the same user and start once the socket is there. An
  // error here appears again when the executor is started, and clients get it then.
  if (users.HaveOwn() && !host->tenant_.ephemeral)
    (void)users.Of(host->tenant_.vgpu, host->tenant_.owner, host->tenant_.ephemeral);
  WEIR_TRY(host->listener_, platform::ListenSeqPacket(path, 0666));
  host->Watch();
  return host;
}

ExecutorHost::~ExecutorHost() {
  if (listener_) ::unlink(path_.c_str());
}

void ExecutorHost::Watch() {
  listener_watch_ = std::make_unique<FdWatch>(loop_, listener_.get(), [this] { OnClient(); });
}

void ExecutorHost::End() {
  book_.Signal(SIGTERM);
  book_.Clear();
  if (pid_ == 0) return;
  process_watch_.reset();
  ::kill(pid_, SIGTERM);  // again, because the book may lack it; it ends within half a second
  Reaper::Start(loop_, std::exchange(pid_, 0), std::move(process_));
}

void ExecutorHost::Kill() const {
  book_.Signal(SIGKILL);
  if (pid_ != 0) ::kill(pid_, SIGKILL);  // a child that was not reaped: no other process can have this pid
}

// By a signal that it can't refuse: a kernel may have taken it over.
void ExecutorHost::EndWithoutGate() const {
  if (pid_ == 0) return;
  std::fprintf(stderr,
               "weir: the executor of '%s' has lost its gate and has not attached again: it is ended, and its clients "
               "lose their device\n",
               tenant_.vgpu.c_str());
  ::kill(pid_, SIGKILL);  // a child that was not reaped: no other process can have this pid
}

/// How the executor is started, without its standard error.
platform::SpawnSpec ExecutorHost::SpecOf(const ExecutorUser& user) const {
  platform::SpawnSpec spec{
      .argv = {setup_.program, "--listener", std::to_string(listener_.get()), "--attach", tenant_.attach, "--vgpu",
               tenant_.vgpu, "--owner", std::to_string(tenant_.owner), "--idle-exit",
               fmt::format("{}", tenant_.ephemeral ? kEphemeralIdleSeconds : kIdleSeconds), "--partition",
               std::string(core::NameOf(tenant_.partition))},
      .kept_fd = listener_.get(),
      .no_output = true,  // what kernels print is not the daemon's
      .as = user.as,
      .confined = true,
      .files = user.files,
      .processes_max = user.processes_max,
      .groups = user.group_entries,
      .own_namespaces = user.own_namespaces,
      .expendable = true,
      .environment = setup_.environment};
  if (!setup_.library.empty()) spec.argv.insert(spec.argv.end(), {"--library", setup_.library});
  if (!setup_.device.empty()) spec.argv.insert(spec.argv.end(), {"--device", setup_.device});
  if (setup_.cpus > 0) spec.argv.insert(spec.argv.end(), {"--cpus", std::to_string(setup_.cpus)});
  if (setup_.kernel_timeout.count() > 0)
    spec.argv.insert(spec.argv.end(), {"--kernel-timeout", fmt::format("{}", SecondsOf(setup_.kernel_timeout))});
  if (setup_.copy_bytes_per_s > 0)
    spec.argv.insert(spec.argv.end(), {"--copy-bandwidth", fmt::format("{}", setup_.copy_bytes_per_s / 1e9)});
  for (const std::string& peer : setup_.peers) spec.argv.insert(spec.argv.end(), {"--peer", peer});
  if (!setup_.peer_list.empty()) spec.argv.insert(spec.argv.end(), {"--peer-list", setup_.peer_list});
  for (const uid_t portal : user.portals) spec.argv.insert(spec.argv.end(), {"--portal", std::to_string(portal)});
  spec.environment.insert(spec.environment.end(), user.environment.begin(), user.environment.end());
  if (spec.files) {
    spec.files->reads = FilesThatExecutorsRead({.program = setup_.program,
                                                .library = setup_.library,
                                                .peer_list = setup_.peer_list,
                                                .environment = spec.environment,
                                                .more = setup_.reads});
    spec.files->devices = DeviceFilesOf(setup_.gpu);
    for (const std::string& path : setup_.reads)
      if (path.starts_with("/dev/")) spec.files->devices.push_back(path);
  }
  return spec;
}

void ExecutorHost::OnClient() {
  if (setup_.program.empty()) return Refuse("this daemon has no executor: weir-executor is not installed beside weir");
  if (const Duration wait = backoff_.Wait(platform::Now()); wait > Duration{0})
    return Refuse(
        fmt::format("the executor ended at once, {} times in a row, last with {}; it may be started again in {:.0f} s",
                    backoff_.failures(), failed_with_, std::ceil(SecondsOf(wait))));
  auto user = users_.Of(tenant_.vgpu, tenant_.owner, tenant_.ephemeral);
  if (!user) return Refuse("the executor can't be started: " + user.error().message);
  // Non-blocking for the executor: what the daemon does not read in time is lost, and the executor goes on.
  int error_ends[2] = {-1, -1};
  if (::pipe2(error_ends, O_CLOEXEC | O_NONBLOCK) != 0)
    return Refuse("the executor can't be started: " + platform::ErrnoError("its standard error", errno).message);
  platform::Fd errors(error_ends[0]);
  const platform::Fd errors_of_executor(error_ends[1]);
  platform::SpawnSpec spec = SpecOf(*user);
  spec.error_fd = errors_of_executor.get();
  group_ = std::move(user->group);
  killed_for_memory_ = users_.KilledForMemory(group_);
  const auto pid = platform::Spawn(spec);
  if (!pid) return Refuse("the executor can't be started: " + pid.error().message);
  auto process = platform::OpenPidFd(*pid);
  listener_watch_.reset();  // the executor accepts connections from now on
  pid_ = *pid;
  if (!book_.Add(pid_))
    std::fprintf(stderr, "weir: the executor of '%s' can't be noted in %s.executors; a later daemon will not know it\n",
                 tenant_.vgpu.c_str(), path_.c_str());
  started_ = platform::Now();
  ++starts_;
  if (!process) {
    // Without a descriptor the daemon would not learn of its end, and waiting for it would stop the daemon.
    std::fprintf(stderr, "weir: the executor of '%s' can't be watched, and is killed: %s\n", tenant_.vgpu.c_str(),
                 process.error().message.c_str());
    ::kill(pid_, SIGKILL);
    return OnEnd();
  }
  process_ = std::move(*process);
  process_watch_ = std::make_unique<FdWatch>(loop_, process_.get(), [this] { OnEnd(); });
  errors_ = std::move(errors);
  errors_watch_ = std::make_unique<FdWatch>(loop_, errors_.get(), [this] {
    if (ReadErrors()) errors_watch_->Pause(kBetweenErrors);
  });
}

/// Logs a part of what the executor has written to its standard error. Kernels on drivers that compute on CPUs may
/// write there. False: there is no more for now.
bool ExecutorHost::ReadErrors() {
  char bytes[4096];
  const ssize_t got = errors_ ? ::read(errors_.get(), bytes, sizeof bytes) : -1;
  if (got > 0) LogErrors(error_lines_.Add({bytes, static_cast<std::size_t>(got)}, platform::Now()));
  if (got == 0) CloseErrors();
  return got > 0;
}

void ExecutorHost::CloseErrors() {
  errors_watch_.reset();
  errors_.Reset();
  LogErrors(std::exchange(error_lines_, {}).End(platform::Now()));
}

void ExecutorHost::LogErrors(const std::vector<std::string>& lines) const {
  for (const std::string& line : lines)
    std::fprintf(stderr, "weir: the executor of '%s' says: %s\n", tenant_.vgpu.c_str(), line.c_str());
}

void ExecutorHost::OnEnd() {
  process_watch_.reset();
  for (int i = 0; i < kReadsAtEnd && ReadErrors(); ++i) {
  }
  CloseErrors();  // a process that the executor has started may hold the other end
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = 0;
  process_.Reset();
  const bool failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  std::string how = WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                                        : fmt::format("exit code {}", WEXITSTATUS(status));
  if (failed && users_.KilledForMemory(group_) > killed_for_memory_)
    how += ": the kernel ended it for want of memory; 'weir serve --executor-memory' is its limit";
  if (failed) {
    ++failures_;
    backoff_.Failed(platform::Now());
    failed_with_ = how;
  } else {
    backoff_.Worked();
  }
  if (failed) std::fprintf(stderr, "weir: the executor of '%s' ended with %s\n", tenant_.vgpu.c_str(), how.c_str());
  if (failed && platform::Now() - started_ < kAtOnce)
    Refuse("the executor ended at once, with " + how +
           "; check that an OpenCL driver is installed; 'weir devices' lists the devices" +
           (users_.HaveOwn()
                ? "; 'weir serve --executor-reads PATH' names files that the driver needs; a driver that needs the "
                  "owner's rights works with '--executor-users owners'"
                : ""));
  Watch();
}

/// Sends an error to the first clients in the listener's queue. The rest stays queued.
void ExecutorHost::Refuse(const std::string& why) {
  int failed_by = 0;  // the errno of the last accept4
  const auto next = [this, &failed_by] {
    platform::Fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection) failed_by = errno;
    return connection;
  };
  const bool more = platform::RefuseWaiting(
      next, proto::cl::Encode(proto::cl::Welcome{.magic = proto::cl::kHelloMagic, .refusal = why}));
  if (!listener_watch_) return;
  if (more)
    listener_watch_->Pause(kBetweenRefusals);
  else if (failed_by != EAGAIN)
    listener_watch_->Pause(platform::AcceptPause::kPause);
}

}  // namespace weir::daemon
