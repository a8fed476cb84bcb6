// SPDX-License-Identifier: Apache-2.0
#include "daemon/portal_host.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "platform/process.h"
#include "platform/spawn.h"

namespace weir::daemon {
namespace {

constexpr Duration kStartAgainAfter = seconds(2);

}  // namespace

Result<std::unique_ptr<PortalHost>> PortalHost::Start(boost::asio::io_context& loop, const std::string& run_dir,
                                                      const PortalSetup& setup) {
  if (setup.program.empty())
    return Fail(Errc::kNotFound, "this daemon has no portal: weir-portal is not where weir was installed");
  std::vector<std::string> argv{setup.program,
                                "--listen",
                                setup.listen,
                                "--executors",
                                run_dir + "/opencl",
                                "--port-file",
                                run_dir + "/portal" + (setup.keys_dir.empty() ? "-plain" : "") + ".port",
                                "--parent",
                                std::to_string(::getpid())};
  if (setup.keys_dir.empty()) {
    argv.emplace_back("--plain");
  } else {
    argv.insert(argv.end(), {"--keys", setup.keys_dir});
  }
  if (setup.quiet) argv.emplace_back("--quiet");
  std::unique_ptr<PortalHost> host(new PortalHost(loop, std::move(argv)));
  WEIR_TRY_STATUS(host->Spawn());
  return host;
}

Status PortalHost::Spawn() {
  WEIR_TRY(pid_, platform::Spawn({.argv = argv_}));
  WEIR_TRY(process_, platform::OpenPidFd(pid_));
  watch_ = std::make_unique<FdWatch>(loop_, process_.get(), [this] { OnEnd(); });
  return Ok();
}

void PortalHost::OnEnd() {
  watch_.reset();
  ::waitpid(pid_, nullptr, 0);
  process_.Reset();
  std::fprintf(stderr, "weir: the portal has ended; it is started again\n");
  StartLater();
}

void PortalHost::StartLater() {
  timer_.expires_after(kStartAgainAfter);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    const Status status = Spawn();
    if (status) return;
    std::fprintf(stderr, "weir: the portal can't be started: %s\n", status.error().message.c_str());
    StartLater();
  });
}

}  // namespace weir::daemon
