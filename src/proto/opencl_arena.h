// SPDX-License-Identifier: Apache-2.0
// The parts of the arena that a client's message refers to. If the two sides don't share an arena, these bytes are sent
// before the message (docs/network.md).
#pragma once

#include "proto/opencl_messages.h"

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

template <typename M, typename Each>
bool FindBlobs(ByteView message, Each& each) {
  M decoded;
  if (!Decode(message, decoded)) return false;
  BlobFinder<Each> finder(each);
  M::Fields(decoded, finder);
  return true;
}

}  // namespace arena_detail

/// Calls `each(offset, size)` for every part of the arena that is read when a client's message is executed. The caller
/// checks that it lies within the arena. Returns false for a malformed message.
template <typename Each>
bool ForEachArenaRange(ByteView message, Each each) {
  using arena_detail::FindBlobs;
  Header header;
  if (!ReadHeader(message, header)) return false;
  switch (static_cast<Op>(header.op)) {
    case Op::kCreateBuffer: {
      CreateBuffer made;
      if (!Decode(message, made)) return false;
      if (made.filled != 0 && made.size > 0) each(made.offset, made.size);
      return true;
    }
    case Op::kCreateImage: return FindBlobs<CreateImage>(message, each);
    case Op::kCreateProgram: return FindBlobs<CreateProgram>(message, each);
    case Op::kCreateProgramFromBinary: return FindBlobs<CreateProgramFromBinary>(message, each);
    case Op::kWriteBuffer: return FindBlobs<WriteBuffer>(message, each);
    case Op::kWriteBufferRect: return FindBlobs<WriteBufferRect>(message, each);
    case Op::kWriteImage: return FindBlobs<WriteImage>(message, each);
    case Op::kBuild: return FindBlobs<Build>(message, each);
    case Op::kCompile: return FindBlobs<Compile>(message, each);
    default: return true;
  }
}

}  // namespace weir::proto::cl
