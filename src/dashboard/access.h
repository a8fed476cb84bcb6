// SPDX-License-Identifier: Apache-2.0
// Decides whether the dashboard accepts a request, from its head alone (docs/dashboard.md, "Access"). Pure.
#pragma once

#include <cstdint>
#include <string>

#include "base/errc.h"
#include "http/address.h"
#include "http/message.h"

namespace weir::dashboard {

/// The upper bound of a request's body.
inline constexpr std::size_t kBodyBytesMax = std::size_t{64} << 10;

/// How this dashboard was started.
struct Site {
  http::Address listens;  // the given host, and the port on which the dashboard listens
  std::string token;      // not used if `plain`
  bool plain = false;     // requests need no token
  bool read_only = false;
};

enum class Subject {
  kPage,     // a file of the page
  kStream,   // GET /api/stream
  kHistory,  // GET /api/history
  kControl,  // a request of the control API
};

struct Decision {
  unsigned status = 0;  // 0: the request is accepted
  Errc code{};          // of a refusal
  std::string message;  // of a refusal
  Subject subject = Subject::kPage;
  std::string target;  // with Subject::kControl: the target of the request to the daemon

  [[nodiscard]] bool accepted() const { return status == 0; }
};

/// The result of the first check that fails. The server itself checks the bound of the body.
Decision Decide(const Site& site, const http::Request& head);

/// Whether a request with this method changes something.
bool Changes(const std::string& method);

/// The refusal as a reply, in the form of the control API.
http::Reply ReplyOf(const Decision& refusal);
http::Reply TooLarge();

}  // namespace weir::dashboard
