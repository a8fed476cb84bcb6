// SPDX-License-Identifier: Apache-2.0
// NVIDIA's GPUs. NVML and OpenCL number GPUs differently, so executors get the UUID or PCI address, which both know.
#include "device/device_lines.h"
#include "device/kinds.h"
#include "platform/program_output.h"

namespace weir::device {

Status AddNvidia(const std::string& what, const Sources& sources, Devices& devices) {
  const std::string& program = sources.memory_program;
  if (program.empty()) return Fail(Errc::kUnavailable, "weir-gpu-memory is not installed beside weir");
  std::vector<std::string> argv{program, "--gpu", what, "--identify"};
  if (!sources.nvml_library.empty()) argv.insert(argv.end(), {"--library", sources.nvml_library});
  WEIR_TRY(const platform::ProgramOutput output, platform::OutputOf(argv));
  const std::string line = output.text.substr(0, output.text.find('\n'));
  if (output.exit_code != 0) return Fail(Errc::kUnavailable, "--device nvidia:" + what + ": " + line);
  WEIR_TRY(const GpuIdentity identity, ParseGpuIdentity(line));
  WEIR_TRY_STATUS(RefuseTwice("nvidia:" + what, identity.uuid, identity.pci, devices));
  Device device;
  device.spec = {.name = NextGpuName(devices),
                 .kind = kGpu,
                 .cpus = {},
                 .model = identity.model,
                 .uuid = identity.uuid,
                 .pci = identity.pci};
  device.driver.device = identity.pci.empty() ? identity.uuid : identity.pci;
  // CUDA programs see this GPU only.
  if (!identity.uuid.empty()) device.environment.push_back("CUDA_VISIBLE_DEVICES=" + identity.uuid);
  devices.memory.push_back(
      {.program = program, .gpu = what, .nvml_library = sources.nvml_library, .device = device.spec.name});
  std::vector<std::string> source{"--nvml", identity.uuid.empty() ? what : identity.uuid};
  if (!sources.nvml_library.empty()) source.insert(source.end(), {"--library", sources.nvml_library});
  WEIR_TRY_STATUS(AddAccount(std::move(source), device.spec.name, sources, devices));
  devices.devices.push_back(std::move(device));
  return Ok();
}

}  // namespace weir::device
