// SPDX-License-Identifier: Apache-2.0
#include "gate/memory_claim.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace weir::gate {
namespace {

constexpr std::uint64_t kHalf = std::numeric_limits<std::uint32_t>::max();

constexpr std::uint64_t WordOf(std::uint32_t held, std::uint32_t claimed) {
  return std::uint64_t{held} << 32 | claimed;
}
constexpr std::uint64_t HeldIn(std::uint64_t word) { return word >> 32; }
constexpr std::uint64_t ClaimedIn(std::uint64_t word) { return word & kHalf; }

// Each word adds less than 2^33, and there are fewer than 2^30 of them.
static_assert(proto::kMemoryWords < 1U << 30);

}  // namespace

std::uint32_t MemoryPagesOf(std::uint64_t bytes) {
  const std::uint64_t pages = bytes / proto::kMemoryPageBytes + (bytes % proto::kMemoryPageBytes != 0 ? 1 : 0);
  return static_cast<std::uint32_t>(std::min(pages, kHalf));
}

std::uint64_t PagesInWords(const proto::MemoryTable& table) {
  std::uint64_t sum = 0;
  for (const proto::AtomicU64& one : table.words) {
    const std::uint64_t word = one.load(std::memory_order_relaxed);
    sum += HeldIn(word) + ClaimedIn(word);
  }
  return sum;
}

std::uint64_t HeldPages(const proto::MemoryTable& table) {
  return table.others_pages.load(std::memory_order_relaxed) + PagesInWords(table);
}

// Sequentially consistent, like the reads in Decide: of two processes that announce, one at least reads the other's
// claim.
bool MemoryClaim::Announce() {
  others_ = earlier_ = later_ = print_ = 0;
  if (gives_way_) {
    for (std::size_t word = 0; word < proto::kMemoryWords; ++word) LookAt(word);
    if (earlier_ > 0 && HeldByOthers() + earlier_ + held_ + more_ > limit_) return false;
    gives_way_ = false;
    others_ = earlier_ = later_ = print_ = 0;
  }
  table_.words[word_].store(WordOf(held_, more_), std::memory_order_seq_cst);
  return true;
}

void MemoryClaim::Withdraw() const { table_.words[word_].store(WordOf(held_, 0), std::memory_order_seq_cst); }

void MemoryClaim::GiveUp() const {
  std::uint64_t own = WordOf(held_, 0);
  table_.words[word_].compare_exchange_strong(own, 0, std::memory_order_seq_cst);
}

void MemoryClaim::LookAt(std::size_t word) {
  if (word == word_) return;
  const std::uint64_t seen = table_.words[word].load(std::memory_order_seq_cst);
  others_ += HeldIn(seen);
  print_ = (print_ ^ HeldIn(seen)) * 0x100000001B3;  // FNV-1a
  (word < word_ ? earlier_ : later_) += ClaimedIn(seen);
}

std::uint64_t MemoryClaim::HeldByOthers() const {
  return others_ + table_.others_pages.load(std::memory_order_seq_cst);
}

MemoryClaim::Answer MemoryClaim::Conclude(std::uint64_t limit_pages) {
  limit_ = limit_pages;
  const std::uint64_t own = std::uint64_t{held_} + more_;
  const std::uint64_t held = HeldByOthers();
  if (own <= kHalf && held + earlier_ + later_ + own <= limit_pages) {
    table_.words[word_].store(WordOf(static_cast<std::uint32_t>(own), 0), std::memory_order_seq_cst);
    return Answer::kTaken;
  }
  const bool room = own <= kHalf && held + own <= limit_pages;
  if (!room && own <= std::min(kHalf, limit_pages) && std::exchange(no_room_print_, print_) != print_)
    return Answer::kAgain;  // stays announced
  gives_way_ = room && held + earlier_ + own > limit_pages;
  if (!room || gives_way_) Withdraw();
  return room ? Answer::kAgain : Answer::kRefused;
}

MemoryClaim::Answer MemoryClaim::Decide(std::uint64_t limit_pages) {
  for (std::size_t word = 0; word < proto::kMemoryWords; ++word) LookAt(word);
  return Conclude(limit_pages);
}

}  // namespace weir::gate
