// SPDX-License-Identifier: Apache-2.0
#include "http/fields.h"

#include <gtest/gtest.h>

namespace weir::http {
namespace {

using nlohmann::json;

TEST(Fields, AbsentFieldsAndNullLeaveTheValue) {
  const json body = json::parse(R"({"null": null})");
  std::string text = "before";
  std::uint64_t count = 7;
  double number = 0.5;
  bool flag = true;
  for (const char* name : {"absent", "null"}) {
    EXPECT_TRUE(ReadString(body, name, text));
    EXPECT_TRUE(ReadUnsigned(body, name, count));
    EXPECT_TRUE(ReadNumber(body, name, number, 1, 2)) << "a value that is not given is not checked";
    EXPECT_TRUE(ReadBool(body, name, flag));
  }
  EXPECT_EQ(text, "before");
  EXPECT_EQ(count, 7U);
  EXPECT_EQ(number, 0.5);
  EXPECT_TRUE(flag);
}

TEST(Fields, ErrorsNameTheFieldAndWhatIsExpected) {
  const json body = json::parse(R"({"a": "x", "n": -1, "big": 70000, "list": []})");
  std::string text;
  std::uint64_t count = 0;
  double number = 0;
  bool flag = false;
  const auto message = [](const Status& status) {
    EXPECT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::kInvalidArgument);
    return status.error().message;
  };
  EXPECT_EQ(message(ReadString(body, "list", text)), "field 'list': expected a string, got array");
  EXPECT_EQ(message(ReadString(body, "a", text, 0)), "field 'a': expected a string of at most 0 bytes, got 1");
  EXPECT_EQ(message(ReadUnsigned(body, "a", count)), "field 'a': expected a whole number, not negative, got string");
  EXPECT_EQ(message(ReadUnsigned(body, "n", count)), "field 'n': expected a whole number, not negative, got -1");
  EXPECT_EQ(message(ReadUnsigned(body, "big", count, 65535)),
            "field 'big': expected a whole number of at most 65535, got 70000");
  EXPECT_EQ(message(ReadNumber(body, "n", number, 0, 1.5)), "field 'n': expected a number from 0 to 1.5, got -1");
  EXPECT_EQ(message(ReadBool(body, "n", flag)), "field 'n': expected true or false, got number");
  EXPECT_EQ(count + static_cast<std::uint64_t>(number), 0U) << "a wrong value is not stored";
}

TEST(Fields, UnknownFieldsAreFound) {
  json body = json::parse(R"({"name": "a", "colour": 1})");
  std::string name;
  EXPECT_TRUE(TakeString(body, "name", name));
  EXPECT_EQ(ExpectNothingLeft(body).error().message, "unknown field 'colour'");
  EXPECT_EQ(ExpectOnly(body, {"name", "size"}).error().message, "unknown field 'colour'; known: name, size");
  EXPECT_EQ(ExpectOnly(json::array(), {}).error().message, "expected a JSON object, got array");
  EXPECT_TRUE(ExpectOnly(body, {"colour"}));
}

TEST(Fields, ABodyIsAnObject) {
  EXPECT_EQ(*ParseObject(""), json::object());
  EXPECT_EQ(ParseObject("[1]").error().message, "expected a JSON object, got array");
  EXPECT_EQ(ParseObject("{").error().message, "the request's body is not JSON");
  EXPECT_NE(ParseObject(std::string(40, '[')).error().message.find("nests deeper than 32"), std::string::npos);
}

TEST(Fields, QueriesAreRead) {
  EXPECT_EQ(*QueryNumber("after=3&limit=10", "limit", 5), 10U);
  EXPECT_EQ(*QueryNumber("after=3", "limit", 5), 5U);
  EXPECT_EQ(*QueryNumber("xlimit=3&limits=4", "limit", 5), 5U);
  EXPECT_EQ(QueryNumber("limit=1x", "limit", 5).error().message, "limit: '1x' is not a whole number");
  EXPECT_FALSE(QueryNumber("limit=-1", "limit", 5));
  EXPECT_TRUE(QueryFlag("a=1&force=true", "force"));
  EXPECT_FALSE(QueryFlag("enforce=true", "force"));
}

}  // namespace
}  // namespace weir::http
