// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/elf_image.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace weir::cli {
namespace {

ElfImage ParseText(const std::string& bytes) {
  return ParseElf([&bytes](std::uint64_t offset, std::size_t size) {
    return offset < bytes.size() ? bytes.substr(offset, size) : std::string();
  });
}

template <typename T>
void Put(std::string& bytes, std::size_t at, const T& value) {
  if (bytes.size() < at + sizeof(T)) bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

/// A program of this machine: header, three segments, an interpreter, a dynamic section, its strings.
std::string MakeProgram() {
  constexpr std::size_t kInterp = 0x200, kDynamic = 0x300, kStrings = 0x400;
  std::string bytes(0x500, '\0');
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = OwnMachine();
  header.e_phoff = sizeof(header);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 3;
  Put(bytes, 0, header);
  auto segment = [&](std::size_t i, Elf64_Word type, std::uint64_t offset, std::uint64_t address, std::uint64_t size) {
    Elf64_Phdr one{};
    one.p_type = type;
    one.p_offset = offset;
    one.p_vaddr = address;
    one.p_filesz = size;
    Put(bytes, header.e_phoff + i * sizeof(one), one);
  };
  segment(0, PT_INTERP, kInterp, 0, 11);
  segment(1, PT_LOAD, 0, 0x10000, bytes.size());
  segment(2, PT_DYNAMIC, kDynamic, 0x10000 + kDynamic, 4 * sizeof(Elf64_Dyn));
  bytes.replace(kInterp, 10, "/lib/ld.so");
  auto entry = [&](std::size_t i, Elf64_Sxword tag, std::uint64_t value) {
    Elf64_Dyn one{};
    one.d_tag = tag;
    one.d_un.d_val = value;
    Put(bytes, kDynamic + i * sizeof(one), one);
  };
  entry(0, DT_NEEDED, 1);
  entry(1, DT_STRTAB, 0x10000 + kStrings);
  entry(2, DT_NEEDED, 12);
  bytes.replace(kStrings + 1, 10, "libGL.so.1");
  bytes.replace(kStrings + 12, 9, "libc.so.6");
  return bytes;
}

TEST(ElfImage, ReadsTheLoaderAndTheLinkedLibraries) {
  const ElfImage image = ParseText(MakeProgram());
  EXPECT_TRUE(image.readable);
  EXPECT_EQ(image.bits, 64);
  EXPECT_EQ(image.machine, OwnMachine());
  EXPECT_EQ(image.loader, "/lib/ld.so");
  EXPECT_EQ(image.needed, (std::vector<std::string>{"libGL.so.1", "libc.so.6"}));
}

TEST(ElfImage, ReadsThisTestProgram) {
  const std::filesystem::path self("/proc/self/exe");
  std::string bytes(std::filesystem::file_size(self), '\0');
  ASSERT_TRUE(std::ifstream(self, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size())));
  const ElfImage image = ParseText(bytes);
  EXPECT_TRUE(image.readable);
  EXPECT_NE(image.loader, "");
  EXPECT_TRUE(std::any_of(image.needed.begin(), image.needed.end(),
                          [](const std::string& name) { return name.starts_with("libc.so"); }));
}

TEST(ElfImage, ReadsTheMachineOfAnotherWordSize) {
  std::string bytes = MakeProgram();
  bytes[EI_CLASS] = ELFCLASS32;
  Put(bytes, EI_NIDENT + 2, std::uint16_t{EM_386});
  const ElfImage image = ParseText(bytes);
  EXPECT_EQ(image.bits, 32);
  EXPECT_EQ(MachineName(image.machine), "i386");
  EXPECT_EQ(image.loader, "");
}

TEST(ElfImage, OtherFilesHaveNoWordSize) {
  EXPECT_EQ(ParseText("").bits, 0);
  EXPECT_EQ(ParseText("#!/bin/sh\n").bits, 0);
  EXPECT_EQ(ParseText("\x7f"
                      "ELF")
                .bits,
            0);
}

TEST(ElfImage, RefusesATruncatedFile) {
  const std::string whole = MakeProgram();
  for (std::size_t size = 0; size < 64 + 3 * 56; ++size)
    EXPECT_FALSE(ParseText(whole.substr(0, size)).readable) << size;
}

TEST(ElfImage, ReadsTheFirstOfManyDynamicSections) {
  constexpr std::size_t kSegments = 256;
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_phoff = sizeof(header);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = kSegments;
  std::string bytes(sizeof(header) + kSegments * sizeof(Elf64_Phdr), '\1');
  Put(bytes, 0, header);
  Elf64_Phdr dynamic{};
  dynamic.p_type = PT_DYNAMIC;
  dynamic.p_filesz = std::uint64_t{1} << 40;
  for (std::size_t i = 0; i < kSegments; ++i) Put(bytes, header.e_phoff + i * sizeof(dynamic), dynamic);
  std::size_t reads = 0;
  const ElfImage image = ParseElf([&](std::uint64_t offset, std::size_t size) {
    ++reads;
    // Endless entries at every offset.
    return offset < sizeof(header) + kSegments * sizeof(dynamic) && size != sizeof(Elf64_Dyn)
               ? bytes.substr(offset, size)
               : std::string(size, '\1');
  });
  EXPECT_TRUE(image.readable);
  EXPECT_LT(reads, 5'000U);
}

RC_GTEST_PROP(ElfImage, SurvivesAnyBytesInTheHeaders, ()) {
  std::string bytes = MakeProgram();
  const int flips = *rc::gen::inRange(1, 20);
  for (int i = 0; i < flips; ++i) bytes[*rc::gen::inRange<std::size_t>(4, bytes.size())] = *rc::gen::arbitrary<char>();
  const ElfImage image = ParseText(bytes);
  RC_ASSERT(image.needed.size() <= 256U && image.loader.size() <= 4096U);
}

TEST(ScriptLine, HasItsInterpreterAndOneArgument) {
  EXPECT_EQ(ParseScriptLine("#!/bin/sh\necho").interpreter, "/bin/sh");
  EXPECT_EQ(ParseScriptLine("#! /usr/bin/env python3 -u \nx").interpreter, "/usr/bin/env");
  EXPECT_EQ(ParseScriptLine("#! /usr/bin/env python3 -u \nx").argument, "python3 -u");
  EXPECT_EQ(ParseScriptLine("#!").interpreter, "");
  EXPECT_EQ(ParseScriptLine("#!/bin/sh").interpreter, "/bin/sh");
  EXPECT_EQ(ParseScriptLine("#!/bin/sh\r\n").interpreter, "/bin/sh");
}

}  // namespace
}  // namespace weir::cli
