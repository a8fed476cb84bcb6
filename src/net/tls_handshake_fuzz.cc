// SPDX-License-Identifier: Apache-2.0
// Fuzzes what a peer without keys may send to a node that waits for a tenant's handshake, or to a tenant in place of
// the node, and the content of a token file. The first byte selects the case. No input may be accepted.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <span>
#include <string>

#include "net/key_files.h"
#include "net/keys.h"
#include "net/tls.h"
#include "platform/files.h"
#include "tests/harness/temp_folder.h"

namespace {

using namespace weir;

template <typename T>
T Must(Result<T> result) {
  if (!result) __builtin_trap();
  return std::move(*result);
}

struct Identities {
  weir::testing::TempFolder folder;
  net::TlsIdentity node = Node(folder / "keys");
  net::TlsIdentity tenant = Tenant(folder / "keys", folder / "token");

 private:
  static net::TlsIdentity Node(const std::string& keys) {
    if (!net::MakeNodeKeys(keys, "fuzz")) __builtin_trap();
    return Must(net::TlsIdentity::OfNode(keys));
  }
  static net::TlsIdentity Tenant(const std::string& keys, const std::string& file) {
    if (!platform::WriteFileAtomically(file, Must(net::MakeToken(keys, "fuzz", net::kDay)).text)) __builtin_trap();
    return Must(net::TlsIdentity::OfToken(file));
  }
};

void Hear(net::Role own, std::span<const std::uint8_t> said) {
  static const Identities identities;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) __builtin_trap();
  platform::Fd here(ends[0]);
  const platform::Fd there(ends[1]);
  // The whole input fits into the socket's buffer. The end of the stream follows, so that the handshake does not wait.
  if (::write(there.get(), said.data(), said.size()) != static_cast<ssize_t>(said.size())) __builtin_trap();
  ::shutdown(there.get(), SHUT_WR);
  const net::TlsIdentity& identity = own == net::Role::kServer ? identities.node : identities.tenant;
  if (net::StartTls(std::move(here), identity, own, seconds(10))) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 64 * 1024) return 0;
  const std::span said(data + 1, size - 1);
  switch (data[0] % 3) {
    case 0: Hear(net::Role::kServer, said); break;
    case 1: Hear(net::Role::kClient, said); break;
    default: static_cast<void>(net::ReadPem(std::string(said.begin(), said.end()), "it").has_value());
  }
  return 0;
}
