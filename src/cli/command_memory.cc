// SPDX-License-Identifier: Apache-2.0
// weir memory: a device's memory, its holders, and the settings of elastic memory (docs/memory.md).
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "cli/common/memory_view.h"
#include "cli/common/places.h"
#include "cli/common/snapshot.h"
#include "cli/common/terminal.h"
#include "cli/common/text_units.h"
#include "cli/options.h"
#include "device/opencl_devices.h"

namespace weir::cli {
namespace {

using nlohmann::json;

struct MemoryFlags {
  std::string word, device;
  std::optional<Bytes> size;
  std::optional<double> copy_gb_s;
  std::optional<std::string> layout;
  std::vector<NamedValue> params;
  bool list_params = false;
};

/// Columns left for the map beside the table's other columns; a pipe gets a wide map.
std::size_t MapWidth() {
  constexpr std::size_t kOtherColumns = 70, kLeast = 16, kPiped = 128;
  const std::size_t columns = SizeOfTerminal(1).columns;
  return columns == 0 ? kPiped : std::max(columns, kOtherColumns + kLeast) - kOtherColumns;
}

Result<int> ShowMap(const Session& session, const json& reply) {
  if (session.json) return PrintJson(reply), 0;
  WEIR_TRY(const Snapshot node, TakeSnapshot(session.client()));
  fmt::print("{}",
             MemoryMapText(MemoryMapFromJson(reply), node.vgpus, MapWidth(), StdoutTakesColor(), TerminalGlyphs()));
  return 0;
}

Result<int> ShowMemory(const Session& session, const MemoryFlags& flags) {
  std::vector<std::string> devices{flags.device};
  if (flags.device.empty()) {
    WEIR_TRY(const Snapshot node, TakeSnapshot(session.client()));
    devices.clear();
    for (const DeviceView& device : node.devices) devices.push_back(device.name);
  }
  for (const std::string& device : devices) {
    WEIR_TRY(const json reply, session.client().Get("/v1/devices/" + PercentEncode(device) + "/memory"));
    WEIR_TRY_STATUS(ShowMap(session, reply));
  }
  return 0;
}

Result<int> ShowMemoryParams(const Session& session, const MemoryFlags& flags) {
  WEIR_TRY(const json reply, session.client().Get("/v1/memory/params"));
  if (session.json) return PrintJson(reply), 0;
  WEIR_TRY(const std::string device, DeviceMeant(session.client(), flags.device));
  WEIR_TRY(const json in_force, session.client().Get("/v1/devices/" + PercentEncode(device) + "/memory"));
  fmt::print("{}", MemoryParamsText(ParamsFromJson(reply), MemoryMapFromJson(in_force), StdoutTakesColor()));
  return 0;
}

/// The daemon knows the memory size of emulated devices. For a GPU, the OpenCL driver is queried, which identifies the
/// GPU by UUID or PCI address. The embedded device is the first device of the first OpenCL driver.
Result<Bytes> SizeOfDevice(const Snapshot& node, const std::string& name) {
  const auto device = std::ranges::find(node.devices, name, &DeviceView::name);
  if (device != node.devices.end() && device->memory_bytes > 0) return Bytes{device->memory_bytes};
  WEIR_TRY(const std::filesystem::path self, SelfExecutable());
  const auto drivers = device::ListOpenClDevices(FindHelper(self, kExecutor));
  if (device != node.devices.end() && drivers)
    for (const device::OpenClDevice& one : *drivers) {
      const bool identified = !device->uuid.empty() || !device->pci.empty();
      const bool same = (!one.uuid.empty() && one.uuid == device->uuid) || (!one.pci.empty() && one.pci == device->pci);
      if ((same || !identified) && one.memory_bytes > 0) return Bytes{one.memory_bytes};
    }
  return Fail(Errc::kInvalidArgument,
              "the memory size of device " + name + " is unknown; give it, as in 'weir memory on --size 4G'");
}

Result<int> SetElastic(const Session& session, const MemoryFlags& flags) {
  json body{{"size_bytes", 0}};
  WEIR_TRY(const std::string device, DeviceMeant(session.client(), flags.device));
  if (flags.word == "on") {
    WEIR_TRY(const Snapshot node, TakeSnapshot(session.client()));
    WEIR_TRY(const Bytes size, flags.size ? Result<Bytes>(*flags.size) : SizeOfDevice(node, device));
    body["size_bytes"] = size.count;
    body["params"] = json::object();
    for (const auto& [name, value] : flags.params)
      std::visit([&, key = name](const auto& v) { body["params"][key] = v; }, value);
    if (flags.layout) body["params"]["layout"] = *flags.layout;
    if (flags.copy_gb_s) body["copy_bytes_per_s"] = JsonNumber(*flags.copy_gb_s * 1e9);
  }
  WEIR_TRY(const json reply, session.client().Put("/v1/devices/" + PercentEncode(device) + "/memory", body));
  return ShowMap(session, reply);
}

}  // namespace

void AddMemory(Command app, Session& session) {
  auto flags = std::make_shared<MemoryFlags>();
  const Command command = AddCommand(
      app, "memory", "Show which vGPU holds which slots of device memory, and switch elastic memory on or off",
      "  weir memory                               # the slot map: holders and present owners\n"
      "  weir memory on --size 4G                  # vGPUs get what they need, between --memory MIN:MAX\n"
      "  weir memory on --size 4G --layout scattered --copy-bandwidth 12   # GB/s: models a PCIe link\n"
      "  weir vgpu set game --memory 384M:1G       # on a running program\n"
      "  weir memory off                           # --memory is a fixed limit again\n"
      "  weir memory --params                      # parameters: values, defaults, ranges\n\n"
      "Applies to OpenCL programs whose executor starts afterwards; others keep the setting they started with.\n",
      session);
  command.Add("what", "on|off|status", flags->word, "Make it elastic, or not; status shows it");
  command.Add("--device", "NAME", flags->device, "The device (default: the only one; status: all)");
  command.AddParsed("--size", "SIZE", flags->size, ParseBytes, "on: the device's memory, as 4G (default: all of it)");
  command.Add("--layout", "contiguous|scattered", flags->layout, "on: of a vGPU's slots (default: contiguous)");
  command.AddParsed("--copy-bandwidth", "GB/S", flags->copy_gb_s, ParseNumber,
                    "on: copies take as long as over a link of that speed (default: as fast as they go)");
  command.AddEachParsed("--param", "NAME=VALUE", flags->params, ParseNamedValue,
                        "on: a parameter; may be repeated. The others get their defaults");
  command.AddFlag("--params", flags->list_params, "List the parameters");
  command.WhenGiven([flags, &session] {
    const bool shows = flags->word.empty() || flags->word == "status";
    if (!shows && flags->word != "on" && flags->word != "off")
      RejectUsage(fmt::format("memory: unknown action '{}'; known: on, off, status", flags->word));
    if (flags->word != "on" && (flags->size || flags->copy_gb_s || flags->layout || !flags->params.empty()))
      RejectUsage("memory: --size, --layout, --copy-bandwidth and --param are of 'weir memory on'");
    if (flags->list_params && !shows) RejectUsage("memory: --params lists them and changes nothing");
    session.action = [flags, shows, &session] {
      return flags->list_params ? ShowMemoryParams(session, *flags)
             : shows            ? ShowMemory(session, *flags)
                                : SetElastic(session, *flags);
    };
  });
}

}  // namespace weir::cli
