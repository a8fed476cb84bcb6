// SPDX-License-Identifier: Apache-2.0
// A portal's line to its daemon: hears which vGPUs are asked to leave this node, and says how many connections of these
// there are (proto/leave_list.h). What it has heard holds until it hears otherwise, also while there is no daemon.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/fd.h"
#include "proto/leave_list.h"

namespace weir::remote {

class LeaveWatch {
 public:
  /// `path`: the daemon's socket; empty: nobody is ever asked.
  explicit LeaveWatch(std::string path) : path_(std::move(path)) {}

  /// Hears what has come; connects if there is no connection, once a second. True: others are asked than before. Never
  /// blocks.
  bool Look(Instant now);
  /// Why it is asked to leave; empty: it may stay. From any thread.
  std::string Why(const std::string& vgpu) const;
  /// Those that are asked.
  [[nodiscard]] std::vector<std::string> Asked() const;
  /// Told to the daemon if it has not been.
  void Say(const std::vector<proto::AskedHere>& here);

 private:
  const std::string path_;
  platform::Fd socket_;
  Instant again_at_{};
  std::string said_;  // on this connection
  mutable std::mutex mutex_;
  std::map<std::string, std::string> why_;
};

}  // namespace weir::remote
