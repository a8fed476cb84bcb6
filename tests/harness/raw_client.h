// SPDX-License-Identifier: Apache-2.0
// A tenant without an agent: can send anything to the attach socket and write anything to its regions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "platform/shared_memory.h"
#include "platform/unix_socket.h"
#include "proto/attach_messages.h"
#include "proto/gate_layout.h"
#include "tests/harness/wait_until.h"

namespace weir::testing {

/// A frame whose values are all possible, and that ended just before `now_ns`.
inline proto::Record GoodRecord(std::uint64_t sequence, std::int64_t now_ns) {
  return {.sequence = sequence,
          .kind = static_cast<std::uint32_t>(proto::RecordKind::kFrame),
          .surface = 0,
          .begin_ns = now_ns - 3000,
          .present_ns = now_ns - 2000,
          .submit_ns = now_ns - 1500,
          .end_ns = now_ns - 1000,
          .gpu_ns = 500,
          .sync_ns = 100,
          .pace_ns = 100,
          .wait_ns = 100,
          .predicted_ns = 400,
          .interval_ns = 3000,
          .reserved_ns = 0,
          .tasks = 0,
          .reserved0 = {},
          .start_delay_ns = 0,
          .reserved = {}};
}

class RawClient {
 public:
  explicit RawClient(const std::string& path) {
    auto connected = platform::ConnectSeqPacket(path);
    WEIR_CHECK(connected.has_value());
    socket_ = std::move(*connected);
  }

  static proto::Hello GoodHello() {
    return {proto::kGateVersionMajor, proto::kGateVersionMinor, proto::Api::kGl, "raw"};
  }

  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] bool Send(const std::vector<std::byte>& packet, std::span<const int> fds = {}) const {
    return platform::SendPacket(socket_.get(), packet, fds).has_value();
  }
  [[nodiscard]] bool Send(const proto::AttachMessage& message) const { return Send(proto::Encode(message)); }

  /// The next message; an error if the connection was closed instead.
  Result<proto::AttachMessage> Receive() {
    if (!platform::WaitReadable(socket_.get(), static_cast<int>(std::chrono::milliseconds(kPatience).count())))
      return Fail(Errc::kTimeout, "nothing came");
    WEIR_TRY(platform::Packet packet, platform::ReceivePacket(socket_.get(), proto::kAttachMessageBytesMax));
    if (packet.bytes.empty()) return Fail(Errc::kUnavailable, "closed");
    fds_ = std::move(packet.fds);
    return proto::Decode(packet.bytes);
  }

  /// Sends Hello and maps the regions in the reply. False: refused, or no daemon.
  bool Attach(proto::Api api = proto::Api::kGl) {
    proto::Hello hello = GoodHello();
    hello.api = api;
    if (!Send(proto::AttachMessage{hello})) return false;
    const auto message = Receive();
    if (!message || !std::holds_alternative<proto::Welcome>(*message) || fds_.size() != proto::kWelcomeFds)
      return false;
    auto vgpu = platform::MapForeignRegion(fds_[proto::kVgpuRegionFd].get(), proto::kVgpuRegionBytes);
    auto process = platform::MapForeignRegion(fds_[proto::kProcessRegionFd].get(), proto::kProcessRegionBytes);
    if (!vgpu || !process) return false;
    vgpu_ = std::move(*vgpu);
    process_ = std::move(*process);
    process_id_ = std::get<proto::Welcome>(*message).process_id;
    return true;
  }

  /// The descriptors of the last message.
  [[nodiscard]] int fd(std::size_t which) const { return fds_.at(which).get(); }
  void CloseDescriptors() { fds_.clear(); }
  [[nodiscard]] proto::VgpuRegion& vgpu() const { return *vgpu_.As<proto::VgpuRegion>(); }
  [[nodiscard]] proto::ProcessRegion& process() const { return *process_.As<proto::ProcessRegion>(); }
  [[nodiscard]] std::uint64_t process_id() const { return process_id_; }

  /// Appends a record to the ring without any check.
  void Push(const proto::Record& record) const {
    const std::uint64_t head = process().head.load(std::memory_order_relaxed);
    process().records[head % proto::kRingRecords] = record;
    process().head.store(head + 1, std::memory_order_release);
  }

 private:
  platform::Fd socket_;
  std::vector<platform::Fd> fds_;
  platform::Mapping vgpu_;
  platform::Mapping process_;
  std::uint64_t process_id_ = 0;
};

}  // namespace weir::testing
