// SPDX-License-Identifier: Apache-2.0
// The portal's connection to its daemon. It receives the vGPUs with a drain request, and reports how many connections
// they have (proto/drain_list.h). The last list stays valid until a new one arrives, also while no daemon runs.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/fd.h"
#include "proto/drain_list.h"

namespace weir::remote {

class DrainWatch {
 public:
  /// `path`: the daemon's socket. Empty: there are no drain requests.
  explicit DrainWatch(std::string path) : path_(std::move(path)) {}

  /// Receives pending lists. Connects, at most once a second, if there is no connection. Returns whether the list has
  /// changed. Never blocks.
  bool Look(Instant now);
  /// The reason of the vGPU's drain request; empty if there is none. May be called from any thread.
  std::string Why(const std::string& vgpu) const;
  /// The vGPUs with a drain request.
  [[nodiscard]] std::vector<std::string> Requested() const;
  /// Sends the counts to the daemon unless they are the ones sent last.
  void Say(const std::vector<proto::DrainState>& here);

 private:
  const std::string path_;
  platform::Fd socket_;
  Instant again_at_{};
  std::string said_;  // the text sent last on this connection
  mutable std::mutex mutex_;
  std::map<std::string, std::string> why_;
};

}  // namespace weir::remote
