// SPDX-License-Identifier: Apache-2.0
// Decisions of a node's engine that its users are told of, with the figures that are their reasons. decision_text.h has
// the words for them.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/units.h"
#include "core/memory/balloon.h"
#include "core/oversubscribe/oversell.h"

namespace weir::engine {

/// A decision of core/oversubscribe.
struct SaleDecided {
  core::OversellNote note{};
  std::string from{};  // the name of `note.from`; empty: what was free was taken
};

/// A device is sold in another way.
struct SellingChanged {
  core::OversellMode mode = core::OversellMode::kOff;
};

/// The promises of a device have stopped fitting, or fit again.
struct PromisesSeen {
  double need = 0;  // of all promises, as a part of the device
  bool fit = false;
  std::vector<std::string> giving_way{};  // unless they fit: the names of the vGPUs whose promises can't be kept
};

/// A device has this many slots of elastic memory. 0: its memory is not elastic.
struct MemorySizeChanged {
  std::uint32_t slots = 0;
};

/// Other programs hold `others` of a device's `all` slots; `slots` of them are shared out.
struct OthersMemoryChanged {
  std::uint32_t others = 0, all = 0, slots = 0;
};

/// The executor was ended, because it did not carry out its orders within this time.
struct ExecutorEnded {
  Duration within{};
};

/// `asked`: the vGPU's launches are to run in parts even if they fit.
struct LaunchesRanInParts {
  std::uint64_t launches = 0, parts = 0;
  Bytes in{}, out{};  // copied
  bool asked = false;
};
struct LaunchesNotCut {
  std::uint64_t launches = 0;
  bool asked = false;
};

struct Decision {
  std::string device;
  std::string vgpu;  // empty: the device
  std::variant<SaleDecided, SellingChanged, PromisesSeen, core::BalloonNote, MemorySizeChanged, OthersMemoryChanged,
               ExecutorEnded, LaunchesRanInParts, LaunchesNotCut>
      what;
};

}  // namespace weir::engine
