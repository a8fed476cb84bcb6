// SPDX-License-Identifier: Apache-2.0
// A network of hosts: when does what is sent arrive? Every directed pair of hosts has a link of its own, which sends
// one message after the other and delivers in order, as a stream does. A message may be lost; sending it again is the
// protocol's affair.
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
  Duration jitter{};            // each message takes up to this much longer, evenly drawn
  double bytes_per_s = 1.25e9;  // ten gigabits
  double loss = 0;              // part of the messages, 0 … 1
};

class NetworkModel {
 public:
  using Host = std::uint32_t;

  NetworkModel(const LinkSpec& usual, std::uint64_t seed) : usual_(usual), seed_(seed) {}

  void SetLink(Host from, Host to, const LinkSpec& spec) { LinkOf(from, to).spec = spec; }

  /// Nothing that is sent between the two from now on arrives, in either direction; what is under way does.
  void Part(Host a, Host b) { parted_.insert(std::minmax(a, b)); }
  void Heal(Host a, Host b) { parted_.erase(std::minmax(a, b)); }
  [[nodiscard]] bool parted(Host a, Host b) const { return parted_.contains(std::minmax(a, b)); }

  /// When it has arrived, to its last byte; none: it is lost. Times must not go backwards. A lost message takes the
  /// link's time, too. To itself a host sends in no time.
  std::optional<Instant> Send(Instant now, Host from, Host to, Bytes size) {
    if (from == to) return now;
    Link& link = LinkOf(from, to);
    // Drawn whatever becomes of it, so that a partition changes no other message's luck.
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
    Instant free_at{};
    Instant last{};
  };
  /// With its own stream of chance: what is sent elsewhere has no influence.
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
