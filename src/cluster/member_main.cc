// SPDX-License-Identifier: Apache-2.0
// weir-member: connects a node to the cluster whose module service is another process, or that has none.
#include <optional>

#include "cluster/member_options.h"
#include "platform/service_end.h"

namespace {

using namespace weir;

constexpr const char* kAbout =
    "Usage: weir-member --managers HOST:PORT[,...] --node-name NAME --identity FILE [OPTIONS]\n"
    "\n"
    "'weir serve --manager' starts it by itself, unless it starts weir-modules, which is a member as well.\n";

Status Serve(const cluster::MemberArguments& arguments, const std::string& socket, pid_t parent) {
  WEIR_TRY_STATUS(platform::ExitAtServiceEnd(parent));
  WEIR_TRY(cluster::MemberOptions options, cluster::OptionsOf(arguments));
  std::optional<cluster::ModulesAtSocket> modules;
  if (!socket.empty()) modules.emplace(socket);
  cluster::Member(std::move(options), modules ? &*modules : nullptr).Run();
}

}  // namespace

int main(int argc, char** argv) {
  cluster::MemberArguments arguments;
  std::string socket;
  pid_t parent = 0;
  platform::ServiceOptions options("weir-member", kAbout);
  cluster::Declare(options, arguments);
  options.Add("--modules", "SOCKET", socket,
              "where the node's modules are served: RUN_DIR/modules.sock; without it the node runs none");
  options.AddParent(parent);
  if (const auto ended = options.Parse(argc, argv)) return *ended;
  if (const char* problem = cluster::ProblemOf(arguments)) return options.Reject(problem);
  if (socket.empty() && !arguments.for_parts())
    return options.Reject("the node has no task: give --modules, --offer-parts or --want-parts");
  return options.ExitStatusOf(Serve(arguments, socket, parent));
}
