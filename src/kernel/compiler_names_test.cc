// SPDX-License-Identifier: Apache-2.0
#include "kernel/compiler_names.h"

#include <gtest/gtest.h>

namespace weir::kernel {
namespace {

std::string DependencyOf(const std::string& source, const std::vector<std::string>& options = {},
                         const std::vector<std::string>& macros = {}) {
  return AsksItsCompiler(source, options, macros);
}

std::string Depends(const std::string& on) { return "its source requires " + on + ", which depends on the compiler"; }

TEST(CompilerNames, MacrosThatTheProgramDefinesAreKnown) {
  EXPECT_EQ(DependencyOf("#ifdef USE_DOUBLE\n#endif\n#if TILE > 4\n#endif\nkernel void f() { }"), "");
  EXPECT_EQ(DependencyOf("#define __SIZE 4\n#if __SIZE == 4\n#endif"), "");
  EXPECT_EQ(DependencyOf("#if __SIZE == 4\n#endif", {"__SIZE=4"}), "");
  EXPECT_EQ(DependencyOf("#ifndef __KERNELS_H__\n#define __KERNELS_H__\n#define __A\n#ifdef __A\n#endif\n#endif"), "");
}

TEST(CompilerNames, FindsNamesThatTheCompilerDefines) {
  EXPECT_EQ(DependencyOf("#ifdef __NV_CL_C_VERSION\n#endif"), Depends("__NV_CL_C_VERSION"));
  EXPECT_EQ(DependencyOf("#if defined(A) || defined (cl_khr_fp64)\n#endif"), Depends("cl_khr_fp64"));
  EXPECT_EQ(DependencyOf("  #  if 0\n#elif __OPENCL_VERSION__ >= 200\n#endif"), Depends("__OPENCL_VERSION__"));
  EXPECT_EQ(DependencyOf("#ifdef FP_FAST_FMAF\n#endif"), Depends("FP_FAST_FMAF"));
  EXPECT_EQ(DependencyOf("#ifndef M_PI_F\n#define M_PI_F 3.14f\n#endif"), Depends("M_PI_F"));
  EXPECT_EQ(DependencyOf("#undef M_PI\n"), Depends("M_PI"));
  EXPECT_EQ(DependencyOf("#if __has_builtin(x)\n#endif"), Depends("__has_builtin"));
}

TEST(CompilerNames, FindsNamesBehindMacros) {
  EXPECT_EQ(DependencyOf("#define DOUBLES defined(cl_khr_fp64)\n#define D DOUBLES\n#if D\n#endif"),
            Depends("cl_khr_fp64"));
  EXPECT_EQ(DependencyOf("#if\\\ndef __AMD__\n#endif"), Depends("__AMD__"));
  EXPECT_EQ(DependencyOf("#if \\  \n __AMD__\n#endif"), Depends("__AMD__"));
  EXPECT_EQ(DependencyOf("#if\\\r\ndef __AMD__\n#endif"), Depends("__AMD__"));
  EXPECT_EQ(DependencyOf("#if\\\rdef __AMD__\r#endif"), Depends("__AMD__"));
  EXPECT_EQ(DependencyOf("// lines end as on old computers\r#ifdef __AMD__\r#endif"), Depends("__AMD__"));
  EXPECT_EQ(DependencyOf("#/**/ifdef __AMD__\n#endif"), Depends("__AMD__"));
  EXPECT_EQ(DependencyOf("%:ifdef __AMD__\n%:endif"), Depends("a digraph"));
  EXPECT_EQ(DependencyOf("?\?=ifdef __AMD__\n?\?=endif"), "its source has trigraphs");
  EXPECT_EQ(DependencyOf("#if D\n#endif", {"D=__AMD__"}), Depends("__AMD__"));
  EXPECT_EQ(DependencyOf("#define CAT(a, b) a##b\n#if CAT(A, MD)\n#endif"), Depends("what 'CAT' pastes together"));
  EXPECT_EQ(DependencyOf("#if A\n#define __X\n#endif\n#ifdef __X\n#endif"), Depends("__X"));
}

TEST(CompilerNames, OutsideConditionsTheyArePlainIdentifiers) {
  EXPECT_EQ(DependencyOf("#define B barrier(CLK_LOCAL_MEM_FENCE)\n__kernel void f() { B; float x = FLT_MAX * M_PI_F; "
                         "int v = __OPENCL_VERSION__ + __LINE__; } // __FILE__ \n"),
            "");
  EXPECT_EQ(DependencyOf("#define CAT(a, b) a##b\n__kernel void f() { int CAT(x, __LINE__) = CLK_LOCAL_MEM_FENCE; }"),
            "");
  EXPECT_EQ(DependencyOf("#define CAT(a, b) a##b\nint CAT(x, __OPENCL_VERSION__);"), Depends("__OPENCL_VERSION__"));
  EXPECT_EQ(DependencyOf("constant char* where = __FILE__;"), Depends("__FILE__"));
}

TEST(CompilerNames, MacrosGivenForTheDeviceAreKnown) {
  const std::vector<std::string> macros{"cl_khr_fp64", "__OPENCL_VERSION__=300"};
  EXPECT_EQ(DependencyOf("#ifdef cl_khr_fp64\n#endif\n#ifdef cl_khr_fp16\n#endif", {}, macros), "");
  EXPECT_EQ(DependencyOf("#if __OPENCL_VERSION__ > 120\n#endif", {}, macros), "");
  EXPECT_EQ(DependencyOf("#ifdef __NV_CL_C_VERSION\n#endif", {}, macros), Depends("__NV_CL_C_VERSION"));
}

TEST(CompilerNames, TextThatPreprocessingKeepsIsKnown) {
  const std::vector<std::string> none, macros{"__OPENCL_VERSION__=300"}, options{"N(x)=x"};
  EXPECT_TRUE(IsPreprocessed("// #define\n#pragma unroll\nint x = FLT_MAX; char* s = \"#\";", options, macros));
  EXPECT_FALSE(IsPreprocessed("int x = __OPENCL_VERSION__;", none, macros));
  EXPECT_FALSE(IsPreprocessed("int x = N(1);", options, none));
  EXPECT_FALSE(IsPreprocessed("int x = __LINE__;", none, none));
  EXPECT_FALSE(IsPreprocessed("#define A\n", none, none));
  EXPECT_FALSE(IsPreprocessed("in\\\nt x;", none, none));
  EXPECT_FALSE(IsPreprocessed("// a comment \\\nof two lines\nint x;", none, none));
  EXPECT_FALSE(IsPreprocessed("// a comment \\ \rof two lines\nint x;", none, none));
  EXPECT_FALSE(IsPreprocessed("/* it ends here *\\\n/ int x; /* */", none, none));
  EXPECT_FALSE(IsPreprocessed("// a comment ?\?/\nof two lines\nint x;", none, none));
  EXPECT_TRUE(IsPreprocessed("// a comment\r\nint x;\r\n", none, none));
}

TEST(CompilerNames, SplitsOptions) {
  const std::vector<std::string> options{"-DA", "-D", "B=1", "-cl-std=CL1.2", "-UC", "-D'x", "-D"};
  EXPECT_EQ(MacrosOfOptions(options), (std::vector<std::string>{"A", "B=1", "C", "'x"}));
  EXPECT_EQ(MacroName("F(x)=x"), "F");
  EXPECT_EQ(MacroName("A=B=C"), "A");
}

}  // namespace
}  // namespace weir::kernel
