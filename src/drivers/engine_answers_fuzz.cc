// SPDX-License-Identifier: Apache-2.0
// Replies of OpenStack Placement and output of Slurm's commands. Any bytes are accepted without crashing, numbers are
// within their bounds, and an error is one printable line. The first byte selects the kind of reply.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "drivers/placement_api.h"
#include "drivers/slurm_text.h"

namespace {

using namespace weir;
using namespace weir::drivers;

void Require(bool holds) {
  if (!holds) std::abort();
}

void RequireOneLine(const Error& error) {
  Require(std::ranges::none_of(error.message, [](unsigned char c) { return c < ' ' || c == 0x7f; }));
}

template <typename T, typename Check>
void CheckRead(const Result<T>& read, Check check) {
  if (read)
    check(*read);
  else
    RequireOneLine(read.error());
}

void RequireGrants(const std::vector<Grant>& grants) {
  for (const Grant& grant : grants) {
    Require(grant.shares >= 1 && !grant.consumer.empty());
    Require(std::ranges::all_of(grant.consumer, [](unsigned char c) { return std::isalnum(c) != 0 || c == '-'; }));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  const http::Answer good{200, text};
  switch (data[0] % 10) {
    case 0:
      CheckRead(ParsePlacementUrl(text), [](const PlacementPlace& place) {
        Require(!place.host.empty() && place.port != 0 && (place.base.empty() || place.base.front() == '/'));
      });
      break;
    case 1:
      CheckRead(ParsePlacementProviders(good), [](const std::optional<PlacementProvider>& provider) {
        if (provider) Require(provider->uuid.size() == 36 && provider->generation >= 0);
      });
      break;
    case 2:
      CheckRead(ParsePlacementInventory(good), [](const PlacementInventory& inventory) {
        Require(inventory.total >= 1 && inventory.total <= kSharesMax && inventory.reserved >= 0);
        Require(inventory.ratio >= 0 && inventory.ratio <= 1e6);
      });
      break;
    case 3: CheckRead(ParsePlacementAllocations(good, "CUSTOM_VGPU"), RequireGrants); break;
    case 4:
      CheckRead(ParsePlacementTraits(good), [](const PlacementTraits& traits) { Require(traits.generation >= 0); });
      break;
    case 5:
      for (const unsigned status : {199U, 401U, 404U, 409U, 418U, 503U, 599U}) {
        const auto refusal = RefusalOf({status, text}, "asked");
        Require(refusal.has_value());
        RequireOneLine(refusal->error);
      }
      break;
    case 6:
      CheckRead(ParseSlurmLicence(text, "vgpu"), [](const std::optional<SlurmLicence>& licence) {
        if (licence) Require(licence->total >= 0 && licence->used >= 0);
      });
      break;
    case 7: CheckRead(ParseSlurmHold(text, "weir-hold", "vgpu"), [](std::int64_t held) { Require(held >= 0); }); break;
    case 8: CheckRead(CountLicences(text, "vgpu"), [](std::int64_t count) { Require(count >= 0); }); break;
    default: CheckRead(ParseSlurmJobs(text, "vgpu"), RequireGrants);
  }
  return 0;
}
