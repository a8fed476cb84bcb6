// SPDX-License-Identifier: Apache-2.0
// weir-engine-driver: keeps one device of a node consistent with the external engine that grants its vGPUs
// (docs/engines.md).
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <thread>

#include "drivers/command_output.h"
#include "drivers/driver_loop.h"
#include "drivers/https.h"
#include "drivers/node_device.h"
#include "drivers/placement_driver.h"
#include "drivers/slurm_driver.h"
#include "http/address.h"
#include "http/client.h"
#include "platform/clock.h"
#include "platform/files.h"
#include "platform/service_end.h"
#include "platform/service_options.h"

namespace weir::drivers {
namespace {

constexpr Duration kNodeTimeout = seconds(2);
constexpr Duration kPlacementTimeout = seconds(5);
constexpr std::size_t kTokenBytesMax = 64 * 1024;
constexpr int kQuietLooks = 3;                 // --once ends after this many consecutive readings without an action
constexpr Duration kOnceWithin = seconds(30);  // --once gives up after this time, --job after a third of it

constexpr const char* kAbout =
    "Usage: weir-engine-driver --engine openstack --url URL --provider NAME [OPTIONS]\n"
    "       weir-engine-driver --engine slurm [OPTIONS]\n"
    "\n"
    "Keeps a node's device consistent with the external engine that grants its vGPUs.\n";

constexpr const char* kExamples = R"(
EXAMPLES
  weir-engine-driver --engine openstack --url https://controller/placement --token-file /etc/weir/placement.token --provider gpu1
  weir-engine-driver --engine slurm --licence vgpu --reservation weir-hold --shares 8
  weir-engine-driver --engine slurm --once          # for scripts: set right what there is to set right, and end
  weir-engine-driver --engine slurm --job 4711      # make the job's vGPU and print its name; what spank_weir.so asks

The node's daemon runs already ('weir serve'), and 'weir oversell strict|static|on' says how its device is sold.
)";

struct Options {
  std::string engine, url, authorities, token, token_file, provider;
  std::string licence = "vgpu", reservation = "weir-hold", slurm_node;
  std::string socket, device, prefix;
  std::int64_t shares = 8;
  std::int64_t interval_ms = 250;
  std::uint32_t job = 0;  // 0: none
  bool once = false;
  bool plain = false;
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

/// The token is an administrator's: it is not sent in the clear by mistake.
Status CheckEncryption(const Options& options, const PlacementPlace& place) {
  if (place.encrypted || options.plain || http::IsLoopback(place.host)) return Ok();
  return Fail(Errc::kInvalidArgument,
              fmt::format("--url {}: the token would be sent without encryption; give the address of https, or --plain "
                          "on a network where nobody listens",
                          options.url));
}

Result<std::unique_ptr<EngineDriver>> MakeEngine(const Options& options) {
  if (options.engine == "openstack") {
    WEIR_TRY(const PlacementPlace place, ParsePlacementUrl(options.url));
    WEIR_TRY_STATUS(CheckEncryption(options, place));
    const auto ask = [place, options](const http::Call& asked) -> Result<http::Answer> {
      http::Call call = asked;
      call.target = place.base + asked.target;
      call.if_absent = "check that OpenStack Placement runs there; see --url";
      // Read each time, because the file changes when the token is renewed.
      WEIR_TRY(const std::string token, TokenOf(options));
      call.headers.emplace_back("X-Auth-Token", token);
      call.headers.emplace_back("Host", fmt::format("{}:{}", place.host, place.port));
      if (!place.encrypted) return http::AskTcp(place.host, place.port, call, kPlacementTimeout);
      return AskHttps({place.host, place.port, options.authorities}, call, kPlacementTimeout);
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
    case ActionKind::kResize:
      return fmt::format("granted: {} shares; vGPU {} has a cap of {:.1f} % now", action.shares, action.vgpu,
                         action.cap * 100);
    case ActionKind::kSqueeze:
      return fmt::format("released, but programs are still attached: vGPU {} has {:.0f} % until they end", action.vgpu,
                         action.cap * 100);
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
    // The node is read before the engine: see Sighting.
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
  WEIR_TRY(const platform::ServiceEnd end, platform::ServiceEnd::Watch());
  do keeper.Look();
  while (!end.Wait(interval));
  return Ok();
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
  WEIR_TRY(const auto grant, slurm.GrantOf(options.job));
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
  if (const char* token = std::getenv("WEIR_ENGINE_TOKEN"); options.token.empty() && token != nullptr)
    options.token = token;
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
  if (options.job != 0) return StartJob(options, device);
  WEIR_TRY(const auto engine, MakeEngine(options));
  LoopSettings settings{.shares = options.shares, .prefix = options.prefix};
  Keeper keeper(std::move(device), *engine, std::move(settings));
  return options.once ? Once(keeper) : Keep(keeper, milliseconds(options.interval_ms));
}

void Declare(platform::ServiceOptions& command_line, Options& options) {
  command_line.AddChoice("--engine", options.engine, {"openstack", "slurm"}, "the external engine");
  command_line.AddWhole("--shares", "N", options.shares, 1, kWholeMax, "physical shares of the device, at most 100");
  command_line.Add("--device", "NAME", options.device, "the node's device (default: the only one)");
  command_line.Add("--prefix", "NAME", options.prefix,
                   "start of the vGPUs' names, PREFIX-CONSUMER (default: os or slurm); each driver of a node needs "
                   "its own");
  command_line.Add("--socket", "PATH", options.socket,
                   "the node's control socket (default: $WEIR_SOCKET, else that of the run folder)");
  command_line.Add("--url", "URL", options.url, "openstack: address of Placement, https://HOST[:PORT][/PATH]");
  command_line.Add("--authorities", "FILE", options.authorities,
                   "openstack: certificates of authorities that may have signed Placement's (default: the system's)");
  command_line.AddFlag("--plain", options.plain,
                       "openstack: send the token without encryption to an address of http that is not this machine's");
  command_line.Add("--token-file", "FILE", options.token_file,
                   "openstack: a file with the token; read again at each request");
  command_line.Add("--token", "TEXT", options.token,
                   "openstack: the token itself; every user of this machine can see it (default: $WEIR_ENGINE_TOKEN)");
  command_line.Add("--provider", "NAME", options.provider,
                   "openstack: the host's resource provider; the device's is NAME_DEVICE");
  command_line.Add("--licence", "NAME", options.licence, "slurm: the pool of licences");
  command_line.Add("--reservation", "NAME", options.reservation, "slurm: the reservation that withholds licences");
  command_line.Add("--slurm-node", "NAME", options.slurm_node,
                   "slurm: vGPUs for the jobs on this node alone (default: for all)");
  command_line.AddWhole("--job", "ID", options.job, 1, std::numeric_limits<std::uint32_t>::max(),
                        "slurm: make this job's vGPU, print its name, and end");
  command_line.AddWhole("--interval-ms", "N", options.interval_ms, 10, 60'000, "time between two checks");
  command_line.AddFlag("--once", options.once, "end when nothing is left to do");
  command_line.AddText(kExamples);
}

}  // namespace
}  // namespace weir::drivers

int main(int argc, char** argv) {
  weir::drivers::Options options;
  weir::platform::ServiceOptions command_line("weir-engine-driver", weir::drivers::kAbout);
  weir::drivers::Declare(command_line, options);
  if (const auto ended = command_line.Parse(argc, argv)) return *ended;
  if (options.engine.empty()) return command_line.Reject("--engine is needed: openstack or slurm");
  try {
    return command_line.ExitStatusOf(weir::drivers::Run(options));
  } catch (const std::exception& surprise) {
    weir::drivers::Tell(surprise.what());
    return weir::EntryOf(weir::Errc::kInternal).exit_code;
  }
}
