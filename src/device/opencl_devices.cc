// SPDX-License-Identifier: Apache-2.0
#include "device/opencl_devices.h"

#include <charconv>
#include <optional>

#include "base/split.h"
#include "platform/program_output.h"

namespace weir::device {
namespace {

std::optional<std::uint64_t> WholeNumber(const std::string& text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return number;
}

}  // namespace

std::vector<OpenClDevice> ParseOpenClDevices(const std::string& text) {
  std::vector<OpenClDevice> devices;
  for (const std::string& line : SplitList(text, '\n')) {
    const std::vector<std::string> fields = SplitList(line, '\t');
    if (fields.size() < 6) continue;
    const auto number = WholeNumber(fields[1]), units = WholeNumber(fields[4]), bytes = WholeNumber(fields[5]);
    if (!number || !units || !bytes) continue;
    devices.push_back({.library = fields[0],
                       .vendor = fields[2],
                       .name = fields[3],
                       .uuid = fields.size() > 7 ? fields[7] : "",
                       .pci = fields.size() > 8 ? fields[8] : "",
                       .number = *number,
                       .compute_units = *units,
                       .memory_bytes = *bytes});
  }
  return devices;
}

Result<std::vector<OpenClDevice>> ListOpenClDevices(const std::string& executor) {
  if (executor.empty()) return Fail(Errc::kUnavailable, "weir-executor is not installed beside weir");
  WEIR_TRY(const platform::ProgramOutput output, platform::OutputOf({executor, "--list"}));
  std::vector<OpenClDevice> devices = ParseOpenClDevices(output.text);
  if (devices.empty())
    return Fail(Errc::kUnavailable, "no OpenCL driver offers a device; on Debian, pocl-opencl-icd has one for CPUs");
  return devices;
}

}  // namespace weir::device
