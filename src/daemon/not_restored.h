// SPDX-License-Identifier: Apache-2.0
// What a node could not restore, for example a vGPU of a device that is missing at this start. It is saved again with
// every change, so that a later start may restore it, until it is set, made or removed. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/saved_node.h"

namespace weir::daemon {

class NotRestored {
 public:
  struct Item {
    std::string what;  // as "vGPU a"
    std::string why;
  };

  void Keep(SavedPolicy policy, std::string why) { policies_.push_back({std::move(policy), std::move(why)}); }
  void Keep(SavedOversell sold, std::string why) { oversell_.push_back({std::move(sold), std::move(why)}); }
  void Keep(SavedMemory memory, std::string why) { memory_.push_back({std::move(memory), std::move(why)}); }
  void Keep(SavedVgpu vgpu, std::string why) { vgpus_.push_back({std::move(vgpu), std::move(why)}); }

  void DropPolicy(std::string_view device);
  void DropOversell(std::string_view device);
  void DropMemory(std::string_view device);
  /// Drops all settings of the device, but not its vGPUs. Returns what they were, as in Item::what.
  std::vector<std::string> DropDevice(std::string_view device);
  /// False: no such vGPU was kept.
  bool DropVgpu(std::string_view name);
  /// Null: no such vGPU is kept.
  [[nodiscard]] const SavedVgpu* Vgpu(std::string_view name) const;

  /// Adds all to `saved`. Settings of devices replace those that `saved` has of the same device.
  void AddTo(SavedNode& saved) const;
  [[nodiscard]] std::vector<Item> Items() const;

 private:
  template <typename Saved>
  struct Kept {
    Saved saved;
    std::string why;
  };
  template <typename Saved>
  static bool DropOf(std::string_view device, std::vector<Kept<Saved>>& kept) {
    return std::erase_if(kept, [device](const Kept<Saved>& one) { return one.saved.device == device; }) > 0;
  }
  template <typename Saved>
  static void AddSettings(const std::vector<Kept<Saved>>& kept, std::vector<Saved>& saved) {
    for (const Kept<Saved>& one : kept) {
      std::erase_if(saved, [&one](const Saved& now) { return now.device == one.saved.device; });
      saved.push_back(one.saved);
    }
  }

  std::vector<Kept<SavedPolicy>> policies_;
  std::vector<Kept<SavedOversell>> oversell_;
  std::vector<Kept<SavedMemory>> memory_;
  std::vector<Kept<SavedVgpu>> vgpus_;
};

}  // namespace weir::daemon
