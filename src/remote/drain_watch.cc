// SPDX-License-Identifier: Apache-2.0
#include "remote/drain_watch.h"

#include <span>
#include <string_view>

#include "platform/unix_socket.h"

namespace weir::remote {
namespace {

constexpr Duration kConnectEvery = seconds(1);

}  // namespace

bool DrainWatch::Look(Instant now) {
  if (!socket_) {
    if (path_.empty() || now < again_at_) return false;
    again_at_ = now + kConnectEvery;
    auto connected = platform::ConnectSeqPacket(path_);
    if (!connected) return false;
    socket_ = std::move(*connected);
    said_.clear();
  }
  bool changed = false;
  for (;;) {
    const auto packet =
        platform::ReceivePacket(socket_.get(), proto::kDrainListBytesMax, platform::Descriptors::kRefused);
    if (!packet && packet.error().code == Errc::kTimeout) return changed;
    const auto asks =
        packet ? proto::DrainListFrom({reinterpret_cast<const char*>(packet->bytes.data()), packet->bytes.size()})
               : std::nullopt;
    if (!asks) {  // the daemon has closed the connection
      socket_.Reset();
      return changed;
    }
    std::map<std::string, std::string> why;
    for (const proto::DrainRequest& ask : *asks) why.insert_or_assign(ask.vgpu, ask.why);
    const std::lock_guard lock(mutex_);
    changed |= why != why_;
    why_ = std::move(why);
  }
}

std::string DrainWatch::Why(const std::string& vgpu) const {
  const std::lock_guard lock(mutex_);
  const auto found = why_.find(vgpu);
  return found == why_.end() ? std::string() : found->second;
}

std::vector<std::string> DrainWatch::Requested() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> all;
  for (const auto& [vgpu, why] : why_) all.push_back(vgpu);
  return all;
}

void DrainWatch::Say(const std::vector<proto::DrainState>& here) {
  if (!socket_) return;
  std::string text = proto::DrainStateText(here);
  if (text == said_) return;
  // If the daemon does not read its messages, the next call tries again.
  if (platform::SendPacket(socket_.get(), std::as_bytes(std::span(text)))) said_ = std::move(text);
}

}  // namespace weir::remote
