// SPDX-License-Identifier: Apache-2.0
#include "daemon/portal_line.h"

#include <unistd.h>

#include <algorithm>
#include <span>

#include "platform/accept_pause.h"
#include "platform/unix_socket.h"

namespace weir::daemon {
namespace {

constexpr std::size_t kPortalsMax = 1024;

}  // namespace

Result<std::unique_ptr<PortalLine>> PortalLine::Listen(boost::asio::io_context& loop, const std::string& path,
                                                       std::function<void(engine::Note)> note,
                                                       std::vector<uid_t> portals) {
  const mode_t mode = portals.empty() ? 0600 : 0666;
  std::unique_ptr<PortalLine> line(new PortalLine(loop, path, std::move(note), std::move(portals)));
  WEIR_TRY(line->listener_, platform::ListenSeqPacket(path, mode));
  line->listener_watch_ =
      std::make_unique<FdWatch>(loop, line->listener_.get(), [line = line.get()] { line->OnConnection(); });
  return line;
}

PortalLine::~PortalLine() {
  if (listener_) ::unlink(path_.c_str());
}

void PortalLine::OnConnection() {
  auto socket = platform::AcceptUnix(listener_.get());
  if (!socket || !*socket) return listener_watch_->Pause(platform::AcceptPause::kPause);
  if (portals_.size() >= kPortalsMax) return;
  const auto peer = platform::PeerOf(socket->get());
  if (!peer || std::ranges::find(users_, peer->uid) == users_.end()) return;
  const std::uint64_t number = next_++;
  Portal& portal = portals_[number];
  portal.socket = std::move(*socket);
  portal.watch = std::make_unique<FdWatch>(loop_, portal.socket.get(), [this, number] { OnPacket(number); });
  if (!Tell(portal)) portals_.erase(number);
}

void PortalLine::OnPacket(std::uint64_t number) {
  const auto found = portals_.find(number);
  if (found == portals_.end()) return;
  const auto packet =
      platform::ReceivePacket(found->second.socket.get(), proto::kDrainListBytesMax, platform::Descriptors::kRefused);
  if (!packet && packet.error().code == Errc::kTimeout) return;
  const auto here =
      packet ? proto::DrainStateFrom({reinterpret_cast<const char*>(packet->bytes.data()), packet->bytes.size()})
             : std::nullopt;
  if (here) return Hear(number, *here);
  portals_.erase(found);  // the portal has disconnected or sent a malformed message
  Hear(number, {});
}

void PortalLine::Hear(std::uint64_t number, const std::vector<proto::DrainState>& here) {
  for (engine::Note& note : book_.Hear(number, here)) note_(std::move(note));
}

bool PortalLine::Tell(const Portal& portal) const {
  const std::string text = book_.Text();
  return platform::SendPacket(portal.socket.get(), std::as_bytes(std::span(text))).has_value();
}

/// A portal that does not read is disconnected. It gets the whole list when it reconnects.
void PortalLine::TellAll() {
  std::vector<std::uint64_t> gone;
  for (const auto& [number, portal] : portals_)
    if (!Tell(portal)) gone.push_back(number);
  for (const std::uint64_t number : gone) {
    portals_.erase(number);
    Hear(number, {});
  }
}

}  // namespace weir::daemon
