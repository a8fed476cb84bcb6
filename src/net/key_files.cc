// SPDX-License-Identifier: Apache-2.0
#include "net/key_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "platform/fd.h"

namespace weir::net {
namespace {

Status CheckWho(const std::string& path, const struct stat& info, mode_t forbidden) {
  if (!S_ISREG(info.st_mode)) return Fail(Errc::kInvalidArgument, path + " is not a file");
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    return Fail(Errc::kPermissionDenied,
                fmt::format("{} belongs to user {}, not to this one; it is not used", path, info.st_uid));
  if ((info.st_mode & forbidden & 044) != 0)
    return Fail(
        Errc::kPermissionDenied,
        fmt::format(
            "other users can read {}, and a key or token must be private; do 'chmod 600 {}', and make a new one if "
            "another user may have read it",
            path, path));
  if ((info.st_mode & forbidden) != 0)
    return Fail(Errc::kPermissionDenied,
                fmt::format("{} can be changed by other users; do 'chmod 600 {}'", path, path));
  return Ok();
}

/// Checks the mode of the opened file (fstat), so that replacing the path meanwhile has no effect.
Result<std::string> ReadGuarded(const std::string& path, const OpenFile& open, mode_t forbidden) {
  platform::Fd fd;
  if (open) {
    WEIR_TRY(fd, open());
  } else {
    fd = platform::Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  }
  if (!fd) return platform::ErrnoError("opening " + path, errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return platform::ErrnoError("stat " + path, errno);
  WEIR_TRY_STATUS(CheckWho(path, info, forbidden));
  std::string content;
  char block[16384];
  for (;;) {
    const ssize_t got = ::read(fd.get(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return platform::ErrnoError("reading " + path, errno);
    if (got == 0) return content;
    content.append(block, static_cast<std::size_t>(got));
    if (content.size() > kKeyFileBytesMax)
      return Fail(Errc::kResourceExhausted, fmt::format("{} is longer than {} bytes", path, kKeyFileBytesMax));
  }
}

/// Refuses keys with a password, which a daemon cannot use. Without this callback OpenSSL would ask on the terminal.
int NoPassword(char*, int, int, void*) { return -1; }

struct PemPart {
  char* name = nullptr;
  char* header = nullptr;
  unsigned char* bytes = nullptr;
  long size = 0;

  PemPart() = default;
  PemPart(const PemPart&) = delete;
  PemPart& operator=(const PemPart&) = delete;
  ~PemPart() {
    OPENSSL_free(name);
    OPENSSL_free(header);
    OPENSSL_clear_free(bytes, static_cast<std::size_t>(size));
  }
};

Error Damaged(const std::string& path, std::string_view what) {
  ERR_clear_error();
  return Fail(Errc::kProtocol, fmt::format("{} {}; was it copied as a whole?", path, what));
}

OpenSslPtr<BIO> BioOf(std::string_view text) {
  return OpenSslPtr<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Status TakePart(const PemPart& part, const std::string& path, PemContent& into) {
  const unsigned char* at = part.bytes;
  const std::string_view name = part.name;
  if (name == PEM_STRING_X509) {
    into.certificates.emplace_back(d2i_X509(nullptr, &at, part.size));
    if (!into.certificates.back()) return Damaged(path, "contains a damaged certificate");
  } else if (name == PEM_STRING_PKCS8INF || name == PEM_STRING_ECPRIVATEKEY) {
    into.keys.emplace_back(d2i_AutoPrivateKey(nullptr, &at, part.size));
    if (!into.keys.back()) return Damaged(path, "contains a damaged key");
  } else {
    return Fail(Errc::kProtocol, fmt::format("{} contains data that is neither a certificate nor a plain key", path));
  }
  return Ok();
}

template <typename Write>
Result<std::string> WrittenPem(Write write) {
  const OpenSslPtr<BIO> bio(BIO_new(BIO_s_secmem()));
  if (!bio || write(bio.get()) != 1) return OpenSslError("writing PEM");
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &bytes);
  return std::string(bytes, static_cast<std::size_t>(size));
}

}  // namespace

Result<std::string> ReadSecretFile(const std::string& path, const OpenFile& open) {
  return ReadGuarded(path, open, 077);
}
Result<std::string> ReadPublicFile(const std::string& path, const OpenFile& open) {
  return ReadGuarded(path, open, 022);
}

Result<PemContent> ReadPem(const std::string& text, const std::string& path) {
  PemContent content;
  const OpenSslPtr<BIO> bio = BioOf(text);
  if (!bio) return OpenSslError("reading " + path);
  for (;;) {
    ERR_clear_error();
    PemPart part;
    if (PEM_read_bio(bio.get(), &part.name, &part.header, &part.bytes, &part.size) != 1) {
      if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) return Damaged(path, "is cut or damaged");
      ERR_clear_error();
      return content;
    }
    WEIR_TRY_STATUS(TakePart(part, path, content));
  }
}

Result<std::string> PemOf(X509& certificate) {
  return WrittenPem([&](BIO* bio) { return PEM_write_bio_X509(bio, &certificate); });
}

Result<std::string> PemOf(EVP_PKEY& key) {
  return WrittenPem(
      [&](BIO* bio) { return PEM_write_bio_PKCS8PrivateKey(bio, &key, nullptr, nullptr, 0, NoPassword, nullptr); });
}

Result<CertificatePtr> ReadCertificateFile(const std::string& path) {
  WEIR_TRY(const std::string text, ReadPublicFile(path));
  WEIR_TRY(PemContent content, ReadPem(text, path));
  if (content.certificates.size() != 1 || !content.keys.empty())
    return Damaged(path, "is not one certificate, and nothing else");
  return std::move(content.certificates.front());
}

Result<KeyPtr> ReadKeyFile(const std::string& path) {
  WEIR_TRY(const std::string text, ReadSecretFile(path));
  WEIR_TRY(PemContent content, ReadPem(text, path));
  if (content.keys.size() != 1 || !content.certificates.empty())
    return Damaged(path, "is not one private key, and nothing else");
  return std::move(content.keys.front());
}

}  // namespace weir::net
