// SPDX-License-Identifier: Apache-2.0
#include "cli/common/program.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace weir::cli {
namespace {

namespace fs = std::filesystem;

std::string FirstBytes(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(4096, '\0');
  file.read(bytes.data(), 4096);
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

/// This machine's ELF header followed by segments of these types.
std::string MakeElf(const std::vector<Elf64_Word>& types) {
  Elf64_Ehdr header{};
  const std::string self = FirstBytes("/proc/self/exe");
  std::memcpy(&header, self.data(), sizeof(header));
  header.e_phoff = sizeof(header);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = static_cast<Elf64_Half>(types.size());
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  for (const Elf64_Word type : types) {
    Elf64_Phdr segment{};
    segment.p_type = type;
    bytes.append(reinterpret_cast<const char*>(&segment), sizeof(segment));
  }
  return bytes;
}

class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest() {
    std::string name = ::testing::TempDir() + "/weir-program-XXXXXX";
    dir_ = mkdtemp(name.data());
  }
  ~ProgramTest() override { fs::remove_all(dir_); }
  std::string Write(const std::string& name, const std::string& bytes, mode_t mode = 0755) {
    const fs::path path = dir_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    chmod(path.c_str(), mode);
    return path;
  }
  fs::path dir_;
};

TEST(InspectImage, KnowsADynamicProgramFromAStaticOne) {
  EXPECT_EQ(InspectImage(FirstBytes("/bin/ls")), ImageKind::kDynamic);
  EXPECT_EQ(InspectImage(MakeElf({PT_LOAD, PT_INTERP, PT_LOAD})), ImageKind::kDynamic);
  EXPECT_EQ(InspectImage(MakeElf({PT_LOAD, PT_LOAD})), ImageKind::kStatic);
  EXPECT_EQ(InspectImage(MakeElf({PT_LOAD, PT_DYNAMIC})), ImageKind::kStatic)
      << "a static position-independent program";
}

TEST(InspectImage, KnowsOtherWordSizesAndMachines) {
  std::string narrow = MakeElf({PT_INTERP});
  narrow[EI_CLASS] = ELFCLASS32;
  EXPECT_EQ(InspectImage(narrow), ImageKind::kForeign);
  std::string machine = MakeElf({PT_INTERP});
  machine[offsetof(Elf64_Ehdr, e_machine)] = static_cast<char>(EM_SPARC);
  EXPECT_EQ(InspectImage(machine), ImageKind::kForeign);
}

TEST(InspectImage, DistinguishesScriptsDataAndEmptyFiles) {
  EXPECT_EQ(InspectImage("#!/bin/sh\n"), ImageKind::kScript);
  EXPECT_EQ(InspectImage({"MZ\x90\0", 4}), ImageKind::kWindows);
  EXPECT_EQ(InspectImage("MZ_HOME=/opt/mz\n"), ImageKind::kOther);
  EXPECT_EQ(InspectImage({"MZqFpD='\n\0", 10}), ImageKind::kOther);
  EXPECT_EQ(InspectImage("echo hello\n"), ImageKind::kOther);
  EXPECT_EQ(InspectImage(""), ImageKind::kOther);
}

TEST(InspectImage, NeverReadsBeyondACutOrCraftedFile) {
  const std::string whole = MakeElf({PT_LOAD, PT_INTERP});
  for (std::size_t size = 0; size < whole.size(); ++size) InspectImage(whole.substr(0, size));
  std::string crafted = whole;
  std::memset(crafted.data() + offsetof(Elf64_Ehdr, e_phoff), 0xFF, sizeof(Elf64_Off));
  EXPECT_EQ(InspectImage(crafted), ImageKind::kOther);
  crafted = whole;
  std::memset(crafted.data() + offsetof(Elf64_Ehdr, e_phnum), 0xFF, sizeof(Elf64_Half));
  EXPECT_EQ(InspectImage(crafted), ImageKind::kOther);
}

Privilege User() {
  Privilege p;
  p.caller_uid = p.effective_uid = p.caller_gid = p.effective_gid = 1000;
  p.mode = 0755;
  return p;
}

TEST(DropsPreload, ForPrivilegesThatTheCallerLacks) {
  EXPECT_FALSE(DropsPreload(User()));
  Privilege setuid = User();
  setuid.mode |= S_ISUID;
  EXPECT_TRUE(DropsPreload(setuid));
  Privilege setgid = User();
  setgid.mode |= S_ISGID;
  EXPECT_TRUE(DropsPreload(setgid));
  setgid.mode &= ~static_cast<mode_t>(S_IXGRP);
  EXPECT_FALSE(DropsPreload(setgid)) << "without group execution the bit means mandatory locking";
  Privilege capabilities = User();
  capabilities.file_capabilities = true;
  EXPECT_TRUE(DropsPreload(capabilities));
}

TEST(DropsPreload, NotForPrivilegesThatTheCallerHasAnyway) {
  Privilege root;  // all ids 0
  root.mode = 0755 | S_ISUID | S_ISGID;
  root.file_capabilities = true;
  EXPECT_FALSE(DropsPreload(root)) << "setuid root, run by root";
  Privilege own = User();
  own.mode |= S_ISUID;
  own.file_uid = 1000;
  EXPECT_FALSE(DropsPreload(own));
  Privilege ignored = User();
  ignored.mode |= S_ISUID;
  ignored.file_capabilities = ignored.ignored = true;
  EXPECT_FALSE(DropsPreload(ignored)) << "on a nosuid mount, or with no_new_privs";
}

TEST_F(ProgramTest, FindsWhatThePathHolds) {
  const auto ls = FindProgram("ls");
  ASSERT_TRUE(ls) << ls.error().message;
  EXPECT_EQ(fs::path(ls->path).filename(), "ls");
  EXPECT_EQ(ls->caution, "");
  EXPECT_EQ(FindProgram("weir-no-such-program").error().code, Errc::kNotFound);
  EXPECT_EQ(FindProgram((dir_ / "none").string()).error().code, Errc::kNotFound);
  EXPECT_EQ(FindProgram("").error().code, Errc::kNotFound);
}

TEST_F(ProgramTest, RefusesFoldersAndWhatIsNotExecutable) {
  EXPECT_EQ(FindProgram(dir_.string()).error().code, Errc::kPermissionDenied);
  EXPECT_EQ(FindProgram(Write("plain", "x", 0644)).error().code, Errc::kPermissionDenied);
}

TEST_F(ProgramTest, CautionsAboutAStaticProgramButNotAboutAScript) {
  const auto fixed = FindProgram(Write("fixed", MakeElf({PT_LOAD})));
  ASSERT_TRUE(fixed);
  EXPECT_NE(fixed->caution.find("statically linked"), std::string::npos);
  const auto script = FindProgram(Write("script", "#!/bin/sh\n", 04755));
  ASSERT_TRUE(script);
  EXPECT_EQ(script->caution, "");
  EXPECT_FALSE(script->windows);
}

TEST_F(ProgramTest, AWindowsProgramIsNoReasonToBeCautious) {
  const auto program = FindProgram(Write("game.exe", {"MZ\x90\0", 4}));
  ASSERT_TRUE(program);
  EXPECT_TRUE(program->windows);
  EXPECT_EQ(program->caution, "") << "where Wine is registered, its process loads the shim";
}

}  // namespace
}  // namespace weir::cli
