// SPDX-License-Identifier: Apache-2.0
// Encoding of KernelAccess. The writer and the reader follow the same list of fields.
#include <type_traits>

#include "kernel/access.h"

namespace weir::kernel {
namespace {

constexpr std::uint64_t kAccessMagic = 0x31'41'4B'57;  // "WKA1", little-endian; includes the version

class AccessWriter {
 public:
  /// Seven bits per byte, the lowest first; the top bit marks that more follow.
  bool Number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<std::byte>((value & 0x7F) | 0x80));
    bytes_.push_back(static_cast<std::byte>(value));
    return true;
  }
  template <typename T>
  bool Field(const T& value) {
    if constexpr (std::is_enum_v<T>)
      return Number(static_cast<std::uint64_t>(value));
    else if constexpr (std::is_signed_v<T>)  // zigzag, so that small negative numbers are short
      return Number((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
    else
      return Number(value);
  }
  bool Text(const std::string& text) {
    Number(text.size());
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
    return true;
  }
  template <typename T, typename Each>
  bool List(const std::vector<T>& list, std::size_t /*max*/, Each each) {
    Number(list.size());
    for (const T& one : list) each(one);
    return true;
  }
  std::vector<std::byte> Take() && { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class AccessReader {
 public:
  explicit AccessReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool Number(std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
      const auto byte = std::to_integer<std::uint8_t>(bytes_.front());
      bytes_ = bytes_.subspan(1);
      if ((shift == 63 && byte > 1) || (shift > 0 && byte == 0)) return false;  // each number has only one encoding
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  template <typename T>
  bool Field(T& value) {
    std::uint64_t number = 0;
    if (!Number(number)) return false;
    if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(number);
      return number <= 0xFF;
    } else if constexpr (std::is_signed_v<T>) {
      value = static_cast<T>((number >> 1) ^ (~(number & 1) + 1));
      return true;
    } else {
      value = static_cast<T>(number);
      return static_cast<std::uint64_t>(value) == number;
    }
  }
  bool Text(std::string& text) {
    std::uint64_t size = 0;
    if (!Number(size) || size > kAccessTextMax || size > bytes_.size()) return false;
    text.assign(reinterpret_cast<const char*>(bytes_.data()), static_cast<std::size_t>(size));
    bytes_ = bytes_.subspan(static_cast<std::size_t>(size));
    return true;
  }
  template <typename T, typename Each>
  bool List(std::vector<T>& list, std::size_t max, Each each) {
    std::uint64_t count = 0;
    if (!Number(count) || count > max || count > bytes_.size()) return false;
    list.assign(static_cast<std::size_t>(count), T{});
    for (T& one : list)
      if (!each(one)) return false;
    return true;
  }
  [[nodiscard]] bool done() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

template <typename Stream, typename Access>
bool VisitKernel(Stream& s, Access& k) {
  return s.Text(k.kernel) && s.Field(k.verdict) && s.Text(k.reason) && s.Field(k.line) && s.Field(k.asks) &&
         s.Field(k.loops) &&
         s.List(k.arguments, kKernelArgumentsMax,
                [&](auto& one) { return s.Field(one.kind) && s.Field(one.bytes) && s.Text(one.name); }) &&
         s.List(k.exprs, kAccessExprsMax,
                [&](auto& one) {
                  return s.Field(one.op) && s.Field(one.bits) && s.Field(one.a) && s.Field(one.b) && s.Field(one.c) &&
                         s.Field(one.value);
                }) &&
         s.List(k.tests, kAccessTestsMax,
                [&](auto& one) {
                  return s.Field(one.loop) && s.Field(one.test) && s.Field(one.descending) && s.Field(one.start) &&
                         s.Field(one.step) && s.Field(one.bound);
                }) &&
         s.List(k.contexts, kAccessContextsMax,
                [&](auto& one) { return s.Field(one.parent) && s.Field(one.condition) && s.Field(one.holds); }) &&
         s.List(k.accesses, kAccessesMax, [&](auto& one) {
           return s.Field(one.argument) && s.Field(one.write) && s.Field(one.may) && s.Field(one.context) &&
                  s.Field(one.offset) && s.Field(one.bytes) && s.Field(one.line);
         });
}

}  // namespace

std::vector<std::byte> EncodeAccesses(std::span<const KernelAccess> kernels) {
  AccessWriter writer;
  writer.Number(kAccessMagic);
  writer.Number(kernels.size());
  for (const KernelAccess& kernel : kernels) VisitKernel(writer, kernel);
  return std::move(writer).Take();
}

Result<std::vector<KernelAccess>> DecodeAccesses(std::span<const std::byte> bytes) {
  const auto malformed = [] {
    return Fail(Errc::kProtocol, "what the analyzer sent can't be read: it has another version or is defective");
  };
  AccessReader reader(bytes);
  std::uint64_t magic = 0;
  if (!reader.Number(magic) || magic != kAccessMagic) return malformed();
  std::vector<KernelAccess> kernels;
  if (!reader.List(kernels, kKernelsMax, [&](KernelAccess& kernel) { return VisitKernel(reader, kernel); }) ||
      !reader.done())
    return malformed();
  for (const KernelAccess& kernel : kernels) WEIR_TRY_STATUS(CheckAccess(kernel));
  return kernels;
}

}  // namespace weir::kernel
