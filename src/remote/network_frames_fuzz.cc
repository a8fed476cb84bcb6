// SPDX-License-Identifier: Apache-2.0
// What a peer may send: to a portal that waits for a Hello, to a relay that waits for a Welcome, and behind that to
// either. The first byte says which.
#include <cstddef>
#include <cstdint>

#include "platform/shared_memory.h"
#include "proto/relay_control.h"
#include "remote/handshake.h"
#include "remote/pump.h"
#include "tests/harness/memory_stream.h"

namespace {

using namespace weir;

/// A ring that nobody reads, larger than any input, and a small arena.
struct Lines {
  Lines() {
    rings = std::move(*platform::MakeSharedRegion("fuzz-rings", opencl::kRingsBytes));
    arena = std::move(*platform::MakeSharedRegion("fuzz-arena", 64 * 1024));
  }
  platform::SharedRegion rings, arena;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > opencl::kRingBytes / 4) return 0;
  testing::MemoryStream stream(std::as_bytes(std::span(data + 1, size - 1)));
  if (data[0] == 0xff) {  // a relay's control socket
    const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
    if (const auto request = proto::RequestFrom(text); request && !proto::RequestFrom(proto::RequestText(*request)))
      __builtin_trap();
    static_cast<void>(proto::AnswerFrom(text).has_value());
  } else if (data[0] % 3 == 0) {
    static_cast<void>(remote::ReceiveHello(stream).has_value());
  } else if (data[0] % 3 == 1) {
    static_cast<void>(remote::Enter(stream, {}).has_value());
  } else {
    Lines lines;
    remote::Line line;
    line.channel = std::move(*opencl::MapChannel(lines.rings.fd.get(), opencl::Side::kClient));
    line.arena = std::move(lines.arena.mapping);
    remote::LineSink sink(line);
    remote::InPump in(line.stop, stream);
    if (in.Run(sink)) __builtin_trap();  // only its end, or a malformed frame, ends it
  }
  return 0;
}
