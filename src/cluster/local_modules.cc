// SPDX-License-Identifier: Apache-2.0
#include "cluster/local_modules.h"

#include <unistd.h>

#include <boost/asio/post.hpp>
#include <condition_variable>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "http/client.h"
#include "http/json_api.h"

namespace weir::cluster {
namespace {

struct Pending {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<http::Answer> answer;
};

/// The request that the service would receive if this process's user had sent the call over a Unix socket.
http::Request RequestOf(const http::Call& call) {
  const std::size_t query = call.target.find('?');
  return {.method = call.method,
          .path = call.target.substr(0, query),
          .query = query == std::string::npos ? std::string() : call.target.substr(query + 1),
          .body = call.body,
          .bearer = call.bearer,
          .peer_uid = ::geteuid(),
          .peer_pid = ::getpid()};
}

}  // namespace

Result<http::Answer> ModulesAtSocket::Ask(const http::Call& call, Duration timeout) {
  return http::AskUnix(path_, call, timeout);
}

Result<http::Answer> LocalModules::Ask(const http::Call& call, Duration timeout) {
  const auto pending = std::make_shared<Pending>();
  {
    const std::lock_guard guard(mutex_);
    if (closed_) return Fail(Errc::kUnavailable, "the module service is ending");
    boost::asio::post(loop_, [this, pending, request = RequestOf(call)] {
      const auto respond = [pending](http::Reply reply) {
        const std::lock_guard lock(pending->mutex);
        pending->answer = http::Answer{.status = reply.status, .body = std::move(reply.body)};
        pending->changed.notify_all();
      };
      try {
        service_.Handle(request, respond);
      } catch (const std::exception& error) {  // as for a request over the socket
        respond(http::ErrorReply(Fail(Errc::kInternal, error.what())));
      }
    });
  }
  std::unique_lock lock(pending->mutex);
  if (!pending->changed.wait_for(lock, timeout, [&] { return pending->answer.has_value(); }))
    return Fail(Errc::kTimeout, "the module service did not answer " + call.method + " " + call.target + " in time");
  return *std::move(pending->answer);
}

void LocalModules::Close() {
  const std::lock_guard guard(mutex_);
  closed_ = true;
}

}  // namespace weir::cluster
