// SPDX-License-Identifier: Apache-2.0
// The member's exchange of offers for parts: it sends this node's offer to the manager and the other nodes' offers to
// the daemon. Page: docs/partition.md, "Peers through the manager"
#include <fmt/format.h>

#include <array>
#include <thread>

#include "cluster/member.h"
#include "http/client.h"
#include "http/json_api.h"
#include "platform/files.h"
#include "platform/piped_child.h"

namespace weir::cluster {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// The interval between offers; an offer expires after four intervals.
constexpr Duration kSayAgainAfter = milliseconds(500);
constexpr Duration kAnswerWithin = seconds(2);
/// A driver may compile code on its first use.
constexpr Duration kDriverWithin = seconds(30);
constexpr Duration kAskDriverAgainAfter = seconds(10);
constexpr std::size_t kLineBytesMax = 4096;

Result<PartsDevice> AskForDevice(const PartsMembership& parts) {
  std::vector<std::string> argv{parts.executor};
  if (!parts.library.empty()) argv.insert(argv.end(), {"--library", parts.library});
  argv.emplace_back("--list");
  WEIR_TRY(platform::PipedChild child, platform::PipedChild::Start(argv));
  std::string line;
  for (std::array<std::byte, 1> next{}; line.size() < kLineBytesMax; line += static_cast<char>(next[0])) {
    if (const Status status = child.Receive(next, kDriverWithin); !status)
      return Fail(status.error().code,
                  "no OpenCL device for parts: asked " + parts.executor + " for one, and " + status.error().message);
    if (next[0] == std::byte{'\n'}) break;
  }
  return DeviceOfLine(line);
}

}  // namespace

void Member::TalkAboutParts() {
  auto device = AskForDevice(*options_.parts);
  while (!device) {
    SayOnce(device.error().message);
    std::this_thread::sleep_for(kAskDriverAgainAfter);
    device = AskForDevice(*options_.parts);
  }
  for (;;) {
    const Status status = PartsPass(*device);
    if (!status) SayOnce(status.error().message);
    std::this_thread::sleep_for(kSayAgainAfter);
  }
}

Result<engine::PartsOffer> Member::OfferNow(const PartsDevice& device) {
  const PartsMembership& parts = *options_.parts;
  WEIR_TRY(const std::string port, platform::ReadFile(parts.port_file, 64));
  WEIR_TRY(const http::Answer answer,
           http::AskUnix(parts.control_socket, {.method = "GET", .target = "/v1/vgpus"}, kAnswerWithin));
  WEIR_TRY(const json vgpus, http::ObjectOf(answer, "asked the node's daemon for its vGPUs"));
  WEIR_TRY(const PartsRoom now, RoomOf(vgpus, parts.vgpu, device.memory));
  return engine::PartsOffer{.vgpu = parts.vgpu,
                            .address = parts.host + ":" + port.substr(0, port.find('\n')),
                            .plain = parts.plain,
                            .device = device.name,
                            .driver = device.driver,
                            .room = now.room,
                            .threads = now.threads};
}

Status Member::PartsPass(const PartsDevice& device) {
  std::uint64_t session = 0;
  {
    const std::lock_guard guard(mutex_);
    session = session_;
  }
  if (session == 0) return Ok();
  ordered_json body{{"session", session}, {"device", device.name}, {"driver", device.driver}};
  Status outcome = Ok();
  if (!options_.parts->vgpu.empty()) {
    const auto offer = OfferNow(device);
    // Without an offer the request still fetches the other nodes' offers.
    if (offer)
      body["offer"] = JsonOf(*offer);
    else
      outcome = offer.error();
  }
  WEIR_TRY(const json told,
           AskManagerFor({.method = "POST", .target = "/v1/members/" + options_.name + "/parts", .body = body.dump()},
                         kAnswerWithin));
  if (!options_.parts->wanted) return outcome;
  // While no manager answers, the daemon keeps the last list.
  ordered_json list = ordered_json::array();
  const json offers = told.value("nodes", json::array());
  for (const json& one : offers) {
    const auto offer = OfferOf(one);
    if (!offer || !one.value("node", json()).is_string()) continue;
    list.push_back({{"node", one["node"]},
                    {"address", offer->address},
                    {"vgpu", offer->vgpu},
                    {"plain", offer->plain},
                    {"room_bytes", offer->room.count},
                    {"threads", offer->threads}});
  }
  const std::string nodes = ordered_json{{"nodes", std::move(list)}}.dump();
  if (nodes == told_) return outcome;
  WEIR_TRY(const http::Answer answer,
           http::AskUnix(options_.parts->control_socket, {.method = "PUT", .target = "/v1/peers", .body = nodes},
                         kAnswerWithin));
  WEIR_TRY_STATUS(http::ObjectOf(answer, "told the node's daemon of nodes that run parts"));
  told_ = nodes;
  return outcome;
}

}  // namespace weir::cluster
