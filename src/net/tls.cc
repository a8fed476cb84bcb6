// SPDX-License-Identifier: Apache-2.0
#include "net/tls.h"

#include <fmt/format.h>
#include <openssl/x509v3.h>

#include "net/key_files.h"
#include "net/key_folder.h"
#include "net/tls_faults.h"
#include "net/tls_identity.h"
#include "net/tls_stream.h"

namespace weir::net {
namespace {

constexpr std::size_t kReadAheadBytes = 128 << 10;  // bytes read from the socket at once: about eight records
constexpr long kCertificateBytesMax = 16 << 10;

struct OwnFiles {
  std::string path;  // for messages
  CertificateKind kind = CertificateKind::kOther;
  CertificatePtr authority, certificate;
  KeyPtr key;
};

/// Detects at startup what would fail at each connection.
Status CheckFiles(const OwnFiles& files) {
  const auto wrong = [&](std::string_view what) {
    return Fail(Errc::kProtocol, fmt::format("{}: {}; were files swapped?", files.path, what));
  };
  if (KindOf(*files.authority) != CertificateKind::kAuthority)
    return wrong("the first certificate is not that of a node's authority");
  if (KindOf(*files.certificate) != files.kind)
    return wrong(files.kind == CertificateKind::kNode ? "the certificate is not a node's"
                                                      : "the certificate is not a tenant's");
  const KeyPtr authority_key(X509_get_pubkey(files.authority.get()));
  if (!authority_key || X509_verify(files.certificate.get(), authority_key.get()) != 1)
    return wrong("the certificate is not signed by the authority");
  if (X509_check_private_key(files.certificate.get(), files.key.get()) != 1)
    return wrong("the key is not the certificate's");
  if (NameOf(*files.certificate).empty()) return wrong("the certificate has no name");
  return Ok();
}

bool SetPolicy(SSL_CTX* context) {
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_ENABLE_KTLS);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadAheadBytes);
  SSL_CTX_set_max_cert_list(context, kCertificateBytesMax);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, CheckPeer);
  SSL_CTX_set_verify_depth(context, 0);  // no intermediate certificates
  return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 && SSL_CTX_set_num_tickets(context, 0) == 1 &&
         SSL_CTX_set_max_early_data(context, 0) == 1 && SSL_CTX_set_recv_max_early_data(context, 0) == 1 &&
         SSL_CTX_set_ciphersuites(context,
                                  "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256") == 1 &&
         SSL_CTX_set1_sigalgs_list(context, "ecdsa_secp256r1_sha256") == 1;
}

Result<OpenSslPtr<SSL_CTX>> MakeContext(const OwnFiles& files) {
  OpenSslPtr<SSL_CTX> made(SSL_CTX_new(TLS_method()));
  SSL_CTX* context = made.get();
  const bool ready = context != nullptr && SetPolicy(context) &&
                     X509_STORE_add_cert(SSL_CTX_get_cert_store(context), files.authority.get()) == 1 &&
                     SSL_CTX_use_certificate(context, files.certificate.get()) == 1 &&
                     SSL_CTX_use_PrivateKey(context, files.key.get()) == 1;
  if (!ready) return OpenSslError("preparing TLS with " + files.path);
  return made;
}

Result<std::shared_ptr<const TlsIdentity::Parts>> MakeParts(const OwnFiles& files, std::string keys_dir = {},
                                                            OpenFile open_revoked = {},
                                                            Admits admits = Admits::kVgpus) {
  WEIR_TRY_STATUS(CheckFiles(files));
  auto parts = std::make_shared<TlsIdentity::Parts>();
  WEIR_TRY(parts->context, MakeContext(files));
  parts->name = NameOf(*files.certificate);
  parts->expires = ExpiryOf(*files.certificate);
  parts->keys_dir = std::move(keys_dir);
  parts->open_revoked = std::move(open_revoked);
  parts->admits = admits;
  return std::shared_ptr<const TlsIdentity::Parts>(std::move(parts));
}

}  // namespace

Result<TlsIdentity> TlsIdentity::OfNode(const std::string& keys_dir, OpenFile open_revoked, Admits admits) {
  if (!HasNodeKeys(keys_dir))
    return Fail(Errc::kNotFound, fmt::format("no keys in {}; 'weir keys init' makes them", keys_dir));
  OwnFiles files{keys_dir, CertificateKind::kNode, {}, {}, {}};
  WEIR_TRY(files.authority, ReadCertificateFile(keys_dir + "/ca.pem"));
  WEIR_TRY(files.certificate, ReadCertificateFile(keys_dir + "/node.pem"));
  WEIR_TRY(files.key, ReadKeyFile(keys_dir + "/node.key"));
  WEIR_TRY(auto parts, MakeParts(files, keys_dir, std::move(open_revoked), admits));
  return TlsIdentity(std::move(parts));
}

Result<TlsIdentity> TlsIdentity::OfToken(const std::string& token_file, const OpenFile& open) {
  WEIR_TRY(const std::string text, ReadSecretFile(token_file, open));
  return OfTokenText(text, token_file);
}

Result<TlsIdentity> TlsIdentity::OfTokenText(const std::string& text, const std::string& path) {
  WEIR_TRY(PemContent content, ReadPem(text, path));
  if (content.certificates.size() != 2 || content.keys.size() != 1)
    return Fail(Errc::kProtocol,
                fmt::format("{} is not a whole token, which is two certificates and a key; 'weir keys token' on the "
                            "node makes one",
                            path));
  const OwnFiles files{path, CertificateKind::kToken, std::move(content.certificates[0]),
                       std::move(content.certificates[1]), std::move(content.keys[0])};
  WEIR_TRY(auto parts, MakeParts(files));
  return TlsIdentity(std::move(parts));
}

const std::string& TlsIdentity::name() const { return parts_->name; }
std::int64_t TlsIdentity::expires() const { return parts_->expires; }

Result<std::unique_ptr<Stream>> StartTls(platform::Fd connected, const TlsIdentity& identity, Role role,
                                         Duration timeout) {
  PeerCheck check;
  check.own_role = role;
  if (const TlsIdentity::Parts& parts = identity.parts(); role == Role::kServer && !parts.keys_dir.empty()) {
    check.admits = parts.admits;
    WEIR_TRY(check.revoked, ReadRevoked(parts.keys_dir, parts.open_revoked));
  }
  auto stream = std::make_unique<TlsStream>(std::move(connected));
  WEIR_TRY_STATUS(stream->Handshake(identity, std::move(check), timeout));
  return std::unique_ptr<Stream>(std::move(stream));
}

}  // namespace weir::net
