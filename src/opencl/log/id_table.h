// SPDX-License-Identifier: Apache-2.0
// The objects of a client by id, in pages of slots. Memory use follows the ids in use, and a lookup takes two steps.
// One empty page is kept, so that creating and releasing one id repeatedly does not allocate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace weir::opencl::logged {

/// `S` reports by there() whether it is in use; a default-constructed S is not.
template <typename S>
class IdTable {
 public:
  [[nodiscard]] S* Find(std::uint32_t id) const {
    const std::size_t page = id / kSlots;
    if (page >= pages_.size() || !pages_[page]) return nullptr;
    S& slot = pages_[page]->slots[id % kSlots];
    return slot.there() ? &slot : nullptr;
  }
  /// Replaces the entry of the id. `slot` is in use.
  S& Put(std::uint32_t id, S slot) {
    const std::size_t page = id / kSlots;
    if (page >= pages_.size()) pages_.resize(page + 1);
    if (!pages_[page]) pages_[page] = spare_ ? std::move(spare_) : std::make_unique<Page>();
    S& place = pages_[page]->slots[id % kSlots];
    if (!place.there()) ++pages_[page]->used, ++used_;
    place = std::move(slot);
    return place;
  }
  /// `slot` is the result of Find for this id.
  void Clear(std::uint32_t id, S& slot) {
    std::unique_ptr<Page>& page = pages_[id / kSlots];
    slot = S{};
    --used_;
    if (--page->used > 0) return;
    spare_ = std::move(page);
    while (!pages_.empty() && !pages_.back()) pages_.pop_back();
  }
  /// Visits the entries in the order of ids.
  template <typename Each>
  void ForEach(Each each) const {
    for (std::size_t page = 0; page < pages_.size(); ++page) {
      if (!pages_[page]) continue;
      for (std::size_t i = 0; i < kSlots; ++i)
        if (S& slot = pages_[page]->slots[i]; slot.there()) each(static_cast<std::uint32_t>(page * kSlots + i), slot);
    }
  }
  [[nodiscard]] std::size_t used() const { return used_; }
  /// Greater than all ids in use.
  [[nodiscard]] std::uint32_t end() const { return static_cast<std::uint32_t>(pages_.size() * kSlots); }

 private:
  static constexpr std::size_t kSlots = 128;
  struct Page {
    std::array<S, kSlots> slots;
    std::size_t used = 0;
  };
  std::vector<std::unique_ptr<Page>> pages_;
  std::unique_ptr<Page> spare_;
  std::size_t used_ = 0;
};

}  // namespace weir::opencl::logged
