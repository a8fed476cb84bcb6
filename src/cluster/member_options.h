// SPDX-License-Identifier: Apache-2.0
// The command-line options of a member, for the programs that contain one: weir-member and weir-modules.
#pragma once

#include <string>

#include "base/result.h"
#include "cluster/member.h"
#include "platform/service_options.h"

namespace weir::cluster {

struct MemberArguments {
  std::string managers, name, identity, token;
  PartsMembership parts;
  bool quiet = false;

  [[nodiscard]] bool for_parts() const { return parts.wanted || !parts.vgpu.empty(); }
};

void Declare(platform::ServiceOptions& options, MemberArguments& arguments);
/// The problem with the combination of options; null: none.
const char* ProblemOf(const MemberArguments& arguments);
/// Reads the files that the options name. Creates the node's identity if it is missing.
Result<MemberOptions> OptionsOf(const MemberArguments& arguments);

}  // namespace weir::cluster
