// SPDX-License-Identifier: Apache-2.0
#include "net/socket_bio.h"

#include <sys/socket.h>

#include "net/without_sigpipe.h"

namespace weir::net {
namespace {

/// With kernel TLS, OpenSSL sets this flag for records that are not application data (alerts, key updates). Defined in
/// OpenSSL's private headers.
constexpr int kKernelTlsControl = 0x1000;

int WriteQuietly(BIO* bio, const char* bytes, int size) {
  if (BIO_test_flags(bio, kKernelTlsControl) != 0) {
    const WithoutSigpipe quiet;
    return BIO_meth_get_write(BIO_s_socket())(bio, bytes, size);
  }
  int fd = -1;
  BIO_get_fd(bio, &fd);
  const ssize_t sent = ::send(fd, bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  BIO_clear_retry_flags(bio);
  if (sent <= 0 && BIO_sock_should_retry(static_cast<int>(sent)) != 0) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

BIO_METHOD* MakeMethod() {
  const BIO_METHOD* plain = BIO_s_socket();
  BIO_METHOD* method = BIO_meth_new(BIO_TYPE_SOCKET, "a socket without SIGPIPE");
  const bool made = method != nullptr && BIO_meth_set_write(method, WriteQuietly) == 1 &&
                    BIO_meth_set_read(method, BIO_meth_get_read(plain)) == 1 &&
                    BIO_meth_set_puts(method, BIO_meth_get_puts(plain)) == 1 &&
                    BIO_meth_set_ctrl(method, BIO_meth_get_ctrl(plain)) == 1 &&
                    BIO_meth_set_create(method, BIO_meth_get_create(plain)) == 1 &&
                    BIO_meth_set_destroy(method, BIO_meth_get_destroy(plain)) == 1;
  return made ? method : nullptr;
}

}  // namespace

Result<OpenSslPtr<BIO>> MakeSocketBio(int fd) {
  static BIO_METHOD* const method = MakeMethod();  // never freed
  OpenSslPtr<BIO> bio(method == nullptr ? nullptr : BIO_new(method));
  if (!bio) return OpenSslError("making a socket for TLS");
  BIO_set_fd(bio.get(), fd, BIO_NOCLOSE);
  return bio;
}

}  // namespace weir::net
