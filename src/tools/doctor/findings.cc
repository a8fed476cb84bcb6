// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/common/table.h"

namespace weir::cli {
namespace {

using nlohmann::ordered_json;

Style StyleOf(Level level) {
  switch (level) {
    case Level::kOk: return Style::kGood;
    case Level::kNote: return Style::kWarning;
    case Level::kProblem: break;
  }
  return Style::kBad;
}

ordered_json TrialJson(const TrialFacts& trial) {
  ordered_json out{{"pid", trial.pid},
                   {"seconds", trial.seconds},
                   {"frames", trial.frames},
                   {"fps", trial.fps},
                   {"ended", trial.ended ? ordered_json(*trial.ended) : ordered_json()},
                   {"attached", ordered_json::array()},
                   {"processes", ordered_json::array()}};
  for (const AttachedProcess& one : trial.attached)
    out["attached"].push_back({{"pid", one.process.pid},
                               {"program", one.process.program},
                               {"api", one.process.api},
                               {"renderer", one.process.renderer},
                               {"meter", one.process.meter},
                               {"meters", one.meters},
                               {"attach_seconds", one.attach_seconds},
                               {"started_by", one.started_by}});
  for (const TreeProcess& one : trial.tree)
    out["processes"].push_back({{"pid", one.pid},
                                {"parent", one.parent},
                                {"program", one.program},
                                {"shim_loaded", one.stub_loaded},
                                {"gl", one.gl},
                                {"egl", one.egl},
                                {"vulkan", one.vulkan},
                                {"angle", one.angle}});
  return out;
}

}  // namespace

const char* NameOf(Level level) {
  switch (level) {
    case Level::kOk: return "ok";
    case Level::kNote: return "note";
    case Level::kProblem: break;
  }
  return "problem";
}

std::vector<Finding> Judge(const DoctorFacts& facts) {
  std::vector<Finding> out;
  JudgeInstall(facts.install, out);
  JudgeDaemon(facts.daemon, facts.install, out);
  JudgeEnvironment(facts.environment, facts.program.has_value(), !facts.daemon.code, out);
  if (facts.program) JudgeProgram(*facts.program, facts.install.machine, out);
  if (facts.program && facts.trial) JudgeTrial(*facts.trial, *facts.program, out);
  return out;
}

int ExitCodeOf(const std::vector<Finding>& findings) {
  const auto problem =
      std::find_if(findings.begin(), findings.end(), [](const Finding& f) { return f.level == Level::kProblem; });
  return problem == findings.end() ? 0 : EntryOf(problem->code).exit_code;
}

std::string FindingsText(const std::vector<Finding>& findings, bool color) {
  std::string text;
  for (const Finding& f : findings) {
    text += Styled(fmt::format("{:<8}", NameOf(f.level)), StyleOf(f.level), color) + Printable(f.what) + '\n';
    if (!f.why.empty()) text += fmt::format("{:8}why: {}\n", "", Printable(f.why));
    if (!f.what_to_do.empty()) text += fmt::format("{:8}do:  {}\n", "", Printable(f.what_to_do));
  }
  return text;
}

ordered_json FindingsJson(const std::vector<Finding>& findings, const DoctorFacts& facts) {
  ordered_json out{{"version", facts.install.version},
                   {"ok", ExitCodeOf(findings) == 0},
                   {"hooked", facts.trial && !facts.trial->attached.empty()},
                   {"findings", ordered_json::array()}};
  for (const Finding& f : findings) {
    ordered_json one{
        {"id", f.id}, {"level", NameOf(f.level)}, {"what", f.what}, {"why", f.why}, {"what_to_do", f.what_to_do}};
    if (f.level == Level::kProblem) one["code"] = NameOf(f.code);
    out["findings"].push_back(std::move(one));
  }
  if (facts.trial) out["trial"] = TrialJson(*facts.trial);
  return out;
}

}  // namespace weir::cli
