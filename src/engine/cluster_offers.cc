// SPDX-License-Identifier: Apache-2.0
// Offers of members to run parts of other nodes' launches. An offer lasts while it is repeated, and is never stored.
// Page: docs/partition.md, "Peers through the manager"
#include <fmt/format.h>

#include <algorithm>

#include "engine/cluster_engine.h"

namespace weir::engine {
namespace {

Status CheckOffer(const PartsOffer& offer) {
  WEIR_TRY_STATUS(CheckClusterName("an offered vGPU's name", offer.vgpu));
  for (const std::string* text : {&offer.address, &offer.device, &offer.driver}) {
    const bool printable = std::ranges::all_of(*text, [](unsigned char c) { return c >= 0x20 && c < 0x7F; });
    if (text->empty() || text->size() > kOfferTextBytesMax || !printable)
      return Fail(Errc::kInvalidArgument,
                  fmt::format("an offer's address, device and driver are 1 to {} printable characters each",
                              kOfferTextBytesMax));
  }
  return Ok();
}

}  // namespace

Status ClusterEngine::On(Instant now, const OfferParts& event, ClusterActions&) {
  if (event.offer) WEIR_TRY_STATUS(CheckOffer(*event.offer));
  WEIR_TRY(Node* const node, Hear(now, event.name, event.session));
  node->offer = event.offer;
  node->offered = now;
  return Ok();
}

const PartsOffer* ClusterEngine::OfferOf(Instant now, const Node& node) const {
  if (!node.offer || !node.greeted || node.suspect || now - node.offered >= bounds_.offer_lasts) return nullptr;
  return &*node.offer;
}

std::vector<NodeOffer> ClusterEngine::OffersFor(Instant now, const std::string& asker, const std::string& device,
                                                const std::string& driver) const {
  std::vector<NodeOffer> offers;
  for (const auto& [name, node] : nodes_) {
    const PartsOffer* const offer = OfferOf(now, node);
    if (offer == nullptr || name == asker || offer->device != device || offer->driver != driver) continue;
    offers.push_back({name, *offer});
  }
  std::ranges::stable_sort(offers, {}, [](const NodeOffer& one) { return one.offer.threads; });
  if (offers.size() > kOffersMax) offers.resize(kOffersMax);
  return offers;
}

}  // namespace weir::engine
