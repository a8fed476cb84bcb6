// SPDX-License-Identifier: Apache-2.0
// Findings about one program: from its files, and from its behaviour in the trial.
#include <fmt/format.h>

#include <algorithm>

#include "cli/common/text_units.h"
#include "tools/doctor/elf_image.h"
#include "tools/doctor/findings.h"

namespace weir::cli {
namespace {

/// Whether the list contains a library of one of these names.
bool Needs(const ImageFacts& image, std::initializer_list<std::string_view> names) {
  return std::any_of(image.needed.begin(), image.needed.end(), [&](const std::string& needed) {
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) { return needed.starts_with(name); });
  });
}

bool IsMusl(const std::string& loader) { return loader.find("ld-musl") != std::string::npos; }

void JudgeLinks(const ImageFacts& image, std::vector<Finding>& out) {
  const bool gl = Needs(image, {"libGL.so", "libGLX.so", "libEGL.so", "libOpenGL.so"});
  if (Needs(image, {"libvulkan.so"}))
    out.push_back({"links-vulkan", Level::kOk, fmt::format("{} links the Vulkan loader", image.path), "", ""});
  if (gl)
    out.push_back({"links-gl", Level::kOk, fmt::format("{} links OpenGL or EGL", image.path), "", ""});
  else if (!Needs(image, {"libvulkan.so"}))
    out.push_back({"links-no-gl", Level::kOk, fmt::format("{} links no OpenGL itself", image.path),
                   "it may open it when it runs, or start another program that does", ""});
}

void JudgeElf(const ImageFacts& image, std::uint16_t own_machine, std::vector<Finding>& out) {
  if (image.bits != 64 || image.machine != own_machine) {
    out.push_back({"foreign", Level::kProblem,
                   fmt::format("{} is for {} ({} bits); the shim is for {}", image.path, MachineName(image.machine),
                               image.bits, MachineName(own_machine)),
                   "ld.so can't load a library of another kind into it ('wrong ELF class')",
                   "run the 64-bit version of the program, if there is one", Errc::kUnavailable});
    return;
  }
  if (!image.privilege.empty())
    out.push_back({"privileged", Level::kProblem,
                   fmt::format("{} changes its privileges when it starts ({})", image.path, image.privilege),
                   "ld.so drops LD_PRELOAD then",
                   image.privilege == "file capabilities" ? "run a copy of it, which does not have them"
                                                          : "run a copy without that bit (cp, then chmod u-s,g-s)"});
  if (image.loader.empty()) {
    out.push_back({"static", Level::kProblem, fmt::format("{} is statically linked", image.path),
                   "no ld.so loads the shim", "build it dynamically linked"});
    return;
  }
  if (IsMusl(image.loader))
    out.push_back({"musl", Level::kProblem, fmt::format("{} runs on musl ({})", image.path, image.loader),
                   "the shim is built for glibc, whose symbols musl lacks",
                   "build weir on that system, or run a glibc build"});
  JudgeLinks(image, out);
}

std::string PidList(const std::vector<const TreeProcess*>& processes) {
  constexpr std::size_t kNamed = 4;
  std::string text;
  for (std::size_t i = 0; i < processes.size() && i < kNamed; ++i)
    text += fmt::format("{}{}({})", i == 0 ? "" : ", ", processes[i]->program, processes[i]->pid);
  if (processes.size() > kNamed) text += fmt::format(" and {} more", processes.size() - kNamed);
  return text;
}

template <typename Condition>
std::vector<const TreeProcess*> Those(const TrialFacts& trial, Condition condition) {
  std::vector<const TreeProcess*> out;
  for (const TreeProcess& one : trial.tree)
    if (condition(one)) out.push_back(&one);
  return out;
}

bool UsesGl(const TreeProcess& p) { return p.gl || p.egl; }

/// The shim's message on stderr is the only trace of a meter that was rejected before the trial's first poll.
bool SaysRejected(const TrialFacts& trial) {
  return std::any_of(trial.messages.begin(), trial.messages.end(), [](const std::string& message) {
    return message.find("contradict the wall clock") != std::string::npos;
  });
}

void JudgeMeter(const AttachedProcess& attached, const TrialFacts& trial, std::vector<Finding>& out) {
  const std::string& meter = attached.process.meter;
  const std::string who = fmt::format("{}({})", attached.process.program, attached.process.pid);
  if (meter == "wall-clock" && (attached.meters.size() > 1 || SaysRejected(trial)))
    out.push_back({"meter-rejected", Level::kNote,
                   fmt::format("the meter of {} was rejected: {} contradicted the wall clock, or gave no result", who,
                               attached.meters.size() > 1 ? attached.meters.front() : "timer-query"),
                   "it is now charged the duration of its present calls, whatever that includes",
                   "shares and caps of it are rough; rates are not affected"});
  else if (meter == "wall-clock")
    out.push_back({"meter-wall-clock", Level::kNote,
                   fmt::format("{} is charged the duration of its present calls", who),
                   "its OpenGL has no timestamps, and its renderer is not a known software renderer",
                   "shares and caps of it are rough; rates are not affected"});
  else if (meter == "none" || meter.empty())
    out.push_back({"meter-none", Level::kNote, fmt::format("{} has no meter yet", who), "",
                   trial.ended ? "" : "try a longer --seconds"});
  else
    out.push_back({"meter", Level::kOk, fmt::format("{} is measured by {}", who, meter),
                   meter == "timer-query" ? "GPU timestamps, which the wall clock has not contradicted"
                                          : "CPU time of the renderer, as the kernel counts it",
                   ""});
}

void JudgeAttached(const TrialFacts& trial, std::vector<Finding>& out) {
  for (const AttachedProcess& one : trial.attached) {
    const auto in_tree = std::find_if(trial.tree.begin(), trial.tree.end(),
                                      [&](const TreeProcess& p) { return p.pid == one.process.pid; });
    std::string path;
    if (in_tree != trial.tree.end())
      path = one.process.api == "vulkan"   ? ", through weir's Vulkan layer"
             : in_tree->gl && in_tree->egl ? ", GLX and EGL loaded"
             : in_tree->gl                 ? ", through GLX"
             : in_tree->egl                ? ", through EGL"
                                           : "";
    out.push_back(
        {"hooked", Level::kOk,
         fmt::format("{}({}) is attached, {:.2f} s after the start{}, api {}, renderer '{}'", one.process.program,
                     one.process.pid, one.attach_seconds, path, one.process.api, one.process.renderer),
         one.process.pid == trial.pid ? ""
         : one.started_by.empty()     ? "the daemon started it; it executes the program's OpenCL commands"
                                      : fmt::format("started by {}", one.started_by),
         ""});
    JudgeMeter(one, trial, out);
  }
  if (trial.frames > 0)
    out.push_back({"frames", Level::kOk,
                   fmt::format("{} frames in {:.1f} s, {:.1f} a second", trial.frames, trial.seconds, trial.fps), "",
                   ""});
  if (trial.fail_opens > 0)
    out.push_back({"fail-open", Level::kProblem, fmt::format("it went on unthrottled {} times", trial.fail_opens),
                   "the daemon didn't answer in time", "check the daemon's log and the machine's load"});
  if (trial.records_bad > 0)
    out.push_back({"records-bad", Level::kNote,
                   fmt::format("{} of its records could not be believed", trial.records_bad), "", ""});
}

/// No process attached: each sentence is one reason that the facts show.
void JudgeUnattached(const TrialFacts& trial, std::vector<Finding>& out) {
  const std::size_t before = out.size();
  const std::string longer = trial.ended ? "" : "try a longer --seconds";  // more time changes nothing after its end
  auto add = [&out](const char* id, Level level, std::string what, std::string why, std::string what_to_do) {
    out.push_back({id, level, std::move(what), std::move(why), std::move(what_to_do)});
  };
  const auto looked = Those(trial, [](const TreeProcess& p) { return p.maps_readable; });
  const auto bare = Those(trial, [](const TreeProcess& p) { return p.maps_readable && !p.stub_loaded; });
  const auto reset = Those(trial, [](const TreeProcess& p) {
    return p.environment_readable && !p.preload_in_environment && p.maps_readable && !p.stub_loaded;
  });
  if (!reset.empty())
    add("preload-reset", Level::kProblem, fmt::format("{} started without LD_PRELOAD", PidList(reset)),
        "a launcher or wrapper cleared it on the way",
        "start the program itself rather than its launcher, or set WEIR_ATTACH and LD_PRELOAD in the launcher's own "
        "settings");
  else if (!bare.empty())
    add("shim-not-loaded", Level::kProblem, fmt::format("the shim was not loaded into {}", PidList(bare)),
        "ld.so dropped it (privileges, another word size or libc, noexec), though LD_PRELOAD names it",
        "see the messages above and below");
  const auto without = Those(trial, [](const TreeProcess& p) { return p.vulkan && !UsesGl(p) && !p.layer_loaded; });
  if (!without.empty())
    add("vulkan", Level::kProblem, fmt::format("{} uses Vulkan without weir's layer", PidList(without)),
        std::any_of(without.begin(), without.end(), [](const TreeProcess* p) { return p->layer_in_environment; })
            ? "it has no Vulkan instance yet, layers are switched off (VK_LOADER_LAYERS_DISABLE), or it doesn't see "
              "the "
              "manifest"
            : "a launcher or a container cleared WEIR_VULKAN_LAYER on the way",
        "run it with VK_LOADER_DEBUG=layer, which says what the loader found; see docs/vulkan.md for containers");
  const auto vulkan = Those(trial, [](const TreeProcess& p) { return p.vulkan && p.layer_loaded && !UsesGl(p); });
  if (!vulkan.empty())
    add("vulkan-no-work", Level::kProblem,
        fmt::format("{} has Vulkan and weir's layer loaded, but presented and submitted nothing", PidList(vulkan)), "",
        longer);
  const auto angle = Those(trial, [](const TreeProcess& p) { return p.angle; });
  if (!angle.empty())
    add("angle", Level::kNote, fmt::format("{} renders through ANGLE (Chromium, Electron)", PidList(angle)),
        "its own EGL is not intercepted; presents through the system's EGL or through Vulkan are",
        "try --use-gl=desktop, --use-angle=gl or --use-angle=vulkan");
  const auto gl = Those(trial, [](const TreeProcess& p) { return UsesGl(p) && p.stub_loaded; });
  if (!gl.empty())
    add("no-present", Level::kProblem,
        fmt::format("{} has OpenGL and the shim loaded, but presented nothing", PidList(gl)),
        "no frame was shown yet, or it renders off screen or to the front buffer (glFlush without a swap)",
        longer + (longer.empty() ? "" : "; ") + "a program that never swaps buffers can't be attached");
  if (out.size() == before && !looked.empty())
    add("no-gl", Level::kProblem, fmt::format("{} loaded no OpenGL, EGL or Vulkan", PidList(looked)),
        "there was nothing to attach", longer + (longer.empty() ? "" : " if it draws later"));
  if (looked.empty())
    add("ended-early", Level::kProblem, "it ended before its libraries could be looked at", "",
        "see its last line of output");
}

}  // namespace

void JudgeProgram(const ProgramFacts& program, std::uint16_t own_machine, std::vector<Finding>& out) {
  if (program.code) {
    out.push_back({"program", Level::kProblem, program.error, program.noexec ? "its file system is mounted noexec" : "",
                   program.noexec ? "copy it elsewhere, or mount that file system with exec" : "", *program.code});
    return;
  }
  for (const ImageFacts& image : program.chain) {
    if (!image.readable) {
      out.push_back({"unreadable", Level::kNote, fmt::format("{} can't be looked at", image.path),
                     "it is not an ELF file, or you may not read it", ""});
    } else if (image.type == ImageType::kScript) {
      out.push_back({"script", Level::kOk, fmt::format("{} is a script for {}", image.path, image.interpreter),
                     "whatever it starts inherits the shim, unless it clears LD_PRELOAD", ""});
    } else if (image.type == ImageType::kWindows) {
      out.push_back({"windows", Level::kNote, fmt::format("{} is a Windows program", image.path),
                     "the kernel executes it only where Wine is registered for such files",
                     fmt::format("try it with Wine: 'weir doctor -- wine {}'", image.path)});
    } else if (image.type == ImageType::kElf) {
      JudgeElf(image, own_machine, out);
    }
  }
}

void JudgeTrial(const TrialFacts& trial, const ProgramFacts& program, std::vector<Finding>& out) {
  if (trial.code) {
    out.push_back(
        {"trial", Level::kProblem, fmt::format("it could not be tried: {}", trial.error), "", "", *trial.code});
    return;
  }
  for (const std::string& message : trial.messages)
    out.push_back({"message", Level::kNote, fmt::format("printed while it ran: {}", message), "", ""});
  if (!trial.attached.empty()) return JudgeAttached(trial, out);
  out.push_back(
      {"not-hooked", Level::kProblem,
       trial.ended
           ? fmt::format("'{}' is not attached: it ended ({}) after {:.1f} s without a frame that weir saw",
                         program.name, *trial.ended, trial.seconds)
           : fmt::format("'{}' is not attached: weir saw no frame of it in {:.1f} s", program.name, trial.seconds),
       trial.last_line.empty() ? "" : fmt::format("its last line of output: {}", trial.last_line), ""});
  JudgeUnattached(trial, out);
}

}  // namespace weir::cli
