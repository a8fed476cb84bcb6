// SPDX-License-Identifier: Apache-2.0
// weir-member: `weir serve --manager` starts it to connect its node to the cluster.
#include <getopt.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "cluster/member.h"
#include "platform/files.h"
#include "platform/option_error.h"
#include "platform/process.h"

namespace {

using namespace weir;

constexpr const char* kUsage =
    "Usage: weir-member --managers HOST:PORT[,...] --node-name NAME --identity FILE [OPTIONS]\n"
    "\n"
    "'weir serve --manager' starts it by itself.\n"
    "\n"
    "  --managers HOST:PORT,...  the cluster's managers\n"
    "  --node-name NAME          this node's name there\n"
    "  --modules SOCKET          where the node's modules are served: RUN_DIR/modules.sock; without it the node runs "
    "none\n"
    "  --identity FILE           this node's identity; created if it is missing\n"
    "  --token FILE              the managers' token\n"
    "  --control SOCKET          the control socket of the node's daemon, for the options below\n"
    "  --executor PROGRAM        program that describes the node's device\n"
    "  --opencl-library FILE     of this driver\n"
    "  --want-parts              tell the daemon which nodes run parts of launches\n"
    "  --offer-parts VGPU        offer that other nodes' parts run in this vGPU\n"
    "  --offer-host HOST         this node's host name for them\n"
    "  --offer-port-file FILE    and at which port\n"
    "  --offer-plain             the portal requires no token\n"
    "  --parent PID              end when this process has ended\n"
    "  --quiet                   print only errors\n";

enum Option {
  kManagers = 1,
  kNodeName,
  kModules,
  kIdentity,
  kToken,
  kControl,
  kExecutor,
  kLibrary,
  kWantParts,
  kOfferParts,
  kOfferHost,
  kOfferPortFile,
  kOfferPlain,
  kParent,
  kQuiet,
  kHelp
};

constexpr option kOptions[] = {{"managers", required_argument, nullptr, kManagers},
                               {"node-name", required_argument, nullptr, kNodeName},
                               {"modules", required_argument, nullptr, kModules},
                               {"identity", required_argument, nullptr, kIdentity},
                               {"token", required_argument, nullptr, kToken},
                               {"control", required_argument, nullptr, kControl},
                               {"executor", required_argument, nullptr, kExecutor},
                               {"opencl-library", required_argument, nullptr, kLibrary},
                               {"want-parts", no_argument, nullptr, kWantParts},
                               {"offer-parts", required_argument, nullptr, kOfferParts},
                               {"offer-host", required_argument, nullptr, kOfferHost},
                               {"offer-port-file", required_argument, nullptr, kOfferPortFile},
                               {"offer-plain", no_argument, nullptr, kOfferPlain},
                               {"parent", required_argument, nullptr, kParent},
                               {"quiet", no_argument, nullptr, kQuiet},
                               {"help", no_argument, nullptr, kHelp},
                               {nullptr, 0, nullptr, 0}};

int Failed(const Error& error) {
  std::fprintf(stderr, "weir-member: %s\n", error.message.c_str());
  return EntryOf(error.code).exit_code;
}

int Usage(const char* what) {
  std::fprintf(stderr, "weir-member: %s; see weir-member --help\n", what);
  return 2;
}

Result<std::string> IdentityIn(const std::string& path) {
  auto there = platform::ReadFile(path, 256);
  if (there) return there->substr(0, there->find('\n'));
  if (there.error().code != Errc::kNotFound) return there;
  std::random_device random;
  std::string identity;
  for (int i = 0; i < 4; ++i) {
    char word[9];
    std::snprintf(word, sizeof word, "%08x", random());
    identity += word;
  }
  WEIR_TRY_STATUS(platform::WriteFileAtomically(path, identity + "\n"));
  return identity;
}

Status Serve(cluster::MemberOptions options, const std::string& managers, const std::string& identity_file,
             const std::string& token_file, pid_t parent_pid) {
  WEIR_TRY(options.managers, cluster::ParseAddresses(managers));
  WEIR_TRY(options.identity, IdentityIn(identity_file));
  if (!token_file.empty()) {
    WEIR_TRY(options.token, cluster::ReadTokenFile(token_file));
  }
  if (parent_pid != 0) {
    WEIR_TRY(platform::Fd parent, platform::OpenPidFd(parent_pid));
    std::thread([fd = parent.Release()] {
      pollfd ended{.fd = fd, .events = POLLIN, .revents = 0};
      while (::poll(&ended, 1, -1) < 0) continue;
      ::_exit(0);
    }).detach();
  }
  cluster::Member(std::move(options)).Run();
}

}  // namespace

int main(int argc, char** argv) {
  cluster::MemberOptions options;
  cluster::PartsMembership parts;
  std::string managers, identity, token;
  pid_t parent = 0;
  for (int which = 0; (which = ::getopt_long(argc, argv, ":h", kOptions, nullptr)) != -1;) {
    switch (which) {
      case kManagers: managers = optarg; break;
      case kNodeName: options.name = optarg; break;
      case kModules: options.modules_socket = optarg; break;
      case kIdentity: identity = optarg; break;
      case kToken: token = optarg; break;
      case kControl: parts.control_socket = optarg; break;
      case kExecutor: parts.executor = optarg; break;
      case kLibrary: parts.library = optarg; break;
      case kWantParts: parts.wanted = true; break;
      case kOfferParts: parts.vgpu = optarg; break;
      case kOfferHost: parts.host = optarg; break;
      case kOfferPortFile: parts.port_file = optarg; break;
      case kOfferPlain: parts.plain = true; break;
      case kParent: parent = std::atoi(optarg); break;
      case kQuiet: options.quiet = true; break;
      case 'h':
      case kHelp: std::fputs(kUsage, stdout); return 0;
      default: return Usage(platform::OptionError(which, argv).c_str());
    }
  }
  if (optind != argc) return Usage("an argument too many");
  if (managers.empty() || options.name.empty() || identity.empty())
    return Usage("--managers, --node-name and --identity are needed");
  const bool for_parts = parts.wanted || !parts.vgpu.empty();
  if (options.modules_socket.empty() && !for_parts)
    return Usage("the node has no task: give --modules, --offer-parts or --want-parts");
  if (for_parts && (parts.control_socket.empty() || parts.executor.empty()))
    return Usage("--offer-parts and --want-parts need --control and --executor");
  if (!parts.vgpu.empty() && (parts.host.empty() || parts.port_file.empty()))
    return Usage("--offer-parts needs --offer-host and --offer-port-file");
  if (for_parts) options.parts = std::move(parts);
  const Status status = Serve(std::move(options), managers, identity, token, parent);
  return status ? 0 : Failed(status.error());
}
