// SPDX-License-Identifier: Apache-2.0
// weir-manager: the program behind `weir manager`. It is the only one that links gRPC, for etcd.
#include <getopt.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "cluster/addresses.h"
#include "cluster/etcd/etcd_store.h"
#include "cluster/manager.h"
#include "cluster/memory_store.h"
#include "platform/files.h"
#include "platform/option_error.h"

namespace {

using namespace weir;

constexpr const char* kUsage =
    "Usage: weir-manager [OPTIONS]\n"
    "\n"
    "'weir manager' runs it.\n"
    "\n"
    "  --listen HOST:PORT     address for clients and nodes (default 127.0.0.1:7710; port 0: any free one)\n"
    "  --advertise HOST:PORT  address for others, if it differs from --listen\n"
    "  --etcd HOST:PORT,...   the cluster's state is in etcd, shared by several managers\n"
    "  --state FILE           the cluster's state is in this file (default: cluster.journal in the state folder)\n"
    "  --store DIR            blobs; a folder that the managers share (default: blobs in the state folder)\n"
    "  --placement NAME       placement of runs (default: interference-aware)\n"
    "  --token FILE           file with the token that clients must present\n"
    "  --plain                no token: every client that can connect has full access, also from other machines\n"
    "  --lost-after SECONDS   a node that is silent for this time is lost (default 4)\n"
    "  --port-file FILE       file to which the port is written when it listens\n"
    "  --keep-blobs SECONDS   remove blobs that were unused for this time (default: 604800; 0: never)\n"
    "  --quiet                print only errors\n";

enum Option {
  kListen = 1,
  kAdvertise,
  kEtcd,
  kState,
  kStore,
  kPlacement,
  kToken,
  kPlain,
  kLostAfter,
  kPortFile,
  kKeepBlobs,
  kQuiet,
  kHelp
};

constexpr option kOptions[] = {{"listen", required_argument, nullptr, kListen},
                               {"advertise", required_argument, nullptr, kAdvertise},
                               {"etcd", required_argument, nullptr, kEtcd},
                               {"state", required_argument, nullptr, kState},
                               {"store", required_argument, nullptr, kStore},
                               {"placement", required_argument, nullptr, kPlacement},
                               {"token", required_argument, nullptr, kToken},
                               {"plain", no_argument, nullptr, kPlain},
                               {"lost-after", required_argument, nullptr, kLostAfter},
                               {"port-file", required_argument, nullptr, kPortFile},
                               {"keep-blobs", required_argument, nullptr, kKeepBlobs},
                               {"quiet", no_argument, nullptr, kQuiet},
                               {"help", no_argument, nullptr, kHelp},
                               {nullptr, 0, nullptr, 0}};

struct Flags {
  std::string listen = "127.0.0.1:7710", advertise, etcd, state, store, token, port_file;
  bool plain = false;
  double lost_after = 4;
  double keep_blobs = SecondsOf(modules::kKeepBlobs);
  cluster::ManagerOptions manager;
};

int Failed(const Error& error) {
  std::fprintf(stderr, "weir-manager: %s\n", error.message.c_str());
  return EntryOf(error.code).exit_code;
}

int Usage(const char* what) {
  std::fprintf(stderr, "weir-manager: %s; see weir-manager --help\n", what);
  return 2;
}

Result<std::unique_ptr<cluster::StateStore>> OpenState(const Flags& flags) {
  if (!flags.etcd.empty()) {
    WEIR_TRY(const auto members, cluster::ParseAddresses(flags.etcd));
    std::vector<std::string> names;
    names.reserve(members.size());
    for (const cluster::Address& member : members) names.push_back(member.Text());
    return cluster::MakeEtcdStore(names);
  }
  const std::string folder = platform::DefaultStateDir();
  if (flags.state.empty()) WEIR_TRY_STATUS(platform::MakeFolder(folder, 0700));
  WEIR_TRY(auto file, cluster::MemoryStore::Open(flags.state.empty() ? folder + "/cluster.journal" : flags.state));
  return std::unique_ptr<cluster::StateStore>(std::move(file));
}

Status Serve(Flags flags) {
  WEIR_TRY(cluster::Address address, cluster::ParseAddress(flags.listen));
  if (!flags.token.empty()) {
    WEIR_TRY(flags.manager.token, cluster::ReadTokenFile(flags.token));
  }
  if (flags.token.empty() && !flags.plain && !cluster::IsLoopback(address.host))
    return Fail(Errc::kPermissionDenied,
                "'" + flags.listen +
                    "' can be reached from other machines: give --token FILE, or --plain to let "
                    "every client have full access");
  WEIR_TRY_STATUS(core::MakePlacement(flags.manager.placement, {}));
  WEIR_TRY(const auto state, OpenState(flags));
  WEIR_TRY(modules::ModuleStore blobs,
           modules::ModuleStore::Open(flags.store.empty() ? platform::DefaultStateDir() + "/blobs" : flags.store));

  boost::asio::io_context loop(1);
  Status ended = Ok();
  boost::asio::signal_set signals(loop, SIGINT, SIGTERM);
  signals.async_wait([&loop](const boost::system::error_code& error, int) {
    if (!error) loop.stop();
  });
  cluster::Manager* manager = nullptr;
  // The port is known after listening. The loop, which handles requests, runs later.
  WEIR_TRY(const auto server,
           http::Server::ListenTcp(loop, address.host, address.port,
                                   {.request_bytes = modules::ModuleStore::kBlobBytesMax + (64U << 10),
                                    .connections = 1'024,
                                    .connections_per_address = 512,
                                    .refuse = [&manager](const http::Request& head) { return manager->Refusal(head); }},
                                   [&manager](const http::Request& request, http::Respond respond) {
                                     manager->Handle(request, std::move(respond));
                                   }));
  address.port = server->port();
  flags.manager.self = flags.advertise.empty() ? address.Text() : flags.advertise;
  flags.manager.bounds.lost_after = FromSeconds(flags.lost_after);
  flags.manager.keep_blobs = FromSeconds(flags.keep_blobs);
  flags.manager.bounds.suspect_after =
      std::min(flags.manager.bounds.suspect_after, flags.manager.bounds.lost_after / 2);
  cluster::Manager made(loop, *state, std::move(blobs), flags.manager, [&](Error error) {
    ended = std::move(error);
    loop.stop();
  });
  manager = &made;
  if (!flags.port_file.empty())
    WEIR_TRY_STATUS(platform::WriteFileAtomically(flags.port_file, std::to_string(address.port) + "\n"));
  if (!flags.manager.quiet)
    std::fprintf(stderr, "weir-manager: serves %s%s\n", flags.manager.self.c_str(),
                 flags.manager.token.empty() ? ", without a token" : "");
  loop.run();
  return ended;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  flags.manager.placement = core::kDefaultPlacement;
  for (int which = 0; (which = ::getopt_long(argc, argv, ":h", kOptions, nullptr)) != -1;) {
    switch (which) {
      case kListen: flags.listen = optarg; break;
      case kAdvertise: flags.advertise = optarg; break;
      case kEtcd: flags.etcd = optarg; break;
      case kState: flags.state = optarg; break;
      case kStore: flags.store = optarg; break;
      case kPlacement: flags.manager.placement = optarg; break;
      case kToken: flags.token = optarg; break;
      case kPlain: flags.plain = true; break;
      case kLostAfter: flags.lost_after = std::atof(optarg); break;
      case kPortFile: flags.port_file = optarg; break;
      case kKeepBlobs: flags.keep_blobs = std::atof(optarg); break;
      case kQuiet: flags.manager.quiet = true; break;
      case 'h':
      case kHelp: std::fputs(kUsage, stdout); return 0;
      default: return Usage(platform::OptionError(which, argv).c_str());
    }
  }
  if (optind != argc) return Usage("an argument too many");
  if (!flags.etcd.empty() && !flags.state.empty()) return Usage("give --etcd or --state");
  if (flags.plain && !flags.token.empty()) return Usage("give --token or --plain");
  if (!(flags.keep_blobs >= 0) || flags.keep_blobs > 1e9) return Usage("--keep-blobs is from 0 to 1000000000");
  if (!(flags.lost_after >= 1) || flags.lost_after > 3'600) return Usage("--lost-after is from 1 to 3600");
  const Status status = Serve(std::move(flags));
  return status ? 0 : Failed(status.error());
}
