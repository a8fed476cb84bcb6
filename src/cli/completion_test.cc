// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "cli/options.h"

namespace weir::cli {
namespace {

class CompletionOf : public ::testing::Test {
 protected:
  CompletionOf() {
    const Command weir(app_);
    app_.name("weir");
    weir.AddFlag("--json", session_.json, "Print JSON");
    AddRun(weir, session_);
    AddRecord(weir, session_);
    AddVgpu(weir, session_);
    AddPolicy(weir, session_);
    AddOversell(weir, session_);
    AddKeys(weir, session_);
    AddCompletion(weir, session_);
    AddHelp(weir, session_);
  }
  [[nodiscard]] Completion After(const std::vector<std::string>& words) const { return Complete(app_, words); }
  [[nodiscard]] std::vector<std::string> WordsAfter(const std::vector<std::string>& words) const {
    std::vector<std::string> found;
    for (const Candidate& one : After(words).words) found.push_back(one.word);
    return found;
  }
  [[nodiscard]] bool Offers(const std::vector<std::string>& words, const std::string& word) const {
    return std::ranges::count(WordsAfter(words), word) == 1;
  }

  CLI::App app_;
  Session session_;
};

using Words = std::vector<std::string>;

TEST_F(CompletionOf, ACommandByItsBeginning) {
  EXPECT_EQ(WordsAfter({"vg"}), Words{"vgpu"});
  EXPECT_EQ(WordsAfter({"nothing"}), Words{});
  for (const char* command : {"run", "record", "vgpu", "policy", "help", "completion"})
    EXPECT_TRUE(Offers({""}, command));
  EXPECT_FALSE(Offers({""}, "complete")) << "it is for shells only";
}

TEST_F(CompletionOf, CommandsOfAGroup) {
  EXPECT_TRUE(Offers({"vgpu", ""}, "create"));
  EXPECT_FALSE(Offers({"vgpu", ""}, "run"));
  EXPECT_TRUE(Offers({"help", "vgpu", ""}, "create"));
  EXPECT_TRUE(Offers({"--json", "vgpu", ""}, "create"));
}

TEST_F(CompletionOf, OptionsOfTheCommandThatIsGiven) {
  EXPECT_TRUE(Offers({"vgpu", "create", "a", "--we"}, "--weight"));
  EXPECT_FALSE(Offers({"vgpu", "--we"}, "--weight"));
  EXPECT_EQ(WordsAfter({"vgpu", "create", "--weight", "--we"}), Words{}) << "this is the weight";
  EXPECT_TRUE(Offers({"vgpu", "create", "--weight=5", "--f"}, "--fps"));
}

TEST_F(CompletionOf, ChoicesOfAnArgument) {
  EXPECT_TRUE(Offers({"policy", "prop"}, "proportional-share"));
  EXPECT_EQ(WordsAfter({"oversell", "st"}), (Words{"strict", "static", "status"}));
  EXPECT_EQ(WordsAfter({"completion", ""}), (Words{"bash", "zsh", "fish"}));
}

TEST_F(CompletionOf, NamesOfVgpusAndDevices) {
  EXPECT_TRUE(After({"vgpu", "set", ""}).vgpus);
  EXPECT_TRUE(After({"run", "--vgpu", ""}).vgpus);
  EXPECT_TRUE(After({"record", ""}).vgpus);
  EXPECT_FALSE(After({"vgpu", "create", ""}).vgpus) << "its name is a new one";
  EXPECT_TRUE(After({"policy", "--device", ""}).devices);
  EXPECT_FALSE(After({"policy", ""}).devices);
}

TEST_F(CompletionOf, FilesAndPrograms) {
  EXPECT_TRUE(After({"run", ""}).files);
  EXPECT_TRUE(After({"run", "--weight", "5", "--", "glx"}).files);
  EXPECT_TRUE(After({"run", "glxgears", "--we"}).files) << "this is the program's option";
  EXPECT_EQ(WordsAfter({"run", "glxgears", "--we"}), Words{});
  EXPECT_TRUE(After({"record", "--out", ""}).files);
  EXPECT_FALSE(After({"vgpu", ""}).files);
}

TEST_F(CompletionOf, NothingIsTooStrange) {
  for (const Words& words : {Words{}, Words{""}, Words{"--"}, Words{"-"}, Words{"--weight"},
                             Words{"vgpu", "vgpu", "vgpu", ""}, Words{"--=", "="}, Words{std::string(10'000, 'x')}})
    EXPECT_NO_FATAL_FAILURE(static_cast<void>(After(words)));
}

}  // namespace
}  // namespace weir::cli
