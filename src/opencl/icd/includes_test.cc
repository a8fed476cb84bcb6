// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/includes.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/harness/temp_folder.h"

namespace weir::opencl::icd {
namespace {

using Files = std::map<std::string, std::string>;

class Includes : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& content) {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << content;
  }
  testing::TempFolder folder_;
};

TEST(BuildOptions, LosesIncludePathsInEveryForm) {
  const BuildOptions read = ReadBuildOptions("-I a -Ib -DX=1 -I \"c d\" -cl-fast-relaxed-math -D Y=2");
  EXPECT_EQ(read.folders, (std::vector<std::string>{"a", "b", "c d"}));
  EXPECT_EQ(read.text, "-DX=1 -cl-fast-relaxed-math -D Y=2");
  EXPECT_FALSE(read.arg_info);
  EXPECT_TRUE(ReadBuildOptions(" -cl-kernel-arg-info ").arg_info);
}

TEST(BuildOptions, KeepQuotesAsTheyAre) {
  EXPECT_EQ(ReadBuildOptions("-DNAME=\"a b\" -DX='c'").text, "-DNAME=\"a b\" -DX='c'");
}

TEST_F(Includes, AreFoundInFoldersInOrderAndBesideTheirIncluder) {
  Write("one/a.h", "#include \"sub/b.h\"\n");
  Write("two/a.h", "wrong one");
  Write("one/sub/b.h", "  #  include <c.h>\n#include \"d.h\"");
  Write("two/c.h", "c");
  Write("one/sub/d.h", "d");
  const BuildOptions options = ReadBuildOptions("-I " + folder_ / "one" + " -I" + folder_ / "two");
  const Files found = FindIncludedFiles("#include <a.h>\n#include \"absent.h\"\nkernel void f() {}", options);
  EXPECT_EQ(found, (Files{{"a.h", "#include \"sub/b.h\"\n"},
                          {"sub/b.h", "  #  include <c.h>\n#include \"d.h\""},
                          {"c.h", "c"},
                          {"sub/d.h", "d"},
                          {"d.h", "d"}}));
}

TEST_F(Includes, MayGoUpFromTheirFolder) {
  Write("k/top.h", "#include \"../common/x.h\"");
  Write("common/x.h", "x");
  const Files found = FindIncludedFiles("#include \"top.h\"", ReadBuildOptions("-I " + folder_ / "k"));
  EXPECT_EQ(found.at("../common/x.h"), "x");
}

TEST_F(Includes, OfEachOtherEnd) {
  Write("a.h", "#include \"b.h\"");
  Write("b.h", "#include \"a.h\"");
  EXPECT_EQ(FindIncludedFiles("#include \"a.h\"", ReadBuildOptions("-I" + folder_.path())).size(), 2U);
}

/// hashcat: -D INCLUDE_PATH=/usr/share/hashcat/OpenCL and #include M2S(INCLUDE_PATH/inc_types.h)
TEST_F(Includes, ByMacrosForFoldersAreFoundUnderARelativeName) {
  Write("inc/types.h", "#include M2S(INCLUDE_PATH/more.h)");
  Write("inc/more.h", "more");
  Write("inc/unused.h", "unused");
  const std::string folder = folder_ / "inc";
  const BuildOptions options = ReadBuildOptions("-D INCLUDE_PATH=" + folder + " -DN=1");
  const std::string relative = folder.substr(1);
  EXPECT_EQ(options.text, "-D INCLUDE_PATH=" + relative + " -DN=1");
  const Files found = FindIncludedFiles("#define M2S(x) S(x)\n#include M2S(INCLUDE_PATH/types.h)", options);
  EXPECT_EQ(found,
            (Files{{relative + "/types.h", "#include M2S(INCLUDE_PATH/more.h)"}, {relative + "/more.h", "more"}}));
}

TEST_F(Includes, ByUnknownMacrosBringAllHeadersOfTheFolders) {
  Write("inc/a.h", "a");
  Write("inc/sub/b.cl", "b");
  Write("inc/readme.txt", "not a header");
  const Files found = FindIncludedFiles("#include WHICH", ReadBuildOptions("-I" + folder_ / "inc -DWHICH=<a.h>"));
  EXPECT_EQ(found, (Files{{"a.h", "a"}, {"sub/b.cl", "b"}}));
}

TEST_F(Includes, ByAbsoluteNamesAreFoundUnderRelativeOnes) {
  Write("inc/a.h", "#include <" + (folder_ / "inc/b.h") + ">\n// a");
  Write("inc/b.h", "b");
  const std::string relative = (folder_ / "inc/").substr(1);
  const std::string source = "int x;\n# include \"" + (folder_ / "inc/a.h") + "\"\n#include \"c.h\"\n";
  EXPECT_EQ(FindIncludedFiles(source, ReadBuildOptions("")),
            (Files{{relative + "a.h", "#include <" + relative + "b.h>\n// a"}, {relative + "b.h", "b"}}));
  EXPECT_EQ(WithRelativeIncludes(source), "int x;\n# include \"" + relative + "a.h\"\n#include \"c.h\"\n");
}

TEST_F(Includes, AreBounded) {
  Write("big.h", std::string(kIncludedBytesMax + 1, ' '));
  EXPECT_TRUE(FindIncludedFiles("#include \"big.h\"", ReadBuildOptions("-I" + folder_.path())).empty());
}

}  // namespace
}  // namespace weir::opencl::icd
