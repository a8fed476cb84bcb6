// SPDX-License-Identifier: Apache-2.0
// A network of hosts: computes when a message arrives. Every directed pair of hosts has a link of its own, which sends
// one message after the other and delivers them in order, as a stream does. A message may be lost; sending it again is
// the task of the protocol.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/prng.h"
#include "base/units.h"

namespace weir::sim {

struct LinkSpec {
  Duration latency = microseconds(50);
  Duration jitter{};            // each message takes up to this much longer, uniformly drawn
  double bytes_per_s = 1.25e9;  // 10 Gbit/s
  double loss = 0;              // fraction of the messages that are lost, 0 … 1
};

class NetworkModel {
 public:
  using Host = std::uint32_t;

  NetworkModel(const LinkSpec& usual, std::uint64_t seed) : usual_(usual), seed_(seed) {}

  void SetLink(Host from, Host to, const LinkSpec& spec) { LinkOf(from, to).spec = spec; }

  /// Separates two hosts: messages between them that are sent from now on are lost, in both directions. Messages in
  /// flight arrive.
  void Part(Host a, Host b) { parted_.insert(std::minmax(a, b)); }
  void Heal(Host a, Host b) { parted_.erase(std::minmax(a, b)); }
  [[nodiscard]] bool parted(Host a, Host b) const { return parted_.contains(std::minmax(a, b)); }

  /// Returns when the last byte of a message arrives; none: it is lost. Times must not go backwards. A message that is
  /// lost at random occupies the link like any other. A message to the host itself arrives at once.
  std::optional<Instant> Send(Instant now, Host from, Host to, Bytes size) {
    if (from == to) return now;
    Link& link = LinkOf(from, to);
    // Drawn also for separated hosts, so that a separation does not change what happens to later messages.
    const double luck = link.prng.Uniform();
    const double late = link.prng.Uniform();
    if (parted(from, to)) return std::nullopt;
    link.free_at = std::max(link.free_at, now) + FromSeconds(static_cast<double>(size.count) / link.spec.bytes_per_s);
    if (luck < link.spec.loss) return std::nullopt;
    const Instant there = link.free_at + link.spec.latency + FromSeconds(SecondsOf(link.spec.jitter) * late);
    link.last = std::max(link.last, there);
    return link.last;
  }

 private:
  struct Link {
    LinkSpec spec;
    Prng prng;
    Instant free_at{};  // when it has sent all messages so far
    Instant last{};     // the latest arrival so far: later messages do not overtake
  };
  /// Each link has its own random stream, so that messages on other links do not influence it.
  Link& LinkOf(Host from, Host to) {
    const auto found = links_.find({from, to});
    if (found != links_.end()) return found->second;
    Prng pair(seed_ ^ (std::uint64_t{from} << 32 | to));
    return links_.emplace(std::pair{from, to}, Link{.spec = usual_, .prng = Prng(pair.Next())}).first->second;
  }

  const LinkSpec usual_;
  const std::uint64_t seed_;
  std::map<std::pair<Host, Host>, Link> links_;
  std::set<std::pair<Host, Host>> parted_;
};

}  // namespace weir::sim
