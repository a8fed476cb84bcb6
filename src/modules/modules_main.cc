// SPDX-License-Identifier: Apache-2.0
// weir-modules: started by `weir serve --modules`, or by hand.
#include <getopt.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "modules/service.h"
#include "platform/files.h"
#include "platform/option_error.h"
#include "platform/process.h"

namespace {

using namespace weir;

constexpr const char* kUsage =
    "Usage: weir-modules (--opencl SOCKET | --direct) [OPTIONS]\n"
    "\n"
    "Runs kernels of registered modules on this node's devices. 'weir serve --modules VGPU' starts it by itself; by\n"
    "hand, without a daemon, on the driver:\n"
    "  weir-modules --direct --socket /tmp/modules.sock --store /tmp/store &\n"
    "  weir module list --modules-socket /tmp/modules.sock\n"
    "\n"
    "  --opencl SOCKET      compute in the vGPU with this OpenCL socket\n"
    "  --direct             compute by the system's OpenCL, past every vGPU\n"
    "  --run-dir DIR        folder of modules.sock (default: the daemon's)\n"
    "  --socket PATH        listen at PATH instead\n"
    "  --store DIR          the folder of blobs, which nodes and managers may share (default: modules in the state\n"
    "                       folder)\n"
    "  --state FILE         file that keeps the registered modules (default: none)\n"
    "  --placement NAME     placement of runs (default: interference-aware); docs/placement.md\n"
    "  --concurrent N       runs at once on a device (default: 16)\n"
    "  --capacity L,R,T,B   a device's capacity: KiB of local memory, MB/s, threads, blocks (default: by its compute "
    "units)\n"
    "  --sub-devices N      cut each device into parts of N compute units; each is a device then\n"
    "  --keep-bytes N       residual data on a device (default: a quarter of its memory)\n"
    "  --keep-blobs SECONDS remove blobs that were unused for this time from the store (default: keep them)\n"
    "  --fresh              a new process and context for each run, to measure the gain of keeping one\n"
    "  --parent PID         end when this process has ended\n";

enum Option {
  kOpencl = 1,
  kDirect,
  kRunDir,
  kSocket,
  kStore,
  kState,
  kPlacement,
  kConcurrent,
  kCapacity,
  kUnits,
  kKeep,
  kKeepBlobs,
  kFresh,
  kParent,
  kHelp
};
constexpr option kOptions[] = {{"opencl", required_argument, nullptr, kOpencl},
                               {"direct", no_argument, nullptr, kDirect},
                               {"run-dir", required_argument, nullptr, kRunDir},
                               {"socket", required_argument, nullptr, kSocket},
                               {"store", required_argument, nullptr, kStore},
                               {"state", required_argument, nullptr, kState},
                               {"placement", required_argument, nullptr, kPlacement},
                               {"concurrent", required_argument, nullptr, kConcurrent},
                               {"capacity", required_argument, nullptr, kCapacity},
                               {"sub-devices", required_argument, nullptr, kUnits},
                               {"keep-bytes", required_argument, nullptr, kKeep},
                               {"keep-blobs", required_argument, nullptr, kKeepBlobs},
                               {"fresh", no_argument, nullptr, kFresh},
                               {"parent", required_argument, nullptr, kParent},
                               {"help", no_argument, nullptr, kHelp},
                               {nullptr, 0, nullptr, 0}};

struct Arguments {
  std::string opencl, run_dir, socket, store;
  bool direct = false;
  int parent = 0;
  modules::ServiceOptions service;
};

int Usage(const std::string& what) {
  std::fprintf(stderr, "weir-modules: %s; see weir-modules --help\n", what.c_str());
  return 2;
}

int Failed(const Error& error) {
  std::fprintf(stderr, "weir-modules: %s\n", error.message.c_str());
  return EntryOf(error.code).exit_code;
}

template <typename T>
bool Whole(std::string_view text, T low, T high, T& value) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && rest == text.data() + text.size() && value >= low && value <= high;
}

bool ReadCapacity(std::string_view text, std::optional<core::Loads>& capacity) {
  core::Loads loads{};
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const std::size_t comma = text.find(',');
    if ((comma == std::string_view::npos) != (i + 1 == loads.size())) return false;
    if (!Whole<std::uint64_t>(text.substr(0, comma), 1, core::kLoadMax, loads[i])) return false;
    if (comma != std::string_view::npos) text.remove_prefix(comma + 1);
  }
  capacity = loads;
  return true;
}

/// Returns the exit status of wrong usage, or -1 to continue.
int ReadArguments(int argc, char** argv, Arguments& out) {
  for (int which = 0; (which = ::getopt_long(argc, argv, ":h", kOptions, nullptr)) != -1;) {
    bool right = true;
    switch (which) {
      case kOpencl: out.opencl = optarg; break;
      case kDirect: out.direct = true; break;
      case kRunDir: out.run_dir = optarg; break;
      case kSocket: out.socket = optarg; break;
      case kStore: out.store = optarg; break;
      case kState: out.service.state_file = optarg; break;
      case kPlacement: out.service.placement = optarg; break;
      case kConcurrent: right = Whole(optarg, 1U, core::kRunsAtOnceMax, out.service.concurrent_max); break;
      case kCapacity: right = ReadCapacity(optarg, out.service.capacity); break;
      case kUnits: right = Whole(optarg, 1U, 1U << 16, out.service.units); break;
      case kKeep: right = Whole(optarg, std::uint64_t{1}, ~std::uint64_t{0}, out.service.keep_bytes); break;
      case kKeepBlobs: {
        std::uint32_t keep_s = 0;
        right = Whole(optarg, 1U, 1U << 30, keep_s);
        out.service.keep_blobs = seconds(keep_s);
        break;
      }
      case kFresh: out.service.fresh = true; break;
      case kParent: right = Whole(optarg, 1, 1 << 30, out.parent); break;
      case 'h':
      case kHelp: std::fputs(kUsage, stdout); return 0;
      default: return Usage(platform::OptionError(which, argv));
    }
    if (!right) return Usage(std::string("'") + optarg + "' is not what --" + kOptions[which - 1].name + " takes");
  }
  if (optind < argc) return Usage(std::string("unexpected argument '") + argv[optind] + "'");
  if (out.direct == !out.opencl.empty()) return Usage("give --opencl SOCKET or --direct, one of them");
  return -1;
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
  if (!arguments.opencl.empty()) {
    // A host is an ordinary tenant: the loader shows it only Weir's client library.
    WEIR_TRY(const std::string vendors, Beside("icd"));
    ::setenv("OCL_ICD_VENDORS", vendors.c_str(), 1);
    ::setenv("WEIR_OPENCL", arguments.opencl.c_str(), 1);
  }
  WEIR_TRY(auto store, modules::ModuleStore::Open(arguments.store));

  boost::asio::io_context loop(1);
  boost::asio::signal_set signals(loop, SIGINT, SIGTERM);
  signals.async_wait([&loop](const boost::system::error_code& error, int) {
    if (!error) loop.stop();
  });
  platform::Fd parent;
  boost::asio::posix::stream_descriptor parent_watch(loop);
  if (arguments.parent != 0) {
    auto opened = platform::OpenPidFd(arguments.parent);
    if (!opened) return Ok();  // the parent has already ended
    parent_watch.assign(opened->Release());
    parent_watch.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                            [&loop](const boost::system::error_code& error) {
                              if (!error) loop.stop();
                            });
  }
  WEIR_TRY(const auto service, modules::Service::Start(loop, std::move(store), arguments.service));
  WEIR_TRY(const auto server,
           http::Server::ListenUnix(loop, arguments.socket,
                                    {.request_bytes = modules::ModuleStore::kBlobBytesMax, .connections = 256},
                                    [&service](const http::Request& request, http::Respond respond) {
                                      service->Handle(request, std::move(respond));
                                    }));
  loop.run();
  return Ok();
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (const int status = ReadArguments(argc, argv, arguments); status >= 0) return status;
  const Status status = Serve(arguments);
  return status ? 0 : Failed(status.error());
}
