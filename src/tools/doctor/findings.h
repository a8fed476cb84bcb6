// SPDX-License-Identifier: Apache-2.0
// Conclusions from the facts: whether the program is controlled and its charges are true, and if not, the reason and
// the remedy. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/errc.h"
#include "tools/doctor/facts.h"

namespace weir::cli {

enum class Level : std::uint8_t { kOk, kNote, kProblem };
const char* NameOf(Level level);

struct Finding {
  std::string id;  // stable, for scripts
  Level level = Level::kOk;
  std::string what;
  std::string why;                 // empty: nothing more to say
  std::string what_to_do;          // empty: nothing
  Errc code = Errc::kUnavailable;  // of a problem
};

/// Returns the findings in the order in which a user should read them.
std::vector<Finding> Judge(const DoctorFacts& facts);

// The steps of Judge.
void JudgeInstall(const InstallFacts& install, std::vector<Finding>& out);
void JudgeDaemon(const DaemonFacts& daemon, const InstallFacts& install, std::vector<Finding>& out);
void JudgeEnvironment(const EnvironmentFacts& environment, bool runs_program, bool daemon_answers,
                      std::vector<Finding>& out);
void JudgeProgram(const ProgramFacts& program, std::uint16_t own_machine, std::vector<Finding>& out);
void JudgeTrial(const TrialFacts& trial, const ProgramFacts& program, std::vector<Finding>& out);

/// 0, or the exit code of the first problem.
int ExitCodeOf(const std::vector<Finding>& findings);

std::string FindingsText(const std::vector<Finding>& findings, bool color);
nlohmann::ordered_json FindingsJson(const std::vector<Finding>& findings, const DoctorFacts& facts);

}  // namespace weir::cli
