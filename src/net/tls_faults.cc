// SPDX-License-Identifier: Apache-2.0
#include "net/tls_faults.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <array>
#include <ctime>

#include "net/keys.h"
#include "platform/fd.h"

namespace weir::net {
namespace {

/// Describes a token. Used only for certificates that the node's authority has signed; other certificates' text is not
/// shown.
std::string TokenOf(const X509& certificate) {
  const std::string name = NameOf(certificate);
  return name.empty() ? "the token" : fmt::format("the token of vGPU '{}'", name);
}

/// Returns X509_V_OK to accept the certificate.
int CheckLeaf(PeerCheck& check, X509& certificate) {
  const bool is_server = check.own_role == Role::kServer;
  if (KindOf(certificate) != (is_server ? CertificateKind::kToken : CertificateKind::kNode))
    return X509_V_ERR_INVALID_PURPOSE;
  check.name = NameOf(certificate);
  if (check.name.empty()) return X509_V_ERR_INVALID_PURPOSE;
  if (is_server) {
    const std::optional<TokenRole> role = RoleOf(certificate);
    if (!role || (*role == TokenRole::kVgpu) != (check.admits == Admits::kVgpus)) return X509_V_ERR_INVALID_PURPOSE;
    check.role = *role;
  }
  if (is_server && check.revoked.contains(SerialOf(certificate))) return X509_V_ERR_CERT_REVOKED;
  return X509_V_OK;
}

std::string FaultOfToken(const PeerCheck& check, int error, const X509& certificate) {
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return fmt::format("{} expired on {}", TokenOf(certificate), TimeText(ExpiryOf(certificate)));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return fmt::format("{} is good from {} on only; is this machine's clock right?", TokenOf(certificate),
                         TimeText(BeginOf(certificate)));
    case X509_V_ERR_CERT_REVOKED:
      return fmt::format("{} (serial {}) was revoked", TokenOf(certificate), SerialOf(certificate));
    case X509_V_ERR_INVALID_PURPOSE:
      return check.admits == Admits::kVgpus ? "the other side's certificate is not a vGPU's token"
                                            : "the other side's certificate is not a token of a cluster's manager";
    default: return "this node did not make the token";
  }
}

std::string FaultOfNode(int error, const X509& certificate) {
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return fmt::format(
          "the node's keys expired on {}; 'weir keys init' on the node makes new ones, in another folder",
          TimeText(ExpiryOf(certificate)));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return fmt::format("the node's keys are good from {} on only; is this machine's clock right?",
                         TimeText(BeginOf(certificate)));
    case X509_V_ERR_INVALID_PURPOSE: return "the other side is not the node: it has a certificate of another kind";
    default:
      return "the node's certificate is not the one in the token: this is another node, or its keys were replaced";
  }
}

struct AlertWords {
  int alert;
  const char* words;
};
/// The alerts that a node sends for a token (as the client sees them), in the order of CheckPeer's refusals.
constexpr std::array kTokenAlerts{
    AlertWords{SSL_AD_CERTIFICATE_REVOKED, "it was revoked"},
    AlertWords{SSL_AD_UNKNOWN_CA, "the node does not know it; it may be another node's"},
    AlertWords{SSL_AD_DECRYPT_ERROR, "the node does not know it; it may be another node's"},
    AlertWords{
        SSL_AD_UNSUPPORTED_CERTIFICATE,
        "it is for another kind of service: a vGPU's token is for a node's portal, one with a role is for a manager"},
    AlertWords{SSL_AD_BAD_CERTIFICATE, "it is not good yet by the node's clock, or damaged"},
    AlertWords{SSL_AD_CERTIFICATE_REQUIRED, "there was none"},
};
/// The alerts that a tenant sends for the node's certificate (as the server sees them).
constexpr std::array kNodeAlerts{
    AlertWords{SSL_AD_CERTIFICATE_EXPIRED, "it has expired by the other side's clock"},
    AlertWords{SSL_AD_UNKNOWN_CA, "its token is another node's"},
    AlertWords{SSL_AD_DECRYPT_ERROR, "its token is another node's"},
    AlertWords{SSL_AD_UNSUPPORTED_CERTIFICATE, "it is not a node's"},
    AlertWords{SSL_AD_BAD_CERTIFICATE, "it is not good yet by the other side's clock, or damaged"},
};

template <std::size_t N>
const char* FindWords(const std::array<AlertWords, N>& table, int alert) {
  for (const AlertWords& entry : table)
    if (entry.alert == alert) return entry.words;
  return nullptr;
}

Error RefusedBy(int alert, Role own_role, const TlsIdentity& own, const std::string& peer) {
  const char* words = own_role == Role::kClient ? FindWords(kTokenAlerts, alert) : FindWords(kNodeAlerts, alert);
  if (own_role == Role::kClient && alert == SSL_AD_CERTIFICATE_EXPIRED)
    return Fail(Errc::kPermissionDenied,
                fmt::format("the node refused the token: it expired on {}; make another there with 'weir keys token "
                            "{}'",
                            TimeText(own.expires()), own.name()));
  if (words == nullptr)
    return Fail(Errc::kProtocol, fmt::format("{} ended the handshake: {}", peer, SSL_alert_desc_string_long(alert)));
  return Fail(Errc::kPermissionDenied, own_role == Role::kClient
                                           ? fmt::format("the node refused the token: {}", words)
                                           : fmt::format("{} refused this node's certificate: {}", peer, words));
}

Error NotTls(int reason, Role own_role, const std::string& peer) {
  if (reason == SSL_R_HTTP_REQUEST || reason == SSL_R_HTTPS_PROXY_REQUEST)
    return Fail(Errc::kProtocol, fmt::format("{} sent an HTTP request instead of TLS", peer));
  const char* words = ERR_reason_error_string(static_cast<unsigned long>(ERR_PACK(ERR_LIB_SSL, 0, reason)));
  return Fail(Errc::kProtocol,
              fmt::format("the data from {} is not Weir's TLS 1.3 ({}){}", peer, words == nullptr ? "no reason" : words,
                          own_role == Role::kClient ? "; is it a port without TLS?" : ""));
}

}  // namespace

int CheckPeer(int good, X509_STORE_CTX* store) {
  const auto* ssl = static_cast<const SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto& check = *static_cast<PeerCheck*>(SSL_get_app_data(ssl));
  X509* certificate = X509_STORE_CTX_get_current_cert(store);
  int error = X509_STORE_CTX_get_error(store);
  if (good == 1 && X509_STORE_CTX_get_error_depth(store) == 0) {
    error = CheckLeaf(check, *certificate);
    X509_STORE_CTX_set_error(store, error);
  }
  if (error == X509_V_OK) return 1;
  check.name.clear();
  check.fault =
      check.own_role == Role::kServer ? FaultOfToken(check, error, *certificate) : FaultOfNode(error, *certificate);
  return 0;
}

Error HandshakeError(const SSL& ssl, int returned, int error_number, const TlsIdentity& own, const std::string& peer) {
  const auto& check = *static_cast<const PeerCheck*>(SSL_get_app_data(&ssl));
  const int kind = SSL_get_error(&ssl, returned);
  const int reason = ERR_GET_REASON(ERR_peek_error());
  ERR_clear_error();
  constexpr int kAlerts = SSL_AD_REASON_OFFSET;
  if (!check.fault.empty()) return Fail(Errc::kPermissionDenied, fmt::format("{} ({})", check.fault, peer));
  if (kind == SSL_ERROR_SSL && reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    return Fail(Errc::kPermissionDenied, fmt::format("{} has no certificate, so no token", peer));
  if (kind == SSL_ERROR_SSL && reason >= kAlerts && reason < kAlerts + 256)
    return RefusedBy(reason - kAlerts, check.own_role, own, peer);
  if (kind == SSL_ERROR_SSL && reason != SSL_R_UNEXPECTED_EOF_WHILE_READING)
    return NotTls(reason, check.own_role, peer);
  std::string went = fmt::format("{} closed the connection before it was authenticated", peer);
  if (kind == SSL_ERROR_SYSCALL && error_number != 0) went = platform::ErrnoError(went, error_number).message;
  if (check.own_role == Role::kClient) went += "; is it a port without TLS, for --plain?";
  return Fail(Errc::kUnavailable, std::move(went));
}

}  // namespace weir::net
