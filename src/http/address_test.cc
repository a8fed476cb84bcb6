// SPDX-License-Identifier: Apache-2.0
#include "http/address.h"

#include <gtest/gtest.h>

#include "tests/harness/code_of.h"

namespace weir::http {
namespace {

TEST(Address, IsReadAndWrittenWithBracketsWhereTheHostHasColons) {
  const auto v4 = ParseAddress("127.0.0.1:8080");
  ASSERT_TRUE(v4) << v4.error().message;
  EXPECT_EQ(v4->host, "127.0.0.1");
  EXPECT_EQ(v4->port, 8080);
  EXPECT_EQ(v4->Text(), "127.0.0.1:8080");
  const auto v6 = ParseAddress("[::1]:80");
  ASSERT_TRUE(v6) << v6.error().message;
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->Text(), "[::1]:80");
  for (const char* bad : {"", "80", ":80", "a:", "a:x", "a:65536", "a:-1", "::1:80", "[]:80", "[::1:80", "a:8 "})
    EXPECT_EQ(testing::CodeOf(ParseAddress(bad)), Errc::kInvalidArgument) << bad;
}

TEST(Address, OnlyAddressesOfThisMachineAreLoopback) {
  for (const char* host : {"127.0.0.1", "127.255.0.1", "::1", "localhost"}) EXPECT_TRUE(IsLoopback(host)) << host;
  for (const char* host : {"", "0.0.0.0", "::", "128.0.0.1", "127.example.org", "127.0.0.1.example.org", "127.1"})
    EXPECT_FALSE(IsLoopback(host)) << host;
}

TEST(Address, APageNeedsOneAddressAndWithoutATokenALoopbackOne) {
  for (const bool plain : {false, true}) {
    EXPECT_EQ(ProblemOfPage({"127.0.0.1", 80}, plain), "");
    EXPECT_EQ(ProblemOfPage({"::1", 80}, plain), "");
    EXPECT_NE(ProblemOfPage({"0.0.0.0", 80}, plain), "");
    EXPECT_NE(ProblemOfPage({"::", 80}, plain), "");
  }
  EXPECT_EQ(ProblemOfPage({"10.0.0.1", 80}, false), "");
  EXPECT_NE(ProblemOfPage({"10.0.0.1", 80}, true), "");
  EXPECT_NE(ProblemOfPage({"127.example.org", 80}, true), "");
}

TEST(Address, TokensAreTheSameOnlyAsAWhole) {
  EXPECT_TRUE(SameToken("abc", "abc"));
  for (const char* given : {"", "ab", "abd", "abcabc", "abca"}) EXPECT_FALSE(SameToken(given, "abc")) << given;
  EXPECT_FALSE(SameToken("a", ""));
}

}  // namespace
}  // namespace weir::http
