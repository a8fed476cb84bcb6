// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/ledger.h"

#include <algorithm>
#include <iterator>

namespace weir::opencl {

// Times arrive almost in order, so that the position is near the end.
void Ledger::Sort(List& from, List& to, Held& item) {
  List one;
  one.splice(one.begin(), from, item.place);
  auto at = to.end();
  while (at != to.begin() && (*std::prev(at))->used_ns > item.used_ns) --at;
  to.splice(at, one);
}

void Ledger::Add(Held& item, std::int64_t now_ns) {
  item.used_ns = now_ns;
  List& list = ListOf(item);
  item.place = list.insert(list.end(), &item);
  Sort(list, list, item);
  made_ += item.bytes;
}

void Ledger::Remove(Held& item) {
  ListOf(item).erase(item.place);
  made_ -= item.bytes;
  if (item.pins > 0) pinned_ -= item.bytes;
}

void Ledger::SetResident(Held& item, bool resident) {
  if (item.resident == resident) return;
  List& from = ListOf(item);
  item.resident = resident;
  Sort(from, ListOf(item), item);
}

void Ledger::SetBytes(Held& item, std::uint64_t bytes) {
  made_ += bytes - item.bytes;
  if (item.pins > 0) pinned_ += bytes - item.bytes;
  item.bytes = bytes;
}

void Ledger::Touch(Held& item, std::int64_t now_ns) {
  if (now_ns <= item.used_ns) return;
  item.used_ns = now_ns;
  Sort(ListOf(item), ListOf(item), item);
}

void Ledger::Pin(Held& item, std::int64_t now_ns) {
  if (item.pins++ == 0) pinned_ += item.bytes;
  item.promised_ns = 0;
  Touch(item, now_ns);
}

void Ledger::Unpin(Held& item, std::int64_t now_ns) {
  if (--item.pins == 0) pinned_ -= item.bytes;
  Touch(item, now_ns);
}

std::vector<Held*> Ledger::Victims(std::uint64_t excess, std::span<Held* const> spare, std::int64_t now_ns) const {
  std::vector<Held*> chosen;
  std::uint64_t sum = 0;
  for (Held* item : spare) item->spared = true;
  for (Held* item : resident_) {
    if (sum >= excess) break;
    if (item->pins > 0 || item->moving || item->stuck || item->spared || item->promised_ns > now_ns) continue;
    chosen.push_back(item);
    sum += item->bytes;
  }
  for (Held* item : spare) item->spared = false;
  if (sum < excess) return chosen;
  // A large item chosen last may make small earlier ones unnecessary; of these the most recently used stay.
  std::vector<Held*> needed;
  for (auto at = chosen.rbegin(); at != chosen.rend(); ++at)
    if (sum - (*at)->bytes >= excess) {
      sum -= (*at)->bytes;
    } else {
      needed.push_back(*at);
    }
  std::ranges::reverse(needed);
  return needed;
}

std::uint64_t Ledger::UsedSince(std::int64_t since_ns) const {
  std::uint64_t bytes = pinned_;
  for (const List* list : {&resident_, &elsewhere_})
    for (auto at = list->rbegin(); at != list->rend() && (*at)->used_ns >= since_ns; ++at)
      if ((*at)->pins == 0) bytes += (*at)->bytes;
  return bytes;
}

Step NextStep(const Room& room, const Demand& demand) {
  if (demand.all > room.most) return Step::kNever;
  if (demand.moving) return Step::kWait;
  // Above the allowed amount an order is being carried out. A command that adds nothing to the pinned objects may run.
  if (demand.missing == 0)
    return room.taken <= room.allowed || demand.pinned_besides + demand.all <= room.allowed ? Step::kGo : Step::kWait;
  return demand.all <= room.allowed && room.taken <= room.allowed ? Step::kBring : Step::kWait;
}

}  // namespace weir::opencl
