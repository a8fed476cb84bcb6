// SPDX-License-Identifier: Apache-2.0
// Every check of the page docs/dashboard.md, "Access" and "Requests", as a table.
#include "dashboard/access.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace weir::dashboard {
namespace {

const std::string kToken(64, 'a');

Site SiteAt(const std::string& host = "127.0.0.1", std::uint16_t port = 8080) {
  return {.listens = {host, port}, .token = kToken};
}

/// A request that is accepted.
http::Request Good(const std::string& method = "GET", const std::string& path = "/api/v1/status") {
  http::Request head{.method = method, .path = path, .query = "", .body = "", .bearer = kToken};
  head.host = "127.0.0.1:8080";
  return head;
}

TEST(DashboardAccess, TheFirstCheckThatFailsIsTheAnswer) {
  Site read_only = SiteAt();
  read_only.read_only = true;
  // At first everything is wrong. One property after another is then corrected.
  http::Request head = Good("PUT", "/api/v1/nothing");
  head.host = "evil.example:8080";
  head.origin = "http://evil.example:8080";
  head.bearer = "wrong";
  head.has_body = true;
  head.content_type = "text/plain";
  EXPECT_EQ(Decide(read_only, head).status, 421U);
  head.host = "127.0.0.1:8080";
  EXPECT_EQ(Decide(read_only, head).status, 403U);
  head.origin = "http://127.0.0.1:8080";
  EXPECT_EQ(Decide(read_only, head).status, 401U);
  head.bearer = kToken;
  EXPECT_EQ(Decide(read_only, head).status, 415U);
  head.content_type = "application/json";
  EXPECT_EQ(Decide(read_only, head).status, 404U);
  head.path = "/api/v1/status";
  EXPECT_EQ(Decide(read_only, head).status, 405U);
  head.path = "/api/v1/devices/gpu0/policy";
  EXPECT_EQ(Decide(read_only, head).status, 403U);
  const Decision decision = Decide(SiteAt(), head);
  EXPECT_TRUE(decision.accepted()) << decision.message;
  EXPECT_EQ(decision.target, "/v1/devices/gpu0/policy");
}

TEST(DashboardAccess, TheHostIsTheOneThatTheDashboardListensAtOrThisMachine) {
  struct Case {
    const char* listens;
    std::uint16_t port;
    const char* host;
    bool accepted;
  };
  for (const Case& c : {Case{"127.0.0.1", 8080, "127.0.0.1:8080", true},
                        {"127.0.0.1", 8080, "localhost:8080", true},
                        {"127.0.0.1", 8080, "LocalHost:8080", true},
                        {"127.0.0.1", 8080, "[::1]:8080", true},
                        {"10.0.0.1", 8080, "10.0.0.1:8080", true},
                        {"gpu1", 8080, "GPU1:8080", true},
                        {"gpu1", 80, "gpu1", true},
                        {"gpu1", 80, "localhost", true},
                        {"::1", 80, "[::1]", true},
                        {"127.0.0.1", 8080, "", false},
                        {"127.0.0.1", 8080, "127.0.0.1", false},
                        {"127.0.0.1", 8080, "127.0.0.1:8081", false},
                        {"127.0.0.1", 8080, "127.0.0.1:80808", false},
                        {"127.0.0.1", 8080, "::1:8080", false},
                        {"127.0.0.1", 8080, "10.0.0.1:8080", false},
                        {"127.0.0.1", 8080, "evil.example:8080", false},
                        {"127.0.0.1", 8080, "localhost:8080, localhost:8080", false},
                        {"127.0.0.1", 8080, "localhost:8080.evil.example", false},
                        {"127.0.0.1", 8080, "localhost.:8080", false}}) {
    http::Request head = Good();
    head.host = c.host;
    const Decision decision = Decide(SiteAt(c.listens, c.port), head);
    EXPECT_EQ(decision.status, c.accepted ? 0U : 421U) << c.listens << " " << c.host;
  }
}

TEST(DashboardAccess, TheOriginIsThisPage) {
  for (const char* origin : {"", "http://127.0.0.1:8080", "HTTP://127.0.0.1:8080"}) {
    http::Request head = Good();
    head.origin = origin;
    EXPECT_TRUE(Decide(SiteAt(), head).accepted()) << origin;
  }
  for (const char* origin : {"null", "http://evil.example", "https://127.0.0.1:8080", "http://127.0.0.1",
                             "http://localhost:8080", "http://127.0.0.1:8080/", "http://127.0.0.1:8080.evil.example",
                             "http://127.0.0.1:8080, http://127.0.0.1:8080", " "}) {
    for (const char* path : {"/", "/app.js", "/api/v1/status", "/api/stream"}) {
      http::Request head = Good("GET", path);
      head.origin = origin;
      EXPECT_EQ(Decide(SiteAt(), head).status, 403U) << origin << path;
    }
  }
}

TEST(DashboardAccess, OnlyThePageNeedsNoToken) {
  for (const char* path : {"/", "/app.js", "/app.css", "/icon.svg"}) {
    http::Request head = Good("GET", path);
    head.bearer.clear();
    const Decision decision = Decide(SiteAt(), head);
    EXPECT_TRUE(decision.accepted()) << path << decision.message;
    EXPECT_EQ(decision.subject, Subject::kPage);
  }
  for (const std::string& token : {std::string(), std::string("a"), std::string(63, 'a'), std::string(65, 'a'),
                                   std::string(63, 'a') + "b", std::string(128, 'a')})
    for (const char* path : {"/api/", "/api/stream", "/api/history", "/api/v1/status", "/api/nothing"}) {
      http::Request head = Good("GET", path);
      head.bearer = token;
      EXPECT_EQ(Decide(SiteAt(), head).status, 401U) << path << token;
    }
  Site without = SiteAt();
  without.token.clear();
  http::Request head = Good();
  head.bearer.clear();
  EXPECT_EQ(Decide(without, head).status, 401U) << "an empty token opens nothing";
  without.plain = true;
  EXPECT_TRUE(Decide(without, head).accepted());
}

TEST(DashboardAccess, AChangeWithABodyIsJson) {
  for (const char* type : {"application/json", "Application/JSON", "application/json; charset=utf-8"}) {
    http::Request head = Good("PATCH", "/api/v1/vgpus/a");
    head.has_body = true;
    head.content_type = type;
    EXPECT_TRUE(Decide(SiteAt(), head).accepted()) << type;
  }
  for (const char* type : {"", "text/plain", "application/x-www-form-urlencoded", "application/jsonp",
                           "application/json, text/plain", "multipart/form-data; a=application/json"}) {
    http::Request head = Good("PATCH", "/api/v1/vgpus/a");
    head.has_body = true;
    head.content_type = type;
    EXPECT_EQ(Decide(SiteAt(), head).status, 415U) << type;
    head.has_body = false;
    EXPECT_TRUE(Decide(SiteAt(), head).accepted()) << type;
  }
}

struct Known {
  const char *method, *path;
};
const std::vector<Known> kReading{
    {"GET", "/api/stream"},           {"GET", "/api/history"},           {"GET", "/api/v1/status"},
    {"GET", "/api/v1/devices"},       {"GET", "/api/v1/policies"},       {"GET", "/api/v1/vgpus"},
    {"GET", "/api/v1/vgpus/a.b-c_d"}, {"GET", "/api/v1/vgpus/a/frames"}, {"GET", "/api/v1/devices/gpu0/memory"}};
const std::vector<Known> kChanging{{"POST", "/api/v1/vgpus"},
                                   {"PATCH", "/api/v1/vgpus/a"},
                                   {"DELETE", "/api/v1/vgpus/a"},
                                   {"POST", "/api/v1/vgpus/a/pause"},
                                   {"POST", "/api/v1/vgpus/a/resume"},
                                   {"PUT", "/api/v1/devices/gpu0/policy"},
                                   {"PUT", "/api/v1/devices/gpu0/oversell"},
                                   {"PUT", "/api/v1/devices/gpu0/memory"}};

TEST(DashboardAccess, TheTableIsWhatTheDocumentSays) {
  Site read_only = SiteAt();
  read_only.read_only = true;
  for (const Known& known : kReading) {
    for (const Site& site : {SiteAt(), read_only}) {
      const Decision decision = Decide(site, Good(known.method, known.path));
      EXPECT_TRUE(decision.accepted()) << known.path << decision.message;
      const std::string expected = decision.subject == Subject::kControl ? known.path : "/api";
      EXPECT_EQ("/api" + decision.target, expected);
    }
  }
  for (const Known& known : kChanging) {
    const Decision decision = Decide(SiteAt(), Good(known.method, known.path));
    EXPECT_TRUE(decision.accepted()) << known.path << decision.message;
    EXPECT_EQ(decision.subject, Subject::kControl);
    EXPECT_EQ("/api" + decision.target, known.path);
    EXPECT_EQ(Decide(read_only, Good(known.method, known.path)).status, 403U) << known.path;
  }
  EXPECT_EQ(Decide(SiteAt(), Good("GET", "/api/stream")).subject, Subject::kStream);
  EXPECT_EQ(Decide(SiteAt(), Good("GET", "/api/history")).subject, Subject::kHistory);
}

TEST(DashboardAccess, WhatIsNotInTheTableIsRefused) {
  for (const Known& known : {Known{"GET", "/index.html"},
                             {"GET", "/api/v1/"},
                             {"GET", "/api/v1/events"},
                             {"GET", "/api/v1/samples"},
                             {"POST", "/api/v1/shutdown"},
                             {"PUT", "/api/v1/use"},
                             {"PUT", "/api/v1/peers"},
                             {"PUT", "/api/v1/devices/gpu0/memory/used"},
                             {"GET", "/metrics"},
                             {"GET", "/api/metrics"},
                             {"GET", "/v1/status"},
                             {"GET", "//api/v1/status"},
                             {"GET", "/api//v1/status"},
                             {"GET", "/api/v1/status/"},
                             {"GET", "/API/v1/status"},
                             {"GET", "/api/v1/vgpus/"},
                             {"GET", "/api/v1/vgpus/."},
                             {"GET", "/api/v1/vgpus/.."},
                             {"POST", "/api/v1/vgpus/../shutdown"},
                             {"POST", "/api/v1/vgpus/a/../../shutdown"},
                             {"GET", "/api/v1/vgpus/a b"},
                             {"GET", "/api/v1/vgpus/a?b"},
                             {"GET", "/api/v1/vgpus/a;b"},
                             {"GET", "/api/v1/vgpus/a/frames/x"},
                             {"GET", "http://127.0.0.1:8080/api/v1/status"},
                             {"GET", ""},
                             {"GET", "*"}})
    EXPECT_EQ(Decide(SiteAt(), Good(known.method, known.path)).status, 404U) << known.method << " " << known.path;
  EXPECT_EQ(Decide(SiteAt(), Good("GET", "/api/v1/vgpus/" + std::string(256, 'a'))).status, 404U);
  EXPECT_TRUE(Decide(SiteAt(), Good("GET", "/api/v1/vgpus/" + std::string(255, 'a'))).accepted());
  for (const Known& known : {Known{"POST", "/"},
                             {"HEAD", "/"},
                             {"OPTIONS", "/api/stream"},
                             {"POST", "/api/history"},
                             {"PUT", "/api/v1/vgpus"},
                             {"PUT", "/api/v1/vgpus/a"},
                             {"GET", "/api/v1/vgpus/a/pause"},
                             {"GET", "/api/v1/devices/gpu0/policy"},
                             {"get", "/api/v1/status"},
                             {"GET POST", "/api/v1/vgpus"},
                             {"", "/api/v1/vgpus"}})
    EXPECT_EQ(Decide(SiteAt(), Good(known.method, known.path)).status, 405U) << known.method << " " << known.path;
}

TEST(DashboardAccess, AQueryIsPassedOnUnlessItHasOtherCharacters) {
  http::Request head = Good("DELETE", "/api/v1/vgpus/a");
  head.query = "force=true";
  EXPECT_EQ(Decide(SiteAt(), head).target, "/v1/vgpus/a?force=true");
  for (const std::string& query :
       {std::string("a b"), std::string("a#b"), std::string("a/b"), std::string("a\r\nb"), std::string(513, 'a')}) {
    head.query = query;
    EXPECT_EQ(Decide(SiteAt(), head).status, 404U) << query;
  }
}

TEST(DashboardAccess, ARefusalSaysWhyAsTheControlApiDoes) {
  http::Request head = Good("GET", "/api/v1/no\"<b>");
  const http::Reply reply = ReplyOf(Decide(SiteAt(), head));
  EXPECT_EQ(reply.status, 404U);
  EXPECT_EQ(reply.content_type, "application/json");
  const nlohmann::json body = nlohmann::json::parse(reply.body);
  EXPECT_EQ(body["error"]["code"], "not-found");
  EXPECT_NE(body["error"]["message"].get<std::string>().find("/api/v1/no\"<b>"), std::string::npos);
  EXPECT_EQ(TooLarge().status, 413U);
}

}  // namespace
}  // namespace weir::dashboard
