// SPDX-License-Identifier: Apache-2.0
#include "drivers/slurm_driver.h"

#include <fmt/format.h>

#include <algorithm>

#include "drivers/slurm_text.h"

namespace weir::drivers {
namespace {

// The states in which a job has its vGPU. They include those of jobs that are starting or ending.
constexpr const char* kJobStates = "--states=RUNNING,CONFIGURING,COMPLETING,SUSPENDED,STOPPED";

constexpr const char* kLasts = "endtime=now+365days";

std::string FirstLine(const std::string& text) { return text.substr(0, std::min<std::size_t>(text.find('\n'), 200)); }

}  // namespace

Result<SlurmDriver> SlurmDriver::Make(SlurmSettings settings, CommandRunner run) {
  WEIR_TRY_STATUS(CheckSlurmName(settings.licence, "a licence"));
  WEIR_TRY_STATUS(CheckSlurmName(settings.reservation, "a reservation"));
  if (!settings.node.empty()) WEIR_TRY_STATUS(CheckSlurmName(settings.node, "a node"));
  return SlurmDriver(std::move(settings), std::move(run));
}

Result<std::string> SlurmDriver::Ask(const std::vector<std::string>& argv, std::string_view attempted) const {
  WEIR_TRY(CommandOutput output, run_(argv));
  if (output.exit_code == 0) return std::move(output.text);
  const std::string said = FirstLine(output.text);
  Errc code = Errc::kUnavailable;
  if (said.find("not found") != std::string::npos) code = Errc::kNotFound;
  if (said.find("ccess/permission denied") != std::string::npos || said.find("authorized") != std::string::npos)
    code = Errc::kPermissionDenied;
  return Fail(code, fmt::format("{}: '{}' ended with {}: {}", attempted, fmt::join(argv, " "), output.exit_code, said));
}

Result<std::int64_t> SlurmDriver::Total() const {
  WEIR_TRY(const std::string text,
           Ask({"scontrol", "-o", "show", "licenses", settings_.licence}, "asked Slurm for licences"));
  WEIR_TRY(const auto licence, ParseSlurmLicence(text, settings_.licence));
  if (!licence)
    return Fail(Errc::kInvalidArgument,
                fmt::format("Slurm has no licence '{0}': add 'Licenses={0}:N' to slurm.conf, N what "
                            "may be sold at most, and 'scontrol reconfigure'",
                            settings_.licence));
  return licence->total;
}

Result<std::int64_t> SlurmDriver::Hold() const {
  WEIR_TRY(const std::string text,
           Ask({"scontrol", "-o", "show", "reservation", settings_.reservation}, "asked Slurm for the reservation"));
  return ParseSlurmHold(text, settings_.reservation, settings_.licence);
}

Status SlurmDriver::Hold(std::int64_t licences, bool create) const {
  std::vector<std::string> argv{"scontrol", create ? "create" : "update"};
  if (create) argv.emplace_back("reservation");
  argv.push_back("reservationname=" + settings_.reservation);
  argv.push_back(fmt::format("licenses={}:{}", settings_.licence, licences));
  if (create)
    argv.insert(argv.end(), {"starttime=now", kLasts, "user=root", "flags=ANY_NODES,LICENSE_ONLY,IGNORE_JOBS"});
  WEIR_TRY(const std::string said, Ask(argv, "held licences back"));
  return Ok();
}

Result<std::vector<Grant>> SlurmDriver::Jobs(const std::vector<std::string>& filter) const {
  std::vector<std::string> argv{"squeue", "--noheader", kJobStates, std::string("--format=") + kSlurmJobFormat};
  if (!settings_.node.empty()) argv.push_back("--nodelist=" + settings_.node);
  argv.insert(argv.end(), filter.begin(), filter.end());
  WEIR_TRY(const std::string text, Ask(argv, "asked Slurm for its jobs"));
  return ParseSlurmJobs(text, settings_.licence);
}

Status SlurmDriver::Publish(const std::string& /*gpu*/, std::int64_t shares) {
  if (shares < 1 || shares > kSharesMax)
    return Fail(Errc::kInvalidArgument, fmt::format("a device has 1 to {} shares, not {}", kSharesMax, shares));
  WEIR_TRY(const std::int64_t total, Total());
  const auto hold = Hold();
  if (hold) {
    // A reservation ends after its duration; each start of a driver extends it by a year.
    WEIR_TRY(const std::string said, Ask({"scontrol", "update", "reservationname=" + settings_.reservation, kLasts},
                                         "prolonged the reservation"));
    return Ok();
  }
  if (hold.error().code != Errc::kNotFound) return hold.error();
  return Hold(total, /*create=*/true);
}

Status SlurmDriver::SetSellable(const std::string& /*gpu*/, std::int64_t shares) {
  if (shares < 0) return Fail(Errc::kInvalidArgument, fmt::format("{} shares can't be sellable", shares));
  WEIR_TRY(const std::int64_t total, Total());
  return Hold(std::max<std::int64_t>(total - shares, 0), /*create=*/false);
}

Result<Usage> SlurmDriver::ReadUsage(const std::string& /*gpu*/) {
  Usage usage;
  WEIR_TRY(usage.sellable_max, Total());
  WEIR_TRY(const std::int64_t hold, Hold());
  usage.sellable = std::max<std::int64_t>(usage.sellable_max - hold, 0);
  WEIR_TRY(usage.grants, Jobs({}));
  return usage;
}

Result<std::optional<Grant>> SlurmDriver::GrantOf(std::uint32_t job) {
  WEIR_TRY(const std::vector<Grant> grants, Jobs({fmt::format("--jobs={}", job)}));
  for (const Grant& grant : grants)
    if (grant.consumer == std::to_string(job)) return std::optional<Grant>(grant);
  return std::optional<Grant>();
}

}  // namespace weir::drivers
