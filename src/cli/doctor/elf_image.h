// SPDX-License-Identifier: Apache-2.0
// What an executable's headers say about how it is loaded. The file is not trusted: reads are bounded, whatever it
// says.
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
  bool readable = false;  // the headers make sense; of another word size only `bits` and `machine` are looked at
};

/// At most `size` bytes from `offset` on; fewer where the file ends.
using ReadPiece = std::function<std::string(std::uint64_t offset, std::size_t size)>;

/// Of what begins with ELF's magic.
ElfImage ParseElf(const ReadPiece& read);

/// "x86-64", "aarch64", "i386" …, or "machine 243".
std::string MachineName(std::uint16_t machine);
/// e_machine of this program.
std::uint16_t OwnMachine();

struct ScriptLine {
  std::string interpreter;
  std::string argument;  // all that follows it, as the kernel hands it on
};
/// Of a file that begins with "#!": what stands in its first line.
ScriptLine ParseScriptLine(const std::string& head);

}  // namespace weir::cli
