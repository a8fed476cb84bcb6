// SPDX-License-Identifier: Apache-2.0
#include "cli/serve_devices.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/common/child.h"
#include "cli/common/device_lines.h"
#include "cli/common/places.h"
#include "cli/common/text_units.h"
#include "cli/drm_device.h"

namespace weir::cli {
namespace {

constexpr std::string_view kNvidia = "nvidia:";
constexpr std::string_view kDrm = "drm:";
constexpr std::string_view kEmulated = "emulated:";
constexpr std::string_view kChoices =
    "embedded, nvidia:GPU with an index, a UUID or a PCI address, drm:GPU with an index, a render node or a PCI "
    "address, "
    "or emulated:FILE with a description of devices";

struct Output {
  std::string text;
  int exit_code = 0;
};

/// What a program prints on both of its outputs.
Result<Output> Run(std::vector<std::string> argv) {
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0) return Fail(Errc::kIo, "making a pipe for " + argv[0]);
  auto child = Child::Start({.argv = std::move(argv), .output_fd = ends[1]});
  ::close(ends[1]);
  Output output;
  char part[4096];
  for (ssize_t got = 0; child && (got = ::read(ends[0], part, sizeof part)) > 0;)
    output.text.append(part, static_cast<std::size_t>(got));
  ::close(ends[0]);
  if (!child) return std::move(child).error();
  while (!child->Ended()) ::usleep(1000);
  output.exit_code = child->ExitCode();
  return output;
}

bool IsGpu(const daemon::DeviceSetup& device) { return device.spec.kind == "gpu"; }

std::string NextGpuName(const daemon::ServeOptions& options) {
  return fmt::format("gpu{}", std::ranges::count_if(options.devices, IsGpu));
}

Status RefuseTwice(const std::string& wanted, const std::string& uuid, const std::string& pci,
                   const daemon::ServeOptions& options) {
  const auto same = [&](const daemon::DeviceSetup& device) {
    return IsGpu(device) && ((!uuid.empty() && device.spec.uuid == uuid) || (!pci.empty() && device.spec.pci == pci));
  };
  if (std::ranges::none_of(options.devices, same)) return Ok();
  return Fail(Errc::kInvalidArgument, fmt::format("--device {}: this GPU is named twice", wanted));
}

Status AddAccount(std::vector<std::string> source, const std::string& device, const std::filesystem::path& self,
                  daemon::ServeOptions& options) {
  std::string program = FindHelper(self, kGpuAccount);
  if (program.empty()) return Fail(Errc::kUnavailable, "weir-gpu-account is not installed beside weir");
  options.accounts.push_back({.program = std::move(program), .source = std::move(source), .devices = {device}});
  return Ok();
}

/// NVML's number of a GPU is not OpenCL's: executors are given what both know it by.
Status AddNvidia(const std::string& gpu, const std::filesystem::path& self, const std::string& nvml_library,
                 daemon::ServeOptions& options) {
  const std::string program = FindHelper(self, kGpuMemory);
  if (program.empty()) return Fail(Errc::kUnavailable, "weir-gpu-memory is not installed beside weir");
  std::vector<std::string> argv{program, "--gpu", gpu, "--identify"};
  if (!nvml_library.empty()) argv.insert(argv.end(), {"--library", nvml_library});
  WEIR_TRY(const Output output, Run(std::move(argv)));
  const std::string line = output.text.substr(0, output.text.find('\n'));
  if (output.exit_code != 0) return Fail(Errc::kUnavailable, "--device nvidia:" + gpu + ": " + line);
  WEIR_TRY(const GpuIdentity identity, ParseGpuIdentity(line));
  WEIR_TRY_STATUS(RefuseTwice("nvidia:" + gpu, identity.uuid, identity.pci, options));
  daemon::DeviceSetup device;
  device.spec = {.name = NextGpuName(options),
                 .kind = "gpu",
                 .cpus = {},
                 .model = identity.model,
                 .uuid = identity.uuid,
                 .pci = identity.pci};
  device.executors.device = identity.pci.empty() ? identity.uuid : identity.pci;
  options.gpu_memory.push_back(
      {.program = program, .gpu = gpu, .nvml_library = nvml_library, .device = device.spec.name});
  std::vector<std::string> source{"--nvml", identity.uuid.empty() ? gpu : identity.uuid};
  if (!nvml_library.empty()) source.insert(source.end(), {"--library", nvml_library});
  WEIR_TRY_STATUS(AddAccount(std::move(source), device.spec.name, self, options));
  options.devices.push_back(std::move(device));
  return Ok();
}

/// Mesa finds a GPU by DRI_PRIME, and OpenCL by its PCI address.
Status AddDrm(const std::string& gpu, const std::filesystem::path& self, daemon::ServeOptions& options) {
  auto found = FindDrmDevice(gpu, "/sys/class/drm");
  if (!found) return Fail(found.error().code, "--device drm:" + gpu + ": " + found.error().message);
  WEIR_TRY_STATUS(RefuseTwice("drm:" + gpu, {}, found->pci, options));
  daemon::DeviceSetup device;
  device.spec = {
      .name = NextGpuName(options), .kind = "gpu", .cpus = {}, .model = found->model, .uuid = {}, .pci = found->pci};
  device.executors.device = found->pci;
  std::string address = found->pci;
  std::ranges::replace(address, ':', '_');
  std::ranges::replace(address, '.', '_');
  device.environment = {"DRI_PRIME=pci-" + address};
  WEIR_TRY_STATUS(AddAccount({"--drm", found->pci}, device.spec.name, self, options));
  options.devices.push_back(std::move(device));
  return Ok();
}

/// The devices of one description, with an emulator of their own.
Status AddEmulated(const std::string& description, const std::filesystem::path& self, daemon::ServeOptions& options) {
  const std::string program = FindEmulator(self);
  const std::string drivers = FindEmulatedDrivers(self);
  daemon::AccountSetup account{.program = FindHelper(self, kGpuAccount), .source = {}, .devices = {}};
  if (program.empty() || drivers.empty() || account.program.empty())
    return Fail(Errc::kUnavailable,
                "weir-emulated-gpu, its drivers and weir-gpu-account are not installed beside weir");
  // The daemon may leave the current folder.
  std::error_code error;
  const std::string file =
      std::filesystem::exists(description, error) ? std::filesystem::absolute(description).string() : description;
  WEIR_TRY(const Output output, Run({program, "check", file}));
  if (output.exit_code != 0) {
    constexpr std::string_view kSpeaker = "weir-emulated-gpu: ";
    std::string why = output.text.substr(0, output.text.find('\n'));
    if (why.starts_with(kSpeaker)) why.erase(0, kSpeaker.size());
    return Fail(output.exit_code == EntryOf(Errc::kNotFound).exit_code ? Errc::kNotFound : Errc::kInvalidArgument,
                "--device emulated:" + description + ": " + why);
  }
  const std::string socket = fmt::format("{}/emulator-{}.sock", options.run_dir, options.emulators.size());
  const auto is_emulated = [](const daemon::DeviceSetup& device) { return device.spec.kind == "emulated"; };
  auto number = std::ranges::count_if(options.devices, is_emulated);
  for (const std::string& line : SplitList(output.text, '\n')) {
    if (line.empty()) continue;
    WEIR_TRY(const EmulatedIdentity identity, ParseEmulatedIdentity(line));
    const std::vector<std::string> where{"WEIR_EMULATOR_SOCKET=" + socket, "WEIR_EMULATED_DEVICE=" + identity.uuid};
    daemon::DeviceSetup device;
    device.spec = {.name = fmt::format("emulated{}", number++),
                   .kind = "emulated",
                   .cpus = {},
                   .model = identity.model,
                   .uuid = identity.uuid,
                   .pci = identity.pci};
    device.executors.device = identity.uuid;
    device.executors.library = drivers + "/libweir-emulated-opencl.so";
    device.executors.environment = where;
    device.environment = where;
    for (const char* variable : {"__GLX_VENDOR_LIBRARY_NAME=weiremulated", "LIBGL_ALWAYS_SOFTWARE=1"})
      device.environment.emplace_back(variable);
    device.environment.push_back("LD_LIBRARY_PATH=" + drivers);
    device.environment.push_back("__EGL_VENDOR_LIBRARY_FILENAMES=" + drivers + "/weiremulated.json");
    account.devices.push_back(device.spec.name);
    options.devices.push_back(std::move(device));
  }
  account.source = {"--emulator", socket};
  options.accounts.push_back(std::move(account));
  options.emulators.push_back({.program = program, .description = file, .socket = socket});
  return Ok();
}

}  // namespace

Status AddDevices(const std::vector<std::string>& wanted, const std::filesystem::path& self,
                  const std::string& nvml_library, daemon::ServeOptions& options) {
  for (const std::string& text : wanted) {
    if (text == "embedded") {
      daemon::DeviceSetup embedded = daemon::EmbeddedDevice();
      for (const daemon::DeviceSetup& device : options.devices)
        if (device.spec.name == embedded.spec.name)
          return Fail(Errc::kInvalidArgument, "--device embedded is given twice");
      options.devices.push_back(std::move(embedded));
    } else if (text.starts_with(kNvidia) && text.size() > kNvidia.size()) {
      WEIR_TRY_STATUS(AddNvidia(text.substr(kNvidia.size()), self, nvml_library, options));
    } else if (text.starts_with(kDrm) && text.size() > kDrm.size()) {
      WEIR_TRY_STATUS(AddDrm(text.substr(kDrm.size()), self, options));
    } else if (text.starts_with(kEmulated) && text.size() > kEmulated.size()) {
      WEIR_TRY_STATUS(AddEmulated(text.substr(kEmulated.size()), self, options));
    } else {
      return Fail(Errc::kInvalidArgument, fmt::format("--device takes {}, not '{}'", kChoices, text));
    }
  }
  return Ok();
}

}  // namespace weir::cli
