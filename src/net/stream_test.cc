// SPDX-License-Identifier: Apache-2.0
#include "net/stream.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/harness/code_of.h"

namespace weir::net {
namespace {

using weir::testing::CodeOf;

TEST(ParseEndpoint, ReadsNamesAddressesAndPortsAlone) {
  struct Case {
    const char *text, *host, *port;
  };
  for (const Case& expected :
       {Case{"node:7700", "node", "7700"}, Case{"10.0.0.1:7700", "10.0.0.1", "7700"}, Case{"[::1]:7700", "::1", "7700"},
        Case{":7700", "", "7700"}, Case{"a-b_c.d:0", "a-b_c.d", "0"},
        Case{"[fe80::1%eth0]:65535", "fe80::1%eth0", "65535"}}) {
    const auto endpoint = ParseEndpoint(expected.text);
    ASSERT_TRUE(endpoint) << endpoint.error().message;
    EXPECT_EQ(endpoint->host, expected.host);
    EXPECT_EQ(endpoint->port, expected.port);
  }
}

TEST(ParseEndpoint, NamesTheExpectedSyntax) {
  for (const char* bad :
       {"", "node", "node:", "node:http", "node:70000", "node:-1", "node: 1", "node:+1", "::1:7700", "[::1]",
        "[::1:7700", "[node]:7700", "[]:7700", "http://node:7700", "no de:7700", "node:1:2"}) {
    const auto endpoint = ParseEndpoint(bad);
    EXPECT_EQ(CodeOf(endpoint), Errc::kInvalidArgument) << bad;
    if (endpoint) continue;
    EXPECT_NE(endpoint.error().message.find("[::1]:7700"), std::string::npos) << endpoint.error().message;
  }
}

}  // namespace
}  // namespace weir::net
