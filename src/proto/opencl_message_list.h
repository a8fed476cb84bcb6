// SPDX-License-Identifier: Apache-2.0
// Lists of all messages between an OpenCL client and its executor, for code that handles every message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "proto/opencl_messages.h"

namespace weir::proto::cl {

namespace list_detail {

template <typename... Lists>
struct Join;
template <typename... M>
struct Join<std::tuple<M...>> {
  using type = std::tuple<M...>;
};
template <typename... M, typename... N, typename... Lists>
struct Join<std::tuple<M...>, std::tuple<N...>, Lists...> : Join<std::tuple<M..., N...>, Lists...> {};

template <typename List>
struct Contents;
template <typename... M>
struct Contents<std::tuple<M...>> {
  template <typename Message>
  static constexpr bool kHas = (std::is_same_v<Message, M> || ...);
  static constexpr bool NumbersDiffer() {
    constexpr std::uint16_t kNumbers[] = {M::kOp...};
    for (std::size_t i = 0; i < sizeof...(M); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (kNumbers[i] == kNumbers[j]) return false;
    return true;
  }
};

}  // namespace list_detail

using FromClient = list_detail::Join<AllObjectMessages, AllCommands, AllRequests>::type;
using FromExecutor = AllAnswers;
using Handshake = std::tuple<Hello, Welcome>;

static_assert(list_detail::Contents<list_detail::Join<FromClient, FromExecutor>::type>::NumbersDiffer(),
              "two messages have the same number");

/// Whether the message is in the list.
template <typename M, typename List>
inline constexpr bool kIsIn = list_detail::Contents<List>::template kHas<M>;

template <typename M>
struct MessageType {
  using type = M;
};

/// Calls `each(MessageType<M>{})` for every message of one of the lists.
template <typename List, typename Each>
void ForEachMessage(Each each) {
  []<typename... M>(std::type_identity<std::tuple<M...>>, Each& call) { (call(MessageType<M>{}), ...); }(
      std::type_identity<List>{}, each);
}

/// Calls `each(message)`. False: malformed.
template <typename M, typename Each>
bool DecodeAs(ByteView bytes, Each& each) {
  M message;
  if (!Decode(bytes, message)) return false;
  each(message);
  return true;
}

/// Calls `decode` with the type of the message whose number is `op`. False: it is not in the list.
template <typename List, typename DecodeIt>
bool FindMessage(std::uint16_t op, DecodeIt decode) {
  return [&]<typename... M>(std::type_identity<std::tuple<M...>>) {
    return ((op == M::kOp && (decode(MessageType<M>{}), true)) || ...);
  }(std::type_identity<List>{});
}

/// Decodes a message and calls `each` with it. Unknown messages that may be ignored are skipped. False: malformed, or
/// not a message that a client sends.
template <typename Each>
bool DecodeFromClient(ByteView bytes, Each each) {
  Header header;
  if (!ReadHeader(bytes, header)) return false;
  bool good = false;
  if (FindMessage<FromClient>(header.op, [&]<typename M>(MessageType<M>) { good = DecodeAs<M>(bytes, each); }))
    return good;
  if (FindMessage<FromExecutor>(header.op, [](auto) {})) return false;
  return (header.flags & kMayIgnore) != 0;
}

}  // namespace weir::proto::cl
