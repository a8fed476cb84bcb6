// SPDX-License-Identifier: Apache-2.0
// Removes unreferenced blobs from the store. A process that references a blob (by a registered module, or by a run with
// its input and output) touches its file periodically; a file that was not touched for the grace time is removed.
// Processes that share a folder thus need no knowledge of each other. A process that was suspended touches its own
// blobs before it removes any.
//
//          ┌───────────── an eighth of the grace time ─────────────┐
//          ▼                                                       │
//   names collected (loop) ──▶ their blobs touched (thread) ──▶ blobs over their grace time removed (same thread)
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "modules/module_store.h"

namespace weir::modules {

inline constexpr Duration kKeepBlobs = seconds(7 * 24 * 3600);

class BlobKeeper {
 public:
  /// `named` returns the blobs that are referenced now. If it returns no value, the referenced blobs are unknown, and
  /// no blob is touched or removed. `grace` zero: blobs are touched for other users of the folder, and none is removed.
  BlobKeeper(boost::asio::io_context& loop, ModuleStore store, Duration grace,
             std::function<std::optional<std::vector<std::string>>()> named);
  BlobKeeper(const BlobKeeper&) = delete;
  BlobKeeper& operator=(const BlobKeeper&) = delete;

 private:
  void Turn();

  const ModuleStore store_;
  const Duration grace_;
  const std::function<std::optional<std::vector<std::string>>()> named_;
  boost::asio::steady_timer timer_;
  std::future<void> work_;  // declared last: its destructor waits for the work first
};

}  // namespace weir::modules
