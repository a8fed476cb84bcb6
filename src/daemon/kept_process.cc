// SPDX-License-Identifier: Apache-2.0
#include "daemon/kept_process.h"

#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <utility>

#include "daemon/reaper.h"
#include "platform/clock.h"
#include "platform/process.h"
#include "platform/spawn.h"

namespace weir::daemon {
namespace {

constexpr Duration kStartAgainAfter = seconds(2);
/// One that ends sooner has done nothing: it is said once, not every two seconds.
constexpr Duration kEndedAtOnce = seconds(5);

}  // namespace

Result<std::unique_ptr<KeptProcess>> KeptProcess::Start(boost::asio::io_context& loop, std::string name,
                                                        std::vector<std::string> argv) {
  if (argv.front().empty())
    return Fail(Errc::kNotFound, "this daemon has no " + name + ": its program is not where weir was installed");
  std::unique_ptr<KeptProcess> kept(new KeptProcess(loop, std::move(name), std::move(argv)));
  WEIR_TRY_STATUS(kept->Spawn());
  return kept;
}

Status KeptProcess::Spawn() {
  WEIR_TRY(pid_, platform::Spawn({.argv = argv_}));
  WEIR_TRY(process_, platform::OpenPidFd(pid_));
  started_ = platform::Now();
  watch_ = std::make_unique<FdWatch>(loop_, process_.get(), [this] { OnEnd(); });
  return Ok();
}

void KeptProcess::End() {
  timer_.cancel();
  if (!process_) return;
  watch_.reset();
  ::kill(pid_, SIGTERM);
  Reaper::Start(loop_, std::exchange(pid_, 0), std::move(process_));
}

void KeptProcess::OnEnd() {
  watch_.reset();
  ::waitpid(pid_, nullptr, 0);
  process_.Reset();
  const bool at_once = platform::Now() - started_ < kEndedAtOnce;
  if (!at_once || !said_) std::fprintf(stderr, "weir: the %s has ended; it is started again\n", name_.c_str());
  said_ = at_once;
  StartLater();
}

void KeptProcess::StartLater() {
  timer_.expires_after(kStartAgainAfter);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    const Status status = Spawn();
    if (status) return;
    std::fprintf(stderr, "weir: the %s can't be started: %s\n", name_.c_str(), status.error().message.c_str());
    StartLater();
  });
}

}  // namespace weir::daemon
