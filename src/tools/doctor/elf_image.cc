// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/elf_image.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace weir::cli {
namespace {

constexpr std::size_t kSegmentsMax = 256;
constexpr std::size_t kPathBytesMax = 4096;
constexpr std::size_t kDynamicEntriesMax = 4096;
constexpr std::size_t kNeededMax = 256;
constexpr std::size_t kNameBytesMax = 256;

/// The structure at `offset`, if the file has all of it.
template <typename T>
std::optional<T> At(const ReadPiece& read, std::uint64_t offset) {
  const std::string bytes = read(offset, sizeof(T));
  if (bytes.size() != sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

std::string TextAt(const ReadPiece& read, std::uint64_t offset, std::size_t max) {
  std::string text = read(offset, max);
  return text.substr(0, text.find('\0'));
}

/// Returns the file offset of the bytes that are mapped at `address`.
std::optional<std::uint64_t> OffsetOf(const std::vector<Elf64_Phdr>& segments, std::uint64_t address) {
  for (const Elf64_Phdr& one : segments)
    if (one.p_type == PT_LOAD && address >= one.p_vaddr && address - one.p_vaddr < one.p_filesz)
      return one.p_offset + (address - one.p_vaddr);
  return std::nullopt;
}

std::vector<std::string> NeededOf(const ReadPiece& read, const std::vector<Elf64_Phdr>& segments,
                                  const Elf64_Phdr& dynamic) {
  std::vector<std::uint64_t> names;
  std::optional<std::uint64_t> strings;
  const std::size_t entries = std::min<std::uint64_t>(dynamic.p_filesz / sizeof(Elf64_Dyn), kDynamicEntriesMax);
  for (std::size_t i = 0; i < entries; ++i) {
    const auto entry = At<Elf64_Dyn>(read, dynamic.p_offset + i * sizeof(Elf64_Dyn));
    if (!entry || entry->d_tag == DT_NULL) break;
    if (entry->d_tag == DT_STRTAB) strings = OffsetOf(segments, entry->d_un.d_ptr);
    if (entry->d_tag == DT_NEEDED && names.size() < kNeededMax) names.push_back(entry->d_un.d_val);
  }
  std::vector<std::string> needed;
  if (!strings) return needed;
  for (const std::uint64_t name : names)
    if (std::string text = TextAt(read, *strings + name, kNameBytesMax); !text.empty())
      needed.push_back(std::move(text));
  return needed;
}

constexpr std::array kMachines{
    std::pair{EM_X86_64, "x86-64"}, std::pair{EM_AARCH64, "aarch64"}, std::pair{EM_386, "i386"},
    std::pair{EM_ARM, "arm"},       std::pair{EM_RISCV, "riscv"},     std::pair{EM_PPC64, "ppc64"},
};

}  // namespace

ElfImage ParseElf(const ReadPiece& read) {
  ElfImage image;
  const std::string ident = read(0, EI_NIDENT + 4);
  if (ident.size() != EI_NIDENT + 4 || ident.compare(0, SELFMAG, ELFMAG) != 0) return image;
  image.bits = ident[EI_CLASS] == ELFCLASS64 ? 64 : ident[EI_CLASS] == ELFCLASS32 ? 32 : 0;
  std::memcpy(&image.machine, ident.data() + EI_NIDENT + 2, sizeof(image.machine));
  image.readable = image.bits == 32;
  const auto header = At<Elf64_Ehdr>(read, 0);
  if (image.bits != 64 || !header) return image;
  if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum > kSegmentsMax) return image;
  std::vector<Elf64_Phdr> segments;
  for (std::size_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = At<Elf64_Phdr>(read, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment) return image;
    segments.push_back(*segment);
  }
  // The first of each type: a file may contain hundreds, which would take a million reads.
  const auto first = [&](Elf64_Word type) { return std::ranges::find(segments, type, &Elf64_Phdr::p_type); };
  if (const auto one = first(PT_INTERP); one != segments.end())
    image.loader = TextAt(read, one->p_offset, std::min<std::uint64_t>(one->p_filesz, kPathBytesMax));
  if (const auto one = first(PT_DYNAMIC); one != segments.end()) image.needed = NeededOf(read, segments, *one);
  image.readable = true;
  return image;
}

std::string MachineName(std::uint16_t machine) {
  for (const auto& [number, name] : kMachines)
    if (number == machine) return name;
  return fmt::format("machine {}", machine);
}

std::uint16_t OwnMachine() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#else
#error "say here which ELF machine this is"
#endif
}

ScriptLine ParseScriptLine(const std::string& head) {
  constexpr const char* kBlanks = " \t";
  std::string line = head.substr(2, head.find('\n') - 2);
  line.erase(line.find_last_not_of(" \t\r") + 1);
  const std::size_t begin = line.find_first_not_of(kBlanks);
  if (begin == std::string::npos) return {};
  const std::size_t end = line.find_first_of(kBlanks, begin);
  ScriptLine out{line.substr(begin, end - begin), ""};
  if (const std::size_t more = line.find_first_not_of(kBlanks, end);
      end != std::string::npos && more != std::string::npos)
    out.argument = line.substr(more);
  return out;
}

}  // namespace weir::cli
