// SPDX-License-Identifier: Apache-2.0
// How a portal or a relay gives up rights: it opens its sockets and reads its keys, becomes a user of its own if its
// daemon is root, and is confined. What it needs later, the daemon opens for it.
#pragma once

#include <sys/types.h>

#include <cerrno>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "platform/confine_service.h"
#include "platform/file_requests.h"
#include "platform/service_options.h"

namespace weir::remote {

struct ServiceUser {
  uid_t user = 0;  // 0: the one that it was started as
  int files = -1;  // the socket of platform::FileRequests; -1: none, this process opens files itself

  void Declare(platform::ServiceOptions& options) {
    options.AddWhole("--as", "UID", user, 1, std::numeric_limits<uid_t>::max() - 1,
                     "become this user once it listens; needs --files (default: stay the user that started it)");
    options.AddDescriptor("--files", files, "socket on which the daemon opens files for this process");
  }
  /// The problem with the options; null: none.
  [[nodiscard]] const char* Problem() const { return user == 0 || files >= 0 ? nullptr : "--as needs --files"; }
  /// Opens the file, also after Confine. Keeps `files`, so it is called once.
  [[nodiscard]] std::function<Result<platform::Fd>()> OpenerOf(platform::OfferedFile file) const {
    if (files < 0) return [file = std::move(file)] { return platform::OpenOffered(file); };
    auto requests = std::make_shared<platform::FileRequests>(platform::Fd(files), std::vector{std::move(file)});
    return [requests = std::move(requests)] { return requests->Open(0); };
  }
  [[nodiscard]] Status Confine(bool network) const {
    if (platform::ConfineService({.user = user, .network = network})) return Ok();
    return platform::ErrnoError("giving up the rights that are not needed", errno);
  }
};

}  // namespace weir::remote
