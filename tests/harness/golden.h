// SPDX-License-Identifier: Apache-2.0
// Golden bytes: a published format at the time of its publication, as commented hex in tests/golden. A line is `OFFSET:
// BYTES  # field`; `size N` gives the length; unlisted bytes are zero. WEIR_GOLDEN in the environment names another
// folder: tests/checkers/golden.sh uses it to show that these tests can fail.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace weir::testing {

struct GoldenBytes {
  std::vector<std::byte> bytes;
  std::vector<std::string> fields;  // for each byte, its line's comment
};

inline std::filesystem::path GoldenPath(const std::string& name) {
  if (const char* folder = std::getenv("WEIR_GOLDEN")) return std::filesystem::path(folder) / name;
  return std::filesystem::path(__FILE__).parent_path().parent_path() / "golden" / name;
}

/// Returns an empty value and adds a test failure if the file is missing or malformed.
inline GoldenBytes ReadGolden(const std::string& name) {
  GoldenBytes golden;
  std::ifstream file(GoldenPath(name));
  if (!file) ADD_FAILURE() << "cannot read " << GoldenPath(name);
  for (std::string line; std::getline(file, line);) {
    const std::size_t hash = line.find('#');
    const std::string comment = hash == std::string::npos ? "" : line.substr(hash + 1);
    std::istringstream words(line.substr(0, hash));
    std::string first;
    if (!(words >> first)) continue;
    if (first == "size") {
      std::size_t size = 0;
      words >> size;
      golden.bytes.resize(size);
      golden.fields.resize(size);
      continue;
    }
    std::size_t at = std::stoul(first, nullptr, 16);
    for (std::string byte; words >> byte; ++at) {
      if (at >= golden.bytes.size()) {
        ADD_FAILURE() << name << ": '" << line << "' lies beyond the stated size";
        return {};
      }
      golden.bytes[at] = static_cast<std::byte>(std::stoul(byte, nullptr, 16));
      golden.fields[at] = comment;
    }
  }
  return golden;
}

/// Compares byte for byte, and names the first field that differs.
inline void ExpectGolden(const std::string& name, std::span<const std::byte> actual) {
  const GoldenBytes golden = ReadGolden(name);
  EXPECT_EQ(golden.bytes.size(), actual.size()) << name << ": length";
  for (std::size_t i = 0; i < std::min(golden.bytes.size(), actual.size()); ++i)
    ASSERT_EQ(std::to_integer<int>(golden.bytes[i]), std::to_integer<int>(actual[i]))
        << name << ": byte " << i << ", published as" << (golden.fields[i].empty() ? " zero" : golden.fields[i])
        << ".\nA published format is only added to, in reserved space and with a new minor version.";
}

}  // namespace weir::testing
