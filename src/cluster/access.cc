// SPDX-License-Identifier: Apache-2.0
#include "cluster/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/printable.h"
#include "http/route.h"

namespace weir::cluster {
namespace {

struct Right {
  std::string_view methods, path;
  bool for_operator, for_tenant, for_node;
};

// docs/cluster.md has the same table.
constexpr std::array kRights{
    Right{"GET", "/v1/alive", true, true, true},
    Right{"GET", "/v1/cluster", true, true, true},
    Right{"GET", "/metrics", true, false, false},
    Right{"GET", "/v1/nodes", true, true, false},
    Right{"GET", "/v1/devices", true, true, false},
    Right{"GET", "/v1/modules", true, true, false},
    Right{"PUT DELETE", "/v1/modules/*", true, false, false},
    Right{"GET PUT", "/v1/blobs/*", true, true, true},
    Right{"GET", "/v1/runs", true, true, false},
    Right{"GET", "/v1/runs/*/explain", true, true, false},
    Right{"GET PUT DELETE", "/v1/runs/*", true, true, false},
    Right{"GET POST", "/v1/members/*/*", false, false, true},  // only as the node of its name
};

constexpr std::string_view kOperator = "operator", kTenant = "tenant", kNode = "node";

bool Gives(const Right& right, std::string_view role) {
  return (role == kOperator && right.for_operator) || (role == kTenant && right.for_tenant) ||
         (role == kNode && right.for_node);
}

}  // namespace

Status MayAsk(const http::Request& head) {
  const http::Route route(head);
  const http::Holder& holder = head.holder;
  const auto* const right =
      std::ranges::find_if(kRights, [&](const Right& each) { return route.Is(each.methods, each.path); });
  if (right == kRights.end() || !Gives(*right, holder.role))
    return Fail(Errc::kPermissionDenied, fmt::format("{} '{}' may not ask for {} {}", holder.role, holder.name,
                                                     Printable(head.method), Printable(head.path)));
  if (holder.role == kNode && route.At("/v1/members/*/*") && route.Part(2) != holder.name)
    return Fail(Errc::kPermissionDenied,
                fmt::format("the token is that of node '{}', not of '{}'", holder.name, Printable(route.Part(2))));
  return Ok();
}

bool MaySee(const http::Holder& holder, const engine::ClusterRun& run) {
  return holder.role != kTenant || run.tenant == holder.name;
}

std::string TenantOf(const http::Holder& holder) { return holder.role == kTenant ? holder.name : std::string(); }

bool IsAudited(const http::Request& head, unsigned status) {
  constexpr unsigned kForbidden = 403;
  if (status == kForbidden) return true;
  const http::Route route(head);
  // What nodes report all the time is left out; that one joins is not.
  if (route.At("/v1/members/*/*")) return route.Part(3) == "hello";
  return head.method != "GET";
}

}  // namespace weir::cluster
