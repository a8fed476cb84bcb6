// SPDX-License-Identifier: Apache-2.0
#include "emulator/account_reader.h"

#include "platform/unix_socket.h"

namespace weir::emulator {
namespace {

namespace wire = proto::emulator;
constexpr int kAnswerWithinMs = 2'000;
/// Bound of the pages of one account, in case an emulator always announces another page.
constexpr int kPagesMax = 64;

Duration FromNs(std::uint64_t ns) { return Duration{static_cast<std::int64_t>(ns & ~(1ULL << 63))}; }

/// An emulator numbers its clients from 1 each time it starts. The client's pid distinguishes clients that got the same
/// number from different starts.
std::uint64_t KeyOf(const wire::ClientUse& client) {
  return std::uint64_t{static_cast<std::uint32_t>(client.pid)} << 32 | client.client;
}

}  // namespace

Result<wire::Message> AccountReader::Ask(const wire::Message& message) const {
  WEIR_TRY_STATUS(platform::SendPacket(connection_.get(), wire::Encode(message)));
  if (!platform::WaitReadable(connection_.get(), kAnswerWithinMs))
    return Fail(Errc::kTimeout, "the emulator does not answer");
  WEIR_TRY(const platform::Packet packet,
           platform::ReceivePacket(connection_.get(), wire::kMessageBytesMax, platform::Descriptors::kRefused));
  if (packet.bytes.empty()) return Fail(Errc::kUnavailable, "the emulator has gone");
  WEIR_TRY(wire::Message answer, wire::Decode(packet.bytes));
  if (const auto* refusal = std::get_if<wire::Refusal>(&answer))
    return Fail(Errc::kUnavailable, "the emulator refuses: " + refusal->text);
  return answer;
}

Result<AccountReader> AccountReader::Connect(const std::string& socket, const std::string& program) {
  WEIR_TRY(platform::Fd connection, platform::ConnectSeqPacket(socket));
  AccountReader account(std::move(connection));
  WEIR_TRY(const wire::Message answer, account.Ask(wire::Hello{.program = program}));
  WEIR_TRY(WelcomeContents welcome, ReadWelcome(answer));
  account.devices_ = std::move(welcome.devices);
  return account;
}

Result<DeviceUse> AccountReader::Read(std::uint32_t device) {
  DeviceUse use;
  std::uint32_t after = 0;
  for (int page = 0; page < kPagesMax; ++page) {
    WEIR_TRY(const wire::Message answer, Ask(wire::AskUse{.device = device, .after = after}));
    const auto* read = std::get_if<wire::Use>(&answer);
    if (read == nullptr) return Fail(Errc::kProtocol, "the emulator sent no account");
    use.busy = FromNs(read->compute_ns) + FromNs(read->copy_in_ns) + FromNs(read->copy_out_ns);
    use.memory_used = Bytes{read->memory_used};
    for (const wire::ClientUse& one : read->clients) {
      use.clients.push_back({.key = KeyOf(one),
                             .pid = one.pid,
                             .compute = FromNs(one.compute_ns),
                             .copy_in = FromNs(one.copy_in_ns),
                             .copy_out = FromNs(one.copy_out_ns)});
      after = one.client;
    }
    if (read->more == 0) return use;
  }
  return Fail(Errc::kProtocol, "the emulator's account does not end");
}

}  // namespace weir::emulator
