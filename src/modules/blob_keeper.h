// SPDX-License-Identifier: Apache-2.0
// Clears the store of blobs that nobody names. Who names a blob (a registered module, a run with its input and output)
// touches its file again and again; a file that nobody has touched for the grace time is removed. So those who share a
// folder need not know each other, and one that has been away touches what it names before it removes anything.
//
//          ┌───────────── an eighth of the grace time ─────────────┐
//          ▼                                                       │
//   names asked for (in the loop) ──▶ touched, the rest looked at (a thread) ──▶ what is over its grace time removed
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
  /// `named`: blobs that are named now; nothing: not known now, so that nothing is removed either. `grace` zero: blobs
  /// are touched for those who share the folder, and none is removed.
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
  std::future<void> work_;  // last: waited for first
};

}  // namespace weir::modules
