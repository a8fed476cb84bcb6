// SPDX-License-Identifier: Apache-2.0
// Tests of all messages: each message lists its fields, and these tests walk the lists.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <deque>
#include <set>
#include <string>

#include "proto/opencl_message_list.h"
#include "tests/harness/golden.h"

namespace weir::proto::cl {
namespace {

/// Fills every field from a counter, so that no two fields are equal.
class Filler {
 public:
  explicit Filler(std::uint64_t seed = 0) : next_(seed) {}

  template <typename... T>
  void operator()(T&... fields) {
    (Fill(fields), ...);
  }

 private:
  template <std::integral T>
  void Fill(T& value) {
    value = static_cast<T>(0x0101010101010101ULL * (++next_ & 0xFF));
  }
  void Fill(ByteView& bytes) { bytes = BytesOf(Text()); }
  void Fill(std::string_view& text) { text = Text(); }
  void Fill(std::string& text) { text = Text(); }
  template <typename T>
  void Fill(NumberList<T>& list) {
    auto& numbers = Stored<std::vector<T>>();
    numbers.resize(2);
    for (T& number : numbers) Fill(number);
    list = NumberList<T>(numbers.data(), numbers.size());
  }
  template <typename T, std::size_t N>
  void Fill(T (&array)[N]) {
    for (T& value : array) Fill(value);
  }
  void Fill(Blob& blob) {
    if (++blobs_ % 2 == 1) {
      blob = Blob::Inline(BytesOf(Text()));
    } else {
      blob = Blob::Arena(0x1000 * next_, next_ + 1);
      next_ += 2;
    }
  }
  template <typename T>
  void Fill(std::vector<T>& list) {
    list.resize(2);
    for (T& value : list) Fill(value);
  }
  template <typename T>
  requires std::is_class_v<T> && requires(T& m, Filler& f) { T::Fields(m, f); }
  void Fill(T& record) { T::Fields(record, *this); }

  const std::string& Text() { return Stored<std::string>() = "text " + std::to_string(++next_); }
  /// Views must outlive the message, so what they point to is never freed; it is a few kilobytes.
  template <typename T>
  static T& Stored() {
    static std::deque<T> all;
    return all.emplace_back();
  }

  std::uint64_t next_ = 0;
  int blobs_ = 0;
};

template <typename M>
M Filled(std::uint64_t seed = 0) {
  M message;
  Filler filler(seed);
  M::Fields(message, filler);
  return message;
}

template <typename Each>
void ForAll(Each each) {
  ForEachMessage<Handshake>(each);
  ForEachMessage<FromClient>(each);
  ForEachMessage<FromExecutor>(each);
}

/// Bytes of the fields that were added to a message after its publication.
template <typename M>
constexpr std::size_t kAddedBytes = 0;
template <>
constexpr std::size_t kAddedBytes<Welcome> = 16;
template <>
constexpr std::size_t kAddedBytes<ReadBuffer> = 1;
template <>
constexpr std::size_t kAddedBytes<Arrived> = 9;

/// Of these, the bytes that were added last: opencl_v1_added.hex lacks them.
template <typename M>
constexpr std::size_t kAddedLastBytes = 0;
template <>
constexpr std::size_t kAddedLastBytes<Welcome> = 8;

/// Encodes as a sender that does not know the fields of the last `added` bytes.
template <typename M>
std::vector<std::byte> EncodeWithoutThem(const M& message, std::size_t added = kAddedBytes<M>) {
  std::vector<std::byte> bytes = Encode(message);
  bytes.resize(bytes.size() - added);
  const auto size = static_cast<std::uint32_t>(bytes.size());
  std::memcpy(bytes.data(), &size, sizeof size);
  return bytes;
}

void Append(std::vector<std::byte>& all, const std::vector<std::byte>& bytes) {
  all.insert(all.end(), bytes.begin(), bytes.end());
  all.resize(Padded(all.size()));
}

TEST(OpenClMessages, AreEncodedIntoTheirGoldenBytes) {
  std::vector<std::byte> all;
  ForAll([&]<typename M>(MessageType<M>) { Append(all, EncodeWithoutThem(Filled<M>())); });
  testing::ExpectGolden("opencl_v1.hex", all);
}

TEST(OpenClMessages, WithAddedFieldsAreEncodedIntoTheirGoldenBytes) {
  std::vector<std::byte> all;
  ForAll([&]<typename M>(MessageType<M>) {
    if (kAddedBytes<M> != 0) Append(all, EncodeWithoutThem(Filled<M>(), kAddedLastBytes<M>));
  });
  testing::ExpectGolden("opencl_v1_added.hex", all);
}

TEST(OpenClMessages, WithTheFieldsAddedLastAreEncodedIntoTheirGoldenBytes) {
  std::vector<std::byte> all;
  ForAll([&]<typename M>(MessageType<M>) {
    if (kAddedLastBytes<M> != 0) Append(all, Encode(Filled<M>()));
  });
  testing::ExpectGolden("opencl_v1_staging.hex", all);
}

TEST(OpenClMessages, BodiesAreEncodedIntoTheirGoldenBytes) {
  std::vector<std::byte> all;
  const auto add = [&]<typename M>(MessageType<M>) {
    const M body = Filled<M>();
    FieldWriter counter;
    M::Fields(body, counter);
    const std::size_t at = all.size();
    all.resize(at + counter.size());
    FieldWriter writer(std::span<std::byte>(all).subspan(at));
    M::Fields(body, writer);
  };
  add(MessageType<BuildFacts>{});
  add(MessageType<SubDeviceFacts>{});
  add(MessageType<PlatformFacts>{});
  testing::ExpectGolden("opencl_v1_bodies.hex", all);
}

TEST(OpenClMessages, GoldenBytesAreDecoded) {
  const std::vector<std::byte> golden = testing::ReadGolden("opencl_v1.hex").bytes;
  std::size_t at = 0;
  ForAll([&]<typename M>(MessageType<M>) {
    Header header;
    ASSERT_TRUE(ReadHeader(ByteView(golden).subspan(at), header));
    ASSERT_LE(header.size, golden.size() - at);
    EXPECT_EQ(header.op, M::kOp);
    M decoded;
    ASSERT_TRUE(Decode(ByteView(golden).subspan(at, header.size), decoded));
    EXPECT_EQ(EncodeWithoutThem(decoded), EncodeWithoutThem(Filled<M>()));
    at += Padded(header.size);
  });
  EXPECT_EQ(at, golden.size());
}

TEST(OpenClMessages, EachHasAnOpOfItsOwn) {
  std::set<std::uint16_t> ops;
  const auto add = [&]<typename M>(MessageType<M>) { EXPECT_TRUE(ops.insert(M::kOp).second); };
  ForEachMessage<FromClient>(add);
  ForEachMessage<FromExecutor>(add);
}

RC_GTEST_PROP(OpenClMessages, SurviveTheRoundTrip, (std::uint16_t seed)) {
  ForAll([&]<typename M>(MessageType<M>) {
    const std::vector<std::byte> bytes = Encode(Filled<M>(seed));
    M decoded;
    RC_ASSERT(Decode(bytes, decoded));
    RC_ASSERT(Encode(decoded) == bytes);
  });
}

// An older sender omits the fields that it doesn't know; a message that ends within a field is malformed.
TEST(OpenClMessages, MayEndOnlyBetweenFields) {
  const NdRange whole = Filled<NdRange>();
  const std::vector<std::byte> bytes = Encode(whole);
  const std::size_t before_local = bytes.size() - sizeof whole.local;
  NdRange cut;
  ASSERT_TRUE(Decode(ByteView(bytes).first(before_local), cut));
  EXPECT_EQ(cut.global[2], whole.global[2]);
  EXPECT_EQ(cut.local[0], 0U);
  EXPECT_FALSE(Decode(ByteView(bytes).first(before_local + 1), cut));
  EXPECT_FALSE(Decode(ByteView(bytes).first(before_local - 1), cut));
}

TEST(OpenClMessages, UnknownTrailingFieldsAreSkipped) {
  std::vector<std::byte> bytes = Encode(Filled<Finish>());
  bytes.resize(bytes.size() + 5, std::byte{0xEE});
  Finish decoded;
  ASSERT_TRUE(Decode(bytes, decoded));
  EXPECT_EQ(decoded.queue, Filled<Finish>().queue);
}

TEST(OpenClMessages, AnyCutIsDecodedOrRefusedAndNeverReadBeyond) {
  ForAll([&]<typename M>(MessageType<M>) {
    const std::vector<std::byte> bytes = Encode(Filled<M>());
    for (std::size_t n = kHeaderBytes; n <= bytes.size(); ++n) {
      const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
      M decoded;
      static_cast<void>(Decode(cut, decoded));  // for the sanitizers
    }
  });
}

TEST(OpenClMessages, AListLongerThanTheMessageIsMalformed) {
  IdList ids(nullptr, 0);
  std::vector<std::byte> bytes = Encode(CreateContext{.id = 1, .devices = ids});
  const std::uint32_t many = 0x40000000;
  std::memcpy(bytes.data() + bytes.size() - sizeof many, &many, sizeof many);
  CreateContext decoded;
  EXPECT_FALSE(Decode(bytes, decoded));
  std::vector<std::byte> build = Encode(Build{});
  std::memcpy(build.data() + build.size() - sizeof many, &many, sizeof many);
  Build decoded_build;
  EXPECT_FALSE(Decode(build, decoded_build));
}

}  // namespace
}  // namespace weir::proto::cl
