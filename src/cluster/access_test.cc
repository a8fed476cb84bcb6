// SPDX-License-Identifier: Apache-2.0
#include "cluster/access.h"

#include <gtest/gtest.h>

#include <array>

namespace weir::cluster {
namespace {

http::Request Ask(const std::string& role, const std::string& method, const std::string& path) {
  return {
      .method = method, .path = path, .query = {}, .body = {}, .bearer = {}, .holder = {.role = role, .name = "n1"}};
}

/// The roles that may ask, by their first letters.
std::string Askers(const std::string& method, const std::string& path) {
  std::string askers;
  for (const char* role : {"operator", "tenant", "node", "vgpu", "other"})
    if (MayAsk(Ask(role, method, path))) askers += role[0];
  return askers;
}

// The table of docs/cluster.md.
TEST(ClusterAccess, EachRoleMayAskForItsPart) {
  EXPECT_EQ(Askers("GET", "/v1/cluster"), "otn");
  EXPECT_EQ(Askers("GET", "/metrics"), "o");
  EXPECT_EQ(Askers("GET", "/v1/nodes"), "ot");
  EXPECT_EQ(Askers("GET", "/v1/devices"), "ot");
  EXPECT_EQ(Askers("GET", "/v1/modules"), "ot");
  EXPECT_EQ(Askers("PUT", "/v1/modules/sort"), "o");
  EXPECT_EQ(Askers("DELETE", "/v1/modules/sort"), "o");
  EXPECT_EQ(Askers("GET", "/v1/blobs/00"), "otn");
  EXPECT_EQ(Askers("PUT", "/v1/blobs/00"), "otn");
  EXPECT_EQ(Askers("GET", "/v1/runs"), "ot");
  EXPECT_EQ(Askers("GET", "/v1/runs/r/explain"), "ot");
  for (const char* method : {"GET", "PUT", "DELETE"}) EXPECT_EQ(Askers(method, "/v1/runs/r"), "ot") << method;
  EXPECT_EQ(Askers("POST", "/v1/members/n1/hello"), "n");
  EXPECT_EQ(Askers("GET", "/v1/members/n1/work"), "n");
}

TEST(ClusterAccess, WhatIsNotInTheTableIsRefused) {
  for (const auto& [method, path] : {std::pair{"DELETE", "/v1/nodes"},
                                     {"POST", "/v1/runs/r"},
                                     {"GET", "/v1/other"},
                                     {"PUT", "/v1/members/n1/hello"},
                                     {"GET", "/v1/runs/r/explain/more"},
                                     {"GET", "/"},
                                     {"GET", ""}})
    EXPECT_EQ(Askers(method, path), "") << method << " " << path;
}

TEST(ClusterAccess, ANodeSpeaksForItselfOnly) {
  const Status other = MayAsk(Ask("node", "POST", "/v1/members/n2/hello"));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Errc::kPermissionDenied);
  EXPECT_EQ(other.error().message, "the token is that of node 'n1', not of 'n2'");
}

TEST(ClusterAccess, ATenantHasItsOwnRuns) {
  engine::ClusterRun run;
  const http::Holder tenant{.role = "tenant", .name = "lab"}, chief{.role = "operator", .name = "lab"};
  EXPECT_FALSE(MaySee(tenant, run)) << "a run of an operator";
  run.tenant = "lab";
  EXPECT_TRUE(MaySee(tenant, run));
  run.tenant = "lab2";
  EXPECT_FALSE(MaySee(tenant, run));
  EXPECT_TRUE(MaySee(chief, run));
  EXPECT_TRUE(MaySee({}, run)) << "without TLS each client has full access";
  EXPECT_EQ(TenantOf(tenant), "lab");
  EXPECT_EQ(TenantOf(chief), "");
}

TEST(ClusterAccess, ChangesAndRefusalsAreAudited) {
  EXPECT_TRUE(IsAudited(Ask("tenant", "PUT", "/v1/runs/r"), 202));
  EXPECT_TRUE(IsAudited(Ask("tenant", "DELETE", "/v1/runs/r"), 404));
  EXPECT_TRUE(IsAudited(Ask("node", "POST", "/v1/members/n1/hello"), 200));
  EXPECT_FALSE(IsAudited(Ask("node", "POST", "/v1/members/n1/results"), 200)) << "each node reports all the time";
  EXPECT_FALSE(IsAudited(Ask("tenant", "GET", "/v1/runs"), 200));
  EXPECT_TRUE(IsAudited(Ask("tenant", "GET", "/metrics"), 403));
}

}  // namespace
}  // namespace weir::cluster
