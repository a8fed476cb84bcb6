// SPDX-License-Identifier: Apache-2.0
// Peers that TLS refuses, and the messages on both sides.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <thread>

#include "net/openssl.h"
#include "net/tls.h"
#include "tests/harness/code_of.h"
#include "tests/harness/tls_pair.h"

namespace weir::net {
namespace {

using weir::testing::CodeOf;
using weir::testing::ConnectedSockets;
using weir::testing::kPatience;
using weir::testing::NodeKeys;
using weir::testing::SocketPair;
using weir::testing::StartBoth;
using weir::testing::StreamPair;

struct Refusal {
  std::string server, client;  // the error on each side
};

Refusal RefusalOf(const TlsIdentity& server, const TlsIdentity& client) {
  StreamPair pair = StartBoth(ConnectedSockets(), server, client);
  EXPECT_EQ(CodeOf(pair.server), Errc::kPermissionDenied);
  EXPECT_EQ(CodeOf(pair.client), Errc::kPermissionDenied);
  return {pair.server ? "let in" : pair.server.error().message, pair.client ? "let in" : pair.client.error().message};
}

void ExpectSays(const std::string& said, const std::string& words) {
  EXPECT_NE(said.find(words), std::string::npos) << said << "\n  lacks: " << words;
}

/// The node's error for a client that is not Weir's and checks no certificate. The client reads nothing.
std::string RefusalOfAnyClient(const NodeKeys& keys, SSL_CTX& context) {
  SocketPair sockets = ConnectedSockets();
  std::jthread client([&] {
    ::fcntl(sockets.client.get(), F_SETFL, 0);
    const OpenSslPtr<SSL> ssl(SSL_new(&context));
    SSL_set_fd(ssl.get(), sockets.client.get());
    SSL_connect(ssl.get());
    char byte = 0;
    EXPECT_LE(SSL_read(ssl.get(), &byte, 1), 0);
    ::shutdown(sockets.client.get(), SHUT_RDWR);
  });
  const auto refused = StartTls(std::move(sockets.server), keys.Node(), Role::kServer, kPatience);
  EXPECT_EQ(CodeOf(refused), Errc::kPermissionDenied);
  return refused ? "let in" : refused.error().message;
}

TlsIdentity TokenOfTime(const NodeKeys& keys, std::int64_t begin_s, std::int64_t expires_s) {
  auto token = MakeTokenBetween(keys.dir(), "render", begin_s, expires_s);
  EXPECT_TRUE(token) << token.error().message;
  return NodeKeys::TenantOf(keys.File("of-time.token", token->text));
}

TEST(TlsRefusals, ATokenOfAnotherNodeFailsAtTheNodesCertificate) {
  const NodeKeys keys, others;
  const Refusal refusal = RefusalOf(keys.Node(), others.Tenant());
  ExpectSays(refusal.client, "the node's certificate is not the one in the token");
  ExpectSays(refusal.server, "its token is another node's");
}

TEST(TlsRefusals, ATokenOfAnotherNodeThatTrustsThisOneIsUnknown) {
  // The client presents a token of another node and does not check the server's certificate.
  const NodeKeys keys, others;
  const auto read = [](const std::string& path) {
    auto text = platform::ReadFile(path, 1 << 20);
    EXPECT_TRUE(text);
    return *text;
  };
  const std::string token = read(others.TokenFile("render"));
  const OpenSslPtr<SSL_CTX> context(SSL_CTX_new(TLS_client_method()));
  const std::string file = others.File("tenant-only.pem", token.substr(token.find("-----END CERTIFICATE-----") + 26));
  ASSERT_EQ(SSL_CTX_use_certificate_file(context.get(), file.c_str(), SSL_FILETYPE_PEM), 1);
  ASSERT_EQ(SSL_CTX_use_PrivateKey_file(context.get(), file.c_str(), SSL_FILETYPE_PEM), 1);
  ExpectSays(RefusalOfAnyClient(keys, *context), "this node did not make the token");
}

TEST(TlsRefusals, AnExpiredTokenSaysWhenItExpired) {
  const NodeKeys keys;
  const std::int64_t now = std::time(nullptr);
  const Refusal refusal = RefusalOf(keys.Node(), TokenOfTime(keys, now - 2000, now - 1000));
  ExpectSays(refusal.server, "the token of vGPU 'render' expired on " + TimeText(now - 1000));
  ExpectSays(refusal.client, "the node refused the token: it expired on " + TimeText(now - 1000));
}

TEST(TlsRefusals, ATokenOfTheFutureSaysWhenItBecomesValid) {
  const NodeKeys keys;
  const std::int64_t now = std::time(nullptr);
  const Refusal refusal = RefusalOf(keys.Node(), TokenOfTime(keys, now + 1000, now + 2000));
  ExpectSays(refusal.server, "good from " + TimeText(now + 1000) + " on only");
  ExpectSays(refusal.client, "the node refused the token: it is not good yet");
}

TEST(TlsRefusals, ARevokedTokenIsRefusedFromTheNextConnectionOn) {
  const NodeKeys keys;
  const TlsIdentity node = keys.Node(), tenant = keys.Tenant("render"), neighbour = keys.Tenant("other");
  EXPECT_TRUE(StartBoth(ConnectedSockets(), node, tenant).server);
  ASSERT_TRUE(Revoke(keys.dir(), "render"));
  const Refusal refusal = RefusalOf(node, tenant);
  ExpectSays(refusal.server, "the token of vGPU 'render' (serial ");
  ExpectSays(refusal.server, ") was revoked");
  ExpectSays(refusal.client, "the node refused the token: it was revoked");
  EXPECT_TRUE(StartBoth(ConnectedSockets(), node, neighbour).client);
}

TEST(TlsRefusals, WithoutItsRevocationListANodeRefusesAllTokens) {
  const NodeKeys keys;
  const TlsIdentity node = keys.Node(), tenant = keys.Tenant();
  for (const char* content : {"half a li", "no serial at all\n"}) {
    ASSERT_TRUE(platform::WriteFileAtomically(keys.dir() + "/revoked", content));
    EXPECT_EQ(CodeOf(StartBoth(ConnectedSockets(), node, tenant).server), Errc::kProtocol);
  }
  std::filesystem::remove(keys.dir() + "/revoked");
  StreamPair pair = StartBoth(ConnectedSockets(), node, tenant);
  ASSERT_EQ(CodeOf(pair.server), Errc::kNotFound);
  ExpectSays(pair.server.error().message, "no tenant is accepted");
  EXPECT_EQ(CodeOf(pair.client), Errc::kUnavailable);
}

TEST(TlsRefusals, ATokenDoesNotPassForTheNode) {
  const NodeKeys keys;
  const Refusal refusal = RefusalOf(keys.Tenant("thief"), keys.Tenant("render"));
  ExpectSays(refusal.client, "the other side is not the node");
}

TEST(TlsRefusals, ANodeDoesNotPassForATenant) {
  const NodeKeys keys;
  const Refusal refusal = RefusalOf(keys.Node(), keys.Node());
  ExpectSays(refusal.server, "not a vGPU's token");
  ExpectSays(refusal.client, "it is for another kind of service");
}

TEST(TlsRefusals, AClientWithoutACertificateIsRefused) {
  const NodeKeys keys;
  const OpenSslPtr<SSL_CTX> context(SSL_CTX_new(TLS_client_method()));
  ExpectSays(RefusalOfAnyClient(keys, *context), "has no certificate, so no token");
}

TEST(TlsRefusals, OlderVersionsOfTlsAreRefused) {
  const NodeKeys keys;
  SocketPair sockets = ConnectedSockets();
  std::jthread old([&] {
    ::fcntl(sockets.client.get(), F_SETFL, 0);
    const OpenSslPtr<SSL_CTX> context(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
    const OpenSslPtr<SSL> ssl(SSL_new(context.get()));
    SSL_set_fd(ssl.get(), sockets.client.get());
    EXPECT_NE(SSL_connect(ssl.get()), 1);
    ::shutdown(sockets.client.get(), SHUT_RDWR);
  });
  EXPECT_EQ(CodeOf(StartTls(std::move(sockets.server), keys.Node(), Role::kServer, kPatience)), Errc::kProtocol);
}

/// The node's error for a peer that sends only `bytes`.
Error AnswerTo(const NodeKeys& keys, std::string_view bytes) {
  SocketPair sockets = ConnectedSockets();
  EXPECT_EQ(::send(sockets.client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  ::shutdown(sockets.client.get(), SHUT_WR);
  const auto refused = StartTls(std::move(sockets.server), keys.Node(), Role::kServer, kPatience);
  EXPECT_FALSE(refused);
  return refused ? Fail(Errc::kInternal, "let in") : refused.error();
}

TEST(TlsRefusals, GarbageIsNotTls) {
  const NodeKeys keys;
  const Error http = AnswerTo(keys, "GET / HTTP/1.1\r\nHost: node\r\n\r\n");
  EXPECT_EQ(http.code, Errc::kProtocol);
  ExpectSays(http.message, "sent an HTTP request");
  for (const std::string& garbage :
       {std::string(4096, 'x'), std::string(64, '\0'), std::string(64, '\xff'), std::string("SSH-2.0-OpenSSH_9.2\r\n"),
        std::string("\x16\x03\x01\xff\xff", 5) + std::string(70'000, 'a'),
        std::string("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", 10)})
    EXPECT_EQ(AnswerTo(keys, garbage).code, Errc::kProtocol) << garbage.substr(0, 10);
}

TEST(TlsRefusals, APortScannerThatClosesAtOnceIsNotedAndNoMore) {
  const NodeKeys keys;
  for (const char* bytes : {"", "\x16\x03\x01"}) {
    SocketPair sockets = ConnectedSockets();
    ::send(sockets.client.get(), bytes, std::strlen(bytes), MSG_NOSIGNAL);
    sockets.client.Reset();
    EXPECT_EQ(CodeOf(StartTls(std::move(sockets.server), keys.Node(), Role::kServer, kPatience)), Errc::kUnavailable);
  }
  SocketPair reset = ConnectedSockets();
  const linger at_once{1, 0};
  ::setsockopt(reset.client.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  reset.client.Reset();
  EXPECT_EQ(CodeOf(StartTls(std::move(reset.server), keys.Node(), Role::kServer, kPatience)), Errc::kUnavailable);
}

TEST(TlsRefusals, ASilentPeerTimesOut) {
  const NodeKeys keys;
  for (const Role role : {Role::kServer, Role::kClient}) {
    SocketPair sockets = ConnectedSockets();
    const auto silent = StartTls(std::move(sockets.server), keys.Node(), role, milliseconds(20));
    EXPECT_EQ(CodeOf(silent), Errc::kTimeout);
  }
}

TEST(TlsRefusals, ANodeThatNeverAcceptsTheConnectionTimesOut) {
  // The TLS handshake succeeds, but the server never confirms that it accepted the token.
  const NodeKeys keys;
  const std::string dir = keys.dir();
  SocketPair sockets = ConnectedSockets();
  std::atomic<bool> done{false};
  std::jthread mute([&] {
    ::fcntl(sockets.server.get(), F_SETFL, 0);
    const OpenSslPtr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()));
    SSL_CTX_set_num_tickets(context.get(), 0);
    SSL_CTX_use_certificate_file(context.get(), (dir + "/node.pem").c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context.get(), (dir + "/node.key").c_str(), SSL_FILETYPE_PEM);
    const OpenSslPtr<SSL> ssl(SSL_new(context.get()));
    SSL_set_fd(ssl.get(), sockets.server.get());
    EXPECT_EQ(SSL_accept(ssl.get()), 1);
    EXPECT_TRUE(weir::testing::WaitUntil([&] { return done.load(); }));
  });
  const auto waited = StartTls(std::move(sockets.client), keys.Tenant(), Role::kClient, milliseconds(300));
  done = true;
  EXPECT_EQ(CodeOf(waited), Errc::kTimeout);
}

}  // namespace
}  // namespace weir::net
