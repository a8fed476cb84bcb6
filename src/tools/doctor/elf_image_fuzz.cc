// SPDX-License-Identifier: Apache-2.0
// A program's file as 'weir doctor' reads it. For any bytes the parser does not crash, and the number of reads and the
// size of each are bounded.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tools/doctor/elf_image.h"

namespace {

constexpr std::size_t kReadsMax = 5'000;  // 256 segments, 4,096 dynamic entries, 256 names, and a margin
constexpr std::size_t kReadBytesMax = 4096;

void Require(bool holds) {
  if (!holds) std::abort();
}

void RequireNoBlank(std::string_view word) { Require(word.find_first_of(" \t\n") == std::string_view::npos); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::cli;
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  if (file.starts_with("#!")) {
    const ScriptLine line = ParseScriptLine(std::string(file));
    RequireNoBlank(line.interpreter);
    Require(line.argument.find('\n') == std::string::npos && (line.argument.empty() || !line.interpreter.empty()));
    return 0;
  }
  std::size_t reads = 0;
  const ElfImage image = ParseElf([&](std::uint64_t offset, std::size_t bytes) {
    Require(bytes <= kReadBytesMax && ++reads <= kReadsMax);
    return offset < file.size() ? std::string(file.substr(offset, bytes)) : std::string();
  });
  Require(image.needed.size() <= 256 && image.loader.size() <= kReadBytesMax);
  Require(image.bits == 0 || image.bits == 32 || image.bits == 64);
  Require(!image.readable || image.bits != 0);
  Require(!MachineName(image.machine).empty());
  for (const std::string& name : image.needed) Require(!name.empty() && name.size() <= 256);
  return 0;
}
