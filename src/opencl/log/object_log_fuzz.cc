// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as messages of either side. Each message begins with a byte whose lowest bit selects the side, and a
// two-byte length. The log may draw wrong conclusions, but must not crash, and its replay must be accepted.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "opencl/log/object_log.h"

namespace {

using weir::opencl::ObjectLog;
using weir::proto::cl::Blob;
using weir::proto::cl::ByteView;

ObjectLog::Arena ArenaOf(ByteView bytes) {
  return [bytes](std::uint64_t offset, std::uint64_t size) {
    return offset <= bytes.size() && size <= bytes.size() - offset ? bytes.subspan(offset, size) : ByteView();
  };
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView all = std::as_bytes(std::span(data, size));
  ObjectLog log(ArenaOf(all));
  for (ByteView rest = all; rest.size() >= 3;) {
    const auto who = static_cast<std::uint8_t>(rest[0]);
    const std::size_t wanted = static_cast<std::size_t>(rest[1]) | static_cast<std::size_t>(rest[2]) << 8;
    const ByteView message = rest.subspan(3).first(std::min(wanted, rest.size() - 3));
    rest = rest.subspan(3 + message.size());
    if ((who & 1) == 0) {
      static_cast<void>(log.Ahead(message));
      static_cast<void>(log.FromClient(message));
    } else {
      static_cast<void>(log.IsOwn(message));
      static_cast<void>(log.FromExecutor(message));
    }
  }
  static_cast<void>(log.Questions());
  static_cast<void>(log.ErrorsOwed());
  static_cast<void>(log.in_flight());
  const auto place = [](ByteView bytes) { return Blob::Arena(0, bytes.size()); };
  ObjectLog::MadeAhead ahead;
  for (const auto& memory : log.memories()) {
    static_cast<void>(log.BusyQueues(memory.context));
    log.ContentsKnown(memory.id);
    if (!log.MakerOf(memory.id)) continue;
    ahead.standing.push_back({.id = memory.context, .number = memory.context_number});
    ahead.standing.push_back({.id = memory.id, .number = memory.number});
  }
  for (auto& [program, context] : log.Programs())
    if (log.BuilderOf(program, 1, place)) ahead.standing.push_back(program);
  static_cast<void>(log.MakeReplay(place, ahead));
  log.ForgetContents();
  static_cast<void>(log.kept());
  const auto replay = log.MakeReplay(place);
  if (!replay) return 0;
  ObjectLog again(ArenaOf(all));
  for (const auto& message : replay->messages)
    if (!again.FromClient(message)) std::abort();
  return 0;
}
