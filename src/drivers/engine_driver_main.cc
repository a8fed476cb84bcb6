// SPDX-License-Identifier: Apache-2.0
// weir-engine-driver: keeps one device of a node consistent with the external engine that grants its vGPUs
// (docs/engines.md).
#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <thread>

#include "drivers/command_output.h"
#include "drivers/driver_loop.h"
#include "drivers/node_device.h"
#include "drivers/placement_driver.h"
#include "drivers/slurm_driver.h"
#include "http/client.h"
#include "platform/clock.h"
#include "platform/fd.h"
#include "platform/files.h"

namespace weir::drivers {
namespace {

constexpr Duration kNodeTimeout = seconds(2);
constexpr Duration kPlacementTimeout = seconds(5);
constexpr std::size_t kTokenBytesMax = 64 * 1024;
constexpr int kQuietLooks = 3;                 // consecutive readings without an action, then --once ends
constexpr Duration kOnceWithin = seconds(30);  // --once and --job give up

constexpr const char* kExamples = R"(EXAMPLES
  weir-engine-driver --engine openstack --url http://controller:8778 --token-file /etc/weir/placement.token --provider gpu1
  weir-engine-driver --engine slurm --licence vgpu --reservation weir-hold --shares 8
  weir-engine-driver --engine slurm --once          # for scripts: set right what there is to set right, and end
  weir-engine-driver --engine slurm --job 4711      # make the job's vGPU and print its name; what spank_weir.so asks

The node's daemon runs already ('weir serve'), and 'weir oversell strict|static|on' says how its device is sold.)";

struct Options {
  std::string engine, url, token, token_file, provider;
  std::string licence = "vgpu", reservation = "weir-hold", slurm_node;
  std::string socket, device, prefix;
  std::int64_t shares = 8;
  std::int64_t interval_ms = 250;
  std::int64_t job = -1;
  bool once = false;
};

void Tell(const std::string& text) { fmt::print(stderr, "weir-engine-driver: {}\n", text); }

/// Logs a problem once until it changes, so that an unavailable engine does not fill the log.
class Trouble {
 public:
  void Say(const std::string& about, const std::string& message) {
    if (std::exchange(said_[about], message) != message) Tell(message);
  }
  void Over(const std::string& about, const std::string& now) {
    if (said_.erase(about) > 0) Tell(now);
  }

 private:
  std::map<std::string, std::string> said_;
};

Result<std::string> TokenOf(const Options& options) {
  if (options.token_file.empty()) return options.token;
  WEIR_TRY(std::string token, platform::ReadFile(options.token_file, kTokenBytesMax));
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' ')) token.pop_back();
  return token;
}

Result<std::unique_ptr<EngineDriver>> MakeEngine(const Options& options) {
  if (options.engine == "openstack") {
    WEIR_TRY(const PlacementPlace place, ParsePlacementUrl(options.url));
    const auto ask = [place, options](const http::Call& asked) -> Result<http::Answer> {
      http::Call call = asked;
      call.target = place.base + asked.target;
      call.if_absent = "check that OpenStack Placement runs there; see --url";
      // Read each time, because the file changes when the token is renewed.
      WEIR_TRY(const std::string token, TokenOf(options));
      call.headers.emplace_back("X-Auth-Token", token);
      call.headers.emplace_back("Host", fmt::format("{}:{}", place.host, place.port));
      return http::AskTcp(place.host, place.port, call, kPlacementTimeout);
    };
    return std::unique_ptr<EngineDriver>(std::make_unique<PlacementDriver>(
        PlacementSettings{.host_provider = options.provider}, ask, [](Duration d) { std::this_thread::sleep_for(d); },
        static_cast<std::uint64_t>(platform::NowNs())));
  }
  WEIR_TRY(SlurmDriver slurm, SlurmDriver::Make({options.licence, options.reservation, options.slurm_node},
                                                [](const std::vector<std::string>& argv) {
                                                  return RunCommand(argv, SlurmDriver::kCommandTimeout);
                                                }));
  return std::unique_ptr<EngineDriver>(std::make_unique<SlurmDriver>(std::move(slurm)));
}

std::string Words(const Action& action) {
  switch (action.kind) {
    case ActionKind::kPublish: return fmt::format("published the device with {} shares", action.shares);
    case ActionKind::kSetSellable: return fmt::format("sellable: {} shares", action.shares);
    case ActionKind::kMakeVgpu:
      return fmt::format("granted: {} shares; made vGPU {} with a cap of {:.1f} %", action.shares, action.vgpu,
                         action.cap * 100);
    case ActionKind::kSetCap:
      return action.cap == DriverLoop::kSqueezedCap
                 ? fmt::format("released, but programs are still attached: vGPU {} has {:.0f} % until they end",
                               action.vgpu, action.cap * 100)
                 : fmt::format("vGPU {} has a cap of {:.1f} % now", action.vgpu, action.cap * 100);
    case ActionKind::kRemoveVgpu: return fmt::format("released: removed vGPU {}", action.vgpu);
  }
  return "";
}

/// Reads both sides once and carries out the resulting actions. Returns their number; negative: an action failed.
class Keeper {
 public:
  Keeper(NodeDevice device, EngineDriver& engine, LoopSettings settings)
      : device_(std::move(device)),
        engine_(engine),
        loop_(std::move(settings), static_cast<std::uint64_t>(platform::NowNs())) {}

  struct Outcome {
    std::size_t actions = 0;
    std::optional<Error> failed;
  };

  Outcome Look() {
    Outcome outcome;
    Sighting seen;
    // The node first: see Sighting.
    if (const auto node = device_.See()) {
      seen.node = *node;
      trouble_.Over("node", "the node answers again");
    } else {
      outcome.failed = node.error();
      trouble_.Say("node", node.error().message);
    }
    if (auto usage = engine_.ReadUsage(device_.name())) {
      seen.usage = std::move(*usage);
      trouble_.Over("engine", "the engine answers again");
    } else if (usage.error().code == Errc::kNotFound) {
      seen.published = false;
    } else {
      outcome.failed = usage.error();
      trouble_.Say("engine", usage.error().message);
    }
    for (const Action& action : loop_.Step(platform::Now(), seen)) {
      ++outcome.actions;
      const Status done = Do(action);
      loop_.Done(platform::Now(), action, done.has_value());
      const std::string about = fmt::format("{} {}", static_cast<int>(action.kind), action.vgpu);
      if (done) {
        trouble_.Over(about, "it is well again:");
        Tell(Words(action));
      } else {
        outcome.failed = done.error();
        trouble_.Say(about, done.error().message);
      }
    }
    return outcome;
  }

 private:
  Status Do(const Action& action) {
    if (action.kind == ActionKind::kPublish) return engine_.Publish(device_.name(), action.shares);
    if (action.kind == ActionKind::kSetSellable) return engine_.SetSellable(device_.name(), action.shares);
    return device_.Do(action);
  }

  NodeDevice device_;
  EngineDriver& engine_;
  DriverLoop loop_;
  Trouble trouble_;
};

/// Runs until SIGINT or SIGTERM.
Status Keep(Keeper& keeper, Duration interval) {
  sigset_t stops;
  sigemptyset(&stops);
  sigaddset(&stops, SIGINT);
  sigaddset(&stops, SIGTERM);
  sigprocmask(SIG_BLOCK, &stops, nullptr);
  const platform::Fd signals(::signalfd(-1, &stops, SFD_CLOEXEC));
  for (;;) {
    keeper.Look();
    pollfd waited{.fd = signals.get(), .events = POLLIN, .revents = 0};
    if (::poll(&waited, 1, static_cast<int>(interval / milliseconds(1))) > 0) return Ok();
  }
}

/// Runs until no action is left.
Status Once(Keeper& keeper) {
  const Instant deadline = platform::Now() + kOnceWithin;
  std::optional<Error> failed;
  for (int quiet = 0; quiet < kQuietLooks; std::this_thread::sleep_for(milliseconds(50))) {
    const Keeper::Outcome outcome = keeper.Look();
    failed = outcome.failed;
    quiet = outcome.actions == 0 && !failed ? quiet + 1 : 0;
    if (platform::Now() > deadline)
      return failed ? *failed : Fail(Errc::kTimeout, "the changes did not come to an end");
  }
  return Ok();
}

/// Makes a job's vGPU and prints its name; prints nothing if the job holds no licence of the pool.
Status StartJob(const Options& options, const NodeDevice& device) {
  if (options.engine != "slurm") return Fail(Errc::kInvalidArgument, "--job is of --engine slurm");
  WEIR_TRY(SlurmDriver slurm, SlurmDriver::Make({options.licence, options.reservation, options.slurm_node},
                                                [](const std::vector<std::string>& argv) {
                                                  return RunCommand(argv, SlurmDriver::kCommandTimeout);
                                                }));
  WEIR_TRY(const auto grant, slurm.GrantOf(static_cast<std::uint32_t>(options.job)));
  if (!grant) return Ok();
  WEIR_TRY(const std::string name, VgpuNameOf(options.prefix, grant->consumer));
  const Action make{.kind = ActionKind::kMakeVgpu,
                    .vgpu = name,
                    .shares = grant->shares,
                    .cap = CapOf(grant->shares, options.shares),
                    .uid = grant->uid};
  // Slurm may reuse a share while the vGPU of the previous job still exists.
  for (const Instant deadline = platform::Now() + kOnceWithin / 3;;) {
    const Status made = device.Do(make);
    if (made) break;
    if (made.error().code != Errc::kResourceExhausted || platform::Now() > deadline) return made.error();
    std::this_thread::sleep_for(milliseconds(200));
  }
  fmt::print("{}\n", name);
  return Ok();
}

Status Run(Options& options) {
  if (options.prefix.empty()) options.prefix = options.engine == "openstack" ? "os" : "slurm";
  if (options.engine == "openstack" && (options.url.empty() || options.provider.empty()))
    return Fail(Errc::kInvalidArgument, "--engine openstack needs --url and --provider");
  if (options.socket.empty()) {
    const char* named = std::getenv("WEIR_SOCKET");
    options.socket = named != nullptr && *named != '\0' ? named : platform::DefaultRunDir() + "/control.sock";
  }
  const auto ask = [socket = options.socket](const http::Call& asked) {
    http::Call call = asked;
    call.if_absent = "start it with 'weir serve', or name its socket with --socket";
    return http::AskUnix(socket, call, kNodeTimeout);
  };
  WEIR_TRY(NodeDevice device, NodeDevice::Find(ask, options.device, options.prefix));
  if (options.job >= 0) return StartJob(options, device);
  WEIR_TRY(const auto engine, MakeEngine(options));
  LoopSettings settings{.shares = options.shares, .prefix = options.prefix};
  Keeper keeper(std::move(device), *engine, std::move(settings));
  return options.once ? Once(keeper) : Keep(keeper, milliseconds(options.interval_ms));
}

}  // namespace
}  // namespace weir::drivers

int main(int argc, char** argv) {
  using weir::drivers::Options;
  Options options;
  CLI::App app("Keeps a node's device consistent with the external engine that grants its vGPUs");
  app.footer(weir::drivers::kExamples);
  app.add_option("--engine", options.engine, "openstack or slurm")
      ->required()
      ->check(CLI::IsMember({"openstack", "slurm"}));
  app.add_option("--shares", options.shares, "Physical shares of the device (default 8)")->check(CLI::Range(1, 10'000));
  app.add_option("--device", options.device, "The node's device (default: the only one)");
  app.add_option("--prefix", options.prefix,
                 "Of the vGPUs' names: PREFIX-CONSUMER (default: os, slurm); another for each driver of a node");
  app.add_option("--socket", options.socket,
                 "The node's control socket (default: $WEIR_SOCKET, else that of the run folder)");
  app.add_option("--url", options.url, "openstack: address of Placement, http://HOST[:PORT][/PATH]");
  app.add_option("--token-file", options.token_file, "openstack: a file with the token; read again at each request");
  app.add_option("--token", options.token, "openstack: the token itself; every user of this machine can see it")
      ->envname("WEIR_ENGINE_TOKEN");
  app.add_option("--provider", options.provider,
                 "openstack: the host's resource provider; the device's is NAME_DEVICE");
  app.add_option("--licence", options.licence, "slurm: the pool of licences (default: vgpu)");
  app.add_option("--reservation", options.reservation,
                 "slurm: the reservation that withholds licences (default: weir-hold)");
  app.add_option("--slurm-node", options.slurm_node, "slurm: vGPUs for the jobs on this node alone (default: for all)");
  app.add_option("--job", options.job, "slurm: make this job's vGPU, print its name, and end")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{4294967295}));
  app.add_option("--interval-ms", options.interval_ms, "Time between two checks (default 250)")
      ->check(CLI::Range(10, 60'000));
  app.add_flag("--once", options.once, "End when nothing is left to do");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : weir::EntryOf(weir::Errc::kInvalidArgument).exit_code;
  }
  try {
    const weir::Status done = weir::drivers::Run(options);
    if (done) return 0;
    weir::drivers::Tell(done.error().message);
    return weir::EntryOf(done.error().code).exit_code;
  } catch (const std::exception& surprise) {
    weir::drivers::Tell(surprise.what());
    return weir::EntryOf(weir::Errc::kInternal).exit_code;
  }
}
