// SPDX-License-Identifier: Apache-2.0
#include "net/openssl.h"

#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <array>
#include <ctime>

#include "net/keys.h"

namespace weir::net {
namespace {

/// A field of the subject; empty: it is absent.
std::string SubjectText(const X509& certificate, int nid) {
  std::array<char, 128> text{};
  const int size =
      X509_NAME_get_text_by_NID(X509_get_subject_name(&certificate), nid, text.data(), static_cast<int>(text.size()));
  return size <= 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(size));
}

std::int64_t UnixTimeOf(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return 0;
  return ::timegm(&parts);
}

}  // namespace

Error OpenSslError(std::string_view attempted, Errc code) {
  const unsigned long first = ERR_get_error();
  const char* reason = first == 0 ? nullptr : ERR_reason_error_string(first);
  ERR_clear_error();
  return Fail(code, std::string(attempted) + ": " + (reason == nullptr ? "OpenSSL gives no reason" : reason));
}

CertificateKind KindOf(X509& certificate) {
  if ((X509_get_extension_flags(&certificate) & EXFLAG_INVALID) != 0) return CertificateKind::kOther;
  if (X509_check_ca(&certificate) == 1) return CertificateKind::kAuthority;
  switch (X509_get_extended_key_usage(&certificate)) {  // a certificate without this extension has all bits set
    case XKU_SSL_SERVER: return CertificateKind::kNode;
    case XKU_SSL_CLIENT: return CertificateKind::kToken;
    default: return CertificateKind::kOther;
  }
}

const char* OrganizationOf(TokenRole role) {
  constexpr std::array kOrganizations{"Weir vGPU", "Weir operator", "Weir tenant", "Weir member"};
  return kOrganizations[static_cast<std::size_t>(role)];
}

std::optional<TokenRole> RoleOf(const X509& certificate) {
  const std::string organization = SubjectText(certificate, NID_organizationName);
  for (const TokenRole role : {TokenRole::kVgpu, TokenRole::kOperator, TokenRole::kTenant, TokenRole::kNode})
    if (organization == OrganizationOf(role)) return role;
  return std::nullopt;
}

std::string NameOf(const X509& certificate) {
  std::string text = SubjectText(certificate, NID_commonName);
  return CheckKeyName(text) ? text : std::string();
}

std::string SerialOf(const X509& certificate) {
  BIGNUM* number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(&certificate), nullptr);
  char* hex = number == nullptr ? nullptr : BN_bn2hex(number);
  std::string text(hex == nullptr ? "" : hex);
  OPENSSL_free(hex);
  BN_free(number);
  for (char& c : text)
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

std::int64_t ExpiryOf(const X509& certificate) { return UnixTimeOf(X509_get0_notAfter(&certificate)); }
std::int64_t BeginOf(const X509& certificate) { return UnixTimeOf(X509_get0_notBefore(&certificate)); }

}  // namespace weir::net
