// SPDX-License-Identifier: Apache-2.0
// What the executor of a followed connection says: it goes to the client, but for what was asked on a move's behalf
// (docs/migration.md).
//
//   arena of the node   | the client's .......................... | spare: slot 0 | slot 1 | ... |
//                                                                   a copy of it is kept here while programs move
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "opencl/channel/limits.h"
#include "remote/pump.h"

namespace weir::remote {

/// The arena's end, which no client is shown, is read into a slot at a time.
inline constexpr std::uint64_t kSlotBytes = 1 << 20;
inline constexpr unsigned kSlots = opencl::kSpareBytes / kSlotBytes;

class FollowedSink final : public LineSink {
 public:
  /// `ahead_ns`: the node's clock less ours.
  FollowedSink(Line& line, Followed& followed, std::int64_t ahead_ns)
      : LineSink(line), followed_(followed), spare_at_(line.arena.bytes()), ahead_ns_(ahead_ns) {}
  Status Take(std::span<std::byte> message) override;
  Result<std::span<std::byte>> Room(std::uint64_t offset, std::size_t bytes) override;
  Status MoveWanted(const std::string& why) override;
  /// The connection has.
  void Ended();

  // -- For a move

  /// Numbers of its own requests begin here: no client and no log has them.
  static constexpr std::uint32_t kRequests = 0xFFD00000;
  /// From now on the slots are kept. They stay as long as this.
  void OpenSpare();
  /// A request's number, whose answer is not the client's.
  std::uint32_t NewRequest();
  /// Its status; nothing: it did not come within `timeout`, or the connection has ended.
  std::optional<std::int32_t> AnswerTo(std::uint32_t request, Duration timeout);
  /// False: something that was asked is not answered, and may still come into a slot.
  bool AwaitAnswers(Duration timeout);
  /// Nothing has come into this slot yet.
  void Expect(unsigned slot);
  /// What has come into it since, as far as it came from its beginning on.
  std::span<const std::byte> ArrivedIn(unsigned slot);
  /// While `nobodys`, notices are for nobody: what they tell of is not the client's.
  void Notices(bool nobodys);

 private:
  bool TakeOwn(const proto::cl::Header& header, std::span<const std::byte> message);

  Followed& followed_;
  const std::uint64_t spare_at_;
  std::int64_t ahead_ns_;
  // Under followed_.mutex.
  std::set<std::uint32_t> asked_;
  std::map<std::uint32_t, std::int32_t> answers_;
  std::uint32_t next_request_ = kRequests;
  std::vector<std::byte> spare_;  // never reallocated: the reader may be at work in it
  std::uint64_t arrived_[kSlots] = {};
  bool notices_are_nobodys_ = false, ended_ = false;
};

}  // namespace weir::remote
