// SPDX-License-Identifier: Apache-2.0
// weir-manager: the program behind `weir manager`. It is the only one that links gRPC, for etcd.
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <filesystem>

#include "cluster/addresses.h"
#include "cluster/etcd/etcd_store.h"
#include "cluster/manager.h"
#include "cluster/memory_store.h"
#include "http/stop_on_end.h"
#include "platform/files.h"
#include "platform/service_end.h"
#include "platform/service_options.h"

namespace {

using namespace weir;

constexpr const char* kAbout =
    "Usage: weir-manager [OPTIONS]\n"
    "\n"
    "'weir manager' runs it.\n";

struct Flags {
  std::string listen = "127.0.0.1:7710", advertise, etcd, state, store, token, port_file;
  bool plain = false;
  cluster::ManagerOptions manager{.self = {}, .placement = std::string(core::kDefaultPlacement)};
};

void Declare(platform::ServiceOptions& options, Flags& flags) {
  options.Add("--listen", "HOST:PORT", flags.listen, "address for clients and nodes; port 0: any free one");
  options.Add("--advertise", "HOST:PORT", flags.advertise, "address for others, if it differs from --listen");
  options.Add("--etcd", "HOST:PORT,...", flags.etcd, "the cluster's state is in etcd, shared by several managers");
  options.Add("--state", "FILE", flags.state,
              "the cluster's state is in this file (default: cluster.journal in the state folder)");
  options.Add("--store", "DIR", flags.store,
              "blobs; a folder that the managers share (default: blobs in the state folder)");
  options.Add("--placement", "NAME", flags.manager.placement, "placement of runs");
  options.Add("--token", "FILE", flags.token, "file with the token that clients must present");
  options.AddFlag("--plain", flags.plain,
                  "no token: every client that can connect has full access, also from other machines");
  options.AddSeconds("--lost-after", flags.manager.bounds.lost_after, seconds(1), seconds(3'600),
                     "a node that is silent for this time is lost");
  options.Add("--port-file", "FILE", flags.port_file, "file to which the port is written when it listens");
  options.AddSeconds("--keep-blobs", flags.manager.keep_blobs, Duration{0}, seconds(1'000'000'000),
                     "remove blobs that were unused for this time; 0: never");
  options.AddFlag("--quiet", flags.manager.quiet, "print only errors");
}

Result<std::unique_ptr<cluster::StateStore>> OpenState(const Flags& flags) {
  if (!flags.etcd.empty()) {
    WEIR_TRY(const auto members, cluster::ParseAddresses(flags.etcd));
    std::vector<std::string> names;
    names.reserve(members.size());
    for (const cluster::Address& member : members) names.push_back(member.Text());
    return cluster::MakeEtcdStore(names);
  }
  const std::string path = flags.state.empty() ? platform::DefaultStateDir() + "/cluster.journal" : flags.state;
  if (const std::filesystem::path folder = std::filesystem::path(path).parent_path(); !folder.empty())
    WEIR_TRY_STATUS(platform::MakeFolder(folder, 0700));
  WEIR_TRY(auto file, cluster::MemoryStore::Open(path));
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
  // Called before etcd's client library starts threads, which must block the same signals.
  WEIR_TRY(platform::ServiceEnd end, platform::ServiceEnd::Watch());
  WEIR_TRY(const auto state, OpenState(flags));
  WEIR_TRY(modules::ModuleStore blobs,
           modules::ModuleStore::Open(flags.store.empty() ? platform::DefaultStateDir() + "/blobs" : flags.store));

  boost::asio::io_context loop(1);
  Status ended = Ok();
  const http::StopOnEnd stop(loop, std::move(end));
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
  platform::ServiceOptions options("weir-manager", kAbout);
  Declare(options, flags);
  if (const auto ended = options.Parse(argc, argv)) return *ended;
  if (!flags.etcd.empty() && !flags.state.empty()) return options.Reject("give --etcd or --state");
  if (flags.plain && !flags.token.empty()) return options.Reject("give --token or --plain");
  return options.ExitStatusOf(Serve(std::move(flags)));
}
