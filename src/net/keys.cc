// SPDX-License-Identifier: Apache-2.0
#include "net/keys.h"

#include <fmt/format.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "net/key_files.h"
#include "net/key_folder.h"
#include "platform/files.h"

namespace weir::net {
namespace {

constexpr std::int64_t kNodeLifeS = 20 * 365 * (kDay / seconds(1));
/// Tolerates a tenant's clock that is behind the node's.
constexpr std::int64_t kBackdatedS = 600;
constexpr std::size_t kNameBytesMax = 63;

struct Extension {
  int nid;
  const char* value;
};

struct CertificatePlan {
  CertificateKind kind = CertificateKind::kOther;
  std::string name;
  std::int64_t begin_s = 0, expires_s = 0;
  TokenRole role = TokenRole::kVgpu;  // of a token
};

std::vector<Extension> ExtensionsOf(CertificateKind kind) {
  if (kind == CertificateKind::kAuthority)
    return {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
            {NID_key_usage, "critical,keyCertSign"},
            {NID_subject_key_identifier, "hash"}};
  return {{NID_basic_constraints, "critical,CA:FALSE"},
          {NID_key_usage, "critical,digitalSignature"},
          {NID_ext_key_usage, kind == CertificateKind::kNode ? "critical,serverAuth" : "critical,clientAuth"},
          {NID_subject_key_identifier, "hash"},
          {NID_authority_key_identifier, "keyid:always"}};
}

/// Eight random bytes. The first one is adjusted so that the number is positive and has sixteen hexadecimal digits.
Status SetSerial(X509& certificate) {
  std::array<unsigned char, 8> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) return OpenSslError("drawing a serial number");
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x3f) | 0x40);
  BIGNUM* number = BN_bin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr);
  const bool set = number != nullptr && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(&certificate)) != nullptr;
  BN_free(number);
  if (!set) return OpenSslError("setting a serial number");
  return Ok();
}

/// The subject contains the kind as well as the name, because an authority's subject must differ from those it signs.
bool SetName(X509_NAME* name, const CertificatePlan& plan) {
  const char* what = plan.kind == CertificateKind::kAuthority ? "Weir authority"
                     : plan.kind == CertificateKind::kNode    ? "Weir node"
                                                              : OrganizationOf(plan.role);
  const auto add = [name](int nid, const char* text) {
    return X509_NAME_add_entry_by_NID(name, nid, MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(text), -1, -1,
                                      0) == 1;
  };
  return add(NID_organizationName, what) && add(NID_commonName, plan.name.c_str());
}

Status AddExtensions(X509& certificate, X509& issuer, CertificateKind kind) {
  X509V3_CTX context{};
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  for (const Extension& extension : ExtensionsOf(kind)) {
    const OpenSslPtr<X509_EXTENSION> made(X509V3_EXT_conf_nid(nullptr, &context, extension.nid, extension.value));
    if (!made || X509_add_ext(&certificate, made.get(), -1) != 1)
      return OpenSslError(fmt::format("adding '{}' to a certificate", extension.value));
  }
  return Ok();
}

/// A null `issuer` makes a self-signed certificate.
Result<CertificatePtr> MakeCertificate(const CertificatePlan& plan, EVP_PKEY& key, X509* issuer, EVP_PKEY& issuer_key) {
  CertificatePtr made(X509_new());
  if (!made) return OpenSslError("making a certificate");
  X509& certificate = *made;
  WEIR_TRY_STATUS(SetSerial(certificate));
  const bool begun =
      X509_set_version(&certificate, X509_VERSION_3) == 1 && X509_set_pubkey(&certificate, &key) == 1 &&
      ASN1_TIME_set(X509_getm_notBefore(&certificate), plan.begin_s) != nullptr &&
      ASN1_TIME_set(X509_getm_notAfter(&certificate), plan.expires_s) != nullptr &&
      SetName(X509_get_subject_name(&certificate), plan) &&
      X509_set_issuer_name(&certificate, X509_get_subject_name(issuer != nullptr ? issuer : &certificate)) == 1;
  if (!begun) return OpenSslError("making a certificate for " + plan.name);
  WEIR_TRY_STATUS(AddExtensions(certificate, issuer != nullptr ? *issuer : certificate, plan.kind));
  if (X509_sign(&certificate, &issuer_key, EVP_sha256()) == 0) return OpenSslError("signing a certificate");
  return made;
}

Result<KeyPtr> MakeKey() {
  KeyPtr key(EVP_EC_gen("P-256"));
  if (!key) return OpenSslError("making a key");
  return key;
}

Status WriteKeyPair(const std::string& stem, EVP_PKEY& key, X509& certificate) {
  WEIR_TRY(const std::string key_text, PemOf(key));
  WEIR_TRY(const std::string certificate_text, PemOf(certificate));
  WEIR_TRY_STATUS(platform::WriteFileAtomically(stem + ".key", key_text));
  return platform::WriteFileAtomically(stem + ".pem", certificate_text);
}

/// Creates all of a node's files in an empty folder.
Status FillFolder(const std::string& folder, const std::string& node_name) {
  const std::int64_t now = std::time(nullptr);
  CertificatePlan plan{CertificateKind::kAuthority, node_name, now - kBackdatedS, now + kNodeLifeS};
  WEIR_TRY(const KeyPtr authority_key, MakeKey());
  WEIR_TRY(const CertificatePtr authority, MakeCertificate(plan, *authority_key, nullptr, *authority_key));
  plan.kind = CertificateKind::kNode;
  WEIR_TRY(const KeyPtr node_key, MakeKey());
  WEIR_TRY(const CertificatePtr node, MakeCertificate(plan, *node_key, authority.get(), *authority_key));
  WEIR_TRY_STATUS(platform::WriteFileAtomically(folder + "/tokens", ""));
  WEIR_TRY_STATUS(platform::WriteFileAtomically(folder + "/revoked", ""));
  WEIR_TRY_STATUS(WriteKeyPair(folder + "/node", *node_key, *node));
  return WriteKeyPair(folder + "/ca", *authority_key, *authority);
}

void RemoveFolder(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

std::string WithoutSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

struct Authority {
  CertificatePtr certificate;
  KeyPtr key;
};

Result<Authority> ReadAuthority(const KeyFolder& folder) {
  Authority authority;
  WEIR_TRY(authority.certificate, ReadCertificateFile(folder / "ca.pem"));
  WEIR_TRY(authority.key, ReadKeyFile(folder / "ca.key"));
  if (KindOf(*authority.certificate) != CertificateKind::kAuthority)
    return Fail(Errc::kProtocol, (folder / "ca.pem") + " is another kind of certificate: were files swapped?");
  if (X509_check_private_key(authority.certificate.get(), authority.key.get()) != 1)
    return Fail(Errc::kProtocol, (folder / "ca.key") + " is not the key of ca.pem: were files swapped?");
  return authority;
}

std::string TokenText(const TokenRecord& record, TokenRole role, const std::string& name, const std::string& node) {
  if (role != TokenRole::kVgpu)
    return fmt::format(
        "# A token of Weir. This file gives access to the cluster's manager '{1}' as {2} '{0}': keep it from other "
        "users (chmod 600).\n"
        "# {2}: {0}\n# expires: {3}\n# serial:  {4}\n",
        name, node, NameOf(role), TimeText(record.expires), record.serial);
  return fmt::format(
      "# A token of Weir. This file gives access to vGPU '{0}' on node '{1}': keep it from other users (chmod "
      "600).\n"
      "# vGPU:    {0}\n# expires: {2}\n# serial:  {3}\n",
      name, node, TimeText(record.expires), record.serial);
}

}  // namespace

Status CheckKeyName(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  if (!name.empty() && name.size() <= kNameBytesMax && name.front() != '.' && name.front() != '-' &&
      std::all_of(name.begin(), name.end(), allowed))
    return Ok();
  return Fail(Errc::kInvalidArgument,
              fmt::format("'{}' can't be a name: 1 to {} letters, digits, '.', '_' or '-', not starting with '.' or "
                          "'-'",
                          name, kNameBytesMax));
}

TokenHolder HolderOf(const TokenRecord& record) {
  const std::size_t colon = record.name.find(':');
  if (colon == std::string::npos) return {TokenRole::kVgpu, record.name};
  return {TokenRoleNamed(record.name.substr(0, colon)).value_or(TokenRole::kVgpu), record.name.substr(colon + 1)};
}

Result<std::string> ReadSecret(const std::string& path) { return ReadSecretFile(path); }

Result<std::string> ReadSecretLine(const std::string& path) {
  WEIR_TRY(std::string text, ReadSecretFile(path));
  text.erase(std::find(text.begin(), text.end(), '\n'), text.end());
  return text;
}

std::string TimeText(std::int64_t unix_time_s) {
  const std::time_t time = unix_time_s;
  std::tm parts{};
  std::array<char, 64> text{};
  if (::gmtime_r(&time, &parts) == nullptr) return "an unknown time";
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

bool HasNodeKeys(const std::string& dir) {
  struct stat info {};
  // On other errors the answer is yes: opening the files will report the error.
  return ::lstat((dir + "/ca.pem").c_str(), &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

Status MakeNodeKeys(const std::string& dir, const std::string& node_name) {
  WEIR_TRY_STATUS(CheckKeyName(node_name));
  const std::string folder = WithoutSlashes(dir);
  // The files are created in a folder beside the final one, which is then renamed. rename(2) replaces only a missing or
  // an empty folder.
  if (const std::size_t slash = folder.rfind('/'); slash != std::string::npos && slash != 0)
    WEIR_TRY_STATUS(platform::MakeFolder(folder.substr(0, slash)));
  std::string beside = folder + ".XXXXXX";
  if (::mkdtemp(beside.data()) == nullptr) return platform::ErrnoError("making a folder beside " + folder, errno);
  Status status = FillFolder(beside, node_name);
  if (status && ::rename(beside.c_str(), folder.c_str()) != 0) {
    if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR)
      status = Fail(Errc::kAlreadyExists, folder + " exists already, and is not changed");
    else
      status = platform::ErrnoError("making " + folder, errno);
  }
  if (!status) RemoveFolder(beside);
  return status;
}

std::optional<TokenRole> TokenRoleNamed(std::string_view name) {
  const auto* const found = std::ranges::find(kTokenRoleNames, name);
  if (found == kTokenRoleNames.end()) return std::nullopt;
  return static_cast<TokenRole>(found - kTokenRoleNames.begin());
}

std::string RecordedName(TokenRole role, std::string_view name) {
  return role == TokenRole::kVgpu ? std::string(name) : fmt::format("{}:{}", NameOf(role), name);
}

Result<Token> MakeToken(const std::string& dir, const std::string& name, Duration valid_for, TokenRole role) {
  if (valid_for < seconds(1))
    return Fail(Errc::kInvalidArgument, "a token is good for a second at least; write 30d, 12h or 15m");
  const std::int64_t now = std::time(nullptr);
  return MakeTokenBetween(dir, name, now - kBackdatedS, now + valid_for / seconds(1), role);
}

Result<Token> MakeTokenBetween(const std::string& dir, const std::string& name, std::int64_t begin_s,
                               std::int64_t expires_s, TokenRole role) {
  WEIR_TRY_STATUS(CheckKeyName(name));
  WEIR_TRY(const KeyFolder folder, KeyFolder::Lock(dir));
  WEIR_TRY(const Authority authority, ReadAuthority(folder));
  if (const std::int64_t end = ExpiryOf(*authority.certificate); expires_s > end)
    return Fail(Errc::kInvalidArgument,
                fmt::format("a token can't outlive the node's own keys, which end on {}", TimeText(end)));
  WEIR_TRY(const KeyPtr key, MakeKey());
  WEIR_TRY(const CertificatePtr certificate, MakeCertificate({CertificateKind::kToken, name, begin_s, expires_s, role},
                                                             *key, authority.certificate.get(), *authority.key));
  Token token;
  token.record = {SerialOf(*certificate), RecordedName(role, name), expires_s, false};
  token.text = TokenText(token.record, role, name, NameOf(*authority.certificate));
  for (X509* each : {authority.certificate.get(), certificate.get()}) {
    WEIR_TRY(const std::string text, PemOf(*each));
    token.text += text;
  }
  WEIR_TRY(const std::string key_text, PemOf(*key));
  token.text += key_text;
  WEIR_TRY_STATUS(folder.AddToken(token.record));
  return token;
}

Result<std::vector<TokenRecord>> ListTokens(const std::string& dir) {
  WEIR_TRY(const KeyFolder folder, KeyFolder::Lock(dir));
  return folder.Tokens();
}

Result<std::vector<TokenRecord>> Revoke(const std::string& dir, const std::string& what) {
  WEIR_TRY(const KeyFolder folder, KeyFolder::Lock(dir));
  WEIR_TRY(std::vector<TokenRecord> records, folder.Tokens());
  std::erase_if(records, [&](const TokenRecord& record) { return record.serial != what && record.name != what; });
  if (records.empty() && IsSerial(what)) {
    WEIR_TRY(const std::set<std::string> revoked, ReadRevoked(dir));
    records.push_back({what, "-", 0, revoked.contains(what)});
  }
  if (records.empty())
    return Fail(Errc::kNotFound,
                fmt::format("'{}' is neither the serial of a token nor a vGPU that has one ('weir keys list')", what));
  std::erase_if(records, [](const TokenRecord& record) { return record.revoked; });
  if (records.empty()) return records;
  WEIR_TRY_STATUS(folder.AddRevoked(records, std::time(nullptr)));
  return records;
}

}  // namespace weir::net
