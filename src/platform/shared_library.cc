// SPDX-License-Identifier: Apache-2.0
#include "platform/shared_library.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace weir::platform {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
constexpr std::size_t kHeaderBytes = 48, kEntryBytes = 24;
constexpr std::uint32_t kKindMask = 0xFF00;
#if defined(__x86_64__)
constexpr std::uint32_t kKind = 0x0300;
#elif defined(__aarch64__)
constexpr std::uint32_t kKind = 0x0A00;
#else
constexpr std::uint32_t kKind = 0;
#endif
constexpr const char* kCache = "/etc/ld.so.cache";
constexpr const char* kStandard[] = {
#if defined(__x86_64__)
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
#elif defined(__aarch64__)
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
#endif
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib"};

std::uint32_t WordAt(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

/// The text that ends with a zero; empty if it does not end.
std::string_view TextAt(std::span<const std::byte> bytes, std::size_t at) {
  if (at >= bytes.size()) return {};
  const auto* text = reinterpret_cast<const char*>(bytes.data() + at);
  const std::size_t length = ::strnlen(text, bytes.size() - at);
  return length == bytes.size() - at ? std::string_view() : std::string_view(text, length);
}

bool Is(const fs::path& path, const std::string& except) {
  std::error_code error;
  return fs::is_regular_file(path, error) && (except.empty() || !fs::equivalent(path, except, error));
}

}  // namespace

std::vector<std::string> PathsInLoaderCache(std::span<const std::byte> cache, std::string_view name) {
  std::vector<std::string> paths;
  // Before glibc 2.32, ldconfig put the format of earlier versions first. Offsets count from the magic.
  const std::string_view whole(reinterpret_cast<const char*>(cache.data()), cache.size());
  cache = cache.subspan(std::min(whole.find(kMagic), cache.size()));
  if (cache.size() < kHeaderBytes || std::memcmp(cache.data(), kMagic.data(), kMagic.size()) != 0) return paths;
  const std::size_t count = WordAt(cache, kMagic.size());
  if (count > (cache.size() - kHeaderBytes) / kEntryBytes) return paths;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t entry = kHeaderBytes + i * kEntryBytes;
    if ((WordAt(cache, entry) & kKindMask) != kKind || TextAt(cache, WordAt(cache, entry + 4)) != name) continue;
    if (const std::string_view path = TextAt(cache, WordAt(cache, entry + 8)); path.starts_with('/'))
      paths.emplace_back(path);
  }
  return paths;
}

std::string FindSharedLibrary(std::string_view name, std::string_view folders, const std::string& except) {
  while (!folders.empty()) {
    const std::string_view folder = folders.substr(0, folders.find(':'));
    folders.remove_prefix(std::min(folder.size() + 1, folders.size()));
    const fs::path path = fs::path(folder) / name;
    if (folder.starts_with('/') && Is(path, except)) return path;
  }
  std::ifstream file(kCache, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  for (const std::string& path : PathsInLoaderCache(std::as_bytes(std::span(text)), name))
    if (Is(path, except)) return path;
  for (const char* folder : kStandard)
    if (const fs::path path = fs::path(folder) / name; Is(path, except)) return path;
  return {};
}

}  // namespace weir::platform
