// SPDX-License-Identifier: Apache-2.0
// weir-member: `weir serve --manager` starts it to connect its node to the cluster.
#include <cstdio>
#include <random>

#include "cluster/member.h"
#include "platform/files.h"
#include "platform/service_end.h"
#include "platform/service_options.h"

namespace {

using namespace weir;

constexpr const char* kAbout =
    "Usage: weir-member --managers HOST:PORT[,...] --node-name NAME --identity FILE [OPTIONS]\n"
    "\n"
    "'weir serve --manager' starts it by itself.\n";

struct Arguments {
  std::string managers, identity, token;
  pid_t parent = 0;
  cluster::MemberOptions member;
  cluster::PartsMembership parts;
};

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

void Declare(platform::ServiceOptions& options, Arguments& arguments) {
  cluster::PartsMembership& parts = arguments.parts;
  options.Add("--managers", "HOST:PORT,...", arguments.managers, "the cluster's managers");
  options.Add("--node-name", "NAME", arguments.member.name, "this node's name there");
  options.Add("--modules", "SOCKET", arguments.member.modules_socket,
              "where the node's modules are served: RUN_DIR/modules.sock; without it the node runs none");
  options.Add("--identity", "FILE", arguments.identity, "this node's identity; created if it is missing");
  options.Add("--token", "FILE", arguments.token, "the managers' token");
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
  options.AddParent(arguments.parent);
  options.AddFlag("--quiet", arguments.member.quiet, "print only errors");
}

/// What is wrong with the options together; null: nothing.
const char* ProblemOf(const Arguments& arguments, bool for_parts) {
  const cluster::PartsMembership& parts = arguments.parts;
  if (arguments.managers.empty() || arguments.member.name.empty() || arguments.identity.empty())
    return "--managers, --node-name and --identity are needed";
  if (arguments.member.modules_socket.empty() && !for_parts)
    return "the node has no task: give --modules, --offer-parts or --want-parts";
  if (for_parts && (parts.control_socket.empty() || parts.executor.empty()))
    return "--offer-parts and --want-parts need --control and --executor";
  if (!parts.vgpu.empty() && (parts.host.empty() || parts.port_file.empty()))
    return "--offer-parts needs --offer-host and --offer-port-file";
  return nullptr;
}

Status Serve(Arguments arguments) {
  WEIR_TRY_STATUS(platform::ExitAtServiceEnd(arguments.parent));
  cluster::MemberOptions& member = arguments.member;
  WEIR_TRY(member.managers, cluster::ParseAddresses(arguments.managers));
  WEIR_TRY(member.identity, IdentityIn(arguments.identity));
  if (!arguments.token.empty()) {
    WEIR_TRY(member.token, cluster::ReadTokenFile(arguments.token));
  }
  cluster::Member(std::move(member)).Run();
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  platform::ServiceOptions options("weir-member", kAbout);
  Declare(options, arguments);
  if (const auto ended = options.Parse(argc, argv)) return *ended;
  const bool for_parts = arguments.parts.wanted || !arguments.parts.vgpu.empty();
  if (const char* problem = ProblemOf(arguments, for_parts)) return options.Reject(problem);
  if (for_parts) arguments.member.parts = arguments.parts;
  return options.ExitStatusOf(Serve(std::move(arguments)));
}
