// SPDX-License-Identifier: Apache-2.0
#include "drivers/https.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <memory>

namespace weir::drivers {
namespace {

constexpr std::size_t kBodyBytesMax = 64 << 20;

struct EndOf {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Handle = std::unique_ptr<CURL, EndOf>;
using Lines = std::unique_ptr<curl_slist, EndOf>;

/// False: there is no memory for it.
bool Add(Lines& lines, const std::string& line) {
  curl_slist* const longer = curl_slist_append(lines.get(), line.c_str());
  if (longer == nullptr) return false;
  (void)lines.release();  // `longer` begins with them
  lines.reset(longer);
  return true;
}

/// Appends to the body. A result other than the number of bytes ends the request.
std::size_t Receive(const char* bytes, std::size_t size, std::size_t count, void* body) {
  auto& text = *static_cast<std::string*>(body);
  if (text.size() + size * count > kBodyBytesMax) return 0;
  text.append(bytes, size * count);
  return size * count;
}

Errc CodeOf(CURLcode code) {
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR: return Errc::kPermissionDenied;
    case CURLE_OPERATION_TIMEDOUT: return Errc::kTimeout;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WRITE_ERROR: return Errc::kProtocol;
    case CURLE_URL_MALFORMAT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_SSL_CACERT_BADFILE: return Errc::kInvalidArgument;
    default: return Errc::kUnavailable;
  }
}

}  // namespace

Result<http::Answer> AskHttps(const HttpsServer& server, const http::Call& call, Duration timeout) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  const Handle handle(ready == CURLE_OK ? curl_easy_init() : nullptr);
  if (!handle) return Fail(Errc::kInternal, "libcurl cannot be started");
  const bool is_v6 = server.host.find(':') != std::string::npos;
  const std::string url =
      fmt::format("https://{}{}{}:{}{}", is_v6 ? "[" : "", server.host, is_v6 ? "]" : "", server.port, call.target);
  std::string why(CURL_ERROR_SIZE, '\0');
  http::Answer answer;
  Lines lines;
  bool set = true;
  // curl sends what it knows by itself, such as "Expect", unless a line without a value says otherwise.
  for (const char* line : {"Expect:", "Accept: application/json"}) set = set && Add(lines, line);
  if (!call.body.empty()) set = set && Add(lines, "Content-Type: " + call.content_type);
  if (!call.bearer.empty()) set = set && Add(lines, "Authorization: Bearer " + call.bearer);
  for (const auto& [name, value] : call.headers) set = set && Add(lines, fmt::format("{}: {}", name, value));
  const auto option = [&](CURLoption which, auto value) {
    set = set && curl_easy_setopt(handle.get(), which, value) == CURLE_OK;
  };
  option(CURLOPT_ERRORBUFFER, why.data());
  option(CURLOPT_URL, url.c_str());
  option(CURLOPT_PROTOCOLS_STR, "https");
  option(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  option(CURLOPT_NOSIGNAL, 1L);
  option(CURLOPT_TIMEOUT_MS, static_cast<long>(timeout / milliseconds(1)));
  option(CURLOPT_CUSTOMREQUEST, call.method.c_str());
  option(CURLOPT_HTTPHEADER, lines.get());
  if (!call.body.empty()) {
    option(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(call.body.size()));
    option(CURLOPT_POSTFIELDS, call.body.c_str());
  }
  if (!server.authorities.empty()) {
    option(CURLOPT_CAINFO, server.authorities.c_str());
    option(CURLOPT_CAPATH, static_cast<const char*>(nullptr));  // no others
  }
  option(CURLOPT_WRITEFUNCTION, &Receive);
  option(CURLOPT_WRITEDATA, &answer.body);
  if (!set) return Fail(Errc::kInternal, "libcurl refuses an option");
  if (const CURLcode code = curl_easy_perform(handle.get()); code != CURLE_OK) {
    why.resize(why.find('\0'));
    return Fail(CodeOf(code), fmt::format("asking https://{}:{}: {}{}", server.host, server.port,
                                          why.empty() ? curl_easy_strerror(code) : why,
                                          call.if_absent.empty() ? "" : "; " + call.if_absent));
  }
  long status = 0;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<unsigned>(status);
  return answer;
}

}  // namespace weir::drivers
