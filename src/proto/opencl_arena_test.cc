// SPDX-License-Identifier: Apache-2.0
#include "proto/opencl_arena.h"

#include <gtest/gtest.h>

#include <utility>

#include "proto/opencl_message_list.h"

namespace weir::proto::cl {
namespace {

using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

/// Makes every blob of a message refer to the arena, and lists these references.
class BlobsPlacer {
 public:
  template <typename... T>
  void operator()(T&... fields) {
    (Place(fields), ...);
  }
  Ranges placed;

 private:
  template <typename T>
  void Place(T& field) {
    if constexpr (std::is_same_v<T, Blob>) {
      field = Blob::Arena(4096 * (placed.size() + 1), 100 + placed.size());
      placed.emplace_back(field.offset, field.size);
    } else if constexpr (requires(T & record, BlobsPlacer & placer) { T::Fields(record, placer); }) {
      T::Fields(field, *this);
    }
  }
  template <typename T>
  void Place(std::vector<T>& list) {
    list.resize(2);
    for (T& member : list) Place(member);
  }
};

Ranges RangesOf(const std::vector<std::byte>& message) {
  Ranges found;
  EXPECT_TRUE(
      ForEachArenaRange(message, [&](std::uint64_t offset, std::uint64_t size) { found.emplace_back(offset, size); }));
  return found;
}

TEST(OpenClArena, EveryBlobOfEveryMessageIsFound) {
  std::size_t with_blobs = 0;
  ForEachMessage<FromClient>([&]<typename M>(MessageType<M>) {
    M message;
    BlobsPlacer placer;
    M::Fields(message, placer);
    EXPECT_EQ(RangesOf(Encode(message)), placer.placed) << "op " << static_cast<int>(M::kOp);
    with_blobs += placer.placed.empty() ? 0 : 1;
  });
  EXPECT_EQ(with_blobs, 8U);
}

TEST(OpenClArena, ABufferThatBeginsWithContentsNamesItsRange) {
  EXPECT_EQ(RangesOf(Encode(CreateBuffer{.size = 10, .offset = 8192, .filled = 1})), (Ranges{{8192, 10}}));
  EXPECT_EQ(RangesOf(Encode(CreateBuffer{.size = 10, .offset = 8192})), Ranges{});
}

TEST(OpenClArena, InlineContentsNameNoRange) {
  const std::string text = "kernel void k() {}";
  EXPECT_EQ(RangesOf(Encode(CreateProgram{.id = 1, .source = Blob::Inline(BytesOf(text))})), Ranges{});
}

TEST(OpenClArena, DistinguishesMalformedMessagesFromOnesWithoutRanges) {
  std::vector<std::byte> cut = Encode(WriteBuffer{.content = Blob::Arena(0, 10)});
  cut.resize(kHeaderBytes + 6);
  const auto none = [](std::uint64_t, std::uint64_t) { FAIL() << "a range of a malformed message"; };
  EXPECT_FALSE(ForEachArenaRange(cut, none));
  EXPECT_FALSE(ForEachArenaRange({}, none));
}

}  // namespace
}  // namespace weir::proto::cl
