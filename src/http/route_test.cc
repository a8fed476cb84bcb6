// SPDX-License-Identifier: Apache-2.0
#include "http/route.h"

#include <gtest/gtest.h>

namespace weir::http {
namespace {

Request Of(const std::string& method, const std::string& path) {
  Request request;
  request.method = method;
  request.path = path;
  return request;
}

TEST(Route, APatternMatchesPartByPart) {
  const Request request = Of("GET", "/v1/vgpus/a/frames");
  const Route route(request);
  EXPECT_TRUE(route.Is("GET", "/v1/vgpus/*/frames"));
  EXPECT_TRUE(route.Is("PUT GET", "/v1/*/a/*"));
  EXPECT_FALSE(route.Is("PUT", "/v1/vgpus/*/frames"));
  EXPECT_TRUE(route.At("/v1/vgpus/*/frames"));
  EXPECT_FALSE(route.At("/v1/vgpus/*"));
  EXPECT_FALSE(route.At("/v1/vgpus/*/frames/*"));
  EXPECT_EQ(route.Part(2), "a");
  EXPECT_EQ(route.Part(4), "");
  EXPECT_EQ(route.Part(400), "");
}

TEST(Route, AMethodIsAWholeWord) {
  for (const char* method : {"", "GE", "ET", "GET PUT", "get"}) {
    const Request request = Of(method, "/v1");
    EXPECT_FALSE(Route(request).Is("GET PUT", "/v1")) << method;
  }
}

TEST(Route, LongPathsMatchNothing) {
  const Request request = Of("GET", "/a/a/a/a/a/a/a/a");
  EXPECT_FALSE(Route(request).At("/a/a/a/a/a"));
  EXPECT_EQ(Route(request).NotFound("docs/api.md").message, "no GET /a/a/a/a/a/a/a/a in this API; see docs/api.md");
}

TEST(Route, EmptyPartsDoNotCount) {
  const Request request = Of("GET", "//v1///vgpus/");
  EXPECT_TRUE(Route(request).At("/v1/vgpus"));
}

}  // namespace
}  // namespace weir::http
