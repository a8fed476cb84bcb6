// SPDX-License-Identifier: Apache-2.0
// Moving a connection's objects and their contents from one node to another (docs/migration.md). The client's messages
// have stopped; the old node goes on with them if this fails.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "remote/handshake.h"
#include "remote/pump.h"

namespace weir::remote {

/// What the old executor says while a connection is followed: to the client, but for what was asked on its behalf.
class FollowedSink final : public LineSink {
 public:
  FollowedSink(Line& line, Followed& followed, std::int64_t ahead_ns)
      : LineSink(line), followed_(followed), ahead_ns_(ahead_ns) {}
  Status Take(std::span<std::byte> message) override;
  Result<std::span<std::byte>> Room(std::uint64_t offset, std::size_t bytes) override;

  // -- For a move. From here on the executor's contents go to `into`, which are at `offset` of the arena.
  void Divert(std::uint64_t offset, std::span<std::byte> into);
  void DivertNothing() { Divert(0, {}); }
  /// Numbers of the move's own requests: no client and no log has them.
  static constexpr std::uint32_t kRequests = 0xFFD00000;
  /// The status of one of those; nothing: it did not come within `timeout`, or the connection has ended.
  std::optional<std::int32_t> AnswerTo(std::uint32_t request, Duration timeout);
  void Ended();

 private:
  bool TakeOwn(const proto::cl::Header& header, std::span<const std::byte> message);

  Followed& followed_;
  std::int64_t ahead_ns_;
  // Under followed_.mutex.
  std::map<std::uint32_t, std::int32_t> answers_;
  bool diverted_ = false, ended_ = false;
  std::uint64_t into_offset_ = 0;
  std::span<std::byte> into_;
};

struct Moved {
  std::size_t objects = 0;                   // messages that made them anew
  std::size_t memories = 0;                  // whose contents were moved
  std::uint64_t bytes = 0;                   // of contents
  std::vector<std::vector<std::byte>> late;  // what the new executor has said meanwhile and is the client's
};
/// From the executor behind `old_stream`, read by another thread into `sink`, to the one behind `fresh`, which nobody
/// reads yet. `arena_bytes`: of the client's. kUnavailable, kTimeout, kVersionMismatch (another device),
/// kInvalidArgument (what can't be moved yet, in words).
Result<Moved> MoveObjects(Followed& followed, FollowedSink& sink, net::Stream& old_stream, net::Stream& fresh,
                          InPump& fresh_in, const Entry& entry, std::uint64_t arena_bytes,
                          const std::atomic<bool>& stop);

}  // namespace weir::remote
