// SPDX-License-Identifier: Apache-2.0
#include "cluster/member_options.h"

#include <cstdio>
#include <random>

#include "platform/files.h"

namespace weir::cluster {
namespace {

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

}  // namespace

void Declare(platform::ServiceOptions& options, MemberArguments& arguments) {
  PartsMembership& parts = arguments.parts;
  options.Add("--managers", "HOST:PORT,...", arguments.managers, "the cluster's managers");
  options.Add("--node-name", "NAME", arguments.name, "this node's name there");
  options.Add("--identity", "FILE", arguments.identity, "this node's identity; created if it is missing");
  options.Add("--token", "FILE", arguments.token, "this node's token for the managers");
  options.Add("--control", "SOCKET", parts.control_socket,
              "the control socket of the node's daemon, for the options below");
  options.Add("--executor", "PROGRAM", parts.executor, "program that describes the node's device");
  options.Add("--opencl-library", "FILE", parts.library,
              "the OpenCL driver of the device that --executor describes (default: the first that works)");
  options.AddFlag("--want-parts", parts.wanted, "tell the daemon which nodes run parts of launches");
  options.Add("--offer-parts", "VGPU", parts.vgpu, "offer other nodes to run parts of their launches in this vGPU");
  options.Add("--offer-host", "HOST", parts.host, "this node's host name for other nodes");
  options.Add("--offer-port-file", "FILE", parts.port_file, "a file with the port of this node for other nodes");
  options.AddFlag("--offer-plain", parts.plain, "the portal requires no token");
  options.AddFlag("--quiet", arguments.quiet, "print only errors");
}

const char* ProblemOf(const MemberArguments& arguments) {
  const PartsMembership& parts = arguments.parts;
  if (arguments.managers.empty() || arguments.name.empty() || arguments.identity.empty())
    return "--managers, --node-name and --identity are needed";
  if (arguments.for_parts() && (parts.control_socket.empty() || parts.executor.empty()))
    return "--offer-parts and --want-parts need --control and --executor";
  if (!parts.vgpu.empty() && (parts.host.empty() || parts.port_file.empty()))
    return "--offer-parts needs --offer-host and --offer-port-file";
  return nullptr;
}

Result<MemberOptions> OptionsOf(const MemberArguments& arguments) {
  MemberOptions member;
  member.name = arguments.name;
  member.quiet = arguments.quiet;
  WEIR_TRY(member.managers, ParseAddresses(arguments.managers));
  WEIR_TRY(member.identity, IdentityIn(arguments.identity));
  if (!arguments.token.empty()) {
    WEIR_TRY(member.access, http::tls::ReadAccess(arguments.token));
  }
  if (arguments.for_parts()) member.parts = arguments.parts;
  return member;
}

}  // namespace weir::cluster
