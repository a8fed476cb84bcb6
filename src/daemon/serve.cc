// SPDX-License-Identifier: Apache-2.0
#include "daemon/serve.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <cstdio>
#include <filesystem>

#include "daemon/control.h"
#include "daemon/folder_lock.h"
#include "daemon/node.h"
#include "daemon/state_file.h"
#include "daemon/state_saver.h"
#include "daemon/supervised_process.h"
#include "http/server.h"
#include "platform/clock.h"
#include "platform/files.h"
#include "platform/namespaces.h"
#include "platform/process.h"

namespace weir::daemon {
namespace {

struct Places {
  std::string run_dir;
  std::string state_file;
  std::string socket;
};

Result<Places> Prepare(ServeOptions& options) {
  if (options.run_dir.empty()) options.run_dir = platform::DefaultRunDir();
  if (options.state_dir.empty()) options.state_dir = platform::DefaultStateDir();
  Places places{options.run_dir, options.state_dir + "/node.json",
                options.socket.empty() ? options.run_dir + "/control.sock" : options.socket};
  WEIR_TRY_STATUS(platform::MakeFolder(places.run_dir));
  WEIR_TRY_STATUS(platform::MakeFolder(places.run_dir + "/vgpu"));
  WEIR_TRY_STATUS(platform::MakeFolder(places.run_dir + "/opencl"));
  WEIR_TRY_STATUS(platform::MakeFolder(options.state_dir, 0700));
  return places;
}

/// The devices to share. Options that are common to all devices are applied to each.
std::vector<DeviceSetup> DevicesOf(const ServeOptions& options) {
  std::vector<device::Device> devices = options.devices.devices;
  if (devices.empty()) devices.push_back(device::EmbeddedDevice());
  std::vector<DeviceSetup> setups;
  for (device::Device& device : devices) {
    if (device.spec.kind == device::kSoftware) device.spec.cpus = options.device_cpus;
    ExecutorSetup executors{.program = options.executor,
                            .library = device.driver.library,
                            .device = device.driver.device,
                            .environment = device.driver.environment};
    if (executors.library.empty()) executors.library = options.opencl_library;
    executors.cpus = static_cast<unsigned>(device.spec.cpus.size());
    executors.kernel_timeout = options.kernel_timeout;
    executors.gpu = {.is_gpu = device.spec.kind == device::kGpu, .pci = device.spec.pci};
    executors.reads = options.executor_reads;
    setups.push_back({.spec = device.spec, .executors = std::move(executors), .environment = device.environment});
  }
  return setups;
}

/// Text for messages: "device 'embedded', 2 CPUs", "4 devices, emulated".
std::string DescribeDevices(const std::vector<engine::DeviceStatus>& devices) {
  const engine::DeviceSpec& first = devices.front().spec;
  if (devices.size() == 1 && first.kind == device::kSoftware)
    return "device '" + first.name + "', " + std::to_string(first.cpus.size()) + " CPUs";
  if (devices.size() == 1) return "device '" + first.name + "', " + first.kind;
  std::string text = std::to_string(devices.size()) + " devices:";
  for (const engine::DeviceStatus& device : devices) text += " " + device.spec.name;
  return text;
}

Status CheckCpus(ServeOptions& options) {
  const std::vector<int> usable = platform::UsableCpus();
  if (options.device_cpus.empty()) options.device_cpus = usable;
  for (const int cpu : options.device_cpus)
    if (std::ranges::find(usable, cpu) == usable.end())
      return Fail(Errc::kInvalidArgument, "device CPU " + std::to_string(cpu) + " is not one this process may use");
  return Ok();
}

/// Ends a private daemon that has not been used for a while.
class IdleWatch {
 public:
  IdleWatch(boost::asio::io_context& loop, Node& node, Duration after)
      : loop_(loop), node_(node), timer_(loop), after_(after) {
    Check();
  }

 private:
  void Check() {
    const Instant now = platform::Now();
    if (node_.InUse() || used_ == Instant{}) used_ = now;
    if (now - used_ >= after_) return loop_.stop();
    timer_.expires_after(milliseconds(500));
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) Check();
    });
  }
  boost::asio::io_context& loop_;
  Node& node_;
  boost::asio::steady_timer timer_;
  const Duration after_;
  Instant used_{};
};

std::vector<std::string> DevicesWithAccount(const ServeOptions& options) {
  std::vector<std::string> names;
  for (const device::Account& account : options.devices.accounts)
    names.insert(names.end(), account.devices.begin(), account.devices.end());
  return names;
}

/// Makes the executors of these devices use the relays to peers.
void AddPeersTo(std::vector<DeviceSetup>& devices, const ServeOptions& options, const Places& places,
                bool wants_parts) {
  for (DeviceSetup& device : devices) {
    device.executors.peers = PeerSockets(places.run_dir, options.peers.size());
    if (wants_parts) device.executors.peer_list = PeerListOf(places.run_dir);
  }
}

/// The folder with the keys of the first portal that asks for tokens; without such a portal, the default folder.
std::string KeysDir(const ServeOptions& options) {
  for (const PortalSetup& portal : options.portals)
    if (!portal.keys_dir.empty()) return std::filesystem::absolute(portal.keys_dir);
  return std::filesystem::absolute(options.state_dir + "/keys");
}

/// Why executors get no users of their own; empty: they get them. A private daemon serves one user only.
std::string WhyNoOwnUsersFor(const ServeOptions& options, const Places& places,
                             const std::vector<DeviceSetup>& devices) {
  if (options.exit_when_idle) return "this daemon is private";
  if (options.executors_as_owners) return "'--executor-users owners' was given";
  std::vector<std::string> paths{places.run_dir, options.executor};
  for (const DeviceSetup& device : devices) paths.push_back(device.executors.library);
  return WhyNoOwnUsers(paths);
}

/// Gives the users of executors groups with limits, if this system lets the daemon make groups.
void AddGroups(const ServeOptions& options, OwnUsers& users) {
  const auto machine =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  // The rest is for the daemon and everything else, whatever executors do.
  auto groups = platform::ControlGroups::Make("weir-" + std::to_string(users.first), {.memory_bytes = machine / 8 * 7});
  if (groups) {
    users.groups = std::move(*groups);
    users.memory_bytes = options.executor_memory.count > 0 ? options.executor_memory.count : machine / 4 * 3;
  } else {
    users.why_no_groups = groups.error().message;
  }
}

// The services that have users of their own, as numbers of OwnUsers::OfService.
constexpr uid_t kPortals = 0, kRelays = 1, kFirstGuest = 2;
uid_t GuestNumber(std::size_t index) { return kFirstGuest + static_cast<uid_t>(index); }

/// The users of the portals, which executors serve.
std::vector<PortalUser> PortalUsersOf(const ServeOptions& options, const OwnUsers& users) {
  if (!users.why_not.empty()) return {};
  std::vector<PortalUser> portals;
  if (!options.portals.empty()) portals.push_back({.uid = users.OfService(kPortals)});
  for (std::size_t i = 0; i < options.guests.size(); ++i)
    portals.push_back({.uid = users.OfService(GuestNumber(i)), .vgpu = options.guests[i].vgpu});
  return portals;
}

/// The users of executors and services, from `range`, which is taken here. Without users of their own, it stays empty.
Result<OwnUsers> UsersFor(const ServeOptions& options, const Places& places, const std::vector<DeviceSetup>& devices,
                          std::optional<UserRange>& range) {
  OwnUsers users{.why_not = WhyNoOwnUsersFor(options, places, devices)};
  if (users.why_not.empty()) {
    if (auto taken = UserRange::Take(places.run_dir)) {
      users.first = taken->first();
      range.emplace(std::move(*taken));
      AddGroups(options, users);
      users.why_no_namespaces = platform::WhyNoOwnNamespaces();
    } else {
      users.why_not = taken.error().message;
    }
  }
  if (options.guests.size() > OwnUsers::kForServices - kFirstGuest)
    return Fail(Errc::kInvalidArgument,
                fmt::format("at most {} guests are served", OwnUsers::kForServices - kFirstGuest));
  users.portals = PortalUsersOf(options, users);
  if (const auto missing = MissingIsolation(users); options.require_isolation && !missing.empty())
    return Fail(Errc::kPermissionDenied, "--require-isolation: " + missing.front());
  return users;
}

/// Posted twice, so that the reply is sent before the loop stops.
void StopAfterReply(boost::asio::io_context& loop) {
  boost::asio::post(loop, [&loop] { boost::asio::post(loop, [&loop] { loop.stop(); }); });
}

/// Starts the emulators of GPUs. They start before the node, unlike the other helpers.
Status StartEmulators(boost::asio::io_context& loop, const ServeOptions& options,
                      std::vector<std::unique_ptr<SupervisedProcess>>& kept) {
  for (const device::Emulator& setup : options.devices.emulators) {
    WEIR_TRY(auto emulator, SupervisedProcess::Start(loop, "emulator of GPUs", ArgvOf(setup, ::getpid())));
    kept.push_back(std::move(emulator));
  }
  return Ok();
}

/// Restores what was saved, and prints what cannot be. A policy of the command line replaces the saved ones.
Status RestoreTo(Node& node, const SavedNode& saved, const std::string& policy) {
  for (const auto& [what, why] : node.Restore(saved))
    std::fprintf(stderr, "weir: not restored: %s: %s\n", what.c_str(), why.c_str());
  if (policy.empty()) return Ok();
  for (const engine::DeviceStatus& device : node.Devices())
    WEIR_TRY_STATUS(node.SetPolicy(device.spec.name, policy, {}));
  return Ok();
}

/// Starts the processes that need the node. Called once its control socket listens.
Status StartHelpers(boost::asio::io_context& loop, const ServeOptions& options, const Places& places,
                    const ExecutorUsers& users, std::vector<std::unique_ptr<SupervisedProcess>>& kept) {
  for (const PortalSetup& setup : options.portals) {
    WEIR_TRY(auto portal, SupervisedProcess::Start(loop, "portal", ArgvOf(setup, places.run_dir, ::getpid()),
                                                   RightsOf(setup, users.own().OfService(kPortals))));
    kept.push_back(std::move(portal));
  }
  for (std::size_t i = 0; i < options.guests.size(); ++i) {
    const GuestSetup& setup = options.guests[i];
    WEIR_TRY(auto portal, SupervisedProcess::Start(loop, "portal of the guest at " + setup.path,
                                                   ArgvOf(setup, places.run_dir, ::getpid()),
                                                   RightsOf(setup, users.own().OfService(GuestNumber(i)))));
    kept.push_back(std::move(portal));
  }
  if (options.dashboard) {
    WEIR_TRY(auto page, SupervisedProcess::Start(
                            loop, "dashboard", ArgvOf(*options.dashboard, places.run_dir, places.socket, ::getpid())));
    kept.push_back(std::move(page));
  }
  for (std::size_t i = 0; i < options.peers.size(); ++i) {
    const PeerSetup& setup = options.peers[i];
    WEIR_TRY(auto relay, SupervisedProcess::Start(loop, "relay to " + setup.node,
                                                  ArgvOf(setup, PeerSocket(places.run_dir, i), ::getpid()),
                                                  RightsOf(setup, users.own().OfService(kRelays))));
    kept.push_back(std::move(relay));
  }
  if (options.member && !options.modules) {
    WEIR_TRY(auto member, SupervisedProcess::Start(loop, "cluster's member",
                                                   ArgvOf(*options.member, places.run_dir, places.socket, ::getpid())));
    kept.push_back(std::move(member));
  }
  if (options.modules) {
    const MemberSetup* const member = options.member ? &*options.member : nullptr;
    ModulesSetup modules = *options.modules;
    modules.home = users.HomeOf(modules.vgpu);
    if (users.own().groups) modules.groups = users.own().groups->Folders();
    WEIR_TRY(auto service,
             SupervisedProcess::Start(loop, "service for modules",
                                      ArgvOf(modules, member, places.run_dir, places.socket, ::getpid())));
    kept.push_back(std::move(service));
  }
  for (const device::MemoryWatch& setup : options.devices.memory) {
    WEIR_TRY(auto watch, SupervisedProcess::Start(loop, "watch over the memory of " + setup.device,
                                                  ArgvOf(setup, places.socket, ::getpid())));
    kept.push_back(std::move(watch));
  }
  for (const device::Account& setup : options.devices.accounts) {
    WEIR_TRY(auto account, SupervisedProcess::Start(loop, "account of " + setup.devices.front(),
                                                    ArgvOf(setup, places.socket, ::getpid())));
    kept.push_back(std::move(account));
  }
  return Ok();
}

/// `quick`: this process has a raised priority.
void LogStart(const ServeOptions& options, const Places& places, Node& node, bool quick) {
  std::fprintf(stderr, "weir: serving %s (%s, policy %s%s)\n", places.socket.c_str(),
               DescribeDevices(node.Devices()).c_str(), node.Devices().front().policy.c_str(),
               quick ? "" : "; normal priority: wake-ups may be late under load");
  if (::geteuid() != 0 || options.exit_when_idle || options.executors_as_owners) return;
  for (const std::string& part : node.executor_users().Missing())
    std::fprintf(stderr, "weir: missing isolation: %s\n", part.c_str());
}

}  // namespace

Status Serve(const ServeOptions& given) {
  ServeOptions options = given;
  WEIR_TRY_STATUS(CheckCpus(options));
  WEIR_TRY(const Places places, Prepare(options));
  WEIR_TRY(const platform::Fd run_lock, LockRunFolder(places.run_dir, places.socket, options.exit_when_idle));
  std::optional<ServingMark> mark;
  if (!options.exit_when_idle) {
    WEIR_TRY(ServingMark made, ServingMark::Make(places.run_dir));
    mark.emplace(std::move(made));
  }
  WEIR_TRY(const platform::Fd state_lock,
           LockFolder(options.state_dir, "keeps its state in", "stop it, or choose another --state-dir"));
  if (!options.policy.empty()) WEIR_TRY_STATUS(core::MakePolicy(options.policy, {}));
  if (options.may_listen) WEIR_TRY_STATUS(options.may_listen());

  platform::FileCalls& files = platform::FileCalls::System();
  WEIR_TRY(const SavedNode saved, LoadState(files, places.state_file));

  boost::asio::io_context loop(1);
  // Started before this thread raises its priority, which the saver's thread would inherit.
  StateSaver saver(loop,
                   [&files, &places](const SavedNode& state) { return WriteState(files, places.state_file, state); });
  boost::asio::signal_set signals(loop, SIGINT, SIGTERM);
  signals.async_wait([&loop](const boost::system::error_code& error, int) {
    if (!error) loop.stop();
  });
  platform::RaiseFileLimit();  // before the node derives its places for processes from the limit
  const bool quick = platform::PreferQuickWakeups();
  const bool wants_parts = options.member && options.member->peers.wanted();
  std::vector<DeviceSetup> devices = DevicesOf(options);
  AddPeersTo(devices, options, places, wants_parts);
  std::optional<UserRange> range;
  WEIR_TRY(OwnUsers users, UsersFor(options, places, devices, range));
  std::vector<std::unique_ptr<SupervisedProcess>> kept;
  WEIR_TRY_STATUS(StartEmulators(loop, options, kept));
  Node node(
      loop, places.run_dir, std::move(devices), [&saver](const SavedNode& state) { saver.Save(state); },
      std::move(users));
  WEIR_TRY_STATUS(RestoreTo(node, saved, options.policy));

  std::optional<PeerRelays> relays;
  if (wants_parts)
    relays.emplace(loop, places.run_dir, options.member->peers, node.executor_users().own().OfService(kRelays));
  Control control(node, {.run_dir = places.run_dir,
                         .state_dir = options.state_dir,
                         .is_private = options.exit_when_idle,
                         .started = platform::Now(),
                         .stop = [&loop] { StopAfterReply(loop); },
                         .peers = relays ? &*relays : nullptr,
                         .saver = &saver,
                         .kept = &kept,
                         .with_account = DevicesWithAccount(options),
                         .keys_dir = KeysDir(options)});
  WEIR_TRY(const auto server,
           http::Server::ListenUnix(loop, places.socket, ControlLimits(),
                                    [&control](const http::Request& request, const http::Respond& respond) {
                                      control.Answer(request, respond);
                                    }));
  if (!options.portals.empty() || !options.guests.empty()) WEIR_TRY_STATUS(node.ListenForPortals());
  WEIR_TRY_STATUS(StartHelpers(loop, options, places, node.executor_users(), kept));
  std::unique_ptr<IdleWatch> idle;
  if (options.exit_when_idle) idle = std::make_unique<IdleWatch>(loop, node, options.idle_exit_after);
  if (!options.quiet) LogStart(options, places, node, quick);
  loop.run();
  node.executor_users().RemoveUnusedGroups();
  return Ok();
}

}  // namespace weir::daemon
