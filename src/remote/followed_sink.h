// SPDX-License-Identifier: Apache-2.0
// Receives the messages of a followed connection's executor. They go to the client, except for answers to requests of a
// migration (docs/migration.md).
//
//   arena of the node   | the client's .......................... | spare: slot 0 | slot 1 | ... |
//                                                                   the relay has a copy of it during a migration
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "opencl/channel/limits.h"
#include "remote/pump.h"
#include "remote/zeroed_bytes.h"

namespace weir::remote {

/// Migrations read contents through the spare end of the arena, which is hidden from the client, one slot at a time.
inline constexpr std::uint64_t kSpareSlotBytes = 1 << 20;
inline constexpr unsigned kSpareSlots = opencl::kSpareBytes / kSpareSlotBytes;

class FollowedSink final : public LineSink {
 public:
  /// `ahead_ns`: the node's clock minus this machine's.
  FollowedSink(Line& line, Followed& followed, std::int64_t ahead_ns)
      : LineSink(line), followed_(followed), spare_at_(line.arena.bytes()), ahead_ns_(ahead_ns) {}
  Status Take(std::span<std::byte> message) override;
  Result<std::span<std::byte>> Room(std::uint64_t offset, std::size_t bytes) override;
  Status MoveWanted(const std::string& why) override;
  /// Records that the connection has ended, and ends the waits for answers.
  void Ended();

  // -- For a migration

  /// The first number of a migration's requests. Neither clients nor the log use the numbers from here to kQuestions.
  static constexpr std::uint32_t kRequests = 0xFFD00000;
  /// Allocates the copy of the spare slots, which then lives as long as this object.
  void OpenSpare();
  /// Returns a new request number. The answer to it does not go to the client.
  std::uint32_t NewRequest();
  /// The status of the answer. Nullopt: it did not come within `timeout`, or the connection has ended.
  std::optional<std::int32_t> AnswerTo(std::uint32_t request, Duration timeout);
  /// Waits for all answers. False: a request is still unanswered, and its content may still arrive in a slot.
  bool AwaitAnswers(Duration timeout);
  /// Marks a slot as empty before content is requested for it.
  void Expect(unsigned slot);
  /// The content that has arrived in the slot since Expect, as far as it is contiguous from the slot's beginning.
  std::span<const std::byte> ArrivedIn(unsigned slot);
  /// While `nobodys` is true, notices are dropped, because they concern the migration's own requests.
  void Notices(bool nobodys);

 private:
  bool TakeOwn(const proto::cl::Header& header, std::span<const std::byte> message);

  Followed& followed_;
  const std::uint64_t spare_at_;
  std::int64_t ahead_ns_;
  // Guarded by followed_.mutex.
  std::set<std::uint32_t> asked_;
  std::map<std::uint32_t, std::int32_t> answers_;
  std::uint32_t next_request_ = kRequests;
  ZeroedBytes spare_;  // never reallocated, because the reader may be writing to it
  std::uint64_t arrived_[kSpareSlots] = {};
  bool notices_are_nobodys_ = false, ended_ = false;
};

}  // namespace weir::remote
