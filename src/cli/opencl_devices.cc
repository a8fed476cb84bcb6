// SPDX-License-Identifier: Apache-2.0
#include "cli/opencl_devices.h"

#include <unistd.h>

#include <array>

#include "cli/common/child.h"
#include "cli/common/text_units.h"

namespace weir::cli {

std::vector<OpenClDevice> ParseOpenClDevices(const std::string& text) {
  std::vector<OpenClDevice> devices;
  for (const std::string& line : SplitList(text, '\n')) {
    const std::vector<std::string> fields = SplitList(line, '\t');
    if (fields.size() < 6) continue;
    const auto number = ParseWhole(fields[1]), units = ParseWhole(fields[4]), bytes = ParseWhole(fields[5]);
    if (!number || !units || !bytes || *number < 0 || *units < 0 || *bytes < 0) continue;
    devices.push_back({.library = fields[0],
                       .vendor = fields[2],
                       .name = fields[3],
                       .uuid = fields.size() > 7 ? fields[7] : "",
                       .pci = fields.size() > 8 ? fields[8] : "",
                       .number = static_cast<std::uint64_t>(*number),
                       .compute_units = static_cast<std::uint64_t>(*units),
                       .memory_bytes = static_cast<std::uint64_t>(*bytes)});
  }
  return devices;
}

Result<std::vector<OpenClDevice>> ListOpenClDevices(const std::string& executor) {
  if (executor.empty()) return Fail(Errc::kUnavailable, "weir-executor is not installed beside weir");
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return Fail(Errc::kIo, "making a pipe for weir-executor");
  auto child = Child::Start({.argv = {executor, "--list"}, .output_fd = ends[1]});
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t got = 0; child && (got = ::read(ends[0], part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(got));
  ::close(ends[0]);
  if (!child) return std::move(child).error();
  std::vector<OpenClDevice> devices = ParseOpenClDevices(text);
  if (devices.empty())
    return Fail(Errc::kUnavailable, "no OpenCL driver offers a device; on Debian, pocl-opencl-icd has one for CPUs");
  return devices;
}

}  // namespace weir::cli
