// SPDX-License-Identifier: Apache-2.0
// weir-modules: a node's module service, and its membership in a cluster. Started by `weir serve --modules`, or by
// hand.
#include <boost/asio/io_context.hpp>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>
#include <thread>

#include "cluster/local_modules.h"
#include "cluster/member_options.h"
#include "http/stop_on_end.h"
#include "modules/run_json.h"
#include "modules/service.h"
#include "platform/clock.h"
#include "platform/files.h"
#include "platform/service_end.h"
#include "platform/service_options.h"

namespace {

using namespace weir;

constexpr const char* kAbout =
    "Usage: weir-modules (--opencl SOCKET | --direct) [OPTIONS]\n"
    "\n"
    "Runs kernels of registered modules on this node's devices. 'weir serve --modules VGPU' starts it by itself; by\n"
    "hand, without a daemon, on the driver:\n"
    "  weir-modules --direct --socket /tmp/modules.sock --store /tmp/store &\n"
    "  weir module list --modules-socket /tmp/modules.sock\n"
    "\n"
    "With --managers the node is also a member of their cluster and executes their runs. 'weir serve --modules VGPU\n"
    "--manager HOST:PORT' starts it so.\n";

struct Arguments {
  std::string opencl, run_dir, socket, store;
  bool direct = false;
  pid_t parent = 0;
  modules::ServiceOptions service;
  cluster::MemberArguments member;

  [[nodiscard]] bool is_member() const { return !member.managers.empty(); }
};

Status ReadCapacity(std::string_view text, std::optional<core::Loads>& capacity) {
  const Error wrong = Fail(Errc::kInvalidArgument, "takes four whole numbers from 1 to " +
                                                       std::to_string(core::kLoadMax) + ", separated by commas");
  core::Loads loads{};
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), loads[i]);
    if (error != std::errc{} || loads[i] < 1 || loads[i] > core::kLoadMax) return wrong;
    text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
    if (i + 1 == loads.size() ? !text.empty() : !text.starts_with(',')) return wrong;
    if (!text.empty()) text.remove_prefix(1);
  }
  capacity = loads;
  return Ok();
}

void Declare(platform::ServiceOptions& options, Arguments& arguments) {
  modules::ServiceOptions& service = arguments.service;
  options.Add("--opencl", "SOCKET", arguments.opencl, "compute in the vGPU with this OpenCL socket");
  options.Add("--user-of", "DIR", service.user_of,
              "run module hosts as the owner of this folder, for root (default: as this user)");
  options.Add("--groups", "DIR", service.groups,
              "run them in the control group of this folder that is named by that owner's number; may be repeated");
  options.AddFlag("--direct", arguments.direct, "compute by the system's OpenCL, past every vGPU");
  options.Add("--run-dir", "DIR", arguments.run_dir, "folder of modules.sock (default: the daemon's)");
  options.Add("--socket", "PATH", arguments.socket, "listen at PATH instead");
  options.Add("--store", "DIR", arguments.store,
              "the folder of blobs, which nodes and managers may share (default: modules in the state folder)");
  options.Add("--state", "FILE", service.state_file, "file that keeps the registered modules (default: none)");
  options.Add("--placement", "NAME", service.placement, "placement of runs; docs/placement.md");
  options.AddWhole("--concurrent", "N", service.concurrent_max, 1, core::kRunsAtOnceMax, "runs at once on a device");
  options.AddParsed(
      "--capacity", "L,R,T,B", [&service](const std::string& text) { return ReadCapacity(text, service.capacity); },
      "a device's capacity: KiB of local memory, MB/s, threads, blocks (default: by its compute units)");
  options.AddWhole("--sub-devices", "N", service.units, 1, 1U << 16,
                   "cut each device into parts of N compute units; each is a device then");
  options.AddWhole("--keep-bytes", "N", service.keep_bytes, 1, std::numeric_limits<std::uint64_t>::max(),
                   "residual data on a device (default: a quarter of its memory)");
  options.AddSeconds("--keep-blobs", service.keep_blobs, seconds(1), seconds(1'000'000'000),
                     "remove blobs that were unused for this time from the store (default: keep them)");
  options.AddFlag("--fresh", service.fresh,
                  "a new process and context for each run, to measure the gain of keeping one");
  options.AddParent(arguments.parent);
  cluster::Declare(options, arguments.member);
}

/// A path in this program's folder.
Result<std::string> Beside(const char* name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto path = self.parent_path() / name;
  if (error || !std::filesystem::exists(path, error))
    return Fail(Errc::kNotFound, std::string(name) + " is not beside weir-modules, in " + self.parent_path().string());
  return path.string();
}

Status Serve(Arguments& arguments) {
  if (arguments.run_dir.empty()) arguments.run_dir = platform::DefaultRunDir();
  if (arguments.socket.empty()) arguments.socket = arguments.run_dir + "/modules.sock";
  if (arguments.store.empty()) arguments.store = platform::DefaultStateDir() + "/modules";
  WEIR_TRY(arguments.service.host, Beside("weir-module-host"));
  arguments.service.opencl = arguments.opencl;
  if (!arguments.opencl.empty()) {
    // A host is an ordinary tenant: the loader shows it only Weir's client library.
    WEIR_TRY(const std::string vendors, Beside("icd"));
    ::setenv("OCL_ICD_VENDORS", vendors.c_str(), 1);
    ::setenv("WEIR_OPENCL", arguments.opencl.c_str(), 1);
  }
  WEIR_TRY(auto store, modules::ModuleStore::Open(arguments.store));

  WEIR_TRY(platform::ServiceEnd end, platform::ServiceEnd::Watch(arguments.parent));
  if (end.Wait(Duration{0})) return Ok();  // the end was requested already; no host is started
  boost::asio::io_context loop(1);
  const http::StopOnEnd stop(loop, std::move(end));
  WEIR_TRY(auto service, modules::Service::Start(loop, std::move(store), arguments.service));
  WEIR_TRY(auto server, http::Server::ListenUnix(loop, arguments.socket, modules::LimitBodies({.connections = 256}),
                                                 [&service](const http::Request& request, http::Respond respond) {
                                                   service->Handle(request, std::move(respond));
                                                 }));
  if (!arguments.is_member()) {
    loop.run();
    return Ok();
  }
  WEIR_TRY(cluster::MemberOptions options, cluster::OptionsOf(arguments.member));
  cluster::LocalModules local(loop, *service);
  cluster::Member member(std::move(options), &local);
  service->ReportTo(
      {.run_ended = [&member](const modules::Run& run) { member.RunEnded(modules::ToJson(run, platform::Now())); },
       .devices_changed = [&member] { member.DevicesChanged(); }});
  std::thread([&member] { member.Run(); }).detach();
  loop.run();
  // The member's threads wait for managers at any time. They end with the process.
  local.Close();
  server.reset();
  service.reset();
  std::_Exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  platform::ServiceOptions options("weir-modules", kAbout);
  Declare(options, arguments);
  if (const auto ended = options.Parse(argc, argv)) return *ended;
  if (arguments.direct == !arguments.opencl.empty())
    return options.Reject("give --opencl SOCKET or --direct, one of them");
  if (arguments.is_member())
    if (const char* problem = cluster::ProblemOf(arguments.member)) return options.Reject(problem);
  return options.ExitStatusOf(Serve(arguments));
}
