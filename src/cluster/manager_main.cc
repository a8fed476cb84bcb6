// SPDX-License-Identifier: Apache-2.0
// weir-manager: the program behind `weir manager`. It is the only one that links gRPC, for etcd.
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "cluster/addresses.h"
#include "cluster/etcd/etcd_store.h"
#include "cluster/manager.h"
#include "cluster/memory_store.h"
#include "http/stop_on_end.h"
#include "http/tls/client.h"
#include "http/tls/server.h"
#include "net/keys.h"
#include "platform/files.h"
#include "platform/process.h"
#include "platform/service_end.h"
#include "platform/service_options.h"

namespace {

using namespace weir;

constexpr const char* kAbout =
    "Usage: weir-manager [OPTIONS]\n"
    "\n"
    "'weir manager' runs it.\n";

struct Flags {
  cluster::EtcdAccess etcd_access;
  std::string etcd_password;  // file
  std::string listen = "127.0.0.1:7710", advertise, etcd, state, store, token, keys, audit, port_file;
  bool plain = false;
  cluster::ManagerOptions manager{.self = {}, .placement = std::string(core::kDefaultPlacement)};
};

void Declare(platform::ServiceOptions& options, Flags& flags) {
  options.Add("--listen", "HOST:PORT", flags.listen, "address for clients and nodes; port 0: any free one");
  options.Add("--advertise", "HOST:PORT", flags.advertise, "address for others, if it differs from --listen");
  options.Add("--etcd", "HOST:PORT,...", flags.etcd, "the cluster's state is in etcd, shared by several managers");
  options.Add("--etcd-ca", "FILE", flags.etcd_access.authority, "TLS to etcd, whose certificates this file checks");
  options.Add("--etcd-cert", "FILE", flags.etcd_access.certificate, "this manager's certificate for etcd");
  options.Add("--etcd-key", "FILE", flags.etcd_access.key, "and its key");
  options.Add("--etcd-user", "NAME", flags.etcd_access.user, "this manager's user in etcd");
  options.Add("--etcd-password", "FILE", flags.etcd_password, "file with that user's password");
  options.Add("--state", "FILE", flags.state,
              "the cluster's state is in this file (default: cluster.journal in the state folder)");
  options.Add("--store", "DIR", flags.store,
              "blobs; a folder that the managers share (default: blobs in the state folder)");
  options.Add("--placement", "NAME", flags.manager.placement, "placement of runs");
  options.Add("--keys", "DIR", flags.keys,
              "TLS, with the keys of 'weir keys init', for holders of its tokens (default, unless it listens on "
              "loopback: manager-keys in the state folder, made if it is missing)");
  options.Add("--audit", "FILE", flags.audit,
              "with TLS: log of changes and refusals (default: audit.jsonl in the key folder)");
  options.Add("--token", "FILE", flags.token,
              "no TLS: file with the token that clients must present, which the network can read");
  options.AddFlag("--plain", flags.plain,
                  "no TLS and no token: every client that can connect has full access, also from other machines");
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
    cluster::EtcdAccess access = flags.etcd_access;
    if (!flags.etcd_password.empty()) {
      WEIR_TRY(access.password, net::ReadSecretLine(flags.etcd_password));
    }
    return cluster::MakeEtcdStore(names, access);
  }
  const std::string path = flags.state.empty() ? platform::DefaultStateDir() + "/cluster.journal" : flags.state;
  if (const std::filesystem::path folder = std::filesystem::path(path).parent_path(); !folder.empty())
    WEIR_TRY_STATUS(platform::MakeFolder(folder, 0700));
  WEIR_TRY(auto file, cluster::MemoryStore::Open(path));
  return std::unique_ptr<cluster::StateStore>(std::move(file));
}

/// The secret of clients without TLS.
Result<std::string> SecretIn(const std::string& path) {
  WEIR_TRY(http::tls::Access access, http::tls::ReadAccess(path));
  if (access.identity)
    return Fail(Errc::kInvalidArgument,
                path + " is a token of TLS, which its holder uses; a manager takes --keys, the folder that made it");
  return std::move(access.bearer);
}

/// The key folder; empty: no TLS. Makes the default one if it is needed and missing.
Result<std::string> KeysFor(const Flags& flags, const cluster::Address& address) {
  if (!flags.keys.empty() && !net::HasNodeKeys(flags.keys))
    return Fail(Errc::kNotFound, "no keys in " + flags.keys + "; 'weir keys init' makes them");
  if (!flags.keys.empty() || !flags.token.empty() || flags.plain || cluster::IsLoopback(address.host))
    return flags.keys;
  WEIR_TRY_STATUS(platform::MakeFolder(platform::DefaultStateDir(), 0700));
  std::string keys = platform::DefaultStateDir() + "/manager-keys";
  if (net::HasNodeKeys(keys)) return keys;
  WEIR_TRY_STATUS(net::MakeNodeKeys(keys, "manager"));
  std::fprintf(
      stderr,
      "weir-manager: made keys in %s; 'weir keys token NAME --role operator|tenant|node --dir %s' makes tokens\n",
      keys.c_str(), keys.c_str());
  return keys;
}

constexpr std::size_t kConnectionsMax = 1'024, kConnectionsOfOneMax = 512;

http::Limits LimitsOf(http::Refuse refuse) {
  return modules::LimitBodies(
      {.connections = kConnectionsMax, .connections_per_address = kConnectionsOfOneMax, .refuse = std::move(refuse)});
}

/// One of the two, and the port at which it listens.
struct Listening {
  std::unique_ptr<http::Server> plain{};
  std::unique_ptr<http::tls::Server> tls{};
  [[nodiscard]] std::uint16_t port() const { return tls ? tls->port() : plain->port(); }
};

Result<Listening> Listen(boost::asio::io_context& loop, const cluster::Address& address, const std::string& keys,
                         bool quiet, http::Limits limits, http::Handler handler) {
  Listening listening;
  if (keys.empty()) {
    WEIR_TRY(listening.plain, http::Server::ListenTcp(loop, address.host, address.port, limits, std::move(handler)));
    return listening;
  }
  WEIR_TRY(const net::TlsIdentity identity, net::TlsIdentity::OfNode(keys, {}, net::Admits::kCluster));
  http::tls::ServerOptions options{.connections = {.all = kConnectionsMax,
                                                   .of_one_name = kConnectionsOfOneMax,
                                                   .waiting_of_one_name = kConnectionsOfOneMax},
                                   .requests = std::move(limits)};
  if (!quiet)
    options.refused = [](const std::string& line) { std::fprintf(stderr, "weir-manager: %s\n", line.c_str()); };
  WEIR_TRY(listening.tls, http::tls::Server::Listen(loop, {address.host, std::to_string(address.port)}, identity,
                                                    std::move(options), std::move(handler)));
  return listening;
}

Status Serve(Flags flags) {
  platform::RaiseFileLimit();  // a connection with TLS has three descriptors
  WEIR_TRY(cluster::Address address, cluster::ParseAddress(flags.listen));
  if (!flags.token.empty()) {
    WEIR_TRY(flags.manager.token, SecretIn(flags.token));
  }
  WEIR_TRY(const std::string keys, KeysFor(flags, address));
  flags.manager.tls = !keys.empty();
  std::optional<cluster::AuditLog> audit;
  if (flags.manager.tls) {
    WEIR_TRY(cluster::AuditLog opened,
             cluster::AuditLog::Open(flags.audit.empty() ? keys + "/audit.jsonl" : flags.audit));
    flags.manager.audit = &audit.emplace(std::move(opened));
  }
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
  WEIR_TRY(const Listening server,
           Listen(loop, address, keys, flags.manager.quiet,
                  LimitsOf([&manager](const http::Request& head) { return manager->Refusal(head); }),
                  [&manager](const http::Request& request, http::Respond respond) {
                    manager->Handle(request, std::move(respond));
                  }));
  address.port = server.port();
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
                 flags.manager.tls             ? ", with TLS"
                 : flags.manager.token.empty() ? ", without a token"
                                               : ", without TLS");
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
  const cluster::EtcdAccess& access = flags.etcd_access;
  if (access.certificate.empty() != access.key.empty() || (access.authority.empty() && !access.key.empty()))
    return options.Reject("--etcd-cert and --etcd-key belong together, and need --etcd-ca");
  if (access.user.empty() != flags.etcd_password.empty())
    return options.Reject("--etcd-user and --etcd-password belong together");
  if (flags.etcd.empty() && (!access.authority.empty() || !access.user.empty()))
    return options.Reject("the options of etcd need --etcd");
  if (flags.plain + !flags.token.empty() + !flags.keys.empty() > 1)
    return options.Reject("give --keys, --token or --plain");
  return options.ExitStatusOf(Serve(std::move(flags)));
}
