// SPDX-License-Identifier: Apache-2.0
// The module service of this process, for the member's threads. Requests are handled in the service's loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <mutex>
#include <string>

#include "cluster/node_modules.h"
#include "modules/service.h"

namespace weir::cluster {

class LocalModules final : public NodeModules {
 public:
  LocalModules(boost::asio::io_context& loop, modules::Service& service) : loop_(loop), service_(service) {}

  Result<http::Answer> Ask(const http::Call& call, Duration timeout) override;
  [[nodiscard]] bool reports() const override { return true; }
  [[nodiscard]] const std::string& name() const override { return name_; }

  /// Must be called before the loop and the service end. Later requests fail.
  void Close();

 private:
  boost::asio::io_context& loop_;
  modules::Service& service_;
  const std::string name_ = "the module service";
  std::mutex mutex_;
  bool closed_ = false;  // guarded by mutex_
};

}  // namespace weir::cluster
