// SPDX-License-Identifier: Apache-2.0
// Whole command lines, as far as they work without a daemon.
#include "cli/command_line.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/schedule/policy_table.h"
#include "tests/harness/temp_folder.h"

namespace weir::cli {
namespace {

struct WeirOutcome {
  int code = -1;
  std::string out, err;
};

WeirOutcome Weir(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "weir");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  WeirOutcome outcome;
  outcome.code = Main(static_cast<int>(arguments.size()), argv.data());
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

constexpr const char* kNobody = "/nowhere/at/all.sock";

TEST(CommandLine, AnswersAWrongFlagWithOneLineAndAHint) {
  const WeirOutcome outcome = Weir({"vgpu", "create", "a", "--wieght", "5"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("unknown option '--wieght'; did you mean '--weight'?\n"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("Try 'weir vgpu create --help'."), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

TEST(CommandLine, NamesWhatIsWrongInOneStyle) {
  struct Case {
    std::vector<std::string> arguments;
    const char* says;
  };
  for (const auto& [arguments, says] :
       {Case{{"vpgu", "list"}, "weir: unknown command 'vpgu'; did you mean 'vgpu'?\nTry 'weir --help'."},
        Case{{"vgpu", "lsit", "x"}, "weir: unknown command 'lsit'; did you mean 'list'?\nTry 'weir vgpu --help'."},
        Case{{"frobnicate", "--weight", "3"}, "weir: unknown command 'frobnicate'\n"},
        Case{{"vgpu"}, "weir: weir vgpu needs a command: create, set, list, ls, show"},
        Case{{"-v"}, "weir: unknown option '-v'; did you mean '--version'?\n"},
        Case{{"--jsno", "status"}, "weir: unknown option '--jsno'; did you mean '--json'?\n"},
        Case{{"vgpu", "create", "a", "--wieght", "5", "--cpa", "1"}, "weir: unknown option '--wieght'"},
        Case{{"vgpu", "create", "a", "--wieght=5"}, "weir: unknown option '--wieght=5'; did you mean '--weight'?\n"},
        Case{{"vgpu", "create", "a", "--weight"}, "weir: --weight needs a value: N\n"},
        Case{{"vgpu", "show", "a", "b"}, "weir: unexpected argument 'b'\n"},
        Case{{"vgpu", "show"}, "weir: name is required\nTry 'weir vgpu show --help'."}}) {
    const WeirOutcome outcome = Weir(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_TRUE(outcome.err.starts_with(says)) << says << ": " << outcome.err;
  }
}

TEST(CommandLine, TakesOtherUsualNamesOfCommands) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"vgpu", "ls"}, {"vgpu", "delete", "a"}}) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--socket", kNobody});
    EXPECT_EQ(Weir(all).code, 8) << "no daemon answers";
  }
}

TEST(CommandLine, TakesGlobalOptionsBetweenTheWordsOfACommand) {
  const WeirOutcome outcome = Weir({"vgpu", "--json", "--socket", kNobody, "list"});
  EXPECT_EQ(outcome.code, 8) << outcome.err;
  EXPECT_NE(outcome.err.find(R"("code":"unavailable")"), std::string::npos) << outcome.err;
}

TEST(CommandLine, HelpsAsACommandToo) {
  EXPECT_EQ(Weir({"help"}).out, Weir({"--help"}).out);
  EXPECT_EQ(Weir({"help", "vgpu", "create"}).out, Weir({"vgpu", "create", "--help"}).out);
  EXPECT_EQ(Weir({"help", "run"}).out, Weir({"run", "--help"}).out);
  EXPECT_EQ(Weir({"help", "vgpu", "ls"}).out, Weir({"vgpu", "list", "--help"}).out);
  const WeirOutcome outcome = Weir({"help", "vpgu"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("unknown command 'vpgu'; did you mean 'vgpu'?"), std::string::npos) << outcome.err;
}

TEST(CommandLine, ListsTheChoicesOfANameInTheHelp) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"policy", "--help"}, {"serve", "--help"}, {"sim", "replay", "--help"}}) {
    const std::string text = Weir(arguments).out;
    for (const core::PolicyEntry& policy : core::PolicyTable())
      EXPECT_NE(text.find(policy.name), std::string::npos) << policy.name << " in " << text;
  }
  EXPECT_NE(Weir({"serve", "--help"}).out.find("interference-aware, serial"), std::string::npos);
}

TEST(CommandLine, NamesTheFlagWhoseValueItCannotRead) {
  for (const auto& [flag, value] : std::vector<std::pair<std::string, std::string>>{
           {"--weight", "heavy"}, {"--cap", "all"}, {"--fps", "x"}, {"--latency-ms", "1s"}, {"--memory", "lots"}}) {
    const WeirOutcome outcome = Weir({"vgpu", "set", "a", flag, value});
    EXPECT_EQ(outcome.code, 2) << flag;
    EXPECT_NE(outcome.err.find(flag), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(value), std::string::npos) << outcome.err;
  }
}

TEST(CommandLine, RefusesToForgetADeviceWithoutAName) {
  const WeirOutcome outcome = Weir({"devices", "--forget", "", "--socket", kNobody});
  EXPECT_EQ(outcome.code, 2) << "no daemon is asked: " << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("weir: --forget: the name is empty; ")) << outcome.err;
  EXPECT_NE(outcome.err.find("Try 'weir devices --help'."), std::string::npos) << outcome.err;
}

TEST(CommandLine, HasExamplesInEveryHelp) {
  for (const char* command : {"serve", "run", "record", "doctor", "top", "policy", "oversell", "plan", "events",
                              "devices", "status", "stop", "demo", "vgpu", "keys", "profile"}) {
    const WeirOutcome outcome = Weir({command, "--help"});
    EXPECT_EQ(outcome.code, 0) << command;
    EXPECT_NE(outcome.out.find("EXAMPLES\n  weir "), std::string::npos) << outcome.out;
  }
  for (const char* command : {"init", "token", "list", "revoke"})
    EXPECT_NE(Weir({"keys", command, "--help"}).out.find("EXAMPLES\n  weir keys "), std::string::npos) << command;
  for (const char* command : {"create", "set", "list", "show", "rm", "pause", "resume"})
    EXPECT_NE(Weir({"vgpu", command, "--help"}).out.find("EXAMPLES\n  weir vgpu "), std::string::npos) << command;
}

TEST(CommandLine, PrintsItsVersion) {
  EXPECT_EQ(Weir({"version"}).out, Weir({"--version"}).out);
  EXPECT_NE(Weir({"version", "--json"}).out.find("\"version\": \""), std::string::npos);
}

TEST(CommandLine, PrintsUsageWithoutArguments) {
  const WeirOutcome outcome = Weir({});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("weir demo"), std::string::npos) << outcome.err;
}

TEST(CommandLine, EndsWithTheTablesExitCode) {
  const WeirOutcome outcome = Weir({"status", "--socket", kNobody});
  EXPECT_EQ(outcome.code, 8) << "unavailable";
  EXPECT_NE(outcome.err.find(kNobody), std::string::npos);
  const WeirOutcome as_json = Weir({"status", "--json", "--socket", kNobody});
  EXPECT_EQ(as_json.code, 8);
  EXPECT_NE(as_json.err.find(R"("code":"unavailable")"), std::string::npos) << as_json.err;
}

TEST(CommandLine, TakesGlobalOptionsBeforeTheCommandToo) {
  EXPECT_NE(Weir({"--socket", kNobody, "status"}).err.find(kNobody), std::string::npos);
}

TEST(WeirRun, LeavesTheProgramsArgumentsAlone) {
  // The error proves that this name was taken as the program, not as an option or a command of weir.
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"run", "--", "weir-none", "--json", "--help"},
                                             {"run", "weir-none", "--weight", "x", "--", "--help"},
                                             {"run", "--weight", "5", "--strict", "weir-none", "top"},
                                             {"--socket", "/s", "run", "--weight=5", "--", "weir-none"}}) {
    const WeirOutcome outcome = Weir(arguments);
    EXPECT_EQ(outcome.code, 127) << outcome.err;
    EXPECT_NE(outcome.err.find("'weir-none'"), std::string::npos) << outcome.err;
  }
}

TEST(WeirRun, MayRunAProgramThatIsCalledLikeACommand) {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  const WeirOutcome outcome = Weir({"run", "top", "--once"});
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(outcome.code, 127);
  EXPECT_NE(outcome.err.find("'top'"), std::string::npos) << outcome.err;
}

TEST(WeirRun, ExitsLikeAShellWhenExecFails) {
  EXPECT_EQ(Weir({"run", "--", "/etc/passwd"}).code, 126);
  EXPECT_EQ(Weir({"run", "--", "/"}).code, 126);
}

TEST(WeirRun, RequiresAProgramAndRefusesContradictingFlags) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"run"},
                                             {"run", "--"},
                                             {"run", "--wieght", "5", "ls"},
                                             {"run", "--vgpu", "a", "--weight", "5", "--", "ls"},
                                             {"run", "--vgpu", "a", "--name", "b", "--", "ls"}}) {
    const WeirOutcome outcome = Weir(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("Try 'weir run --help'."), std::string::npos) << outcome.err;
  }
}

TEST(WeirRun, RefusesVgpuFlagsInAVirtualMachine) {
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--token", "a.token"}, {"--plain"}, {"--vgpu", "a"}}) {
    std::vector<std::string> arguments{"run", "--node", "/dev/virtio-ports/weir.0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.insert(arguments.end(), {"--", "true"});
    const WeirOutcome outcome = Weir(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find("the host assigns this machine's vGPU"), std::string::npos) << outcome.err;
  }
}

TEST(WeirRun, ExplainsTheFlagsOfMoveTo) {
  struct Case {
    std::vector<std::string> more;
    const char* says;
  };
  for (const auto& [more, says] :
       {Case{{"--move-to", "b:1"}, "of --node"},
        Case{{"--node", "a:1", "--plain", "--vgpu", "v", "--room", "1G"}, "of --move-to"},
        Case{{"--node", "a:1", "--plain", "--vgpu", "v", "--move-to", "b:1", "--move-token", "t"}, "uses no token"},
        Case{{"--node", "a:1", "--token", "t", "--move-to", "b:1"}, "needs --move-token"},
        Case{{"--node", "/dev/p", "--move-to", "b:1"}, "needs --move-token"},
        Case{{"--node", "a:1", "--token", "t", "--move-to", "b:1", "--move-token", "t", "--manager", "m:1"}, "auto"},
        Case{{"--node", "a:1", "--token", "t", "--move-to", "b", "--move-token", "t", "--room", "1G"},
             "--move-to auto"},
        Case{{"--node", "a:1", "--token", "t", "--move-to", "auto", "--move-token", "t", "--room", "much"},
             "--room"}}) {
    std::vector<std::string> arguments{"run"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.insert(arguments.end(), {"--", "true"});
    const WeirOutcome outcome = Weir(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << says << ": " << outcome.err;
  }
}

TEST(WeirServe, ExplainsTheSyntaxOfGuest) {
  const weir::testing::TempFolder folder;
  for (const char* flag : {"--guest", "--guest-at"})
    for (const char* guest : {"/run/vm.sock", "/run/vm.sock=", "=vm", "/run/vm=1/sock"}) {
      const WeirOutcome outcome =
          Weir({"serve", "--run-dir", folder.path(), "--state-dir", folder.path(), flag, guest});
      EXPECT_EQ(outcome.code, 2) << guest;
      EXPECT_NE(outcome.err.find(std::string(flag) + " takes PATH=VGPU, not '" + guest + "'"), std::string::npos)
          << outcome.err;
    }
}

TEST(WeirServe, ExplainsTheSyntaxOfGuestMemory) {
  const weir::testing::TempFolder folder;
  const auto said_of = [&](const std::string& guest) {
    const WeirOutcome outcome =
        Weir({"serve", "--run-dir", folder.path(), "--state-dir", folder.path(), "--guest-memory", guest});
    EXPECT_EQ(outcome.code, 2) << guest;
    return outcome.err;
  };
  for (const char* guest : {"/run/vm.mem", "/run/vm.mem=", "=vm", "/run/vm.mem=vm,4M", ",size=4M", "/run/vm,size=4M"})
    EXPECT_NE(said_of(guest).find("--guest-memory takes FILE=VGPU"), std::string::npos) << guest;
  for (const char* size : {"5M", "32K", "2G", "0"})
    EXPECT_NE(said_of(std::string("/run/vm.mem=vm,size=") + size).find("a power of two from 64K to 1G"),
              std::string::npos)
        << size;
}

TEST(WeirRecord, RequiresEitherAVgpuOrAProgram) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"record"},
                                             {"record", "--"},
                                             {"record", "game", "--", "ls"},
                                             {"record", "game", "--weight", "5"},
                                             {"record", "game", "--name", "x"},
                                             {"record", "game", "--trace", "-"},
                                             {"record", "game", "--seconds", "soon"},
                                             {"record", "game", "more"}}) {
    const WeirOutcome outcome = Weir(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("Try 'weir record --help'."), std::string::npos) << outcome.err;
  }
}

TEST(WeirRecord, LeavesTheProgramsArgumentsAlone) {
  const WeirOutcome outcome = Weir({"record", "--seconds", "5", "--", "weir-none", "--json", "top", "--"});
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_NE(outcome.err.find("'weir-none'"), std::string::npos) << outcome.err;
}

TEST(WeirRecord, NeedsADaemonForAVgpu) { EXPECT_EQ(Weir({"record", "a", "--socket", kNobody}).code, 8); }

TEST(WeirOversell, ListsTheWaysOfSelling) {
  const WeirOutcome outcome = Weir({"oversell", "magic", "--socket", kNobody});
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("known: on (adaptive), off, strict, static"), std::string::npos) << outcome.err;
}

TEST(WeirOversell, RefusesContradictingFlags) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"oversell", "--param", "ratio=2"},
                                             {"oversell", "status", "--param", "ratio=2"},
                                             {"oversell", "on", "--ratio", "2"},
                                             {"oversell", "static", "--ratio", "much"},
                                             {"oversell", "on", "--params"},
                                             {"oversell", "on", "off"}}) {
    const WeirOutcome outcome = Weir(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("Try 'weir oversell --help'."), std::string::npos) << outcome.err;
  }
}

TEST(WeirPlan, NamesTheOptionWhoseValueIsWrong) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{{"--ratios", "0.5"},
                                                                                         {"--ratios", "2,2"},
                                                                                         {"--cap", "150%"},
                                                                                         {"--fps", "-1"},
                                                                                         {"--seconds", "1"},
                                                                                         {"--customers", "0"},
                                                                                         {"--param", "price"}}) {
    const WeirOutcome outcome = Weir({"plan", "--trace", "t", arguments[0], arguments[1]});
    EXPECT_EQ(outcome.code, 2) << arguments[0];
    EXPECT_NE(outcome.err.find(arguments[0]), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("Try 'weir plan --help'."), std::string::npos) << outcome.err;
  }
  EXPECT_NE(Weir({"plan"}).err.find("--trace"), std::string::npos);
}

TEST(WeirPlan, ChecksFlagsBeforeItReadsATrace) {
  const auto fault = [](const std::string& param) {
    const WeirOutcome outcome = Weir({"plan", "--trace", "/nowhere/t", "--param", param});
    EXPECT_EQ(outcome.code, 2) << param;
    return outcome.err;
  };
  EXPECT_NE(fault("prize=2").find("no parameter 'prize'; known: ratio, "), std::string::npos);
  EXPECT_NE(fault("penalty=-1").find("penalty = -1 is outside"), std::string::npos);
  EXPECT_NE(fault("penalty=much").find("'much' is not a number"), std::string::npos);
  EXPECT_NE(fault("ratio=2").find("--ratios"), std::string::npos);
  const WeirOutcome missing = Weir({"plan", "--trace", "/nowhere/t"});
  EXPECT_EQ(missing.code, 3);
  EXPECT_NE(missing.err.find("/nowhere/t"), std::string::npos) << missing.err;
  EXPECT_NE(missing.err.find("weir record --trace FILE"), std::string::npos) << missing.err;
  const WeirOutcome junk = Weir({"plan", "--trace", "/etc/passwd"});
  EXPECT_EQ(junk.code, 9);
  EXPECT_NE(junk.err.find("not a trace"), std::string::npos) << junk.err;
}

TEST(WeirEvents, FailsWithoutADaemonAtTheStart) {
  EXPECT_EQ(Weir({"events", "--follow", "--socket", kNobody}).code, 8);
  EXPECT_EQ(Weir({"events", "-n", "-3"}).code, 2);
}

TEST(WeirKeys, MakesANodesKeysAndATokenInOneCommand) {
  const weir::testing::TempFolder folder;
  const std::string dir = folder / "state/keys", out = folder / "game.token";
  const WeirOutcome made = Weir({"keys", "token", "game", "--dir", dir, "--name", "lab", "--for", "2d", "--out", out});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.err.find("made the keys of node 'lab' in " + dir), std::string::npos) << made.err;
  EXPECT_NE(made.out.find("game.token: gives access to vGPU 'game' until "), std::string::npos) << made.out;
  EXPECT_EQ(std::filesystem::status(out).permissions(), std::filesystem::perms(0600));
  const WeirOutcome second = Weir({"keys", "token", "desk", "--dir", dir});
  EXPECT_EQ(second.code, 0);
  EXPECT_EQ(second.err, "") << "the node has its keys";
  EXPECT_TRUE(second.out.starts_with("# A token of Weir.")) << second.out;
  EXPECT_NE(Weir({"keys", "list", "--dir", dir}).out.find("desk"), std::string::npos);
  EXPECT_NE(Weir({"keys", "list", "--state-dir", folder / "state"}).out.find("recorded in " + dir), std::string::npos);
  const WeirOutcome again = Weir({"keys", "token", "game", "--dir", dir, "--out", out});
  EXPECT_EQ(again.code, 4) << "a token is not overwritten";
  EXPECT_NE(again.err.find("game.token exists; --force replaces it"), std::string::npos) << again.err;
  EXPECT_EQ(Weir({"keys", "token", "game", "--dir", dir, "--out", out, "--force"}).code, 0);
  const WeirOutcome revoked = Weir({"keys", "revoke", "game", "--dir", dir});
  EXPECT_EQ(revoked.code, 0) << revoked.err;
  EXPECT_NE(revoked.out.find("access to vGPU 'game'"), std::string::npos) << revoked.out;
  EXPECT_NE(Weir({"keys", "revoke", "game", "--dir", dir}).out.find("was revoked before"), std::string::npos);
  const WeirOutcome list = Weir({"keys", "list", "--json", "--dir", dir});
  EXPECT_NE(list.out.find(R"("state": "revoked")"), std::string::npos) << list.out;
  EXPECT_NE(list.out.find(R"("state": "good")"), std::string::npos) << list.out;
}

TEST(WeirKeys, EndsWithTheTablesExitCode) {
  const weir::testing::TempFolder folder;
  const std::string dir = folder / "keys";
  EXPECT_EQ(Weir({"keys"}).code, 2);
  EXPECT_EQ(Weir({"keys", "token"}).code, 2);
  EXPECT_EQ(Weir({"keys", "list", "--dir", dir}).code, 3) << "there are no keys";
  EXPECT_EQ(Weir({"keys", "init", "--dir", dir, "--name", "a b"}).code, 2);
  EXPECT_EQ(Weir({"keys", "token", "../x", "--dir", dir}).code, 2);
  EXPECT_FALSE(std::filesystem::exists(dir)) << "a wrong name makes no keys";
  EXPECT_EQ(Weir({"keys", "init", "--dir", dir}).code, 0);
  EXPECT_EQ(Weir({"keys", "init", "--dir", dir}).code, 4);
  EXPECT_EQ(Weir({"keys", "token", "a", "--dir", dir, "--for", "0"}).code, 2);
  EXPECT_EQ(Weir({"keys", "token", "a", "--dir", dir, "--for", "soon"}).code, 2);
  EXPECT_EQ(Weir({"keys", "token", "a", "--dir", dir, "--out", "/dev/null"}).code, 2);
  EXPECT_EQ(Weir({"keys", "token", "a", "--dir", dir, "--out", folder / "none/a.token"}).code, 3);
  EXPECT_NE(Weir({"keys", "list", "--dir", dir}).out.find("revoked"), std::string::npos) << "it was not written";
  EXPECT_EQ(Weir({"keys", "revoke", "nobody", "--dir", dir}).code, 3);
}

// Checks only that these problems are listed: a missing installation is reported first.
TEST(WeirDoctor, EndsWithAProblemOfTheProgram) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"doctor", "--no-run", "--", "weir-none"}, {"doctor", "--no-run", "/etc/passwd", "--json"}}) {
    const WeirOutcome outcome = Weir(arguments);
    EXPECT_NE(outcome.code, 0);
    EXPECT_NE(outcome.out.find("cannot run '" + arguments[arguments[2] == "--" ? 3 : 2]), std::string::npos)
        << outcome.out;
  }
}

TEST(WeirDoctor, ExitsWithTheProblemOfAMissingDaemon) {
  const WeirOutcome outcome = Weir({"doctor", "--json", "--socket", kNobody});
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.out.find("daemon-gone"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace weir::cli
