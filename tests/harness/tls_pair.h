// SPDX-License-Identifier: Apache-2.0
// Both ends of a connection in one process, and keys that are removed with the test.
#pragma once

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>

#include "net/keys.h"
#include "net/tcp_stream.h"
#include "net/tls.h"
#include "platform/files.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir::testing {

struct SocketPair {
  platform::Fd server, client;
};

inline platform::Fd AcceptSoon(const net::TcpListener& listener) {
  platform::Fd accepted;
  EXPECT_TRUE(WaitUntil([&] {
    auto one = listener.Accept();
    if (one) accepted = std::move(*one);
    return static_cast<bool>(accepted);
  }));
  return accepted;
}

/// `to`: the server's address; the client's is 127.0.0.1.
inline SocketPair ConnectedSockets(const char* to = "127.0.0.1") {
  auto listener = net::TcpListener::Listen({to, "0"});
  WEIR_CHECK(listener);
  auto client = net::ConnectSocket({to, std::to_string(listener->port())}, kPatience);
  WEIR_CHECK(client);
  return {AcceptSoon(*listener), std::move(*client)};
}

/// A node's key folder, and tokens beside it.
class NodeKeys {
 public:
  explicit NodeKeys(const std::string& name = "lab") {
    const Status made = net::MakeNodeKeys(dir(), name);
    EXPECT_TRUE(made) << made.error().message;
  }

  [[nodiscard]] std::string dir() const { return folder_ / "keys"; }
  /// The path of a file with this content.
  [[nodiscard]] std::string File(const std::string& name, const std::string& content) const {
    EXPECT_TRUE(platform::WriteFileAtomically(folder_ / name, content));
    return folder_ / name;
  }
  [[nodiscard]] std::string TokenFile(const std::string& vgpu, Duration valid_for = net::kDay) const {
    auto token = net::MakeToken(dir(), vgpu, valid_for);
    EXPECT_TRUE(token) << token.error().message;
    return File(vgpu + ".token", token->text);
  }
  [[nodiscard]] net::TlsIdentity Node() const {
    auto node = net::TlsIdentity::OfNode(dir());
    EXPECT_TRUE(node) << node.error().message;
    return *node;
  }
  [[nodiscard]] net::TlsIdentity Tenant(const std::string& vgpu = "render") const { return TenantOf(TokenFile(vgpu)); }
  [[nodiscard]] static net::TlsIdentity TenantOf(const std::string& file) {
    auto tenant = net::TlsIdentity::OfToken(file);
    EXPECT_TRUE(tenant) << tenant.error().message;
    return *tenant;
  }

 private:
  TempFolder folder_;
};

struct StreamPair {
  Result<std::unique_ptr<net::Stream>> server, client;
};

inline StreamPair StartBoth(SocketPair sockets, const net::TlsIdentity& server, const net::TlsIdentity& client,
                            Duration timeout = kPatience) {
  auto accepted = std::async(std::launch::async, [&, fd = std::move(sockets.server)]() mutable {
    return net::StartTls(std::move(fd), server, net::Role::kServer, timeout);
  });
  auto connected = net::StartTls(std::move(sockets.client), client, net::Role::kClient, timeout);
  return {accepted.get(), std::move(connected)};
}

}  // namespace weir::testing
