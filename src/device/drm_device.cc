// SPDX-License-Identifier: Apache-2.0
#include "device/drm_device.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

namespace weir::device {
namespace {

namespace fs = std::filesystem;

struct Node {
  std::string name;
  DrmDevice device;
};

std::string ValueIn(const fs::path& uevent, const std::string& key) {
  std::ifstream file(uevent);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key + "=")) return line.substr(key.size() + 1);
  return {};
}

std::string LowerCase(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

/// The render nodes in the order of their numbers. Nodes without a PCI device are left out.
std::vector<Node> RenderNodes(const std::string& folder) {
  std::vector<Node> nodes;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with("renderD")) continue;
    const fs::path uevent = entry->path() / "device" / "uevent";
    DrmDevice device{.pci = ValueIn(uevent, "PCI_SLOT_NAME"), .driver = ValueIn(uevent, "DRIVER"), .model = {}};
    if (device.pci.empty() || device.driver.empty()) continue;
    device.model = device.driver + " " + LowerCase(ValueIn(uevent, "PCI_ID"));
    nodes.push_back({name, std::move(device)});
  }
  std::ranges::sort(nodes, [](const Node& a, const Node& b) {
    return a.name.size() != b.name.size() ? a.name.size() < b.name.size() : a.name < b.name;
  });
  return nodes;
}

}  // namespace

Result<DrmDevice> FindDrmDevice(const std::string& wanted, const std::string& folder) {
  const std::vector<Node> nodes = RenderNodes(folder);
  std::string known;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    if (wanted == node.name || wanted == node.device.pci || wanted == std::to_string(i)) return node.device;
    known += (known.empty() ? "" : ", ") + node.device.pci + " (" + node.name + ", " + node.device.driver + ")";
  }
  return Fail(Errc::kNotFound, "no GPU '" + wanted + "' with a DRM driver; " +
                                   (known.empty() ? folder + " lists none" : "there are: " + known));
}

}  // namespace weir::device
