// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervised_process.h"

#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include "daemon/reaper.h"
#include "platform/clock.h"
#include "platform/spawn.h"

namespace weir::daemon {
namespace {

/// Restart delay; doubles with each failed start up to the maximum.
constexpr Duration kStartAgainAfter = seconds(2);
constexpr Duration kStartAgainAfterMax = seconds(64);
/// A process that ends sooner than this counts as a failed start, for example because its port is in use.
constexpr Duration kEndedAtOnce = seconds(5);
/// Bounds how often a service that was taken over makes the daemon open files.
constexpr Duration kFileRequestPause = milliseconds(1);

std::string EndOf(int status) {
  if (WIFSIGNALED(status)) return "it was ended by signal " + std::to_string(WTERMSIG(status));
  const int code = WEXITSTATUS(status);
  for (const ErrcEntry& entry : kErrcTable)
    if (entry.exit_code == code) return "it ended with the error '" + std::string(entry.name) + "'";
  return "it ended with exit code " + std::to_string(code);
}

}  // namespace

Result<std::unique_ptr<SupervisedProcess>> SupervisedProcess::Start(boost::asio::io_context& loop, std::string name,
                                                                    std::vector<std::string> argv, ServiceRights rights,
                                                                    OpenProcess open) {
  if (argv.front().empty())
    return Fail(Errc::kNotFound, "this daemon has no " + name + ": its program is not installed beside weir");
  std::unique_ptr<SupervisedProcess> kept(
      new SupervisedProcess(loop, std::move(name), std::move(argv), std::move(rights), std::move(open)));
  WEIR_TRY_STATUS(kept->Spawn());
  return kept;
}

/// `theirs`: the process's end, which is open until the process has been started.
Result<platform::SpawnSpec> SupervisedProcess::Spec(platform::Fd& theirs) {
  platform::SpawnSpec spec{.argv = argv_};
  if (rights_.user == 0 && rights_.files.empty()) return spec;
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return platform::ErrnoError("making a socket pair", errno);
  files_watch_.reset();
  files_.Reset(ends[0]);
  theirs.Reset(ends[1]);
  files_watch_ = std::make_unique<FdWatch>(loop_, files_.get(), [this] { OnFileRequest(); });
  spec.argv.insert(spec.argv.end(), {"--files", std::to_string(theirs.get())});
  if (rights_.user != 0) spec.argv.insert(spec.argv.end(), {"--as", std::to_string(rights_.user)});
  spec.kept_fd = theirs.get();
  return spec;
}

void SupervisedProcess::OnFileRequest() {
  if (!platform::AnswerFileRequest(files_.get(), rights_.files)) return files_watch_.reset();
  files_watch_->Pause(kFileRequestPause);
}

Status SupervisedProcess::Spawn() {
  platform::Fd theirs;
  WEIR_TRY(const platform::SpawnSpec spec, Spec(theirs));
  WEIR_TRY(const pid_t pid, platform::Spawn(spec));
  auto process = open_(pid);
  if (!process) {
    // Without a descriptor the daemon would not learn of its end, and would start it again beside itself.
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return std::move(process).error();
  }
  pid_ = pid;
  process_ = std::move(*process);
  started_ = platform::Now();
  watch_ = std::make_unique<FdWatch>(loop_, process_.get(), [this] { OnEnd(); });
  return Ok();
}

void SupervisedProcess::End() {
  timer_.cancel();
  if (!process_) return;
  watch_.reset();
  ::kill(pid_, SIGTERM);
  Reaper::Start(loop_, std::exchange(pid_, 0), std::move(process_));
}

std::string SupervisedProcess::problem() const {
  if (process_ && platform::Now() - started_ >= kEndedAtOnce) return {};
  return problem_;
}

void SupervisedProcess::OnEnd() {
  watch_.reset();
  int status = 0;
  ::waitpid(std::exchange(pid_, 0), &status, 0);
  process_.Reset();
  // A process that a signal has ended does not count as a failed start: the delay returns to its minimum.
  if (platform::Now() - started_ >= kEndedAtOnce || WIFSIGNALED(status)) wait_ = Duration{};
  Failed(EndOf(status));
}

/// Logs the problem unless the last start failed in the same way.
void SupervisedProcess::Failed(std::string problem) {
  if (wait_ == Duration{} || problem != problem_)
    std::fprintf(stderr, "weir: the %s does not run: %s; it is started again, less and less often\n", name_.c_str(),
                 problem.c_str());
  problem_ = std::move(problem);
  wait_ = std::clamp(wait_ * 2, kStartAgainAfter, kStartAgainAfterMax);
  timer_.expires_after(wait_);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    if (const Status status = Spawn(); !status) Failed(status.error().message);
  });
}

}  // namespace weir::daemon
