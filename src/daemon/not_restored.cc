// SPDX-License-Identifier: Apache-2.0
#include "daemon/not_restored.h"

#include <algorithm>

namespace weir::daemon {
namespace {

std::string PolicyOf(std::string_view device) { return "policy of " + std::string(device); }
std::string SaleOf(std::string_view device) { return "how " + std::string(device) + " is sold"; }
std::string MemoryOf(std::string_view device) { return "memory of " + std::string(device); }

}  // namespace

void NotRestored::DropPolicy(std::string_view device) { DropOf(device, policies_); }
void NotRestored::DropOversell(std::string_view device) { DropOf(device, oversell_); }
void NotRestored::DropMemory(std::string_view device) { DropOf(device, memory_); }

std::vector<std::string> NotRestored::DropDevice(std::string_view device) {
  std::vector<std::string> dropped;
  if (DropOf(device, policies_)) dropped.push_back(PolicyOf(device));
  if (DropOf(device, oversell_)) dropped.push_back(SaleOf(device));
  if (DropOf(device, memory_)) dropped.push_back(MemoryOf(device));
  return dropped;
}

bool NotRestored::DropVgpu(std::string_view name) {
  return std::erase_if(vgpus_, [name](const Kept<SavedVgpu>& one) { return one.saved.name == name; }) > 0;
}

const SavedVgpu* NotRestored::Vgpu(std::string_view name) const {
  const auto found =
      std::ranges::find(vgpus_, name, [](const auto& one) -> std::string_view { return one.saved.name; });
  return found == vgpus_.end() ? nullptr : &found->saved;
}

void NotRestored::AddTo(SavedNode& saved) const {
  AddSettings(policies_, saved.policies);
  AddSettings(oversell_, saved.oversell);
  AddSettings(memory_, saved.memory);
  for (const auto& one : vgpus_) saved.vgpus.push_back(one.saved);
}

std::vector<NotRestored::Item> NotRestored::Items() const {
  std::vector<Item> items;
  for (const auto& one : policies_) items.push_back({PolicyOf(one.saved.device), one.why});
  for (const auto& one : oversell_) items.push_back({SaleOf(one.saved.device), one.why});
  for (const auto& one : memory_) items.push_back({MemoryOf(one.saved.device), one.why});
  for (const auto& one : vgpus_) items.push_back({"vGPU " + one.saved.name, one.why});
  return items;
}

}  // namespace weir::daemon
