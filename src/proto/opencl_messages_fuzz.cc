// SPDX-License-Identifier: Apache-2.0
// Decoding accepts any bytes without crashing, and the decoded message is encoded into bytes that decode to the same
// message. The first byte chooses the message.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "proto/opencl_message_list.h"

namespace {

using namespace weir::proto::cl;

template <typename M>
void TryAs(ByteView message) {
  M first;
  if (!Decode(message, first)) return;
  const std::vector<std::byte> once = Encode(first);
  M second;
  if (!Decode(once, second) || Encode(second) != once) std::abort();
}

template <typename M>
void TryBody(ByteView message) {
  M first;
  FieldReader reader(message.subspan(kHeaderBytes));
  M::Fields(first, reader);
  if (!reader.malformed()) static_cast<void>(SizeOf(first));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1 + kHeaderBytes) return 0;
  const ByteView message = std::as_bytes(std::span(data + 1, size - 1));
  std::uint8_t chosen = data[0];
  const auto attempt = [&]<typename M>(MessageType<M>) {
    if (chosen-- == 0) TryAs<M>(message);
  };
  ForEachMessage<FromClient>(attempt);
  ForEachMessage<FromExecutor>(attempt);
  ForEachMessage<Handshake>(attempt);
  if (chosen == 0) TryBody<BuildFacts>(message);
  if (chosen == 1) TryBody<PlatformFacts>(message);
  return 0;
}
