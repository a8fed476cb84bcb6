// SPDX-License-Identifier: Apache-2.0
// weir manager: executes weir-manager, the only program that links etcd's protocol.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "cli/common/places.h"
#include "cli/options.h"
#include "core/placement/placement_table.h"

namespace weir::cli {
namespace {

struct ManagerRunFlags {
  std::string listen, advertise, etcd, etcd_ca, etcd_cert, etcd_key, etcd_user, etcd_password, state, store, placement,
      keys, audit, token, lost_after, port_file, keep_blobs;
  bool plain = false, quiet = false;
};

Result<int> BecomeManager(const ManagerRunFlags& flags) {
  WEIR_TRY(const std::filesystem::path self, SelfExecutable());
  const std::string program = FindHelper(self, kManager);
  if (program.empty())
    return Fail(Errc::kNotFound,
                fmt::format("{} is not installed beside weir: it is in the package for clusters", kManager));
  std::vector<std::string> arguments{program};
  for (const auto& [name, value] : {std::pair{"--listen", &flags.listen},
                                    {"--advertise", &flags.advertise},
                                    {"--etcd", &flags.etcd},
                                    {"--etcd-ca", &flags.etcd_ca},
                                    {"--etcd-cert", &flags.etcd_cert},
                                    {"--etcd-key", &flags.etcd_key},
                                    {"--etcd-user", &flags.etcd_user},
                                    {"--etcd-password", &flags.etcd_password},
                                    {"--state", &flags.state},
                                    {"--store", &flags.store},
                                    {"--placement", &flags.placement},
                                    {"--keys", &flags.keys},
                                    {"--audit", &flags.audit},
                                    {"--token", &flags.token},
                                    {"--lost-after", &flags.lost_after},
                                    {"--port-file", &flags.port_file},
                                    {"--keep-blobs", &flags.keep_blobs}})
    if (!value->empty()) arguments.insert(arguments.end(), {name, *value});
  if (flags.plain) arguments.emplace_back("--plain");
  if (flags.quiet) arguments.emplace_back("--quiet");
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  return Fail(Errc::kIo, fmt::format("starting {}: {}", program, std::strerror(errno)));
}

}  // namespace

void AddManager(Command app, Session& session) {
  auto flags = std::make_shared<ManagerRunFlags>();
  const Command command =
      AddCommand(app, "manager", "Run a cluster's manager: it places runs of modules on nodes",
                 "  weir manager                                          # one, for nodes on this machine\n"
                 "  weir keys init --name cluster --dir keys\n"
                 "  weir manager --listen 10.0.0.1:7710 --keys keys       # TLS, for holders of its tokens\n"
                 "  weir keys token gpu1 --role node --dir keys --out gpu1.token\n"
                 "  weir serve --manager 10.0.0.1:7710,10.0.0.2:7710 --manager-token gpu1.token    # on node gpu1\n"
                 "  weir manager --listen 10.0.0.1:7710 --keys keys --etcd e1:2379,e2:2379,e3:2379 --store "
                 "/shared/blobs\n",
                 session);
  command.Add("--listen", "HOST:PORT", flags->listen,
              "Address for clients and nodes (default 127.0.0.1:7710); other than loopback is served with TLS");
  command.Add("--advertise", "HOST:PORT", flags->advertise, "Address for others, if it differs from --listen");
  command.Add("--etcd", "HOST:PORT,...", flags->etcd, "Keep the state in etcd, shared by several managers")
      .Excludes(command.Add("--state", "FILE", flags->state,
                            "Keep the state in this file (default: cluster.journal in the state folder)"));
  command.Add("--etcd-ca", "FILE", flags->etcd_ca, "TLS to etcd, whose certificates are checked against this file's");
  command.Add("--etcd-cert", "FILE", flags->etcd_cert, "This manager's certificate for etcd, if etcd asks for one");
  command.Add("--etcd-key", "FILE", flags->etcd_key, "The key of --etcd-cert");
  command.Add("--etcd-user", "NAME", flags->etcd_user, "This manager's user in etcd");
  command.Add("--etcd-password", "FILE", flags->etcd_password, "File with the password of --etcd-user");
  command.Add("--store", "DIR", flags->store,
              "Blobs; a folder that all managers share (default: blobs in the state folder)");
  command.Add("--placement", "NAME", flags->placement, "Placement of runs (default: interference-aware)")
      .OneOf(NamesIn(core::PlacementTable()));
  command.Add("--keys", "DIR", flags->keys,
              "TLS, with the keys of 'weir keys init', for holders of its tokens (default, except on loopback: "
              "manager-keys in the state folder)");
  command.Add("--audit", "FILE", flags->audit,
              "With TLS: log of changes and refusals (default: audit.jsonl in the key folder)");
  command.Add("--token", "FILE", flags->token,
              "No TLS: file with the token that clients must present, which the network can read");
  command.AddFlag("--plain", flags->plain, "No TLS and no token: every client that can connect has full access");
  command.Add("--lost-after", "SECONDS", flags->lost_after, "A node that is silent for this time is lost (default 4)");
  command.Add("--port-file", "FILE", flags->port_file, "File to which the port is written when it listens");
  command.Add("--keep-blobs", "SECONDS", flags->keep_blobs,
              "Remove blobs after no module or run has used them for this time (default: a week; 0: never)");
  command.AddFlag("--quiet", flags->quiet, "Print only errors");
  command.WhenGiven([flags, &session] { session.action = [flags] { return BecomeManager(*flags); }; });
}

}  // namespace weir::cli
