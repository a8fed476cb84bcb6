// SPDX-License-Identifier: Apache-2.0
// The devices of one description, with an emulator of their own.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/split.h"
#include "device/device_lines.h"
#include "device/kinds.h"
#include "platform/program_output.h"

namespace weir::device {
namespace {

/// The absolute path of a file, because the daemon may change its current folder, or the name of a built-in
/// description.
std::string PathOrName(const std::string& description) {
  std::error_code error;
  return std::filesystem::exists(description, error) ? std::filesystem::absolute(description).string() : description;
}

/// The first line of the emulator's output, without the emulator's name.
std::string WhyNot(const platform::ProgramOutput& output) {
  constexpr std::string_view kSpeaker = "weir-emulated-gpu: ";
  std::string why = output.text.substr(0, output.text.find('\n'));
  if (why.starts_with(kSpeaker)) why.erase(0, kSpeaker.size());
  return why;
}

Device DeviceOf(const EmulatedIdentity& identity, const std::string& name, const std::string& socket,
                const std::string& drivers) {
  const std::vector<std::string> where{"WEIR_EMULATOR_SOCKET=" + socket, "WEIR_EMULATED_DEVICE=" + identity.uuid};
  Device device;
  device.spec = {.name = name,
                 .kind = kEmulated,
                 .cpus = {},
                 .model = identity.model,
                 .uuid = identity.uuid,
                 .pci = identity.pci,
                 .memory = Bytes{identity.memory_bytes}};
  device.driver = {.library = drivers + "/libweir-emulated-opencl.so", .device = identity.uuid, .environment = where};
  device.environment = where;
  for (const char* variable : {"__GLX_VENDOR_LIBRARY_NAME=weiremulated", "LIBGL_ALWAYS_SOFTWARE=1"})
    device.environment.emplace_back(variable);
  device.environment.push_back("LD_LIBRARY_PATH=" + drivers);
  // A double for tests, which packages do not contain.
  std::error_code error;
  if (const std::string cuda = drivers + "/cuda/libcuda.so.1"; std::filesystem::exists(cuda, error))
    device.environment.push_back("WEIR_CUDA_DRIVER=" + cuda);
  device.environment.push_back("__EGL_VENDOR_LIBRARY_FILENAMES=" + drivers + "/weiremulated.json");
  return device;
}

}  // namespace

Status AddEmulated(const std::string& what, const Sources& sources, Devices& devices) {
  if (sources.emulator_program.empty() || sources.emulated_drivers.empty() || sources.account_program.empty())
    return Fail(Errc::kUnavailable,
                "weir-emulated-gpu, its drivers and weir-gpu-account are not installed beside weir");
  const std::string file = PathOrName(what);
  WEIR_TRY(const platform::ProgramOutput output, platform::OutputOf({sources.emulator_program, "check", file}));
  if (output.exit_code != 0)
    return Fail(output.exit_code == EntryOf(Errc::kNotFound).exit_code ? Errc::kNotFound : Errc::kInvalidArgument,
                "--device emulated:" + what + ": " + WhyNot(output));
  const std::string socket = fmt::format("{}/emulator-{}.sock", sources.run_dir, devices.emulators.size());
  Account account{.program = sources.account_program, .source = {"--emulator", socket}, .devices = {}};
  auto number = std::ranges::count(devices.devices, kEmulated, [](const Device& device) { return device.spec.kind; });
  for (const std::string& line : SplitList(output.text, '\n')) {
    if (line.empty()) continue;
    WEIR_TRY(const EmulatedIdentity identity, ParseEmulatedIdentity(line));
    devices.devices.push_back(
        DeviceOf(identity, fmt::format("emulated{}", number++), socket, sources.emulated_drivers));
    account.devices.push_back(devices.devices.back().spec.name);
  }
  devices.accounts.push_back(std::move(account));
  devices.emulators.push_back({.program = sources.emulator_program, .description = file, .socket = socket});
  return Ok();
}

}  // namespace weir::device
