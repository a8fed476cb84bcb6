// SPDX-License-Identifier: Apache-2.0
// The parts of the arena that a client's message refers to. If the two sides don't share an arena, these bytes are sent
// before the message (docs/network.md).
#pragma once

#include <type_traits>
#include <vector>

#include "proto/opencl_message_list.h"

namespace weir::proto::cl {

namespace arena_detail {

/// Visits a message's fields and calls `each(offset, size)` for those that refer to the arena.
template <typename Each>
class BlobFinder {
 public:
  explicit BlobFinder(Each& each) : each_(each) {}
  template <typename... T>
  void operator()(const T&... fields) {
    (Look(fields), ...);
  }

 private:
  template <typename T>
  void Look(const T& field) {
    if constexpr (std::is_same_v<T, Blob>) {
      if (field.kind == Blob::kArena && field.size > 0) each_(field.offset, field.size);
    } else if constexpr (requires(const T& record, BlobFinder& finder) { T::Fields(record, finder); }) {
      T::Fields(field, *this);
    }
  }
  template <typename T>
  void Look(const std::vector<T>& list) {
    for (const T& member : list) Look(member);
  }

  Each& each_;
};

/// Visits a message's fields, and says whether one may be a blob. Only their types matter, so that the compiler knows
/// the answer.
class BlobSearch {
 public:
  template <typename... T>
  void operator()(const T&... fields) {
    (Look(fields), ...);
  }
  [[nodiscard]] bool found() const { return found_; }

 private:
  template <typename T>
  void Look(const T& field) {
    if constexpr (std::is_same_v<T, Blob>) {
      found_ = true;
    } else if constexpr (requires(const T& record, BlobSearch& search) { T::Fields(record, search); }) {
      T::Fields(field, *this);
    }
  }
  template <typename T>
  void Look(const std::vector<T>& /*empty*/) {
    Look(T{});
  }

  bool found_ = false;
};

template <typename M>
bool MayHaveBlobs() {
  const M message{};
  BlobSearch search;
  M::Fields(message, search);
  return search.found();
}

template <typename M, typename Each>
bool FindRanges(ByteView bytes, Each& each) {
  constexpr bool kHasHostRange = std::is_same_v<M, CreateBuffer>;
  if (!kHasHostRange && !MayHaveBlobs<M>()) return true;
  M message;
  if (!Decode(bytes, message)) return false;
  BlobFinder<Each> finder(each);
  M::Fields(message, finder);
  if constexpr (kHasHostRange) {
    if (message.filled != 0 && message.size > 0) each(message.offset, message.size);
  }
  return true;
}

}  // namespace arena_detail

/// Calls `each(offset, size)` for every part of the arena that is read when a client's message is executed. The caller
/// checks that it lies within the arena. Returns false for a malformed message that may have such a part.
template <typename Each>
bool ForEachArenaRange(ByteView message, Each each) {
  Header header;
  if (!ReadHeader(message, header)) return false;
  bool good = true;
  FindMessage<FromClient>(header.op,
                          [&]<typename M>(MessageType<M>) { good = arena_detail::FindRanges<M>(message, each); });
  return good;
}

}  // namespace weir::proto::cl
