// SPDX-License-Identifier: Apache-2.0
// How an executable is loaded, according to its headers. The file is not trusted: reads are bounded for any content.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weir::cli {

struct ElfImage {
  int bits = 0;               // 32 or 64
  std::uint16_t machine = 0;  // e_machine
  std::string loader;         // its interpreter (ld.so); empty: static
  std::vector<std::string> needed;
  bool readable = false;  // the headers are valid; with another word size only `bits` and `machine` are read
};

/// Returns at most `size` bytes from `offset` on; fewer at the end of the file.
using ReadPiece = std::function<std::string(std::uint64_t offset, std::size_t size)>;

/// For a file that begins with ELF's magic.
ElfImage ParseElf(const ReadPiece& read);

/// "x86-64", "aarch64", "i386" …, or "machine 243".
std::string MachineName(std::uint16_t machine);
/// e_machine of this program.
std::uint16_t OwnMachine();

struct ScriptLine {
  std::string interpreter;
  std::string argument;  // the rest of the line, as the kernel passes it on
};
/// Parses the first line of a file that begins with "#!".
ScriptLine ParseScriptLine(const std::string& head);

}  // namespace weir::cli
