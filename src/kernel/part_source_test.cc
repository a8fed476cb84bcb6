// SPDX-License-Identifier: Apache-2.0
#include "kernel/part_source.h"

#include <gtest/gtest.h>

#include "kernel/source_tokens.h"

namespace weir::kernel {
namespace {

/// A kernel with arguments as in "bsl": buffer, scalar, local memory.
KernelAccess KernelOf(const std::string& name, const std::string& kinds) {
  KernelAccess access{.kernel = name, .verdict = AccessVerdict::kExact};
  for (const char kind : kinds)
    access.arguments.push_back({.kind = kind == 'b'   ? ArgumentKind::kBuffer
                                        : kind == 'l' ? ArgumentKind::kLocal
                                                      : ArgumentKind::kScalar});
  return access;
}

/// The part source of a source with one kernel f.
PartSource PartsOf(const std::string& source, const std::string& kinds) {
  const std::vector<KernelAccess> kernels{KernelOf("f", kinds)};
  return MakePartSource(source, kernels);
}

std::string WhyNot(const std::string& source, const std::string& kinds) {
  const PartSource made = PartsOf(source, kinds);
  EXPECT_EQ(made.parts.size(), 1U);
  EXPECT_EQ(made.text.empty(), !made.parts[0].why_not.empty());
  return made.parts[0].why_not;
}

/// Removes spaces, so that tests don't depend on them.
std::string Dense(const std::string& text) {
  std::string dense;
  for (const SourceToken& token : TokensOf(text)) {
    if (!dense.empty()) dense += ' ';
    dense += token.text;
  }
  return dense;
}

void ExpectContains(const std::string& text, const std::string& what) {
  EXPECT_NE((" " + Dense(text) + " ").find(" " + Dense(what) + " "), std::string::npos) << what << "\nis not in\n"
                                                                                        << text;
}

TEST(SourceTokens, DistinguishesWordsNumbersStringsAndSigns) {
  const auto tokens = TokensOf("a1 0x1p-3f 1.e+5 .5f \"s\\\"/*\" 'c' a->b /* \n x */ // y\n#pragma z");
  std::vector<std::string> texts;
  texts.reserve(tokens.size());
  for (const SourceToken& token : tokens) texts.emplace_back(token.text);
  EXPECT_EQ(texts, (std::vector<std::string>{"a1", "0x1p-3f", "1.e+5", ".5f", "\"s\\\"/*\"", "'c'", "a", "-", ">", "b",
                                             "#", "pragma", "z"}));
  EXPECT_TRUE(tokens[10].line_start);
  EXPECT_FALSE(tokens[8].space_before);
}

TEST(SourceTokens, ACarriageReturnEndsALine) {
  const auto tokens = TokensOf("// one\ra \"b\r#pragma c\r\nd");
  std::vector<std::string> texts;
  for (const SourceToken& token : tokens) texts.emplace_back(token.text);
  EXPECT_EQ(texts, (std::vector<std::string>{"a", "\"b", "#", "pragma", "c", "d"}));
  for (const std::size_t first : {0U, 2U, 5U}) EXPECT_TRUE(tokens[first].line_start);
}

TEST(SourceTokens, ClassifiesForeignCharactersAsOther) {
  for (const char* text : {"\"unclosed", "'x\n", "/* unclosed", "\\", "a <: b", "%:define", "\xC3\xA9", "@", "`",
                           "\x01", "1'000 + f(1'000)", "R\"(x\" + f(\"y)\""}) {
    const auto tokens = TokensOf(text);
    EXPECT_TRUE(std::any_of(tokens.begin(), tokens.end(), [](const auto& one) {
      return one.kind == TokenKind::kOther;
    })) << text;
  }
}

TEST(PartSource, BuffersAreRebasedAndTheRestStays) {
  const PartSource made = PartsOf(
      "__attribute__((reqd_work_group_size(8, 1, 1))) kernel void f(global const float* restrict in,\n"
      "  __global float4 *out, local int* part, int n) {\n  out[get_global_id(0)] = in[n];\n}\n",
      "bbls");
  ASSERT_EQ(made.parts[0].why_not, "");
  EXPECT_EQ(Dense(made.text),
            Dense("__attribute__((reqd_work_group_size(8, 1, 1))) kernel void weir_part_f("
                  "global const float* restrict weir_given_0, __global float4 *weir_given_1, local int* part, int n, "
                  "long weir_offset_0, long weir_offset_1, ulong16 weir_part) {"
                  "global const float* restrict in = (global const float*)((global char*)weir_given_0 - weir_offset_0);"
                  "__global float4 *out = (__global float4 *)((__global char*)weir_given_1 - weir_offset_1);"
                  "out[get_global_id(0)] = in[n]; }"));
}

TEST(PartSource, AKernelWithoutArgumentsGetsThePartAlone) {
  ExpectContains(PartsOf("kernel void f(void) { }", "").text, "weir_part_f(ulong16 weir_part) {");
  ExpectContains(PartsOf("kernel void f() { }", "").text, "weir_part_f(ulong16 weir_part) {");
}

TEST(PartSource, WorkItemQueriesUseThePart) {
  const std::string text =
      PartsOf(
          "kernel void f(global ulong* p) { p[get_global_linear_id()] = get_group_id(get_work_dim()"
          " - 1) + get_num_groups(0) * get_global_size((1)) - get_global_offset(2); }",
          "b")
          .text;
  ExpectContains(
      text,
      "p[weir_global_linear_id(weir_part)] = weir_group_id(weir_part, get_work_dim() - 1) + "
      "weir_num_groups(weir_part, 0) * weir_global_size(weir_part, (1)) - weir_global_offset(weir_part, 2);");
  ExpectContains(text, "size_t weir_group_id(ulong16 weir_part, uint weir_d) { return get_group_id(weir_d) +");
}

TEST(PartSource, FunctionsWithQueriesGetThePartFromTheirCallers) {
  const std::string text = PartsOf(
                               "size_t first(void); int plain(int x) { return x; }\n"
                               "size_t next(int k) { return first () + plain(k); }\n"
                               "size_t first() { return get_group_id(0); }\n"
                               "kernel void f(global int* p) { p[next(plain(1))] = (int)first(); }",
                               "b")
                               .text;
  ExpectContains(text, "size_t first(ulong16 weir_part);");
  ExpectContains(text, "int plain(int x) { return x; }");
  ExpectContains(text, "size_t next(ulong16 weir_part, int k) { return first(weir_part) + plain(k); }");
  ExpectContains(text, "size_t first(ulong16 weir_part) { return weir_group_id(weir_part, 0); }");
  ExpectContains(text, "p[next(weir_part, plain(1))] = (int)first(weir_part);");
}

TEST(PartSource, AKernelThatIsCalledIsAFunctionToo) {
  const std::vector<KernelAccess> kernels{KernelOf("f", "b"), KernelOf("g", "b")};
  const PartSource made = MakePartSource(
      "kernel void g(global int* p);\n"
      "kernel __attribute__((vec_type_hint(int))) void g(global int* p) { p[get_group_id(0)] = 1; }\n"
      "kernel void f(global int* q) { g(q); }",
      kernels);
  EXPECT_EQ(made.parts, (std::vector<PartKernel>{{.kernel = "f"}, {.kernel = "g"}}));
  ExpectContains(made.text, "void g(ulong16 weir_part, global int* p);");
  ExpectContains(made.text, "void g(ulong16 weir_part, global int* p) { p[weir_group_id(weir_part, 0)] = 1; }");
  ExpectContains(made.text, "g(weir_part, q);");
  ExpectContains(made.text, "kernel __attribute__((vec_type_hint(int))) void weir_part_g(global int* weir_given_0,");
}

TEST(PartSource, RefusedKernelsAreLeftOut) {
  std::vector<KernelAccess> kernels{KernelOf("f", "b"), KernelOf("g", "b")};
  kernels[1].verdict = AccessVerdict::kRefuse;
  const PartSource made =
      MakePartSource("kernel void g(global int* p[]) { printf(\"g\"); } kernel void f(global int* q) { }", kernels);
  EXPECT_EQ(made.parts, (std::vector<PartKernel>{{.kernel = "f"}}));
  EXPECT_EQ(made.text.find("printf"), std::string::npos);
}

TEST(PartSource, OneUnsupportedKernelDoesNotAffectTheOthers) {
  const std::vector<KernelAccess> kernels{KernelOf("f", "b"), KernelOf("g", "b"), KernelOf("h", "")};
  const PartSource made =
      MakePartSource("kernel void f(global int p[4]) { } kernel void g(global int* q) { q[0] = 1; }", kernels);
  EXPECT_EQ(made.parts[0].why_not, "its argument 1 is an array; a pointer is understood");
  EXPECT_EQ(made.parts[1].why_not, "");
  EXPECT_EQ(made.parts[2].why_not, "its text wasn't found");
  EXPECT_EQ(made.text.find("weir_part_f"), std::string::npos);
}

TEST(PartSource, PragmasStayOnLinesOfTheirOwnAndLineMarkersGo) {
  const std::string text = PartsOf(
                               "# 1 \"<stdin>\"\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n# 7 \"<stdin>\" 2\n"
                               "kernel void f(global double* p) {\n#pragma unroll 4\nfor (;;) p[0]++; }",
                               "b")
                               .text;
  EXPECT_NE(text.find("#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"), std::string::npos);
  EXPECT_NE(text.find("\n#pragma unroll 4\n"), std::string::npos);
  EXPECT_EQ(text.find("stdin"), std::string::npos);
}

TEST(PartSource, MacrosOfTheOptionsAreUndefined) {
  const std::vector<KernelAccess> kernels{KernelOf("f", "")};
  const std::vector<std::string> macros{"TILE", "not a name", "x"};
  const std::string text = MakePartSource("kernel void f() { int x; }", kernels, macros).text;
  EXPECT_TRUE(text.starts_with("#undef TILE\n#undef x\n")) << text;
  EXPECT_EQ(text.find("not a name"), std::string::npos);
}

TEST(PartSource, KeepsDeclarationsOfManyKinds) {
  EXPECT_EQ(WhyNot("typedef struct __attribute__((packed)) S { int a[sizeof(int)]; struct { float b; }; } S;\n"
                   "struct T { S s; } __attribute__((aligned(16)));\nenum { kA = (1), kB };\nstruct Later;\n"
                   "constant int table[] = { (int)1, 2 }; static __constant float pi = (float)3;\n"
                   "const sampler_t sampler = 0x10;;\n"
                   "struct T make(int a) __attribute__((const)); global int* chosen(global int* a, int b);\n"
                   "struct T make(int a) { struct T t = { .s = { a } }; return t; }\n"
                   "__attribute__((always_inline)) inline int g(int a, int b) { return a ^ (b); }\n"
                   "kernel void f(global S* p) { p->a[0] = g(table[0], 1) ^ (2); }",
                   "b"),
            "");
}

TEST(PartSource, UnsupportedSourceIsReportedWithTheReason) {
  const std::string f = "kernel void f(global int* p) { }";
  const std::string asks = "size_t g(void) { return get_group_id(0); } ";
  for (const auto& [source, words] : std::vector<std::pair<std::string, std::string>>{
           {"int g(a) int a; { return a; }" + f, "isn't understood"},
           {"typedef int (*handler)(int);" + f, "pointer to a function"},
           {"int (*handler)(int);" + f, "pointer to a function"},
           {"global int counter;" + f, "isn't constant"},
           {"int counter = 0;" + f, "isn't constant"},
           {"constant int* global where;" + f, "isn't constant"},
           {"SURVIVED(x) " + f, "isn't understood"},
           {"kernel void f(global int* p) { void (^b)(int) = ^(int x) { }; }", "blocks"},
           {"kernel void f(global int* p) { ^{ }; }", "blocks"},
           {"kernel void f(global int* p) { __asm__(\"\"); }", "assembly"},
           {"kernel void f(global int* weir_x) { }", "begin with weir_"},
           {"#define X\n" + f, "directive"},
           {"kernel void f(global int* p) { p[0] = 1 # 2; }", "begins no line"},
           {"kernel void f(global int* p) { ( ] }", "brackets"},
           {"kernel void f(global int* p) { ", "brackets"},
           {"constant int x", "doesn't end"},
           {"kernel void f(global int* p) <% %>", "an unknown character"},
           {"kernel void f(global int* p) { p = \"", "an unknown character"},
           {"kernel void f(global int* p) { int get_group_id = 1; }", "otherwise than in a call"},
           {"kernel void f(global int* p) { p->get_group_id(0); }", "otherwise than in a call"},
           {"kernel void f(global int* p) { size_t get_group_id(uint); }", "otherwise than in a call"},
           {"kernel void f(global int* p) { get_group_id(); }", "otherwise than in a call"},
           {"size_t get_group_id(uint d) { return 0; }" + f, "function named"},
           {"kernel void f(global int* p) { get_group_linear_id(); }", "may answer otherwise"},
           {asks + "kernel void f(global int* p) { int g = 1; }", "otherwise than in a call"},
           {asks + "kernel void f(global int* p) { size_t g(void); }", "otherwise than in a call"},
           {asks + "struct S { int g; }; " + f, "otherwise than in a call"},
           {"kernel void f(global int* p) {\n#pragma unroll get_num_groups(0)\n}", "#pragma"},
           {"kernel void g() { local int x; } kernel void f(global int* p) { g(); }", "local memory"},
           {"kernel void f(pointer p) { }", "pointer by the name of a type"},
           {"kernel void f(int* p) { }", "address space in the name of a type"},
           {"kernel void f(global int** p) { }", "pointer to pointers"},
           {"kernel void f(global int*) { }", "has no name"},
           {"kernel void f(global int (*p)) { }", "isn't understood"},
           {"kernel void f(global int* p __attribute__((aligned(4)))) { }", "isn't understood"},
           {"kernel void f(global int* p, int q) { }", "arguments aren't understood"},
           {std::string(300, 'x') + ";" + f, "256 letters"},
       })
    EXPECT_NE(WhyNot(source, "b").find(words), std::string::npos) << source << "\nsays " << WhyNot(source, "b");
}

TEST(PartSource, DeepNestingAndManyFunctionsTakeNoRecursion) {
  const std::string deep = std::string(200'000, '(') + "0" + std::string(200'000, ')');
  EXPECT_EQ(WhyNot("kernel void f(global int* p) { p[0] = " + deep + "; }", "b"), "");
  std::string chain = "size_t g0(void) { return get_group_id(0); }\n";
  for (int i = 1; i < 5000; ++i)
    chain += "size_t g" + std::to_string(i) + "(void) { return g" + std::to_string(i - 1) + "(); }\n";
  ExpectContains(PartsOf(chain + "kernel void f(global int* p) { p[g4999()] = 0; }", "b").text,
                 "p[g4999(weir_part)] = 0;");
}

}  // namespace
}  // namespace weir::kernel
