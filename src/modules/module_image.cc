// SPDX-License-Identifier: Apache-2.0
#include "modules/module_image.h"

#include <elf.h>
#include <weir/module.h>

#include <cstring>
#include <string>
#include <string_view>

namespace weir::modules {
namespace {

#if defined(__x86_64__)
constexpr std::uint16_t kOwnMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kOwnMachine = EM_AARCH64;
#elif defined(__riscv)
constexpr std::uint16_t kOwnMachine = EM_RISCV;
#else
constexpr std::uint16_t kOwnMachine = EM_NONE;
#endif

Error NoModule(const std::string& why) { return Fail(Errc::kInvalidArgument, "this is not a module: " + why); }

/// Copies a T from `offset`, which need not be aligned. False: the file is too short.
template <typename T>
bool ReadAt(std::span<const std::byte> file, std::uint64_t offset, T& value) {
  if (offset > file.size() || file.size() - offset < sizeof(T)) return false;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return true;
}

bool Inside(std::span<const std::byte> file, std::uint64_t offset, std::uint64_t size) {
  return offset <= file.size() && size <= file.size() - offset;
}

/// True if the text at `offset` of the string table is exactly `wanted`.
bool IsText(std::span<const std::byte> strings, std::uint64_t offset, std::string_view wanted) {
  return Inside(strings, offset, wanted.size() + 1) &&
         std::memcmp(strings.data() + offset, wanted.data(), wanted.size()) == 0 &&
         strings[static_cast<std::size_t>(offset + wanted.size())] == std::byte{0};
}

/// Searches a section of dynamic symbols.
Status FindSymbol(std::span<const std::byte> symbols, std::span<const std::byte> strings) {
  for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols.size(); at += sizeof(Elf64_Sym)) {
    Elf64_Sym symbol;
    if (!ReadAt(symbols, at, symbol) || !IsText(strings, symbol.st_name, WEIR_MODULE_SYMBOL)) continue;
    if (symbol.st_shndx == SHN_UNDEF) return NoModule("it only uses " WEIR_MODULE_SYMBOL ", and does not define it");
    if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT)
      return NoModule("its " WEIR_MODULE_SYMBOL " is not an object: define it with WEIR_MODULE of weir/module.h");
    if (symbol.st_size < sizeof(weir_module))
      return NoModule("its " WEIR_MODULE_SYMBOL " has " + std::to_string(symbol.st_size) +
                      " bytes, and version 1 has " + std::to_string(sizeof(weir_module)));
    return Ok();
  }
  return NoModule("it exports no " WEIR_MODULE_SYMBOL ": define it with WEIR_MODULE of weir/module.h");
}

}  // namespace

Status CheckModuleImage(std::span<const std::byte> file) {
  Elf64_Ehdr head;
  if (file.size() < SELFMAG || std::memcmp(file.data(), ELFMAG, SELFMAG) != 0)
    return NoModule("a module is a shared object (ELF), made with 'cc -shared -fPIC'");
  if (!ReadAt(file, 0, head)) return NoModule("its ELF header is cut off");
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_machine != kOwnMachine)
    return NoModule("it is for another machine than this one (ELF machine " + std::to_string(head.e_machine) + ")");
  if (head.e_type != ET_DYN) return NoModule("it is not a shared object: make it with 'cc -shared -fPIC'");
  if (head.e_shentsize != sizeof(Elf64_Shdr) ||
      !Inside(file, head.e_shoff, std::uint64_t{head.e_shnum} * sizeof(Elf64_Shdr)))
    return NoModule("its section headers are not where its ELF header says");
  for (std::uint64_t i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (head.e_phentsize != sizeof segment || !ReadAt(file, head.e_phoff + i * sizeof segment, segment))
      return NoModule("its program headers are not where its ELF header says");
    if (segment.p_type == PT_INTERP) return NoModule("it is a program: make it with 'cc -shared -fPIC'");
    // Loading a truncated segment would fault.
    if (segment.p_type == PT_LOAD && !Inside(file, segment.p_offset, segment.p_filesz))
      return NoModule("it is cut off");
  }
  for (std::uint64_t i = 0; i < head.e_shnum; ++i) {
    Elf64_Shdr symbols, strings;
    if (!ReadAt(file, head.e_shoff + i * sizeof symbols, symbols)) break;
    if (symbols.sh_type != SHT_DYNSYM) continue;
    if (symbols.sh_link >= head.e_shnum || !ReadAt(file, head.e_shoff + symbols.sh_link * sizeof strings, strings) ||
        !Inside(file, symbols.sh_offset, symbols.sh_size) || !Inside(file, strings.sh_offset, strings.sh_size))
      return NoModule("its dynamic symbols are not where its section headers say");
    return FindSymbol(
        file.subspan(static_cast<std::size_t>(symbols.sh_offset), static_cast<std::size_t>(symbols.sh_size)),
        file.subspan(static_cast<std::size_t>(strings.sh_offset), static_cast<std::size_t>(strings.sh_size)));
  }
  return NoModule("it has no dynamic symbols");
}

}  // namespace weir::modules
