// SPDX-License-Identifier: Apache-2.0
#include "modules/module_image.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <weir/module.h>

#include <cstring>
#include <fstream>
#include <iterator>

namespace weir::modules {
namespace {

/// Headers of a shared object with one dynamic symbol of the given name, kind and size; it can't be loaded.
struct SmallImage {
  std::string symbol = WEIR_MODULE_SYMBOL;
  unsigned char kind = STT_OBJECT;
  std::uint64_t symbol_bytes = sizeof(weir_module);
  std::uint16_t section = 1, type = ET_DYN, machine = 0;  // machine 0: this machine's
  bool interpreter = false;

  [[nodiscard]] std::string Bytes() const {
    struct Layout {
      Elf64_Ehdr head{};
      Elf64_Phdr segment{};
      Elf64_Shdr sections[2]{};
      Elf64_Sym symbols[2]{};
      char names[64]{};
    } image;
    std::ifstream self("/proc/self/exe", std::ios::binary);
    self.read(reinterpret_cast<char*>(&image.head), sizeof image.head);
    if (machine != 0) image.head.e_machine = machine;
    image.head.e_type = type;
    image.head.e_phoff = offsetof(Layout, segment);
    image.head.e_phnum = 1;
    image.head.e_shoff = offsetof(Layout, sections);
    image.head.e_shnum = 2;
    image.segment.p_type = interpreter ? PT_INTERP : PT_LOAD;
    image.segment.p_filesz = sizeof image;
    image.sections[0].sh_type = SHT_DYNSYM;
    image.sections[0].sh_link = 1;
    image.sections[0].sh_offset = offsetof(Layout, symbols);
    image.sections[0].sh_size = sizeof image.symbols;
    image.sections[1].sh_type = SHT_STRTAB;
    image.sections[1].sh_offset = offsetof(Layout, names);
    image.sections[1].sh_size = sizeof image.names;
    image.symbols[1].st_name = 1;
    image.symbols[1].st_info = ELF64_ST_INFO(STB_GLOBAL, kind);
    image.symbols[1].st_shndx = section;
    image.symbols[1].st_size = symbol_bytes;
    std::strncpy(image.names + 1, symbol.c_str(), sizeof image.names - 2);
    return {reinterpret_cast<const char*>(&image), sizeof image};
  }
};

std::string WhyNot(std::string_view bytes) {
  const Status status = CheckModuleImage(std::as_bytes(std::span(bytes)));
  return status ? "" : status.error().message;
}

TEST(ModuleImage, OneThatExportsTheTableIsTaken) { EXPECT_EQ(WhyNot(SmallImage{}.Bytes()), ""); }

TEST(ModuleImage, ReportsWhyAFileIsNotAModule) {
  const auto says = [](const std::string& bytes, const char* what) {
    EXPECT_NE(WhyNot(bytes).find(what), std::string::npos) << WhyNot(bytes);
  };
  says("", "shared object (ELF)");
  says("#!/bin/sh\n", "shared object (ELF)");
  says(SmallImage{.symbol = "main"}.Bytes(), "exports no weir_module_v1");
  says(SmallImage{.kind = STT_FUNC}.Bytes(), "is not an object");
  says(SmallImage{.symbol_bytes = 8}.Bytes(), "has 8 bytes");
  says(SmallImage{.section = SHN_UNDEF}.Bytes(), "only uses");
  says(SmallImage{.type = ET_REL}.Bytes(), "not a shared object");
  says(SmallImage{.machine = EM_386}.Bytes(), "another machine");
  says(SmallImage{.interpreter = true}.Bytes(), "is a program");
}

TEST(ModuleImage, CutOffAnywhereItIsRefused) {
  const std::string whole = SmallImage{}.Bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_NE(WhyNot(whole.substr(0, size)), "") << size;
}

}  // namespace
}  // namespace weir::modules
