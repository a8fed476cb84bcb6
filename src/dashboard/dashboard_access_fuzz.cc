// SPDX-License-Identifier: Apache-2.0
// The head of a request to the dashboard, as lines: method, path, query, bearer, host, origin, content type, and
// whether there is a body. An accepted request must have the token and this host, and its target at the daemon must be
// in the table.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "dashboard/access.h"

namespace {

using namespace weir;

void Require(bool holds) {
  if (!holds) std::abort();
}

std::string TakeLine(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string line(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

/// Whether a page may send requests with this target to the daemon.
bool MayAskFor(std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  for (const std::string_view whole : {"/v1/status", "/v1/devices", "/v1/policies", "/v1/vgpus"})
    if (path == whole) return true;
  for (const std::string_view begin : {"/v1/vgpus/", "/v1/devices/"})
    if (path.starts_with(begin)) {
      const std::string_view rest = path.substr(begin.size());
      const std::string_view end = rest.substr(std::min(rest.find('/'), rest.size()));
      for (const std::string_view known : {"", "/frames", "/pause", "/resume", "/policy", "/oversell", "/memory"})
        if (end == known) return true;
    }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  http::Request head;
  for (std::string* line :
       std::array{&head.method, &head.path, &head.query, &head.bearer, &head.host, &head.origin, &head.content_type})
    *line = TakeLine(text);
  head.has_body = !text.empty();
  for (const bool read_only : {false, true})
    for (const bool plain : {false, true}) {
      const dashboard::Site site{
          .listens = {"127.0.0.1", 8080}, .token = "secret", .plain = plain, .read_only = read_only};
      const dashboard::Decision decision = dashboard::Decide(site, head);
      if (!decision.accepted()) {
        Require(decision.status >= 400 && decision.status < 500 && !decision.message.empty());
        Require(dashboard::ReplyOf(decision).body.starts_with("{\"error\":"));
        continue;
      }
      Require(head.host.ends_with(":8080"));
      Require(head.origin.empty() || head.origin.size() == head.host.size() + 7);
      Require(decision.subject == dashboard::Subject::kPage || plain || head.bearer == "secret");
      Require(!read_only || !dashboard::Changes(head.method));
      if (decision.subject == dashboard::Subject::kControl) {
        Require(MayAskFor(decision.target));
        Require(decision.target.find_first_of(" \r\n#") == std::string::npos);
      }
    }
  return 0;
}
