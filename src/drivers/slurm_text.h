// SPDX-License-Identifier: Apache-2.0
// Strict parsers for the output of scontrol and squeue: unexpected text is an error, never a number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "drivers/engine_driver.h"

namespace weir::drivers {

/// The squeue --format that ParseSlurmJobs reads.
inline constexpr const char* kSlurmJobFormat = "%A|%U|%W";

struct SlurmLicence {
  std::int64_t total = 0;
  std::int64_t used = 0;
};

/// Parses a line of `scontrol -o show licenses NAME`. Empty: the licence does not exist (an empty reply).
Result<std::optional<SlurmLicence>> ParseSlurmLicence(std::string_view text, std::string_view name);

/// The number of `licence` that a line of `scontrol -o show reservation` holds back.
Result<std::int64_t> ParseSlurmHold(std::string_view text, std::string_view reservation, std::string_view licence);

/// The number of `licence` in a list such as "matlab:2,vgpu:1"; an entry without a number counts as one, "(null)" as
/// none.
Result<std::int64_t> CountLicences(std::string_view list, std::string_view licence);

/// The jobs that hold `licence`, from squeue's lines in kSlurmJobFormat.
Result<std::vector<Grant>> ParseSlurmJobs(std::string_view text, std::string_view licence);

/// Checks that a name can be part of scontrol's arguments: letters, digits, '_', '-' and '.'.
Status CheckSlurmName(std::string_view name, std::string_view what);

}  // namespace weir::drivers
