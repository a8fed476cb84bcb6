// SPDX-License-Identifier: Apache-2.0
// How the processes of a vGPU keep within one memory limit without a lock. Each process has a word in shared memory,
// which it alone writes. It announces a claim there, reads all words, and then takes the memory or withdraws.
//
//   Announce ─▶ Decide ─┬ all that is held and claimed is within the limit ─▶ kTaken: the claim is held now
//      ▲                ├ what is held leaves no room, twice the same ──────▶ kRefused: withdrawn
//      │                ├ what is held leaves no room ──────────────────────▶ kAgain: stays announced ─────┐
//      │                ├ only claims in later words leave no room ─────────▶ kAgain: stays announced ─────┤
//      │                └ claims in earlier words leave no room ────────────▶ kAgain: withdrawn until they │
//      └──────────────────────────────────────────────────────────────────── leave room ──────────────────┘
//
// One pass over the words is no picture of one moment: memory that moves from a word behind the reader to one before it
// is counted twice. So a claim is refused when two passes have read the same.
//
// Never more than the limit is held: of two claims, the one that was announced later reads the other one. Of claims
// that do not fit together, the one in the earliest word stays announced and wins. A limit that is lowered holds for
// claims that begin afterwards. A process that ends leaves one word, which the daemon clears.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "proto/gate_layout.h"

namespace weir::gate {

/// Pages that hold `bytes`. At most what a half of a word can hold.
std::uint32_t MemoryPagesOf(std::uint64_t bytes);

/// What the words say, in pages: what all processes hold, and claim. The sum can't overflow.
std::uint64_t PagesInWords(const proto::MemoryTable& table);

/// What all processes and the executors hold, in pages. A claim counts as held. The sum of all words can't overflow.
std::uint64_t HeldPages(const proto::MemoryTable& table);

class MemoryClaim {
 public:
  enum class Answer { kTaken, kRefused, kAgain };

  /// `word`: index of the process's word. `held`: pages that the process holds. `more`: pages that it claims.
  MemoryClaim(proto::MemoryTable& table, std::size_t word, std::uint32_t held, std::uint32_t more)
      : table_(table), word_(word), held_(held), more_(more) {}

  /// False: earlier claims still leave no room, as at the last Decide. The caller tries again.
  [[nodiscard]] bool Announce();
  /// Must follow Announce. After kAgain, the caller announces and decides again.
  [[nodiscard]] Answer Decide(std::uint64_t limit_pages);
  /// The parts of Decide: reads one word of the table, each once and after Announce; then the rest.
  void LookAt(std::size_t word);
  [[nodiscard]] Answer Conclude(std::uint64_t limit_pages);
  /// Ends the claim without memory.
  void Withdraw() const;
  /// Clears the word if it says what the process holds, and no more.
  void GiveUp() const;

 private:
  [[nodiscard]] std::uint64_t HeldByOthers() const;

  proto::MemoryTable& table_;
  const std::size_t word_;
  const std::uint32_t held_, more_;
  bool gives_way_ = false;                              // the claim was withdrawn for an earlier one
  std::uint64_t limit_ = 0;                             // at the last Conclude, in pages
  std::uint64_t print_ = 0;                             // fingerprint of what others hold, of this pass
  std::optional<std::uint64_t> no_room_print_;          // of the last pass that found no room
  std::uint64_t others_ = 0, earlier_ = 0, later_ = 0;  // held by others; claimed in earlier and in later words
};

}  // namespace weir::gate
