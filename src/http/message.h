// SPDX-License-Identifier: Apache-2.0
// Requests and replies as the rest of Weir sees them. Beast stays in server.cc and client.cc: it takes long to compile.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace weir::http {

/// What a server was asked.
struct Request {
  std::string method;
  std::string path;   // without the query
  std::string query;  // behind '?', not decoded
  std::string body;
  std::string bearer;  // of an `Authorization: Bearer` line
  uid_t peer_uid = 0;  // of whom is at the other end of a Unix socket; 0 over TCP
  pid_t peer_pid = 0;  // likewise
};

/// What it says.
struct Reply {
  unsigned status = 200;
  std::string content_type = "application/json";
  std::string body;
};

/// What a client asks.
struct Call {
  std::string method;                             // GET, POST, PUT, PATCH or DELETE
  std::string target;                             // percent-encoded path and query
  std::string body = {};                          // may be empty
  std::string content_type = "application/json";  // of the body, where there is one
  std::string bearer = {};                        // empty: without
  std::string if_absent = {};                     // what to do where nobody listens, for the error's message
  std::vector<std::pair<std::string, std::string>> headers = {};  // others, and instead of ours
};

/// What it hears.
struct Answer {
  unsigned status = 0;
  std::string body;
};

}  // namespace weir::http
