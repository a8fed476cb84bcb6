// SPDX-License-Identifier: Apache-2.0
// The state of each drain request of this node. Does no I/O. Page: docs/migration.md
//
//   ──Ask──▶ wanted ──a portal has asked connections──▶ asked ──none is left──▶ gone      TakeBack from any of them
//                       event: asked                               event: left
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/decision_text.h"
#include "proto/drain_list.h"

namespace weir::daemon {

class DrainBook {
 public:
  /// Records a drain request. True: portals must be notified.
  bool Ask(const std::string& vgpu, const std::string& why);
  bool TakeBack(const std::string& vgpu);
  /// The list of drain requests that portals receive.
  [[nodiscard]] std::string Text() const;
  /// Records how many connections of the drained vGPUs this portal has; an empty list: it has disconnected. Returns the
  /// events to log.
  std::vector<engine::Note> Hear(std::uint64_t portal, const std::vector<proto::DrainState>& here);

 private:
  struct Entry {
    std::string why;
    std::map<std::uint64_t, proto::DrainState> portals{};
    bool told = false, left = false;  // whether the events "asked" and "left" were logged
  };
  static void Tell(const std::string& vgpu, Entry& entry, std::vector<engine::Note>& notes);
  std::map<std::string, Entry> entries_;
};

}  // namespace weir::daemon
