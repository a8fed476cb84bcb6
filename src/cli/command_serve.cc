// SPDX-License-Identifier: Apache-2.0
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <memory>
#include <string_view>
#include <thread>

#include "cli/common/places.h"
#include "cli/common/text_units.h"
#include "cli/options.h"
#include "cli/private_daemon.h"
#include "cluster/addresses.h"
#include "core/placement/placement_table.h"
#include "core/schedule/policy_table.h"
#include "daemon/serve.h"
#include "device/find.h"
#include "http/address.h"
#include "http/tls/client.h"
#include "modules/blob_keeper.h"
#include "net/keys.h"
#include "net/tcp_stream.h"
#include "platform/clock.h"
#include "platform/files.h"
#include "proto/port_memory.h"

namespace weir::cli {
namespace {

struct ServeFlags {
  std::string state_dir, policy, opencl_library;
  std::vector<std::string> devices;
  std::string nvml_library;
  Duration kernel_timeout = seconds(60);
  std::vector<int> device_cpus;
  std::string listen, listen_plain, keys_dir;
  std::vector<std::string> guests, guests_at, guests_memory;
  std::vector<std::string> peers, peers_plain;
  std::string managers, node_name, manager_token;
  std::string offer_parts, offer_host, peers_token;
  bool peers_plain_too = false;
  std::string modules, store, placement;
  std::int64_t units = 0;  // compute units of a part of the device; 0: the whole device
  std::string http;
  bool http_read_only = false, http_plain = false;
  bool is_private = false;
  bool quiet = false;
  std::string executor_users = "own";
  std::vector<std::string> executor_reads;
  Bytes executor_memory{};
  bool require_isolation = false;
};

/// Adds the portals for tenants on other machines.
Status AddPortals(const ServeFlags& flags, const std::filesystem::path& self, daemon::ServeOptions& options) {
  const std::string program = FindHelper(self, kPortal);
  if (!flags.listen.empty()) {
    std::string keys = flags.keys_dir;
    if (keys.empty()) keys = (options.state_dir.empty() ? platform::DefaultStateDir() : options.state_dir) + "/keys";
    if (!net::HasNodeKeys(keys))
      return Fail(Errc::kNotFound, "--listen: this node has no keys in " + keys + "; 'weir keys init --dir " + keys +
                                       "' makes them, and 'weir keys token VGPU --dir " + keys +
                                       "' also makes a tenant's token");
    options.portals.push_back({.program = program, .listen = flags.listen, .keys_dir = keys, .quiet = flags.quiet});
  }
  if (!flags.listen_plain.empty())
    options.portals.push_back({.program = program, .listen = flags.listen_plain, .keys_dir = {}, .quiet = flags.quiet});
  return Ok();
}

/// Reports an occupied port before the daemon announces that it serves. Retries, because the portal of a daemon that
/// has just ended releases its port a moment later.
Status CheckPortIsFree(const std::string& listen) {
  constexpr Duration kPatience = milliseconds(3500);
  WEIR_TRY(const net::Endpoint endpoint, net::ParseEndpoint(listen));
  const Instant until = platform::Now() + kPatience;
  for (;;) {
    const auto listener = net::TcpListener::Listen(endpoint);
    if (listener) return Ok();
    if (listener.error().code != Errc::kAlreadyExists) return listener.error();
    if (platform::Now() >= until) return Fail(Errc::kBusy, listener.error().message);
    std::this_thread::sleep_for(milliseconds(50));
  }
}

Status CheckPortsAreFree(const daemon::ServeOptions& options) {
  for (const daemon::PortalSetup& portal : options.portals) WEIR_TRY_STATUS(CheckPortIsFree(portal.listen));
  if (!options.dashboard) return Ok();
  Status status = CheckPortIsFree(options.dashboard->listen);
  if (!status && status.error().code == Errc::kBusy)
    return Fail(Errc::kBusy, "--http: " + status.error().message + "; choose another port");
  return status;
}

/// Adds the page for browsers.
Status AddPage(const ServeFlags& flags, const std::filesystem::path& self, daemon::ServeOptions& options) {
  if (flags.http.empty()) return Ok();
  WEIR_TRY(const http::Address address, http::ParseAddress(flags.http));
  if (const std::string problem = http::ProblemOfPage(address, flags.http_plain); !problem.empty())
    return Fail(Errc::kInvalidArgument, "--http: " + problem);
  options.dashboard = daemon::DashboardSetup{.program = FindHelper(self, kDashboard),
                                             .listen = flags.http,
                                             .plain = flags.http_plain,
                                             .read_only = flags.http_read_only,
                                             .quiet = flags.quiet};
  return Ok();
}

/// Parses PATH=VGPU, for memory followed by ",size=SIZE". `form` describes the syntax in errors.
Result<daemon::GuestSetup> ParseGuest(std::string text, daemon::GuestSetup::Way way, const std::string& form) {
  const std::string given = text;
  daemon::GuestSetup guest{.program = {}, .path = {}, .vgpu = {}, .way = way};
  constexpr std::string_view kSize = ",size=";
  if (const std::size_t at = text.rfind(kSize); way == daemon::GuestSetup::Way::kMemory && at != std::string::npos) {
    WEIR_TRY(const Bytes size, ParseBytes(std::string_view(text).substr(at + kSize.size())));
    if (size.count < proto::port::kMemoryBytesMin || size.count > proto::port::kMemoryBytesMax ||
        !std::has_single_bit(size.count))  // PCI devices require a power of two
      return Fail(Errc::kInvalidArgument, "--guest-memory: a size is a power of two from 64K to 1G, not '" +
                                              text.substr(at + kSize.size()) + "'");
    guest.memory_bytes = size.count;
    text.resize(at);
  }
  const std::size_t equals = text.rfind('=');
  if (equals != std::string::npos) guest.vgpu = text.substr(equals + 1);
  if (guest.vgpu.empty() || equals == 0 || guest.vgpu.find_first_of("/,") != std::string::npos)
    return Fail(Errc::kInvalidArgument, form + ", not '" + given + "'");
  guest.path = std::filesystem::absolute(text.substr(0, equals));
  return guest;
}

/// Adds the portals for virtual machines that are tenants.
Status AddGuests(const ServeFlags& flags, const std::filesystem::path& self, daemon::ServeOptions& options) {
  using Way = daemon::GuestSetup::Way;
  const std::string program = FindHelper(self, kPortal);
  const auto add = [&](const std::vector<std::string>& texts, Way way, const std::string& form) -> Status {
    for (const std::string& text : texts) {
      WEIR_TRY(daemon::GuestSetup guest, ParseGuest(text, way, form));
      guest.program = program;
      guest.quiet = flags.quiet;
      options.guests.push_back(std::move(guest));
    }
    return Ok();
  };
  WEIR_TRY_STATUS(add(flags.guests, Way::kListen, "--guest takes PATH=VGPU"));
  WEIR_TRY_STATUS(add(flags.guests_at, Way::kConnect, "--guest-at takes PATH=VGPU"));
  return add(flags.guests_memory, Way::kMemory, "--guest-memory takes FILE=VGPU or FILE=VGPU,size=SIZE");
}

Result<std::string> NameOfThisMachine() {
  char host[65]{};
  if (::gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
    return Fail(Errc::kUnavailable, "this machine has no name: give --node-name, and --offer-host with --offer-parts");
  return std::string(host);
}

/// Whether the text is HOST:PORT with a valid port number.
bool IsNodeAddress(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  unsigned port = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data() + colon + 1, end, port);
  return error == std::errc() && stopped == end && port > 0 && port < 65536;
}

/// Adds the peers that run parts, from HOST:PORT=FILE and HOST:PORT=VGPU.
Status AddPeers(const ServeFlags& flags, const std::filesystem::path& self, daemon::ServeOptions& options) {
  const std::string program = FindHelper(self, kRelay);
  for (const bool plain : {false, true})
    for (const std::string& text : plain ? flags.peers_plain : flags.peers) {
      const std::size_t equals = text.find('=');
      if (equals == std::string::npos || equals + 1 == text.size() || !IsNodeAddress(text.substr(0, equals)))
        return Fail(Errc::kInvalidArgument, std::string(plain ? "--peer-plain" : "--peer") + " takes HOST:PORT=" +
                                                (plain ? "VGPU" : "TOKENFILE") + ", not '" + text + "'");
      daemon::PeerSetup peer{.program = program, .node = text.substr(0, equals), .token = {}, .vgpu = {}};
      (plain ? peer.vgpu : peer.token) = text.substr(equals + 1);
      options.peers.push_back(std::move(peer));
    }
  return Ok();
}

/// Adds this node's offer of parts, and its use of other nodes' offers.
Status AddParts(const ServeFlags& flags, const std::filesystem::path& self, const daemon::ServeOptions& options,
                daemon::MemberSetup& member) {
  member.executor = options.executor;
  member.library = options.opencl_library;
  if (!flags.peers_token.empty() && !std::filesystem::exists(flags.peers_token))
    return Fail(Errc::kNotFound, "--peers-token: " + flags.peers_token +
                                     " is not there; make a token with 'weir keys token' on each node that offers");
  if (!flags.peers_token.empty() || flags.peers_plain_too)
    member.peers = {
        .program = FindHelper(self, kRelay),
        .tokens = flags.peers_token.empty() ? std::string() : std::filesystem::absolute(flags.peers_token).string(),
        .plain = flags.peers_plain_too};
  if (flags.offer_parts.empty()) return Ok();
  const bool plain = flags.listen.empty();
  const std::string& listen = plain ? flags.listen_plain : flags.listen;
  if (listen.empty())
    return Fail(Errc::kInvalidArgument,
                "--offer-parts: other nodes connect to this node's portal: give --listen HOST:PORT");
  std::string host = flags.offer_host;
  if (host.empty()) host = listen.substr(0, listen.rfind(':'));
  if (host.empty() || host == "0.0.0.0" || host == "[::]") {
    WEIR_TRY(host, NameOfThisMachine());
  }
  member.offer = {.vgpu = flags.offer_parts, .host = std::move(host), .plain = plain};
  return Ok();
}

/// Adds the membership in a cluster.
Status AddMember(const ServeFlags& flags, const std::filesystem::path& self, daemon::ServeOptions& options) {
  if (flags.managers.empty()) return Ok();
  WEIR_TRY_STATUS(cluster::ParseAddresses(flags.managers));
  if (!flags.manager_token.empty()) WEIR_TRY_STATUS(http::tls::ReadAccess(flags.manager_token));
  std::string name = flags.node_name;
  if (name.empty()) {
    WEIR_TRY(name, NameOfThisMachine());
  }
  options.member = daemon::MemberSetup{.program = FindHelper(self, kMember),
                                       .managers = flags.managers,
                                       .name = std::move(name),
                                       .token = flags.manager_token,
                                       .quiet = flags.quiet};
  WEIR_TRY_STATUS(AddParts(flags, self, options, *options.member));
  // A member that only offers or uses parts needs no modules.
  options.member->modules = !flags.modules.empty() || !(options.member->peers.wanted() || !flags.offer_parts.empty());
  return Ok();
}

/// Adds the module service, which runs in a vGPU that may be created later.
Status AddModules(const ServeFlags& flags, const std::filesystem::path& self, daemon::ServeOptions& options) {
  if (flags.modules.empty()) {
    if (flags.store.empty() && flags.placement.empty() && flags.units == 0) return Ok();
    return Fail(Errc::kInvalidArgument, "--module-store, --module-units and --placement are of --modules VGPU");
  }
  const std::string state = options.state_dir.empty() ? platform::DefaultStateDir() : options.state_dir;
  daemon::ModulesSetup setup{.program = FindHelper(self, kModules),
                             .vgpu = flags.modules,
                             .store = flags.store.empty() ? state + "/modules" : flags.store,
                             .state_file = state + "/modules.json"};
  // Blobs are removed only from the default folder. In a shared folder, a blob may be referenced by a process that does
  // not run at the moment.
  if (flags.store.empty())
    setup.options = {"--keep-blobs", std::to_string(static_cast<std::int64_t>(SecondsOf(modules::kKeepBlobs)))};
  if (!flags.placement.empty()) {
    WEIR_TRY_STATUS(core::FindPlacement(flags.placement));
    setup.options.insert(setup.options.end(), {"--placement", flags.placement});
  }
  if (flags.units > 0) setup.options.insert(setup.options.end(), {"--sub-devices", std::to_string(flags.units)});
  options.modules = std::move(setup);
  return Ok();
}

void AddDeviceOptions(const Command& command, ServeFlags& flags) {
  command.Add(
      "--state-dir", "DIR", flags.state_dir,
      "Folder in which vGPUs and policies survive a restart (default: $WEIR_STATE_DIR, else /var/lib/weir for root, "
      "else $XDG_STATE_HOME/weir or ~/.local/state/weir)");
  command.AddParsed("--device-cpus", "LIST", flags.device_cpus, ParseCpuList,
                    "CPUs of the embedded device, as 0-1 (default: all)");
  command.Add("--policy", "NAME", flags.policy, "Policy of the devices (default: from the state folder)")
      .OneOf(NamesIn(core::PolicyTable()));
  command.Add("--opencl-library", "FILE", flags.opencl_library,
              "The vendor's OpenCL driver (default: the first of /etc/OpenCL/vendors that works)");
  command.Add(
      "--device", "DEVICE", flags.devices,
      "A device to share: embedded (the default), nvidia:GPU by index, UUID or PCI address, drm:GPU (amdgpu, i915) by "
      "index, render node or PCI address, or emulated:FILE, also "
      "with the name of a ready description such as four-cards; may be repeated");
  command.Add("--nvml-library", "FILE", flags.nvml_library,
              "With --device nvidia:GPU: NVIDIA's NVML (default: libnvidia-ml.so.1)");
  command.AddParsed("--kernel-timeout", "TIME", flags.kernel_timeout, ParseDuration,
                    "Time limit of an OpenCL kernel, after which its executor is ended (default: 60 s; 0: none)");
}

/// Options for tenants on other machines and in virtual machines, and for nodes that run parts of launches.
void AddNetworkOptions(const Command& command, ServeFlags& flags) {
  command.Add("--listen", "HOST:PORT", flags.listen,
              "Address for tenants on other machines, with tokens ('weir keys'); ':7700' is on all addresses");
  command.Add("--keys-dir", "DIR", flags.keys_dir, "This node's keys (default: keys in the state folder)");
  command.Add("--listen-plain", "HOST:PORT", flags.listen_plain,
              "Address for tenants without encryption or tokens: every client that can connect can use every vGPU");
  command.Add(
      "--guest", "PATH=VGPU", flags.guests,
      "Accept a virtual machine's programs as this vGPU: its port is connected to this Unix socket; may be repeated");
  command.Add("--guest-at", "PATH=VGPU", flags.guests_at,
              "As --guest, where the hypervisor listens on the socket, or PATH is a terminal");
  command.Add(
      "--guest-memory", "FILE=VGPU[,size=SIZE]", flags.guests_memory,
      "As --guest, by memory that the virtual machine maps (ivshmem): a file, created with 4M if it is missing");
  command.Add("--peer", "HOST:PORT=TOKENFILE", flags.peers,
              "A node that runs parts of OpenCL launches whose memory does not fit here; may be repeated");
  command.Add("--peer-plain", "HOST:PORT=VGPU", flags.peers_plain, "As --peer, without encryption or token");
}

/// Options of the page for browsers.
void AddPageOptions(const Command& command, ServeFlags& flags) {
  command.Add("--http", "HOST:PORT", flags.http,
              "Serve a page that shows the node and changes it, to browsers that have its token ('weir dashboard')");
  command.AddFlag("--http-read-only", flags.http_read_only, "The page changes nothing");
  command.AddFlag(
      "--http-plain", flags.http_plain,
      "The page needs no token: every process of this machine has full access. For loopback addresses only");
}

void AddClusterOptions(const Command& command, ServeFlags& flags) {
  command.Add("--manager", "HOST:PORT,...", flags.managers,
              "Join the cluster of these managers ('weir manager') and execute their runs");
  command.Add("--node-name", "NAME", flags.node_name, "This node's name there (default: the machine's name)");
  command.Add("--manager-token", "FILE", flags.manager_token, "This node's token for the managers");
  command.Add("--offer-parts", "VGPU", flags.offer_parts,
              "With --manager and --listen: parts of other nodes' launches may run in this vGPU");
  command.Add("--offer-host", "HOST", flags.offer_host,
              "This node's host name for other nodes (default: the host of --listen, else the machine's name)");
  command.Add("--peers-token", "FILE|DIR", flags.peers_token,
              "With --manager: parts of launches run on nodes that offer it, with this token, or with DIR/NODE.token");
  command.AddFlag("--peers-plain", flags.peers_plain_too, "As --peers-token, on nodes that require no token");
  command.Add("--modules", "VGPU", flags.modules, "Run kernels of registered modules in this vGPU ('weir module')");
  command.Add(
      "--module-store", "DIR", flags.store,
      "With --modules: the folder of modules, inputs and outputs, which nodes may share (default: modules in the "
      "state folder)");
  command.AddWhole("--module-units", "N", flags.units, 0, 65536,
                   "With --modules: divide the device into parts of this many compute units (default: undivided)");
  command.Add("--placement", "NAME", flags.placement, "With --modules: placement of runs (default: interference-aware)")
      .OneOf(NamesIn(core::PlacementTable()));
}

void RejectServeUsage(const ServeFlags& flags) {
  if (flags.managers.empty() && !(flags.node_name.empty() && flags.manager_token.empty()))
    RejectUsage("serve: --node-name and --manager-token are of --manager");
  if (flags.managers.empty() && !(flags.offer_parts.empty() && flags.peers_token.empty() && !flags.peers_plain_too))
    RejectUsage("serve: --offer-parts, --peers-token and --peers-plain are of --manager");
  const auto nvidia = [](const std::string& device) { return device.starts_with("nvidia:"); };
  if (!flags.nvml_library.empty() && std::ranges::none_of(flags.devices, nvidia))
    RejectUsage("serve: --nvml-library is of --device nvidia:GPU");
  if (flags.http.empty() && (flags.http_read_only || flags.http_plain))
    RejectUsage("serve: --http-read-only and --http-plain are of --http");
  if (flags.executor_users != "own" && flags.executor_users != "owners")
    RejectUsage("serve: --executor-users is 'own' or 'owners', not '" + flags.executor_users + "'");
  if (flags.offer_parts.empty() && !flags.offer_host.empty()) RejectUsage("serve: --offer-host is of --offer-parts");
}

Result<int> RunServe(const Session& session, const ServeFlags& flags) {
  prctl(PR_SET_NAME, "weir");  // a start through /proc/self/exe would be shown as "exe"
  const Places places = session.places();
  daemon::ServeOptions options;
  options.run_dir = places.run_dir;
  options.socket = places.socket;
  options.state_dir = flags.state_dir;  // empty: the daemon's default
  if (options.state_dir.empty() && flags.is_private) options.state_dir = places.run_dir + "/state";
  options.device_cpus = flags.device_cpus;
  options.policy = flags.policy;
  WEIR_TRY(const std::filesystem::path self, SelfExecutable());
  options.executor = FindHelper(self, kExecutor);
  options.opencl_library = flags.opencl_library;
  options.kernel_timeout = flags.kernel_timeout;
  WEIR_TRY_STATUS(device::AddDevices(flags.devices,
                                     {.memory_program = FindHelper(self, kGpuMemory),
                                      .account_program = FindHelper(self, kGpuAccount),
                                      .emulator_program = FindEmulator(self),
                                      .emulated_drivers = FindEmulatedDrivers(self),
                                      .nvml_library = flags.nvml_library,
                                      .run_dir = options.run_dir},
                                     options.devices));
  WEIR_TRY_STATUS(AddPortals(flags, self, options));
  WEIR_TRY_STATUS(AddGuests(flags, self, options));
  WEIR_TRY_STATUS(AddPeers(flags, self, options));
  WEIR_TRY_STATUS(AddMember(flags, self, options));
  WEIR_TRY_STATUS(AddModules(flags, self, options));
  WEIR_TRY_STATUS(AddPage(flags, self, options));
  options.may_listen = [&options] { return CheckPortsAreFree(options); };
  options.exit_when_idle = flags.is_private;
  options.idle_exit_after = kPrivateIdle;
  options.quiet = flags.quiet;
  options.executors_as_owners = flags.executor_users == "owners";
  for (const std::string& path : flags.executor_reads) {
    std::error_code unreadable;
    if (!std::filesystem::exists(path, unreadable))
      return Fail(Errc::kInvalidArgument, "--executor-reads " + path + ": there is no such file or folder");
    options.executor_reads.push_back(std::filesystem::absolute(path));
  }
  options.executor_memory = flags.executor_memory;
  options.require_isolation = flags.require_isolation;
  WEIR_TRY_STATUS(daemon::Serve(options));
  return 0;
}

}  // namespace

void AddServe(Command app, Session& session) {
  auto flags = std::make_shared<ServeFlags>();
  const Command command = AddCommand(
      app, "serve", "Run the node daemon",
      "  weir serve\n"
      "  weir serve --device-cpus 0-1 --policy proportional-share\n"
      "  weir serve --device nvidia:0 --device nvidia:1 --opencl-library libnvidia-opencl.so.1\n"
      "  weir serve --device emulated:four-cards    # GPUs of which only the timing is emulated: no card is needed\n"
      "  weir serve --listen :7700     # tenants on other machines too; 'weir keys init' first\n"
      "  weir serve --guest /run/weir/vm1.sock=vm1     # and a virtual machine's: qemu -chardev socket,path=...\n"
      "  weir serve --guest-memory /run/weir/vm1.mem=vm1    # the same by memory: qemu -device ivshmem-plain,...\n"
      "  weir serve --peer gpu2:7700=parts.token    # parts of launches that do not fit run there\n"
      "  weir serve --manager m1:7710 --listen :7700 --offer-parts parts --peers-token tokens/   # any node that "
      "offers\n"
      "  weir serve --http 127.0.0.1:8080    # the node in a browser\n"
      "  weir serve --modules kernels  # 'weir vgpu create kernels' and 'weir module register' go with it\n"
      "  weir serve --run-dir /tmp/w --state-dir /tmp/w/state    # beside another daemon\n",
      session);
  AddDeviceOptions(command, *flags);
  AddNetworkOptions(command, *flags);
  AddPageOptions(command, *flags);
  AddClusterOptions(command, *flags);
  command.AddFlag("--private", flags->is_private,
                  "End 10 s after the last tenant, and keep the state in the run folder");
  command
      .Add("--executor-users", "WHICH", flags->executor_users,
           "Under root: the users that executors run as, 'own' for each vGPU one that owns nothing else (default), or "
           "the 'owners' of the vGPUs")
      .OneOf({"own", "owners"});
  command.Add("--executor-reads", "PATH", flags->executor_reads,
              "A folder or file that executors with users of their own may read beside those of the system and of the "
              "driver, or a device file that they may open; may be repeated");
  command.AddParsed(
      "--executor-memory", "SIZE", flags->executor_memory, ParseBytes,
      "The machine's memory that an executor with a user of its own may use, as 8GiB, files in a tmpfs included "
      "(default: three quarters of it; all executors together have seven eighths)");
  command.AddFlag("--require-isolation", flags->require_isolation,
                  "Do not serve if a part of the isolation of executors is missing here; 'weir status' names it");
  command.AddFlag("--quiet", flags->quiet, "Print only errors");
  command.WhenGiven([flags, &session] {
    RejectServeUsage(*flags);
    session.action = [flags, &session] { return RunServe(session, *flags); };
  });
}

}  // namespace weir::cli
