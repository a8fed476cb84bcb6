// SPDX-License-Identifier: Apache-2.0
#include "http/json_api.h"

#include <gtest/gtest.h>

#include "tests/harness/code_of.h"

namespace weir::http {
namespace {

TEST(JsonApi, AnErrorSurvivesTheRoundTrip) {
  for (const ErrcEntry& entry : kErrcTable) {
    const Reply reply = ErrorReply(Fail(entry.code, "it's \"so\"\xff"));
    EXPECT_EQ(reply.status, entry.http_status);
    const auto heard = ObjectOf({reply.status, reply.body}, "asked");
    ASSERT_FALSE(heard);
    EXPECT_EQ(heard.error().code, entry.code);
    EXPECT_EQ(heard.error().message, "it's \"so\"\xef\xbf\xbd");  // invalid UTF-8 is replaced
  }
}

TEST(JsonApi, AGoodAnswerIsItsObject) {
  const Reply reply = JsonReply({{"name", "a"}}, 201);
  EXPECT_EQ(reply.status, 201U);
  const auto heard = ObjectOf({reply.status, reply.body}, "asked");
  ASSERT_TRUE(heard) << heard.error().message;
  EXPECT_EQ(heard->at("name"), "a");
}

TEST(JsonApi, MeasuresNesting) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_FALSE(NestsTooDeep(nested(kJsonDepthMax)));
  EXPECT_TRUE(NestsTooDeep(nested(kJsonDepthMax + 1)));
  EXPECT_TRUE(NestsTooDeep(R"({"a":")" + std::string("\\\"") + R"(",)" + nested(kJsonDepthMax)));
  EXPECT_FALSE(NestsTooDeep("\"" + nested(kJsonDepthMax + 1) + "\"")) << "a text";
  std::string wide = "[";
  for (int i = 0; i < 100; ++i) wide += "[],{},";
  EXPECT_FALSE(NestsTooDeep(wide));
}

TEST(JsonApi, AReplyMustBeAnObject) {
  for (const char* text : {"hello", "[1]", "", "{"})
    EXPECT_EQ(testing::CodeOf(ObjectOf({200, text}, "asked")), Errc::kProtocol) << text;
}

TEST(JsonApi, TheStatusGivesTheErrorOfABodyWithoutOne) {
  EXPECT_EQ(testing::CodeOf(ObjectOf({403, "nope"}, "asked")), Errc::kPermissionDenied);
  EXPECT_EQ(testing::CodeOf(ObjectOf({418, "{}"}, "asked")), Errc::kProtocol);
  EXPECT_EQ(testing::CodeOf(ObjectOf({599, R"({"error": 7})"}, "asked")), Errc::kInternal);
  EXPECT_EQ(testing::CodeOf(ObjectOf({404, R"({"error": {"code": "unheard-of", "message": "m"}})"}, "asked")),
            Errc::kNotFound);
}

TEST(Json, DeepNestingIsRefusedBeforeAnythingIsBuilt) {
  const auto nested = [](std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  EXPECT_TRUE(ParseJson(nested(kJsonDepthMax)).is_array());
  EXPECT_TRUE(ParseJson(nested(kJsonDepthMax + 1)).is_discarded());
  EXPECT_TRUE(ParseJson(nested(100'000)).is_discarded());
  EXPECT_TRUE(ParseJson("[\"\\\"" + std::string(1'000, '[') + "\"]").is_array()) << "brackets in a text";
  EXPECT_EQ(ObjectOf({200, "{\"a\":" + nested(100'000) + "}"}, "asked").error().code, Errc::kProtocol);
}

}  // namespace
}  // namespace weir::http
