// SPDX-License-Identifier: Apache-2.0
// JSON that the module service reads: run requests, saved modules, kernels' needs, capacities of devices, and profiles.
// Any bytes are accepted without crashing, and saved modules are unchanged after they were saved again.
#include <cstdlib>

#include "modules/kernel_profile.h"
#include "modules/run_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::modules;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 5) {
    case 0: static_cast<void>(RunRequestFrom(text).has_value()); break;
    case 1: {
      const auto first = ModulesFrom(text);
      if (!first) break;
      const std::string once = SavedModules(*first);
      const auto second = ModulesFrom(once);
      if (!second || SavedModules(*second) != once) std::abort();
      break;
    }
    case 2: static_cast<void>(ProfileFrom(text).has_value()); break;
    case 3: static_cast<void>(ParseWork(text).has_value()); break;
    default: {
      const auto object = ObjectFrom(text, {"device", "need", "blob"});
      if (!object) break;
      if (object->contains("need")) static_cast<void>(NeedFrom((*object)["need"]).has_value());
      if (object->contains("device")) static_cast<void>(CapacityFrom((*object)["device"]).has_value());
    }
  }
  return 0;
}
