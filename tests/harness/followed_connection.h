// SPDX-License-Identifier: Apache-2.0
// A client's messages to a modelled executor, with an object log between the two.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "opencl/log/object_log.h"
#include "tests/harness/model_executor.h"

namespace weir::testing {

class FollowedConnection {
 public:
  explicit FollowedConnection(bool shares_arena = false,
                              std::uint32_t questions_end = opencl::ObjectLog::kReplayRequests)
      : executor(shares_arena),
        log(
            [this](std::uint64_t offset, std::uint64_t size) {
              const auto& arena = executor.arena;
              if (offset > arena.size() || size > arena.size() - offset) return wire::ByteView();
              return wire::ByteView(arena.data() + offset, size);
            },
            questions_end) {
    Answers();
  }

  ModelExecutor executor;
  opencl::ObjectLog log;
  std::vector<std::vector<std::byte>> to_client;
  std::set<std::uint64_t> freed;

  template <typename M>
  void Send(const M& message) {
    SendBytes(wire::Encode(message));
  }
  void SendBytes(const std::vector<std::byte>& message) {
    if (const auto ahead = log.Ahead(message)) executor.Handle(*ahead);
    EXPECT_TRUE(log.FromClient(message));
    executor.Handle(message);
    if (answer_at_once) Answers();
  }
  /// Sends to the executor without the log's knowledge.
  void SendUnseen(const std::vector<std::byte>& message) { executor.Handle(message); }
  void Answers() {
    for (auto& answer : executor.TakeAnswers()) {
      const bool own = log.IsOwn(answer);
      EXPECT_TRUE(log.FromExecutor(answer));
      if (own) continue;
      wire::Freed told;
      wire::Header header;
      wire::ReadHeader(answer, header);
      if (header.op == wire::Freed::kOp && wire::Decode(answer, told)) freed.insert(told.ticket);
      to_client.push_back(std::move(answer));
    }
  }
  /// Handles messages until nothing is in flight.
  void Settle() {
    Answers();
    for (const auto& question : log.Questions()) executor.Handle(question);
    Answers();
  }
  /// The messages of a replay. Long contents are put into the receiver's arena, from `arena_at` on.
  opencl::ObjectLog::Replay MakeReplay(ModelExecutor* to = nullptr) const {
    auto replay = MakeReplay(to, {});
    EXPECT_TRUE(replay);
    return replay ? std::move(*replay) : opencl::ObjectLog::Replay();
  }
  std::optional<opencl::ObjectLog::Replay> MakeReplay(ModelExecutor* to,
                                                      const opencl::ObjectLog::MadeAhead& ahead) const {
    std::uint64_t at = 512 << 10;
    return log.MakeReplay(
        [&](wire::ByteView bytes) -> std::optional<wire::Blob> {
          const std::uint64_t offset = at;
          at += (bytes.size() + 4095) / 4096 * 4096;
          if (at > executor.arena.size()) return std::nullopt;
          if (to != nullptr) std::memcpy(to->arena.data() + offset, bytes.data(), bytes.size());
          return wire::Blob::Arena(offset, bytes.size());
        },
        ahead);
  }
  /// Replays on a fresh executor with its own log, and moves the contents.
  void ReplayInto(FollowedConnection& fresh) const {
    EXPECT_TRUE(ReplayInto(fresh, MakeReplay(&fresh.executor))) << "a build was answered otherwise";
  }
  /// Returns whether all answers are as expected.
  bool ReplayInto(FollowedConnection& fresh, const opencl::ObjectLog::Replay& replay) const {
    for (const auto& message : replay.messages) fresh.SendBytes(message);
    for (const auto& memory : log.memories())
      if (memory.must_move()) MoveContent(executor, fresh.executor, memory.id);
    std::map<std::uint32_t, std::int32_t> answered;
    for (const auto& message : fresh.to_client) {
      wire::Header header;
      wire::Reply reply;
      wire::ReadHeader(message, header);
      if (header.op == wire::Reply::kOp && wire::Decode(message, reply)) answered[reply.request] = reply.status;
    }
    return std::ranges::all_of(replay.answers,
                               [&](const auto& answer) { return answered[answer.request] == answer.status; });
  }
  bool answer_at_once = true;
};

}  // namespace weir::testing
