// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes the fields of messages (docs/protocol/opencl.md). Decoded views point into the message's bytes.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace weir::proto::cl {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied as they lie in memory");

/// A list of numbers without a copy: the caller's array when encoding, the message's bytes when decoding.
template <std::unsigned_integral T>
class NumberList {
 public:
  NumberList() = default;
  NumberList(const T* numbers, std::size_t count)
      : bytes_(reinterpret_cast<const std::byte*>(numbers)), count_(count) {}
  NumberList(std::span<const T> numbers)
      : NumberList(numbers.data(), numbers.size()) {}  // NOLINT(google-explicit-constructor)
  static NumberList Of(const std::byte* bytes, std::size_t count) {
    NumberList list;
    list.bytes_ = bytes;
    list.count_ = count;
    return list;
  }

  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] T operator[](std::size_t i) const {
    T value;
    std::memcpy(&value, bytes_ + i * sizeof(T), sizeof(T));
    return value;
  }
  [[nodiscard]] const std::byte* bytes() const { return bytes_; }
  friend bool operator==(const NumberList& a, const NumberList& b) {
    return a.count_ == b.count_ && (a.count_ == 0 || std::memcmp(a.bytes_, b.bytes_, a.count_ * sizeof(T)) == 0);
  }

 private:
  const std::byte* bytes_ = nullptr;
  std::size_t count_ = 0;
};
using IdList = NumberList<std::uint32_t>;

using ByteView = std::span<const std::byte>;
inline ByteView BytesOf(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }
inline std::string_view TextOf(ByteView bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// Bytes in the message, or a reference to the arena.
struct Blob {
  std::uint8_t kind = kInline;
  ByteView bytes{};          // kInline
  std::uint64_t offset = 0;  // kArena
  std::uint64_t size = 0;    // kArena
  static constexpr std::uint8_t kInline = 0, kArena = 1;

  static Blob Inline(ByteView bytes) { return {.kind = kInline, .bytes = bytes}; }
  static Blob Arena(std::uint64_t offset, std::uint64_t size) {
    return {.kind = kArena, .offset = offset, .size = size};
  }
  [[nodiscard]] std::uint64_t length() const { return kind == kInline ? bytes.size() : size; }
};

/// Writes fields, and counts their bytes. With a null buffer it only counts.
class FieldWriter {
 public:
  FieldWriter() = default;
  explicit FieldWriter(std::span<std::byte> into) : at_(into.data()), end_(into.data() + into.size()) {}

  template <typename... T>
  void operator()(const T&... fields) {
    (Put(fields), ...);
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  /// False: the fields did not fit, and the output is unusable.
  [[nodiscard]] bool fits() const { return fits_; }

 private:
  void Raw(const void* from, std::size_t n) {
    size_ += n;
    if (at_ == nullptr) return;
    if (static_cast<std::size_t>(end_ - at_) < n) {
      fits_ = false;
      return;
    }
    if (n > 0) std::memcpy(at_, from, n);
    at_ += n;
  }
  template <typename T>
  requires std::integral<T>
  void Put(const T& value) { Raw(&value, sizeof value); }
  void Count(std::size_t n) {
    if (n > UINT32_MAX) fits_ = false;
    Put(static_cast<std::uint32_t>(n));
  }
  void Put(const ByteView& bytes) {
    Count(bytes.size());
    Raw(bytes.data(), bytes.size());
  }
  void Put(const std::string_view& text) { Put(BytesOf(text)); }
  void Put(const std::string& text) { Put(BytesOf(text)); }
  template <typename T>
  void Put(const NumberList<T>& list) {
    Count(list.size());
    Raw(list.bytes(), list.size() * sizeof(T));
  }
  template <typename T, std::size_t N>
  void Put(const T (&array)[N]) {
    for (const T& value : array) Put(value);
  }
  void Put(const Blob& blob) {
    Put(blob.kind);
    if (blob.kind == Blob::kInline) return Put(blob.bytes);
    Put(blob.offset);
    Put(blob.size);
  }
  template <typename T>
  void Put(const std::vector<T>& list) {
    Count(list.size());
    for (const T& value : list) Put(value);
  }
  template <typename T>
  requires std::is_class_v<T> && requires(const T& m, FieldWriter& w) { T::Fields(m, w); }
  void Put(const T& record) { T::Fields(record, *this); }

  std::byte* at_ = nullptr;
  std::byte* end_ = nullptr;
  std::size_t size_ = 0;
  bool fits_ = true;
};

/// Reads fields from untrusted bytes. If the bytes end between two fields, the remaining fields keep their defaults.
class FieldReader {
 public:
  explicit FieldReader(ByteView bytes) : bytes_(bytes) {}

  template <typename... T>
  void operator()(T&... fields) {
    (Field(fields), ...);
  }
  [[nodiscard]] bool malformed() const { return malformed_; }

 private:
  template <typename T>
  void Field(T& field) {
    if (at_ == bytes_.size() || malformed_) return;  // the sender is older than this field
    Get(field);
  }
  bool Take(std::size_t n, const std::byte*& from) {
    if (bytes_.size() - at_ < n) {
      malformed_ = true;
      return false;
    }
    from = bytes_.data() + at_;
    at_ += n;
    return true;
  }
  template <typename T>
  requires std::integral<T>
  void Get(T& value) {
    const std::byte* from = nullptr;
    if (Take(sizeof value, from)) std::memcpy(&value, from, sizeof value);
  }
  void Get(ByteView& bytes) {
    std::uint32_t n = 0;
    Get(n);
    const std::byte* from = nullptr;
    if (!malformed_ && Take(n, from)) bytes = {from, n};
  }
  void Get(std::string_view& text) {
    ByteView bytes;
    Get(bytes);
    text = TextOf(bytes);
  }
  void Get(std::string& text) {
    std::string_view view;
    Get(view);
    text = view;
  }
  template <typename T>
  void Get(NumberList<T>& list) {
    std::uint32_t n = 0;
    Get(n);
    const std::byte* from = nullptr;
    if (!malformed_ && Take(std::size_t{n} * sizeof(T), from)) list = NumberList<T>::Of(from, n);
  }
  template <typename T, std::size_t N>
  void Get(T (&array)[N]) {
    for (T& value : array) Get(value);
  }
  void Get(Blob& blob) {
    Get(blob.kind);
    if (blob.kind == Blob::kInline) return Get(blob.bytes);
    if (blob.kind != Blob::kArena) malformed_ = true;
    Get(blob.offset);
    Get(blob.size);
  }
  template <typename T>
  void Get(std::vector<T>& list) {
    std::uint32_t n = 0;
    Get(n);
    // Each element takes at least one byte, so the remaining bytes bound the count and the memory.
    if (n > bytes_.size() - at_) malformed_ = true;
    list.clear();
    for (std::uint32_t i = 0; i < n && !malformed_; ++i) Get(list.emplace_back());
  }
  template <typename T>
  requires std::is_class_v<T> && requires(T& m, FieldReader& r) { T::Fields(m, r); }
  void Get(T& record) { T::Fields(record, *this); }

  ByteView bytes_;
  std::size_t at_ = 0;
  bool malformed_ = false;
};

inline constexpr std::size_t kHeaderBytes = 8;
inline constexpr std::size_t kMessageBytesMax = 64 * 1024;
inline constexpr std::uint16_t kMayIgnore = 1;

struct Header {
  std::uint32_t size = 0;
  std::uint16_t op = 0;
  std::uint16_t flags = 0;
};
static_assert(sizeof(Header) == kHeaderBytes);

/// In a ring, messages begin at multiples of eight bytes.
constexpr std::size_t Padded(std::size_t bytes) { return (bytes + 7) & ~std::size_t{7}; }

/// Size of the message, including the header but not the padding.
template <typename M>
std::size_t SizeOf(const M& message) {
  FieldWriter counter;
  M::Fields(message, counter);
  return kHeaderBytes + counter.size();
}

/// Encodes a message into `into`, which has SizeOf(message) bytes.
template <typename M>
void EncodeInto(const M& message, std::span<std::byte> into) {
  const Header header{static_cast<std::uint32_t>(into.size()), M::kOp, 0};
  std::memcpy(into.data(), &header, sizeof header);
  FieldWriter writer(into.subspan(kHeaderBytes));
  M::Fields(message, writer);
}

template <typename M>
std::vector<std::byte> Encode(const M& message) {
  std::vector<std::byte> bytes(SizeOf(message));
  EncodeInto(message, bytes);
  return bytes;
}

/// Reads the header of the message at `bytes`. False: too short, or an invalid size.
inline bool ReadHeader(ByteView bytes, Header& header) {
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header.size >= kHeaderBytes;
}

/// Decodes the fields of `message`. `bytes` includes the header but not the padding; views point into it. False:
/// malformed.
template <typename M>
bool Decode(ByteView bytes, M& message) {
  FieldReader reader(bytes.subspan(kHeaderBytes));
  M::Fields(message, reader);
  return !reader.malformed();
}

}  // namespace weir::proto::cl
