// SPDX-License-Identifier: Apache-2.0
// Memory of graphs. A node has an address from the time it is added. Physical memory is mapped there when the graph is
// launched or uploaded, and is kept until the program trims it. A launch uses, in this order:
//
//   pieces of earlier launches in the same stream ─▶ pieces of launches that have ended ─▶ new memory of the card
//
// A piece with memory that no node and no call has freed is nobody else's.
#include <algorithm>

#include "emulator/cuda/driver.h"

namespace weir::emulator::cuda {

bool Graph::UsesMemory() const {
  return std::ranges::any_of(operations, [](const Operation& one) { return !one.is_work(); });
}

std::uint64_t Graph::Footprint(std::uint32_t card) const {
  std::map<const std::byte*, std::uint64_t> rooms;  // nodes whose lifetimes do not overlap share an address
  for (const Operation& one : operations)
    if (one.allocates != nullptr && one.allocates->card == card)
      rooms[one.allocates->memory.get()] = one.allocates->room;
  std::uint64_t sum = 0;
  for (const auto& [memory, room] : rooms) sum += room;
  return sum;
}

std::vector<std::shared_ptr<GraphBlock>> Graph::Left() const {
  std::vector<std::shared_ptr<GraphBlock>> left;
  for (const Operation& one : operations) {
    if (one.allocates != nullptr) left.push_back(one.allocates);
    if (one.frees != 0) std::erase_if(left, [&](const auto& block) { return block->pointer() == one.frees; });
  }
  return left;
}

std::shared_ptr<GraphBlock> Driver::AllocateNode(const Graph& graph, std::uint64_t bytes, std::uint32_t card) {
  if (graph.operations.size() >= Graph::kOperationsMax || bytes > cards[card].model.memory.count) return nullptr;
  auto block = std::make_shared<GraphBlock>();
  block->bytes = block->room = bytes;
  block->card = card;
  const auto left = graph.Left();
  for (const Operation& one : graph.operations) {
    if (one.allocates == nullptr || one.allocates->card != card || one.allocates->room < bytes) continue;
    if (std::ranges::any_of(left, [&](const auto& live) { return live->memory == one.allocates->memory; })) continue;
    block->memory = one.allocates->memory;
    block->room = one.allocates->room;
  }
  if (block->memory == nullptr) block->memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
  // Blocks that have ended may have begun anywhere in this memory. Holds() must not find them.
  auto next = graph_blocks_.lower_bound(block->pointer());
  while (next != graph_blocks_.end() && next->first < block->pointer() + block->room)
    next = next->second.expired() ? graph_blocks_.erase(next) : std::next(next);
  graph_blocks_[block->pointer()] = block;
  return block;
}

std::uint64_t Driver::GraphBytes(std::uint32_t card) const {
  std::uint64_t sum = 0;
  for (const GraphPiece& piece : graph_pieces_) sum += piece.card == card ? piece.bytes : 0;
  return sum;
}

/// Takes pieces of exactly these bytes out of the list.
Result Driver::TakePieces(std::uint32_t card, std::uint64_t bytes, const std::shared_ptr<Stream>& stream,
                          std::list<GraphPiece>& taken) {
  constexpr std::uint64_t kUnit = AddressSpace::kGranularity;
  for (int attempt = 0;; ++attempt) {
    {
      const auto lock = Lock();
      for (const bool same_stream : {true, false}) {
        for (auto at = graph_pieces_.begin(); at != graph_pieces_.end() && bytes > 0;) {
          const auto piece = at++;
          if (piece->card != card || piece->starting || !piece->left.empty()) continue;
          if (same_stream ? piece->stream != stream : !Complete(piece->until)) continue;
          if (piece->bytes > bytes) {
            GraphPiece rest = *piece;
            rest.bytes -= bytes;
            graph_pieces_.push_back(std::move(rest));
            piece->bytes = bytes;
          }
          bytes -= piece->bytes;
          taken.splice(taken.end(), graph_pieces_, piece);
        }
      }
    }
    if (bytes == 0) return kSuccess;
    const std::uint64_t more = (bytes + kUnit - 1) / kUnit * kUnit;
    const Result result = TakeRoom(card, more);
    if (result != kSuccess && (result != kOutOfMemory || attempt > 0)) return result;
    if (result == kSuccess) {
      const auto lock = Lock();
      graph_pieces_.push_back({.card = card, .bytes = more});
      cards[card].graph_most = std::max(cards[card].graph_most, GraphBytes(card));
    } else {
      TrimGraphs(card);
    }
  }
}

Result Driver::BeginGraph(const Executable& executable, const std::shared_ptr<Stream>& stream) {
  {
    const auto lock = Lock();
    if (stream->capture) return kNotSupported;
    const auto is_own = [&](const auto& block) {
      return std::ranges::any_of(executable.graph.operations, [&](const auto& one) { return one.allocates == block; });
    };
    for (GraphPiece& piece : graph_pieces_) {
      if (!executable.frees_itself && std::ranges::any_of(piece.left, is_own)) return kInvalidValue;
      std::erase_if(piece.left, is_own);
    }
  }
  std::list<GraphPiece> taken;
  Result result = kSuccess;
  for (std::uint32_t card = 0; card < cards.size() && result == kSuccess; ++card)
    if (const std::uint64_t bytes = executable.graph.Footprint(card); bytes > 0)
      result = TakePieces(card, bytes, stream, taken);
  const auto lock = Lock();
  for (GraphPiece& piece : taken) {
    piece.starting = result == kSuccess;
    if (result == kSuccess) piece.stream = stream;
  }
  graph_pieces_.splice(graph_pieces_.end(), taken);
  return result;
}

void Driver::EndGraph(const Executable& executable, const std::shared_ptr<Stream>& stream, bool ran) {
  const auto lock = Lock();
  const auto left = executable.graph.Left();
  for (GraphPiece& piece : graph_pieces_) {
    if (!piece.starting || piece.stream != stream) continue;
    piece.starting = false;
    piece.until = Front(*stream);
    // It is not kept which piece is mapped where, so each piece of the launch stays while a block of it does.
    if (ran) piece.left = left;
  }
  if (!ran) return;
  for (const Operation& one : executable.graph.operations)
    if (one.frees != 0)
      for (GraphPiece& piece : graph_pieces_)
        std::erase_if(piece.left, [&](const auto& block) { return block->pointer() == one.frees; });
}

bool Driver::EndLeft(Pointer pointer) {
  bool found = false;
  for (GraphPiece& piece : graph_pieces_)
    found |= std::erase_if(piece.left, [&](const auto& block) { return block->pointer() == pointer; }) > 0;
  return found;
}

void Driver::TrimGraphs(std::uint32_t card) {
  std::uint64_t bytes = 0;
  {
    const auto lock = Lock();
    std::erase_if(graph_pieces_, [&](const GraphPiece& piece) {
      if (piece.card != card || piece.starting || !piece.left.empty() || !Complete(piece.until)) return false;
      bytes += piece.bytes;
      return true;
    });
  }
  if (bytes > 0) GiveRoom(card, bytes);
}

}  // namespace weir::emulator::cuda
