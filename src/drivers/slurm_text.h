// SPDX-License-Identifier: Apache-2.0
// What scontrol and squeue say, read strictly: anything else than what is expected is an error, and never a number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "drivers/engine_driver.h"

namespace weir::drivers {

/// For squeue's --format: what ParseSlurmJobs reads.
inline constexpr const char* kSlurmJobFormat = "%A|%U|%W";

struct SlurmLicence {
  std::int64_t total = 0;
  std::int64_t used = 0;
};

/// A line of `scontrol -o show licenses NAME`. Nothing: there is no such licence (an empty answer).
Result<std::optional<SlurmLicence>> ParseSlurmLicence(std::string_view text, std::string_view name);

/// How many of `licence` a line of `scontrol -o show reservation` holds back.
Result<std::int64_t> ParseSlurmHold(std::string_view text, std::string_view reservation, std::string_view licence);

/// How many of `licence` are in a list such as "matlab:2,vgpu:1"; one without a number is one. "(null)" is none.
Result<std::int64_t> CountLicences(std::string_view list, std::string_view licence);

/// The jobs that hold `licence`, of squeue's lines in kSlurmJobFormat.
Result<std::vector<Grant>> ParseSlurmJobs(std::string_view text, std::string_view licence);

/// A name that can stand in scontrol's arguments: letters, digits, '_', '-' and '.'.
Status CheckSlurmName(std::string_view name, std::string_view what);

}  // namespace weir::drivers
