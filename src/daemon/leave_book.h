// SPDX-License-Identifier: Apache-2.0
// Who is asked to leave this node, and what became of it: does no I/O. Page: docs/migration.md
//
//   ──Ask──▶ wanted ──a portal has asked connections──▶ asked ──none is left──▶ gone      TakeBack from any of them
//                       event: asked                               event: left
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/events.h"
#include "proto/leave_list.h"

namespace weir::daemon {

class LeaveBook {
 public:
  /// True: portals are to be told.
  bool Ask(const std::string& vgpu, const std::string& why);
  bool TakeBack(const std::string& vgpu);
  /// For portals.
  [[nodiscard]] std::string Text() const;
  /// What this portal has of those who are asked; none: it has gone. Returns what is to be told to people.
  std::vector<engine::Note> Hear(std::uint64_t portal, const std::vector<proto::AskedHere>& here);

 private:
  struct Entry {
    std::string why;
    std::map<std::uint64_t, proto::AskedHere> portals{};
    bool told = false, left = false;  // as events
  };
  static void Tell(const std::string& vgpu, Entry& entry, std::vector<engine::Note>& notes);
  std::map<std::string, Entry> entries_;
};

}  // namespace weir::daemon
