// SPDX-License-Identifier: Apache-2.0
// The request and reply types of Weir's code. Only server.cc and client.cc include Beast, which compiles slowly.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace weir::http {

/// The holder of the token with which a client connected by TLS (http/tls).
struct Holder {
  std::string role{};  // a name of net::TokenRole; empty: no TLS
  std::string name{};
  std::string address{};  // HOST:PORT
};

/// Sets the function that is called once, in the loop's thread, if the client hangs up before it is sent its reply. Of
/// a TCP connection only a reset is noticed. The function may drop the Respond (server.h), which ends the connection,
/// but must not own it: the connection owns the function.
using WhenGone = std::function<void(std::function<void()> gone)>;

/// A request that a server has received.
struct Request {
  std::string method;
  std::string path;     // without the query
  std::string query{};  // after '?', not decoded
  std::string body{};
  std::string bearer{};  // of an `Authorization: Bearer` line
  uid_t peer_uid = 0;    // of the peer of a Unix socket; 0 over TCP
  pid_t peer_pid = 0;    // of the peer of a Unix socket; 0 over TCP

  // For checks of requests that a browser sends. The values of a line that occurs twice are joined by ", ", which no
  // check accepts.
  std::string host{};
  std::string origin{};
  std::string content_type{};
  bool has_body = false;  // the head announces a body
  Holder holder{};
  WhenGone when_gone{};  // empty: it can't be known
};

class EventStream;

/// A server's reply.
struct Reply {
  unsigned status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::shared_ptr<EventStream> events = {};  // if set: the body is this stream, which stays open (event_stream.h)
};

/// A request that a client sends.
struct Call {
  std::string method;                                             // GET, POST, PUT, PATCH or DELETE
  std::string target;                                             // percent-encoded path and query
  std::string body = {};                                          // may be empty
  std::string content_type = "application/json";                  // of the body, if there is one
  std::string bearer = {};                                        // empty: no token
  std::string if_absent = {};                                     // advice for the error message if nothing listens
  std::vector<std::pair<std::string, std::string>> headers = {};  // further headers; they replace the default ones
};

/// The answer that a client receives.
struct Answer {
  unsigned status = 0;
  std::string body;
};

}  // namespace weir::http
