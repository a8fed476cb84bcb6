// SPDX-License-Identifier: Apache-2.0
// weir-dashboard: serves the node's page to browsers. Started by `weir dashboard` and by `weir serve --http`. It is a
// process of its own because it reads bytes from browsers, and the daemon must not.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "dashboard/service.h"
#include "dashboard/token.h"
#include "http/address.h"
#include "http/stop_on_end.h"
#include "platform/confine_service.h"
#include "platform/service_end.h"
#include "platform/service_options.h"

namespace {

using namespace weir;

constexpr const char* kAbout =
    "Usage: weir-dashboard --listen HOST:PORT --control SOCKET [--token-file FILE | --plain] [OPTIONS]\n"
    "\n"
    "Serves a page that shows a node and changes it. 'weir dashboard' and 'weir serve --http' start it by "
    "themselves.\n";

struct Arguments {
  std::string listen, control, token_file;
  bool plain = false, read_only = false, quiet = false;
  int ready = -1;
  pid_t parent = 0;
};

/// Retries, because the dashboard of an earlier daemon releases the port only when it notices that its daemon has
/// ended.
Result<std::unique_ptr<http::Server>> ListenSoon(boost::asio::io_context& loop, const http::Address& address,
                                                 dashboard::Service& service) {
  constexpr int kTries = 30;
  for (int attempt = 0;; ++attempt) {
    auto server = http::Server::ListenTcp(
        loop, address.host, address.port, service.Limits(),
        [&service](const http::Request& request, const http::Respond& respond) { service.Handle(request, respond); });
    if (server || server.error().code != Errc::kBusy) return server;
    if (attempt == kTries)
      return Fail(Errc::kBusy, server.error().message + "; choose another port, or 0 for any that is free");
    std::this_thread::sleep_for(milliseconds(100));
  }
}

std::string NameOfMachine() {
  char name[65]{};
  return ::gethostname(name, sizeof name - 1) == 0 ? std::string(name) : std::string();
}

/// Reports the page's address to the process that waits for it and to the user. The token must not be in logs.
void Announce(const Arguments& arguments, const dashboard::Site& site) {
  const std::string page = "http://" + site.listens.Text() + "/";
  const std::string whole = site.plain ? page : page + "#token=" + site.token;
  if (arguments.ready >= 0) {
    const std::string line = whole + "\n";
    [[maybe_unused]] const ssize_t told = ::write(arguments.ready, line.data(), line.size());
    ::close(arguments.ready);
  }
  if (arguments.quiet) return;
  if (site.plain || ::isatty(STDERR_FILENO) == 1)
    std::fprintf(stderr, "weir-dashboard: %s\n", whole.c_str());
  else
    std::fprintf(stderr, "weir-dashboard: %s (append #token= and what is in %s)\n", page.c_str(),
                 arguments.token_file.c_str());
}

Status Serve(const Arguments& arguments, http::Address address) {
  WEIR_TRY(platform::ServiceEnd end, platform::ServiceEnd::Watch(arguments.parent));
  dashboard::Site site{.listens = {}, .token = {}, .plain = arguments.plain, .read_only = arguments.read_only};
  if (!site.plain) {
    WEIR_TRY(site.token,
             arguments.token_file.empty() ? dashboard::NewToken() : dashboard::KeepToken(arguments.token_file));
  }
  boost::asio::io_context loop(1);
  const http::StopOnEnd stop(loop, std::move(end));
  dashboard::Service service(loop, arguments.control, NameOfMachine());
  WEIR_TRY(const auto server, ListenSoon(loop, address, service));
  address.port = server->port();
  site.listens = address;
  if (!platform::ConfineService())
    return Fail(Errc::kInternal, fmt::format("this process can't be confined: {}", std::strerror(errno)));
  service.Start(site);
  Announce(arguments, site);
  loop.run();
  return Ok();
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  platform::ServiceOptions options("weir-dashboard", kAbout);
  options.Add("--listen", "HOST:PORT", arguments.listen,
              "one address of this machine, by which browsers reach it; port 0: any free one");
  options.Add("--control", "SOCKET", arguments.control, "the daemon's control socket");
  options.Add("--token-file", "FILE", arguments.token_file,
              "file that keeps the token over a restart (default: a new token each time)");
  options.AddFlag("--plain", arguments.plain,
                  "no token; every process of this machine has full access. For loopback addresses only");
  options.AddFlag("--read-only", arguments.read_only, "refuse requests that change something");
  options.AddDescriptor("--ready-fd", arguments.ready, "where to write the page's address when it listens");
  options.AddParent(arguments.parent);
  options.AddFlag("--quiet", arguments.quiet, "print only errors");
  if (const auto ended = options.Parse(argc, argv)) return *ended;
  if (arguments.listen.empty() || arguments.control.empty()) return options.Reject("--listen and --control are needed");
  const auto address = http::ParseAddress(arguments.listen);
  if (!address) return options.Reject("--listen: " + address.error().message);
  if (const std::string problem = http::ProblemOfPage(*address, arguments.plain); !problem.empty())
    return options.Reject("--listen: " + problem);
  if (arguments.plain && !arguments.token_file.empty()) return options.Reject("give --token-file or --plain");
  std::signal(SIGPIPE, SIG_IGN);
  return options.ExitStatusOf(Serve(arguments, *address));
}
