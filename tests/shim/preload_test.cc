// SPDX-License-Identifier: Apache-2.0
// The preloaded stub in real programs: what it answers for, what it leaves alone, and what a program notices (nothing).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "platform/files.h"
#include "tests/harness/child.h"
#include "tests/harness/gate_host.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir {
namespace {

using weir::testing::GateHost;
using weir::testing::TempFolder;
using weir::testing::WaitUntil;

using Environment = std::map<std::string, std::string>;

struct Outcome {
  int status = -1;  // exit status, or 128 + signal
  std::string out;
  std::string err;
};

/// A program with the stub in it, and nothing else in its environment but what is given.
class Program {
 public:
  Program(const std::vector<std::string>& command, const Environment& more, const std::string& preload = WEIR_PRELOAD) {
    Environment environment{{"PATH", "/usr/bin:/bin"},
                            {"LD_PRELOAD", preload},
                            {"WEIR_FAKE_GL", WEIR_FAKE_GL},
                            {"WEIR_FAKE_ANGLE", WEIR_FAKE_ANGLE},
                            {"WEIR_FAKE_OVERLAY", WEIR_FAKE_OVERLAY}};
    for (const auto& [name, value] : more) environment[name] = value;
    if (preload.empty()) environment.erase("LD_PRELOAD");
    std::vector<std::string> assignments;
    for (const auto& [name, value] : environment) assignments.push_back(name + "=" + value);
    std::vector<char*> arguments, variables;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    for (const std::string& assignment : assignments) variables.push_back(const_cast<char*>(assignment.c_str()));
    arguments.push_back(nullptr);
    variables.push_back(nullptr);

    int input[2];
    WEIR_CHECK(::pipe2(input, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    for (const auto& [fd, path] :
         {std::pair(STDOUT_FILENO, folder_ / "out"), std::pair(STDERR_FILENO, folder_ / "err")})
      ::posix_spawn_file_actions_addopen(&actions, fd, path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    WEIR_CHECK(::fcntl(input[0], F_SETFL, O_NONBLOCK) == 0);
    WEIR_CHECK(::posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), variables.data()) == 0);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(input[0]);
    input_.Reset(input[1]);
  }
  ~Program() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Ends its input and waits for it.
  Outcome Wait() {
    input_.Reset();
    int status = 0;
    WEIR_CHECK(::waitpid(std::exchange(pid_, 0), &status, 0) > 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            *platform::ReadFile(folder_ / "out", 1 << 20), *platform::ReadFile(folder_ / "err", 1 << 20)};
  }

 private:
  TempFolder folder_;
  platform::Fd input_;
  pid_t pid_ = 0;
};

Outcome RunProgram(const std::vector<std::string>& command, const Environment& more = {}) {
  return Program(command, more).Wait();
}

/// A program that finds a host. It runs more than once only where the machine is so busy that the host's answer
/// came too late.
Outcome RunAttached(const std::vector<std::string>& command, const Environment& more) {
  Outcome outcome;
  WaitUntil([&] {
    outcome = RunProgram(command, more);
    return outcome.err.find("no answer within the bound") == std::string::npos;
  });
  return outcome;
}

/// A case of probe.c without a gate, and with one that it attaches to: it holds in both.
void ExpectHolds(const std::string& name, Environment more = {}) {
  Outcome outcome = RunProgram({WEIR_PROBE, name}, more);
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_EQ(outcome.out, "ok\n");
  EXPECT_EQ(outcome.err, "");
  const TempFolder folder;
  GateHost host(folder / "v");
  more["WEIR_ATTACH"] = folder / "v";
  outcome = RunAttached({WEIR_PROBE, name}, more);
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_EQ(outcome.out, "ok\n");
  EXPECT_EQ(outcome.err, "");
}

// -- Programs that never present -------------------------------------------------------------------------------------

TEST(Preload, AProgramWithoutPresentsLoadsOnlyTheStub) {
  const Outcome outcome = RunProgram({"/bin/cat", "/proc/self/maps"}, {{"WEIR_ATTACH", "/nowhere"}});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.out.find("libweir-gl-preload.so"), std::string::npos);
  EXPECT_EQ(outcome.out.find("libweir-shim.so"), std::string::npos);
  EXPECT_EQ(outcome.out.find("libstdc++"), std::string::npos);
  EXPECT_EQ(outcome.err, "");
}

TEST(Preload, LsLists) {
  const Outcome with = RunProgram({"/bin/ls", "-l", "/bin/"}, {{"WEIR_ATTACH", "/nowhere"}});
  const Outcome without = Program({"/bin/ls", "-l", "/bin/"}, {}, "").Wait();
  EXPECT_EQ(with.status, 0);
  EXPECT_EQ(with.out, without.out);
  EXPECT_EQ(with.err, "");
}

TEST(Preload, AShellAndWhatItStartsWork) {
  const Outcome outcome = RunProgram({"/bin/sh", "-c", "echo a | sed s/a/b/; (exit 3) || exec /bin/sh -c 'exit 7'"});
  EXPECT_EQ(outcome.status, 7);
  EXPECT_EQ(outcome.out, "b\n");
  EXPECT_EQ(outcome.err, "");
}

TEST(Preload, AProgramStartedByAShellIsReached) {
  const TempFolder folder;
  GateHost host(folder / "v");
  const Outcome outcome =
      RunAttached({"/bin/sh", "-c", std::string("exec ") + WEIR_PROBE + " handle"}, {{"WEIR_ATTACH", folder / "v"}});
  EXPECT_EQ(outcome.out, "ok\n");
  EXPECT_TRUE(WaitUntil([&] { return host.attachments() > 0; }));
}

TEST(Preload, AStaticProgramRuns) {
  const Outcome outcome = RunProgram({WEIR_PROBE_STATIC}, {{"WEIR_ATTACH", "/nowhere"}});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "ok\n");
  EXPECT_EQ(outcome.err, "");
}

TEST(Preload, ASetuidProgramRunsWithoutIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "making a setuid program needs root";
  const TempFolder folder;
  const std::string copy = folder / "cat";
  std::filesystem::copy_file("/bin/cat", copy);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  ASSERT_EQ(::chown(copy.c_str(), 65'534, 65'534), 0);
  ASSERT_EQ(::chmod(copy.c_str(), 04'755), 0);
  const Outcome outcome = RunProgram({copy, "/proc/self/status", "/proc/self/maps"}, {{"WEIR_ATTACH", "/nowhere"}});
  if (outcome.out.find("\t65534\t65534\t65534\n") == std::string::npos) GTEST_SKIP() << "setuid has no effect here";
  EXPECT_EQ(outcome.out.find("libweir"), std::string::npos);
}

// -- Names and functions ---------------------------------------------------------------------------------------------

TEST(Preload, DlsymOnAHandleGivesOursAndCallsReachTheDriver) { ExpectHolds("handle"); }
TEST(Preload, DlsymOfOtherNamesIsUnchanged) { ExpectHolds("other-names"); }
TEST(Preload, RtldNextFindsTheLibraryAfterTheCaller) { ExpectHolds("next"); }
TEST(Preload, DlerrorIsUnchanged) { ExpectHolds("errors"); }
TEST(Preload, GlxGetProcAddressGivesOursIfTheDriverHasIt) { ExpectHolds("glx-get-proc"); }
TEST(Preload, EglGetProcAddressGivesOursIfTheDriverHasIt) { ExpectHolds("egl-get-proc"); }
TEST(Preload, SwapBuffersWithDamageIsThereIfTheDriverHasIt) {
  ExpectHolds("egl-get-proc", {{"WEIR_FAKE_EGL_DAMAGE", "1"}});
}
TEST(Preload, AngleIsNotIntercepted) { ExpectHolds("angle"); }
TEST(Preload, AnOverlayThatFindsTheDriverThroughDlsymReachesIt) { ExpectHolds("overlay"); }
TEST(Preload, ThreadsMayPresentForTheFirstTimeAtOnce) { ExpectHolds("threads"); }
TEST(Preload, WhereThereIsNoGlItsNamesAreAbsent) { ExpectHolds("absent"); }
TEST(Preload, EachGlFlushReachesTheLibraryThatItWasLoadedFrom) { ExpectHolds("two-flushes"); }
TEST(Preload, ErrnoIsLeftAlone) { ExpectHolds("errno"); }
TEST(Preload, EglErrorsAreLeftForTheProgram) { ExpectHolds("egl-errors"); }
TEST(Preload, TheEnvironmentIsLeftAlone) { ExpectHolds("environment"); }
TEST(Preload, DescriptorsAreNeitherLowNorInherited) { ExpectHolds("descriptors"); }
TEST(Preload, SignalsAreLeftAloneAndMayInterruptAnything) { ExpectHolds("signals"); }

TEST(Preload, AProgramLinkedWithItsDriverIsCaught) {
  const TempFolder folder;
  GateHost host(folder / "v");
  const Outcome outcome = RunAttached({WEIR_PROBE_LINKED}, {{"WEIR_ATTACH", folder / "v"}});
  EXPECT_EQ(outcome.out, "ok\n");
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(WaitUntil([&] { return host.attachments() > 0; }));
}

// -- With a gate -----------------------------------------------------------------------------------------------------

TEST(Preload, AFrameIsCountedOncePerPresentAlsoThroughAnOverlay) {
  for (const char* name : {"handle", "overlay"}) {
    const TempFolder folder;
    GateHost host(folder / "v");
    EXPECT_EQ(RunAttached({WEIR_PROBE, name}, {{"WEIR_ATTACH", folder / "v"}}).out, "ok\n") << name;
    ASSERT_TRUE(WaitUntil([&] { return !host.ended().empty() && host.Processes() == 0; }));
    EXPECT_EQ(host.ended().back().drained.frames.size(), std::string(name) == "handle" ? 6u : 3u) << name;
  }
}

/// Runs to its end with a gate: how many frames it showed, and that nothing of it is left.
std::size_t FramesOf(const std::vector<std::string>& command, const Environment& more = {},
                     const std::string& preload = WEIR_PRELOAD) {
  std::size_t frames = 0;
  WaitUntil([&] {  // again only where the machine is so busy that the host's answer came too late
    const TempFolder folder;
    GateHost host(folder / "v");
    Environment environment = more;
    environment["WEIR_ATTACH"] = folder / "v";
    const Outcome outcome = Program(command, environment, preload).Wait();
    EXPECT_EQ(outcome.status, 0) << outcome.out;
    EXPECT_EQ(outcome.out, "ok\n");
    if (outcome.err.find("no answer within the bound") != std::string::npos) return false;
    EXPECT_EQ(outcome.err, "");
    host.Settle();
    EXPECT_TRUE(WaitUntil([&] { return host.attachments() == 0 || (!host.ended().empty() && host.Processes() == 0); }));
    frames = 0;
    for (const GateHost::Ended& ended : host.ended()) {
      frames += ended.drained.frames.size() + ended.drained.lost;
      EXPECT_EQ(ended.drained.bad, 0u);
      EXPECT_EQ(ended.reserved_ns, 0) << "every present is settled";
    }
    return true;
  });
  return frames;
}

TEST(Preload, EveryKindOfPresentIsAFrame) {
  EXPECT_EQ(FramesOf({WEIR_PROBE, "handle"}), 6u);
  EXPECT_EQ(FramesOf({WEIR_PROBE, "glx-get-proc"}), 2u);
  EXPECT_EQ(FramesOf({WEIR_PROBE, "egl-get-proc"}, {{"WEIR_FAKE_EGL_DAMAGE", "1"}}), 1u);
  EXPECT_EQ(FramesOf({WEIR_PROBE, "glx-extensions"}, {{"WEIR_FAKE_EXTENSIONS", "1"}}), 3u);
}

TEST(Preload, AFrameOfManyPartsIsAFrame) {
  const std::size_t frames = FramesOf({WEIR_PROBE, "parts"}, {{"WEIR_FAKE_EXTENSIONS", "1"}});
  EXPECT_GE(frames, 2u);    // one a window; more only where the program was interrupted for milliseconds
  EXPECT_LT(frames, 100u);  // of a thousand parts
}

TEST(Preload, ASingleBufferedProgramIsCaughtByItsFlushes) {
  for (const char* name : {"glx-single", "egl-single"}) {
    const std::size_t frames = FramesOf({WEIR_PROBE, name});
    EXPECT_GE(frames, 3u) << name;
    EXPECT_LT(frames, 100u) << name << ", of nine hundred flushes";
  }
}

TEST(Preload, ALinkedSingleBufferedProgramIsCaught) {
  const std::size_t frames = FramesOf({WEIR_PROBE_LINKED, "single"});
  EXPECT_GE(frames, 3u);
  EXPECT_LE(frames, 5u);
}

TEST(Preload, FlushesOfADoubleBufferedProgramAreIgnored) {
  ExpectHolds("double-buffered");
  EXPECT_EQ(FramesOf({WEIR_PROBE, "double-buffered"}), 3u);
}

// -- Programs that present nothing (docs/off-screen.md)
// ----------------------------------------------------------------

TEST(Preload, EveryCallThatEndsWorkOfAnOffScreenProgramIsABatch) {
  ExpectHolds("batch-kinds");
  EXPECT_EQ(FramesOf({WEIR_PROBE, "batch-kinds"}), 14u);
}

TEST(Preload, AnOffScreenProgramIsCaughtOnGlxAndOnEgl) {
  EXPECT_EQ(FramesOf({WEIR_PROBE, "readbacks"}), 10u) << "without a context nothing is drawn";
  EXPECT_EQ(FramesOf({WEIR_PROBE, "egl-readbacks"}), 10u);
}

TEST(Preload, CallsThatWaitForNothingEndNoBatch) {
  ExpectHolds("writes-only");
  EXPECT_EQ(FramesOf({WEIR_PROBE, "writes-only"}), 0u);
}

TEST(Preload, TinyFlushesPassTheGateTogether) {
  const std::size_t batches = FramesOf({WEIR_PROBE, "tiny-flushes"});
  EXPECT_GE(batches, 10'000u / 16);
  EXPECT_LT(batches, 10'000u);
}

TEST(Preload, AProgramThatPresentsPassesTheGateAtItsPresentsOnly) {
  ExpectHolds("presents-and-readbacks");
  EXPECT_EQ(FramesOf({WEIR_PROBE, "presents-and-readbacks"}), 20u);
}

TEST(Preload, AProgramThatStopsPresentingIsCaughtByItsReadbacks) {
  EXPECT_EQ(FramesOf({WEIR_PROBE, "stops-presenting"}), 5u + 10u + 1u);
}

TEST(Preload, AProgramThatDrawsIntoAWindowAndPresentsNothingIsCaught) {
  EXPECT_EQ(FramesOf({WEIR_PROBE, "hidden-window"}), 10u);
}

TEST(Preload, AContextThatIsLeftEndsABatch) {
  ExpectHolds("leaves-contexts");
  EXPECT_EQ(FramesOf({WEIR_PROBE, "leaves-contexts"}), 10u);
}

TEST(Preload, SwapsOfASingleBufferedProgramAreItsFrames) { EXPECT_EQ(FramesOf({WEIR_PROBE, "single-swaps"}), 5u); }

TEST(Preload, AnOverlayIsPreloadedBeforeOrAfterUs) {
  const std::string ours = WEIR_PRELOAD, theirs = WEIR_FAKE_OVERLAY;
  for (const std::string& preload : {ours + ":" + theirs, theirs + ":" + ours})
    EXPECT_EQ(FramesOf({WEIR_PROBE_LINKED}, {}, preload), 3u) << preload;
}

TEST(Preload, AnotherLibraryThatHooksDlsymIsCalledToo) {
  const std::string ours = WEIR_PRELOAD, theirs = WEIR_FAKE_HOOKER;
  EXPECT_EQ(FramesOf({WEIR_PROBE, "hooker"}, {}, ours + ":" + theirs), 3u);
  // Before us, it bypasses the stub: the program works as without it, and no frame is counted.
  const Outcome outcome = Program({WEIR_PROBE, "hooker"}, {}, theirs + ":" + ours).Wait();
  EXPECT_EQ(outcome.out, "ok\n");
}

TEST(Preload, APresentLeftByLongjmpIsSettledByTheNext) {
  ExpectHolds("longjmps");
  EXPECT_EQ(FramesOf({WEIR_PROBE, "longjmps"}), 23u);
}

TEST(Preload, AThreadMayBeCancelledInItsPresent) {
  ExpectHolds("cancels");
  EXPECT_EQ(FramesOf({WEIR_PROBE, "cancels"}), 4u);
}

// -- Ends ------------------------------------------------------------------------------------------------------------

TEST(Preload, AProgramEndsAsWithoutTheShim) {
  struct Case {
    const char* how;
    int status;
    const char* out;
  };
  for (const Case& expected :
       {Case{"return", 0, "ok\npresented\n"}, Case{"exit", 3, "presented\n"}, Case{"_exit", 4, ""},
        Case{"quick_exit", 5, "presented\n"}, Case{"abort", 134, ""}, Case{"pthread_exit", 0, "presented\n"},
        Case{"exit in a handler", 7, "presented\n"}, Case{"_exit in a handler", 8, ""}}) {
    const TempFolder folder;
    GateHost host(folder / "v");
    const Environment how{{"WEIR_PROBE_END", expected.how}, {"WEIR_ATTACH", folder / "v"}};
    for (const std::string& preload : {std::string(WEIR_PRELOAD), std::string()}) {
      const Outcome outcome = Program({WEIR_PROBE, "ends"}, how, preload).Wait();
      EXPECT_EQ(outcome.status, expected.status) << expected.how << (preload.empty() ? " without us" : " with us");
      // What is printed comes through a buffer, and after what is written at once.
      std::string out = outcome.out;
      if (out == "presented\nok\n") out = "ok\npresented\n";
      EXPECT_EQ(out, expected.out) << expected.how;
    }
    EXPECT_TRUE(WaitUntil([&] { return host.Processes() == 0; })) << expected.how;
  }
}

TEST(Preload, AProgramEndsWhileAThreadWaitsAtTheGate) {
  const TempFolder folder;
  GateHost host(folder / "v");
  host.SetMode(proto::GateMode::kPaused);
  Program program({WEIR_PROBE, "ends-while-waiting"}, {{"WEIR_ATTACH", folder / "v"}});
  EXPECT_TRUE(WaitUntil([&] { return host.Waiting() == 1; }));
  EXPECT_EQ(program.Wait().status, 0);
  EXPECT_TRUE(WaitUntil([&] { return host.Processes() == 0; }));
}

TEST(Preload, AProgramAttachesAgainAfterExec) {
  const TempFolder folder;
  GateHost host(folder / "v");
  EXPECT_EQ(RunAttached({WEIR_PROBE, "execs"}, {{"WEIR_ATTACH", folder / "v"}}).out, "ok\n");
  EXPECT_TRUE(WaitUntil([&] { return host.attachments() >= 2 && host.Processes() == 0; }));
}

std::set<pid_t> Attached(GateHost& host) {
  return host.With([](gate::VgpuGate& gate) {
    std::set<pid_t> pids;
    for (const auto& [id, process] : gate.processes()) pids.insert(process->Info().pid);
    return pids;
  });
}

TEST(Preload, AForkedChildAttachesAsASeparateProcess) {
  const TempFolder folder;
  GateHost host(folder / "v");
  Program program({WEIR_PROBE, "forks"}, {{"WEIR_ATTACH", folder / "v"}});
  EXPECT_TRUE(WaitUntil([&] { return Attached(host).size() == 2 && host.Processes() == 2; }));
  EXPECT_TRUE(Attached(host).contains(program.pid()));
  const Outcome outcome = program.Wait();
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_TRUE(WaitUntil([&] { return host.Processes() == 0; }));
}

TEST(Preload, AForkedChildThatOutlivesItsParentDoesNotKeepItsParentAttached) {
  const TempFolder folder;
  GateHost host(folder / "v");
  Program program({WEIR_PROBE, "forks"}, {{"WEIR_ATTACH", folder / "v"}});
  ASSERT_TRUE(WaitUntil([&] { return Attached(host).size() == 2; }));
  ::kill(program.pid(), SIGKILL);
  EXPECT_TRUE(WaitUntil([&] { return Attached(host).size() == 1 && !Attached(host).contains(program.pid()); }));
  program.Wait();
  EXPECT_TRUE(WaitUntil([&] { return host.Processes() == 0; })) << "the child ends with its input";
}

// -- No daemon -------------------------------------------------------------------------------------------------------

std::size_t Lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(Preload, WithoutADaemonAProgramRunsWithOneMessage) {
  const TempFolder folder;
  for (const std::string& attach : {folder / "nobody", std::string(5'000, 'x'), folder.path()}) {
    const Outcome outcome = RunProgram({WEIR_PROBE, "threads"}, {{"WEIR_ATTACH", attach}});
    EXPECT_EQ(outcome.status, 0) << outcome.out;
    EXPECT_EQ(outcome.out, "ok\n");
    EXPECT_EQ(Lines(outcome.err), 1u) << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with("weir: ")) << outcome.err;
  }
}

TEST(Preload, WithoutTheShimAProgramRunsWithOneMessage) {
  const TempFolder folder;
  std::filesystem::copy_file(WEIR_PRELOAD, folder / "libweir-gl-preload.so");
  for (const char* name : {"handle", "overlay", "threads"}) {
    const Outcome outcome =
        Program({WEIR_PROBE, name}, {{"WEIR_ATTACH", folder / "v"}}, folder / "libweir-gl-preload.so").Wait();
    EXPECT_EQ(outcome.status, 0) << outcome.out;
    EXPECT_EQ(outcome.out, "ok\n");
    EXPECT_EQ(Lines(outcome.err), 1u) << outcome.err;
    EXPECT_NE(outcome.err.find("libweir-shim.so can't be used"), std::string::npos) << outcome.err;
  }
}

TEST(Preload, AnotherLibraryInTheShimsPlaceIsNotUsed) {
  const TempFolder folder;
  std::filesystem::copy_file(WEIR_PRELOAD, folder / "libweir-gl-preload.so");
  std::filesystem::copy_file(WEIR_FAKE_ANGLE, folder / "libweir-shim.so");
  const Outcome outcome =
      Program({WEIR_PROBE, "handle"}, {{"WEIR_ATTACH", folder / "v"}}, folder / "libweir-gl-preload.so").Wait();
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_EQ(Lines(outcome.err), 1u) << outcome.err;
  EXPECT_NE(outcome.err.find("another version"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace weir
