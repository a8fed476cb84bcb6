// SPDX-License-Identifier: Apache-2.0
#include "engine/decision_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weir::engine {
namespace {

using core::BalloonNote;
using core::OversellNote;

struct KindAndText {
  std::string kind, text;
};

std::string WholePercent(double part) { return fmt::format("{:.0f} %", part * 100); }
std::string Slots(std::uint64_t slots) { return fmt::format("{} slot{}", slots, slots == 1 ? "" : "s"); }
std::string Launches(std::uint64_t launches) { return fmt::format("{} launch{}", launches, launches == 1 ? "" : "es"); }
double Mebibytes(Bytes bytes) { return static_cast<double>(bytes.count) / (1 << 20); }

// -- Sales and promises ----------------------------------------------------------------------------------------------

std::string TextOf(const OversellNote& note, const std::string& from) {
  const std::string rate = fmt::format("{:.1f} of {:.1f} frames/s", note.rate, note.promised);
  const std::string use = fmt::format("{} of its cap of {} used", WholePercent(note.use), WholePercent(note.cap));
  switch (note.kind) {
    case OversellNote::Kind::kOverload:
      return "overloaded: " + (note.promised > 0 ? rate + ", " + use : use + ", which is below its ceiling");
    case OversellNote::Kind::kAtCeiling:
      return "needs more than was sold to it: " + rate + " at its ceiling of " + WholePercent(note.cap);
    case OversellNote::Kind::kRegained:
      return fmt::format("takes {} from {}, to {}", WholePercent(note.amount), from, WholePercent(note.cap));
    case OversellNote::Kind::kStolen:
      return fmt::format("overloaded, so {} of the unused cap of {}, the lightest, goes to it: {}",
                         WholePercent(note.amount), from, WholePercent(note.cap));
    case OversellNote::Kind::kWarning:
      return fmt::format("several are overloaded: this one should be moved to another device ({})", use);
    case OversellNote::Kind::kRelieved: return "it need not be moved any more";
    case OversellNote::Kind::kSellable:
      if (note.amount < 0.01) return fmt::format("nothing more can be sold: the load is {}", WholePercent(note.use));
      return fmt::format("a cap of up to {} can be sold: the load is {}", WholePercent(note.amount),
                         WholePercent(note.use));
    case OversellNote::Kind::kBroken:
      return "its promise is broken: " + (note.promised > 0 ? rate : use + ", and it wants more");
    case OversellNote::Kind::kKept: return "its promise is kept again";
  }
  return "";
}

KindAndText WordsOf(const SaleDecided& sale) {
  return {core::NameOf(sale.note.kind), TextOf(sale.note, sale.from.empty() ? "what was free" : sale.from)};
}

KindAndText WordsOf(const SellingChanged& selling) {
  return {"oversell", std::string("selling is ") + core::NameOf(selling.mode)};
}

KindAndText WordsOf(const PromisesSeen& promises) {
  const std::string need = WholePercent(promises.need);
  if (promises.fit) return {"fits", fmt::format("its promises fit again: they need {} of it", need)};
  return {"overpromised", fmt::format("its promises need {} of it; by weight all could be kept but those of: {}", need,
                                      NamesInWords(promises.giving_way))};
}

// -- Memory ----------------------------------------------------------------------------------------------------------

const char* WordOf(BalloonNote::Kind kind) {
  using Kind = BalloonNote::Kind;
  switch (kind) {
    case Kind::kGranted:
    case Kind::kPartly:
    case Kind::kHas: return "grown";
    case Kind::kAtMaximum:
    case Kind::kOverhead:
    case Kind::kJustShrunk:
    case Kind::kThrash: return "not-grown";
    case Kind::kShrunkIdle:
    case Kind::kShrunkOverhead: return "shrunk";
    case Kind::kBounds: return "bounds";
    case Kind::kPressure: return "pressure";
  }
  return "memory";
}

std::string TextOf(const BalloonNote& note) {
  const std::string overhead =
      fmt::format("overhead {:.2f} of 2 (steal {:.0f} %, copying {:.1f} %)", note.overhead, note.steal, note.copying);
  const std::string holds = fmt::format("it holds {}", Slots(note.held));
  using Kind = BalloonNote::Kind;
  switch (note.kind) {
    case Kind::kGranted:
    case Kind::kPartly:
      return fmt::format(
          "asked for {}, got {} more{}: {} now", Slots(note.wanted), note.slots,
          note.change.overlap > 0 ? fmt::format(", shared with others {} times", note.change.overlap) : "", holds);
    case Kind::kHas: return fmt::format("asked for {}, and {}", Slots(note.wanted), holds);
    case Kind::kAtMaximum:
      return fmt::format("asked for {}: {}, its maximum. To raise it: weir vgpu set NAME --memory MIN:MAX",
                         Slots(note.wanted), holds);
    case Kind::kOverhead: return fmt::format("asked for {}: not now, {}; {}", Slots(note.wanted), overhead, holds);
    case Kind::kJustShrunk:
      return fmt::format("asked for {}: not now, it gave some up a moment ago; {}", Slots(note.wanted), holds);
    case Kind::kThrash:
      return fmt::format("asked for {}: not now, it has grown and shrunk too often; {}", Slots(note.wanted), holds);
    case Kind::kShrunkIdle:
      return fmt::format("gives up {} that it doesn't use: {}, and uses {}; {}", Slots(note.slots), holds, note.used,
                         overhead);
    case Kind::kShrunkOverhead: return fmt::format("gives up {}: {}; {}", Slots(note.slots), holds, overhead);
    case Kind::kBounds: return fmt::format("its bounds have changed: {} now", holds);
    case Kind::kPressure: return fmt::format("memory pressure is {}: {}", core::NameOf(note.pressure), overhead);
  }
  return "";
}

KindAndText WordsOf(const BalloonNote& note) { return {WordOf(note.kind), TextOf(note)}; }

KindAndText WordsOf(const MemorySizeChanged& memory) {
  if (memory.slots == 0) return {"memory", "memory is not elastic"};
  return {"memory", fmt::format("memory is elastic: {} of {} MiB", Slots(memory.slots), kSlotBytes.count >> 20)};
}

KindAndText WordsOf(const OthersMemoryChanged& memory) {
  const bool too_many = std::uint64_t{memory.slots} + memory.others > memory.all;
  return {"memory-others",
          fmt::format("other programs hold {} of its {}: {} shared out{}", memory.others, Slots(memory.all),
                      memory.slots == 1 ? "1 is" : fmt::format("{} are", memory.slots),
                      too_many ? ", because they are guaranteed; some may find less" : "")};
}

KindAndText WordsOf(const ExecutorEnded& ended) {
  return {"executor-ended", fmt::format("its executor has not given up device memory within {:.0f} s, as it was "
                                        "ordered to (answer_ms of weir memory --params)",
                                        SecondsOf(ended.within))};
}

// -- Launches in parts -----------------------------------------------------------------------------------------------

KindAndText WordsOf(const LaunchesRanInParts& ran) {
  return {"parts", fmt::format("{} ran in {} part{}, {}: copied {:.1f} MiB in and {:.1f} MiB out",
                               Launches(ran.launches), ran.parts, ran.parts == 1 ? "" : "s",
                               ran.asked ? "as is asked of it" : "needing more memory than it may have",
                               Mebibytes(ran.in), Mebibytes(ran.out))};
}

KindAndText WordsOf(const LaunchesNotCut& whole) {
  return {"not-cut", fmt::format("{} could not be cut: {}", Launches(whole.launches),
                                 whole.asked ? "a launch that fits runs whole, another fails"
                                             : "it fails, and its program gets the reason")};
}

}  // namespace

Note NoteOf(const Decision& decision) {
  KindAndText words = std::visit([](const auto& what) { return WordsOf(what); }, decision.what);
  return {
      .device = decision.device, .kind = std::move(words.kind), .vgpu = decision.vgpu, .text = std::move(words.text)};
}

std::string NamesInWords(const std::vector<std::string>& names) {
  constexpr std::size_t kNamedMax = 5;
  const std::size_t named = std::min(names.size(), kNamedMax);
  std::string text;
  for (std::size_t i = 0; i < named; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", names[i]);
  if (names.size() > named) text += fmt::format(" and {} more", names.size() - named);
  return text;
}

}  // namespace weir::engine
