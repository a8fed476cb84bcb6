// SPDX-License-Identifier: Apache-2.0
#include "modules/blob_keeper.h"

#include <algorithm>
#include <cstdio>

namespace weir::modules {
namespace {

constexpr Duration kTouchedAtLeast = seconds(3600);
constexpr int kTurnsPerGrace = 8;

void TouchAndSweep(const ModuleStore& store, Duration grace, const std::vector<std::string>& named) {
  for (const std::string& blob : named) store.Touch(blob);
  if (grace <= Duration{}) return;
  const auto swept = store.Sweep(grace);
  if (!swept)
    std::fprintf(stderr, "weir: unused blobs in %s are not removed: %s\n", store.folder().c_str(),
                 swept.error().message.c_str());
}

}  // namespace

BlobKeeper::BlobKeeper(boost::asio::io_context& loop, ModuleStore store, Duration grace,
                       std::function<std::optional<std::vector<std::string>>()> named)
    : store_(std::move(store)), grace_(grace), named_(std::move(named)), timer_(loop) {
  timer_.expires_after(Duration{});
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) Turn();
  });
}

void BlobKeeper::Turn() {
  const bool busy = work_.valid() && work_.wait_for(Duration{}) != std::future_status::ready;
  if (!busy)
    if (auto named = named_())
      work_ = std::async(std::launch::async, [store = store_, grace = grace_, blobs = std::move(*named)] {
        TouchAndSweep(store, grace, blobs);
      });
  timer_.expires_after(grace_ > Duration{} ? std::min(grace_ / kTurnsPerGrace, kTouchedAtLeast) : kTouchedAtLeast);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) Turn();
  });
}

}  // namespace weir::modules
