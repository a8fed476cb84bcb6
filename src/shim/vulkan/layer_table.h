// SPDX-License-Identifier: Apache-2.0
// A table from Vulkan handles to the layer's records, which calls search without a lock. The table grows in pieces that
// are never freed. It has no limit of its own, and its memory is bounded by the number of objects that existed at once.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <new>

namespace weir::shim {

template <typename Value>
class HandleTable {
 public:
  constexpr HandleTable() = default;

  /// Null: unknown. The program does not use a handle while it destroys it.
  [[nodiscard]] Value* Find(std::uint64_t key) const noexcept {
    if (key <= kReserved) return nullptr;
    for (const Piece* piece = &first_; piece != nullptr; piece = piece->next.load(std::memory_order_acquire))
      for (const Entry& entry : piece->entries)
        if (entry.key.load(std::memory_order_acquire) == key) return entry.value.load(std::memory_order_relaxed);
    return nullptr;
  }
  /// False: out of memory.
  bool Add(std::uint64_t key, Value* value) noexcept {
    for (Piece* piece = &first_; piece != nullptr; piece = Next(*piece))
      for (Entry& entry : piece->entries) {
        std::uint64_t unused = kUnused;
        if (!entry.key.compare_exchange_strong(unused, kReserved, std::memory_order_acq_rel)) continue;
        entry.value.store(value, std::memory_order_relaxed);
        entry.key.store(key, std::memory_order_release);
        return true;
      }
    return false;
  }
  /// Removes the entry and returns its value; null: unknown.
  Value* Take(std::uint64_t key) noexcept {
    if (key <= kReserved) return nullptr;
    for (Piece* piece = &first_; piece != nullptr; piece = piece->next.load(std::memory_order_acquire))
      for (Entry& entry : piece->entries) {
        std::uint64_t expected = key;
        Value* value = entry.value.load(std::memory_order_relaxed);
        if (entry.key.compare_exchange_strong(expected, kUnused, std::memory_order_acq_rel)) return value;
      }
    return nullptr;
  }

 private:
  static constexpr std::uint64_t kUnused = 0, kReserved = 1;  // neither is a handle
  struct Entry {
    std::atomic<std::uint64_t> key{kUnused};
    std::atomic<Value*> value{nullptr};
  };
  struct Piece {
    std::array<Entry, 32> entries{};
    std::atomic<Piece*> next{nullptr};
  };

  static Piece* Next(Piece& piece) noexcept {
    Piece* next = piece.next.load(std::memory_order_acquire);
    if (next != nullptr) return next;
    Piece* made = new (std::nothrow) Piece;
    if (made == nullptr) return nullptr;
    if (piece.next.compare_exchange_strong(next, made, std::memory_order_acq_rel)) return made;
    delete made;
    return next;
  }

  Piece first_;
};

}  // namespace weir::shim
