// SPDX-License-Identifier: Apache-2.0
// weir dashboard: runs weir-dashboard until Ctrl-C, and opens the page where there is a graphical session.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/common/places.h"
#include "cli/common/program.h"
#include "cli/common/terminal.h"
#include "cli/common/views.h"
#include "cli/options.h"
#include "http/address.h"
#include "platform/files.h"
#include "platform/process.h"
#include "platform/spawn.h"

namespace weir::cli {
namespace {

struct DashboardFlags {
  std::string listen = "127.0.0.1:0";
  bool read_only = false, plain = false, no_open = false;
};

/// The program, with the end of a pipe to which it writes the page's address.
class DashboardProgram {
 public:
  static Result<DashboardProgram> Start(std::vector<std::string> argv) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return platform::ErrnoError("starting the dashboard", errno);
    DashboardProgram program;
    program.address_ = platform::Fd(ends[0]);
    const platform::Fd write_end(ends[1]);
    argv.insert(argv.end(), {"--ready-fd", std::to_string(ends[1])});
    WEIR_TRY(program.pid_, platform::Spawn({.argv = std::move(argv), .kept_fd = ends[1]}));
    WEIR_TRY(program.process_, platform::OpenPidFd(program.pid_));
    return program;
  }
  /// Empty: the program has ended, and has printed the reason.
  [[nodiscard]] std::string ReadAddress() const {
    std::string line;
    char part[256];
    for (;;) {
      const ssize_t got = ::read(address_.get(), part, sizeof part);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      line.append(part, static_cast<std::size_t>(got));
    }
    while (!line.empty() && line.back() == '\n') line.pop_back();
    return line;
  }
  [[nodiscard]] int process() const { return process_.get(); }
  /// Waits for the end of the program and returns its exit code.
  [[nodiscard]] int Wait() const {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  void End() const { ::kill(pid_, SIGTERM); }

 private:
  pid_t pid_ = 0;
  platform::Fd process_, address_;
};

/// Opens the page in a browser by way of a file that redirects to it and that only this user can read. The address
/// contains the token and must not be in a command line, which every user can read.
class OpenedPage {
 public:
  OpenedPage(const std::string& folder, const std::string& address) {
    const auto opener = FindProgram("xdg-open");
    const bool graphical = !EnvironmentVariable("DISPLAY").empty() || !EnvironmentVariable("WAYLAND_DISPLAY").empty();
    if (!graphical || !opener) return;
    file_ = fmt::format("{}/dashboard-{}.html", folder, ::getpid());
    const std::string text =
        fmt::format("<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={}\"><title>Weir</title>\n", address);
    // If one of the two fails, the user still has the address that was printed.
    if (platform::WriteFileAtomically(file_, text)) static_cast<void>(platform::Spawn({.argv = {opener->path, file_}}));
  }
  ~OpenedPage() {
    if (!file_.empty()) ::unlink(file_.c_str());
  }
  OpenedPage(const OpenedPage&) = delete;
  OpenedPage& operator=(const OpenedPage&) = delete;

 private:
  std::string file_;
};

Result<int> RunDashboard(const Session& session, const DashboardFlags& flags) {
  WEIR_TRY(const std::filesystem::path self, SelfExecutable());
  const std::string program = FindHelper(self, kDashboard);
  if (program.empty()) return Fail(Errc::kNotFound, fmt::format("{} is not installed beside weir", kDashboard));
  WEIR_TRY(const nlohmann::json status, session.client().Get("/v1/status"));
  const std::string run_dir = TextField(status, "run_dir");
  std::vector<std::string> argv{program,     "--quiet",
                                "--listen",  flags.listen,
                                "--control", session.places().socket,
                                "--parent",  std::to_string(::getpid())};
  const bool keeps = ::access(run_dir.c_str(), W_OK) == 0;  // otherwise this user may only use the socket
  if (flags.plain) {
    argv.emplace_back("--plain");
  } else if (keeps) {
    argv.insert(argv.end(), {"--token-file", run_dir + "/dashboard.token"});
  }
  if (flags.read_only) argv.emplace_back("--read-only");

  StopSignals signals;
  WEIR_TRY(const DashboardProgram dashboard, DashboardProgram::Start(std::move(argv)));
  const std::string address = dashboard.ReadAddress();
  if (address.empty()) return dashboard.Wait();
  if (session.json)
    PrintJson({{"address", address}});
  else
    fmt::print("{}\nCtrl-C ends it.\n", address);
  std::fflush(stdout);
  std::optional<OpenedPage> opened;
  if (!flags.no_open && keeps) opened.emplace(run_dir, address);
  for (Woke woke = Woke::kTimeUp; woke != Woke::kStopSignal;) {
    woke = signals.WaitForMore(seconds(3600), dashboard.process());
    if (woke == Woke::kKey) return dashboard.Wait();  // the process's descriptor is readable: it has ended
  }
  dashboard.End();
  static_cast<void>(dashboard.Wait());
  return 0;
}

}  // namespace

void AddDashboard(Command app, Session& session) {
  const auto flags = std::make_shared<DashboardFlags>();
  const Command command =
      AddCommand(app, "dashboard", "Show the node in a browser, and change it there, until Ctrl-C",
                 "  weir dashboard                            # prints an address with a token, and opens it\n"
                 "  weir dashboard --read-only --no-open\n"
                 "  weir dashboard --listen 10.0.0.1:8080     # for browsers on other machines; without encryption\n"
                 "  ssh -L 8080:127.0.0.1:8080 gpu1           # or so, with --listen 127.0.0.1:8080 there\n",
                 session);
  command.Add("--listen", "HOST:PORT", flags->listen,
              "One address of this machine, by which browsers reach it (default 127.0.0.1:0; port 0: any free one)");
  command.AddFlag("--read-only", flags->read_only, "The page changes nothing");
  command.AddFlag("--plain", flags->plain,
                  "No token: every process of this machine has full access. For loopback addresses only");
  command.AddFlag("--no-open", flags->no_open, "Print the address only, also in a graphical session");
  command.WhenGiven([flags, &session] {
    const auto address = http::ParseAddress(flags->listen);
    if (!address) RejectUsage("dashboard: --listen: " + address.error().message);
    if (const std::string problem = http::ProblemOfPage(*address, flags->plain); !problem.empty())
      RejectUsage("dashboard: --listen: " + problem);
    session.action = [flags, &session] { return RunDashboard(session, *flags); };
  });
}

}  // namespace weir::cli
