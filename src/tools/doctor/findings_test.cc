// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/findings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/doctor/elf_image.h"

namespace weir::cli {
namespace {

constexpr std::int64_t kPid = 100;

ImageFacts GlProgram() {
  return {.path = "/usr/bin/gears",
          .type = ImageType::kElf,
          .bits = 64,
          .machine = OwnMachine(),
          .loader = "/lib64/ld-linux-x86-64.so.2",
          .needed = {"libGL.so.1", "libc.so.6"},
          .readable = true,
          .interpreter = "",
          .privilege = ""};
}

AttachedProcess Attached(std::int64_t pid, std::vector<std::string> meters) {
  AttachedProcess one;
  one.process = {pid, "gears", "gl", "llvmpipe", meters.back()};
  one.meters = std::move(meters);
  one.attach_seconds = 0.25;
  one.started_by = "sh(100)";
  return one;
}

TreeProcess InTree(std::int64_t pid, const char* program) {
  TreeProcess one;
  one.pid = pid;
  one.program = program;
  one.maps_readable = one.stub_loaded = one.environment_readable = one.preload_in_environment = true;
  return one;
}

/// A healthy node, and a program that is attached.
DoctorFacts Healthy() {
  DoctorFacts facts;
  facts.install = {"1.0",
                   {"/lib/stub.so", "", 64, OwnMachine(), false},
                   {"/lib/shim.so", "", 64, OwnMachine(), false},
                   "",
                   OwnMachine()};
  facts.environment.display = ":0";
  facts.daemon.socket = "/run/weir/control.sock";
  facts.daemon.socket_exists = true;
  facts.daemon.version = "1.0";
  DeviceView device;
  device.name = "embedded";
  device.kind = "software";
  device.cpu_count = 2;
  facts.daemon.devices = {device};
  facts.daemon.usable_cpus = {0, 1};
  facts.program = ProgramFacts{"gears", {}, "", false, {GlProgram()}};
  TrialFacts trial;
  trial.pid = kPid;
  trial.seconds = 5;
  trial.frames = 300;
  trial.attached = {Attached(kPid, {"worker-cpu-time"})};
  trial.tree = {InTree(kPid, "gears")};
  trial.tree[0].gl = true;
  facts.trial = trial;
  return facts;
}

/// The same facts without an attached process.
DoctorFacts Unheld() {
  DoctorFacts facts = Healthy();
  facts.trial->attached.clear();
  facts.trial->frames = 0;
  return facts;
}

const Finding* Find(const std::vector<Finding>& findings, const std::string& id) {
  const auto found = std::find_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.id == id; });
  return found == findings.end() ? nullptr : &*found;
}

/// Expects the finding at that level. Every finding that is not "fine" must give a reason or a remedy.
void ExpectFinding(const DoctorFacts& facts, const std::string& id, Level level) {
  const std::vector<Finding> findings = Judge(facts);
  const Finding* found = Find(findings, id);
  ASSERT_NE(found, nullptr) << id << " is missing:\n" << FindingsText(findings, false);
  EXPECT_EQ(NameOf(found->level), std::string(NameOf(level))) << id;
  EXPECT_NE(found->what, "");
}

TEST(Findings, AnAttachedProgramHasNoProblem) {
  const auto findings = Judge(Healthy());
  EXPECT_EQ(ExitCodeOf(findings), 0) << FindingsText(findings, false);
  ExpectFinding(Healthy(), "hooked", Level::kOk);
  ExpectFinding(Healthy(), "meter", Level::kOk);
  EXPECT_NE(Find(findings, "hooked")->what.find("through GLX"), std::string::npos);
}

TEST(Findings, ARejectedMeterIsReported) {
  DoctorFacts facts = Healthy();
  facts.trial->attached = {Attached(kPid, {"timer-query", "wall-clock"})};
  ExpectFinding(facts, "meter-rejected", Level::kNote);
  EXPECT_NE(Find(Judge(facts), "meter-rejected")->what.find("timer-query"), std::string::npos);
  facts.trial->attached = {Attached(kPid, {"wall-clock"})};
  ExpectFinding(facts, "meter-wall-clock", Level::kNote);
  facts.trial->messages = {"weir: GPU timestamps of 'x' contradict the wall clock, or are missing; not used"};
  ExpectFinding(facts, "meter-rejected", Level::kNote);  // before the trial's first poll
  facts.trial->attached = {Attached(kPid, {"none"})};
  ExpectFinding(facts, "meter-none", Level::kNote);
}

TEST(Findings, ShowTheAncestryOfTheAttachedProcess) {
  DoctorFacts facts = Healthy();
  facts.trial->attached = {Attached(kPid + 1, {"worker-cpu-time"})};
  EXPECT_EQ(Find(Judge(facts), "hooked")->why, "started by sh(100)");
}

TEST(Findings, AProcessOutsideTheProgramsTreeIsTheDaemons) {
  DoctorFacts facts = Healthy();
  facts.trial->attached = {Attached(kPid + 1, {"worker-cpu-time"})};
  facts.trial->attached[0].started_by = "";
  EXPECT_EQ(Find(Judge(facts), "hooked")->why, "the daemon started it; it executes the program's OpenCL commands");
}

TEST(Findings, APreloadThatLdSoWouldDropIsAProblem) {
  const std::vector<std::pair<std::string, ImageFacts>> cases = [] {
    ImageFacts fixed = GlProgram(), privileged = GlProgram(), small = GlProgram(), musl = GlProgram();
    fixed.loader = "";
    privileged.privilege = "setuid";
    small.bits = 32;
    small.machine = 3;
    musl.loader = "/lib/ld-musl-x86_64.so.1";
    return std::vector<std::pair<std::string, ImageFacts>>{
        {"static", fixed}, {"privileged", privileged}, {"foreign", small}, {"musl", musl}};
  }();
  for (const auto& [id, image] : cases) {
    DoctorFacts facts = Unheld();
    facts.program->chain = {image};
    ExpectFinding(facts, id, Level::kProblem);
    EXPECT_EQ(ExitCodeOf(Judge(facts)), 8) << id;
    EXPECT_NE(Find(Judge(facts), id)->what_to_do, "") << id;
  }
}

TEST(Findings, AScriptIsJudgedByItsInterpreter) {
  DoctorFacts facts = Unheld();
  ImageFacts script;
  script.path = "/x/start.sh";
  script.type = ImageType::kScript;
  script.interpreter = "/bin/busybox";
  script.readable = true;
  ImageFacts fixed = GlProgram();
  fixed.loader = "";
  facts.program->chain = {script, fixed};
  ExpectFinding(facts, "script", Level::kOk);
  ExpectFinding(facts, "static", Level::kProblem);
}

TEST(Findings, AWindowsProgramIsNamedWithTheWayToTryIt) {
  DoctorFacts facts = Unheld();
  ImageFacts windows;
  windows.path = "./game.exe";
  windows.type = ImageType::kWindows;
  windows.readable = true;
  facts.program->chain = {windows};
  ExpectFinding(facts, "windows", Level::kNote);
  EXPECT_NE(Find(Judge(facts), "windows")->what_to_do.find("'weir doctor -- wine ./game.exe'"), std::string::npos);
}

TEST(Findings, AProgramThatEndedIsGivenNoMoreTime) {
  DoctorFacts facts = Unheld();
  facts.trial->tree[0].gl = false;
  EXPECT_EQ(Find(Judge(facts), "no-gl")->what_to_do, "try a longer --seconds if it draws later");
  facts.trial->ended = "exit code 0";
  EXPECT_EQ(Find(Judge(facts), "no-gl")->what_to_do, "");
  facts.trial->tree[0].gl = true;
  EXPECT_EQ(Find(Judge(facts), "no-present")->what_to_do, "a program that never swaps buffers can't be attached");
}

TEST(Findings, AProgramThatCannotRunEndsWithItsOwnCode) {
  DoctorFacts facts = Healthy();
  facts.trial.reset();
  facts.program = ProgramFacts{"gears", Errc::kNotFound, "cannot run 'gears': no such program in $PATH", false, {}};
  EXPECT_EQ(ExitCodeOf(Judge(facts)), 3);
  facts.program = ProgramFacts{"gears", Errc::kPermissionDenied, "cannot run 'gears'", true, {}};
  EXPECT_EQ(ExitCodeOf(Judge(facts)), 6);
  EXPECT_NE(Find(Judge(facts), "program")->why.find("noexec"), std::string::npos);
}

TEST(Findings, LoadedLibrariesExplainAnUnattachedProgram) {
  ExpectFinding(Unheld(), "not-hooked", Level::kProblem);
  ExpectFinding(Unheld(), "no-present", Level::kProblem);

  DoctorFacts vulkan = Unheld();
  vulkan.trial->tree[0].gl = false;
  vulkan.trial->tree[0].vulkan = true;
  ExpectFinding(vulkan, "vulkan", Level::kProblem);
  vulkan.trial->tree[0].layer_loaded = true;
  ExpectFinding(vulkan, "vulkan-no-work", Level::kProblem);

  DoctorFacts nothing = Unheld();
  nothing.trial->tree[0].gl = false;
  ExpectFinding(nothing, "no-gl", Level::kProblem);

  DoctorFacts dropped = Unheld();
  dropped.trial->tree[0].stub_loaded = false;
  ExpectFinding(dropped, "shim-not-loaded", Level::kProblem);

  DoctorFacts reset = dropped;
  reset.trial->tree[0].preload_in_environment = false;
  ExpectFinding(reset, "preload-reset", Level::kProblem);

  DoctorFacts quick = Unheld();
  quick.trial->tree.clear();
  quick.trial->ended = "exit code 0";
  ExpectFinding(quick, "ended-early", Level::kProblem);

  DoctorFacts angle = Unheld();
  angle.trial->tree[0].angle = true;
  ExpectFinding(angle, "angle", Level::kNote);
}

TEST(Findings, TheDaemonIsJudgedByItsReply) {
  DoctorFacts none = Healthy();
  none.program.reset();
  none.trial.reset();
  none.daemon = {};
  none.daemon.socket = "/x.sock";
  none.daemon.code = Errc::kUnavailable;
  ExpectFinding(none, "daemon-none", Level::kNote);
  EXPECT_EQ(ExitCodeOf(Judge(none)), 0) << "'weir run' would start one";

  DoctorFacts named = none;
  named.daemon.socket_named = true;
  ExpectFinding(named, "daemon-gone", Level::kProblem);
  EXPECT_EQ(ExitCodeOf(Judge(named)), 8);

  DoctorFacts denied = none;
  denied.daemon.code = Errc::kPermissionDenied;
  EXPECT_EQ(ExitCodeOf(Judge(denied)), 6);

  DoctorFacts strange = none;
  strange.daemon.code = Errc::kProtocol;
  EXPECT_EQ(ExitCodeOf(Judge(strange)), 9);

  DoctorFacts clock = Healthy();
  clock.daemon.clock_difference_ns = -5'000'000'000;
  ExpectFinding(clock, "clock", Level::kProblem);

  DoctorFacts old = Healthy();
  old.daemon.version = "0.9";
  ExpectFinding(old, "daemon-version", Level::kNote);

  DoctorFacts pinned = Healthy();
  pinned.daemon.usable_cpus = {0};
  ExpectFinding(pinned, "device-cpus", Level::kNote);

  DoctorFacts open = Healthy();
  open.daemon.run_dir_problem = "every user may write to /run/weir";
  ExpectFinding(open, "run-dir", Level::kProblem);
}

TEST(Findings, TheInstallationIsJudgedByItsLibraries) {
  DoctorFacts missing = Healthy();
  missing.install.stub.error = "cannot find it";
  ExpectFinding(missing, "shim-missing", Level::kProblem);
  EXPECT_EQ(ExitCodeOf(Judge(missing)), 3);

  DoctorFacts foreign = Healthy();
  foreign.install.shim.bits = 32;
  ExpectFinding(foreign, "shim-foreign", Level::kProblem);

  DoctorFacts noexec = Healthy();
  noexec.install.stub.noexec = true;
  ExpectFinding(noexec, "shim-noexec", Level::kProblem);
}

TEST(Findings, OtherHookersAndContainersAreNoted) {
  DoctorFacts facts = Healthy();
  facts.environment.display = "";
  facts.environment.preload = {"/usr/lib/MangoHud/libMangoHud.so", "gameoverlayrenderer.so", "/x/other.so"};
  facts.environment.flatpak = true;
  facts.environment.steam_container = true;
  for (const char* id : {"display-none", "preload-other", "preload-unknown", "flatpak", "steam-container"})
    ExpectFinding(facts, id, Level::kNote);
  EXPECT_EQ(ExitCodeOf(Judge(facts)), 0);
  facts = Healthy();
  facts.environment.container = true;
  EXPECT_EQ(Find(Judge(facts), "container"), nullptr) << "the daemon can be reached from within";
  facts.daemon.code = Errc::kUnavailable;
  ExpectFinding(facts, "container", Level::kNote);
}

TEST(Findings, WeirsMessagesInTheOutputAreShown) {
  DoctorFacts facts = Healthy();
  facts.trial->messages = {"weir: GPU timestamps of 'x' contradict the wall clock"};
  ExpectFinding(facts, "message", Level::kNote);
}

TEST(Findings, PrintAsLinesAndAsJsonObjects) {
  const std::vector<Finding> findings{{"a", Level::kOk, "fine", "", ""},
                                      {"b", Level::kProblem, "broken\x1b[2J", "it fell", "lift it"}};
  EXPECT_EQ(FindingsText(findings, false),
            "ok      fine\n"
            "problem broken?[2J\n"
            "        why: it fell\n"
            "        do:  lift it\n");
  const auto found = FindingsJson(findings, Healthy());
  EXPECT_EQ(found["ok"], false);
  EXPECT_EQ(found["hooked"], true);
  EXPECT_EQ(found["findings"][1]["id"], "b");
  EXPECT_EQ(found["findings"][1]["code"], "unavailable");
  EXPECT_EQ(found["trial"]["attached"][0]["meter"], "worker-cpu-time");
}

}  // namespace
}  // namespace weir::cli
