// SPDX-License-Identifier: Apache-2.0
#include "device/find.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "device/kinds.h"

namespace weir::device {
namespace {

struct Kind {
  std::string_view prefix;  // ends with ':' if a text follows
  std::string_view choice;  // for the message about an unknown device
  Status (*add)(const std::string& what, const Sources& sources, Devices& devices);
};

constexpr std::array kKinds{
    Kind{"embedded", "embedded", &AddEmbedded},
    Kind{"nvidia:", "nvidia:GPU with an index, a UUID or a PCI address", &AddNvidia},
    Kind{"drm:", "drm:GPU with an index, a render node or a PCI address", &AddDrm},
    Kind{"emulated:", "emulated:FILE with a description of devices", &AddEmulated},
};

bool IsGpu(const Device& device) { return device.spec.kind == kGpu; }

/// The kind that the text names; null: none.
const Kind* KindOf(const std::string& text) {
  for (const Kind& kind : kKinds) {
    const bool takes_text = kind.prefix.ends_with(':');
    if (takes_text ? text.starts_with(kind.prefix) && text.size() > kind.prefix.size() : text == kind.prefix)
      return &kind;
  }
  return nullptr;
}

Error UnknownDevice(const std::string& text) {
  std::string choices;
  for (const Kind& kind : kKinds) {
    if (!choices.empty()) choices += &kind == &kKinds.back() ? ", or " : ", ";
    choices += kind.choice;
  }
  return Fail(Errc::kInvalidArgument, fmt::format("--device takes {}, not '{}'", choices, text));
}

}  // namespace

std::string NextGpuName(const Devices& devices) {
  return fmt::format("gpu{}", std::ranges::count_if(devices.devices, IsGpu));
}

Status RefuseTwice(const std::string& wanted, const std::string& uuid, const std::string& pci, const Devices& devices) {
  const auto same = [&](const Device& device) {
    return IsGpu(device) && ((!uuid.empty() && device.spec.uuid == uuid) || (!pci.empty() && device.spec.pci == pci));
  };
  if (std::ranges::none_of(devices.devices, same)) return Ok();
  return Fail(Errc::kInvalidArgument,
              fmt::format("--device {}: another --device names the same GPU; leave one of them out", wanted));
}

Status AddAccount(std::vector<std::string> source, const std::string& device, const Sources& sources,
                  Devices& devices) {
  if (sources.account_program.empty()) return Fail(Errc::kUnavailable, "weir-gpu-account is not installed beside weir");
  devices.accounts.push_back({.program = sources.account_program, .source = std::move(source), .devices = {device}});
  return Ok();
}

Status AddEmbedded(const std::string&, const Sources&, Devices& devices) {
  Device embedded = EmbeddedDevice();
  for (const Device& device : devices.devices)
    if (device.spec.name == embedded.spec.name) return Fail(Errc::kInvalidArgument, "--device embedded is given twice");
  devices.devices.push_back(std::move(embedded));
  return Ok();
}

Status AddDevices(const std::vector<std::string>& wanted, const Sources& sources, Devices& devices) {
  for (const std::string& text : wanted) {
    const Kind* kind = KindOf(text);
    if (kind == nullptr) return UnknownDevice(text);
    WEIR_TRY_STATUS(kind->add(text.substr(kind->prefix.size()), sources, devices));
  }
  return Ok();
}

}  // namespace weir::device
