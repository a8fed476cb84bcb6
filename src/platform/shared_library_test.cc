// SPDX-License-Identifier: Apache-2.0
#include "platform/shared_library.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "tests/harness/temp_folder.h"

namespace weir::platform {
namespace {

using testing::TempFolder;

struct Entry {
  std::uint32_t kind;
  std::string name, path;
};

/// A cache as ldconfig writes it.
std::string CacheOf(const std::vector<Entry>& entries) {
  const auto word = [](std::uint32_t value) { return std::string(reinterpret_cast<const char*>(&value), 4); };
  std::string texts, table;
  const std::size_t texts_at = 48 + entries.size() * 24;
  for (const Entry& entry : entries) {
    table += word(entry.kind) + word(static_cast<std::uint32_t>(texts_at + texts.size()));
    texts += entry.name + '\0';
    table += word(static_cast<std::uint32_t>(texts_at + texts.size())) + std::string(12, '\0');
    texts += entry.path + '\0';
  }
  return "glibc-ld.so.cache1.1" + word(static_cast<std::uint32_t>(entries.size())) +
         word(static_cast<std::uint32_t>(texts.size())) + std::string(20, '\0') + table + texts;
}

std::vector<std::string> Paths(const std::string& cache, const char* name) {
  return PathsInLoaderCache(std::as_bytes(std::span(cache)), name);
}

TEST(SharedLibrary, TheCachesOrderIsKept) {
#if defined(__x86_64__)
  const std::string cache = CacheOf({{0x0303, "libx.so.1", "/first/libx.so.1"},
                                     {0x0003, "libx.so.1", "/32-bit/libx.so.1"},
                                     {0x0303, "liby.so.1", "/first/liby.so.1"},
                                     {0x0303, "libx.so.1", "/second/libx.so.1"}});
  EXPECT_EQ(Paths(cache, "libx.so.1"), (std::vector<std::string>{"/first/libx.so.1", "/second/libx.so.1"}));
  EXPECT_TRUE(Paths(cache, "libz.so.1").empty());
#endif
}

TEST(SharedLibrary, ACacheMayBeginWithTheEarlierFormat) {
#if defined(__x86_64__)
  const std::string cache =
      "ld.so-1.7.0" + std::string(37, '\0') + CacheOf({{0x0303, "libx.so.1", "/first/libx.so.1"}});
  EXPECT_EQ(Paths(cache, "libx.so.1"), std::vector<std::string>{"/first/libx.so.1"});
#endif
}

TEST(SharedLibrary, ACacheThatIsCutOffOrLiesIsRead) {
  const std::string cache = CacheOf({{0x0303, "libx.so.1", "/first/libx.so.1"}});
  for (std::size_t length = 0; length < cache.size(); ++length)
    EXPECT_LE(Paths(cache.substr(0, length), "libx.so.1").size(), 1U);
  std::string lies = cache;
  lies[20] = lies[21] = lies[22] = lies[23] = '\xFF';  // the number of entries
  EXPECT_TRUE(Paths(lies, "libx.so.1").empty());
  lies = cache;
  lies[52] = lies[53] = lies[54] = lies[55] = '\xFF';  // the place of a name
  EXPECT_TRUE(Paths(lies, "libx.so.1").empty());
}

TEST(SharedLibrary, TheSystemsOwnIsFound) {
  EXPECT_TRUE(std::filesystem::path(FindSharedLibrary("libc.so.6", "", "")).is_absolute());
  EXPECT_EQ(FindSharedLibrary("libthere-is-no-such.so.1", "", ""), "");
}

TEST(SharedLibrary, AFolderIsFirstAndAnExceptionIsPassedOver) {
  const TempFolder folder;
  std::ofstream(folder / "libc.so.6") << "mine";
  std::filesystem::create_symlink(folder / "libc.so.6", folder / "link");
  EXPECT_EQ(FindSharedLibrary("libc.so.6", "relative:" + folder.path(), ""), folder / "libc.so.6");
  const std::string other = FindSharedLibrary("libc.so.6", folder.path(), folder / "link");
  EXPECT_FALSE(other.empty());
  EXPECT_NE(other, folder / "libc.so.6");
}

}  // namespace
}  // namespace weir::platform
