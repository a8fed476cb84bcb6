// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/session.h"

#include <utility>

#include "proto/opencl_message_list.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

constexpr Duration kLook = milliseconds(50);     // interval of checks of the socket while no message comes
constexpr Duration kLookSoon = milliseconds(1);  // the same while replies wait for room

template <typename Handler, typename Message>
concept Handles = requires(Handler& handler, const Message& message) {
  handler.Do(message);
};

/// Calls the handler of the message. A message without a handler, or with two, does not compile.
template <typename Message, typename... Handlers>
void Dispatch(const Message& message, Handlers&... handlers) {
  static_assert((int{Handles<Handlers, Message>} + ...) == 1, "a message needs exactly one handler");
  const auto offer = [&message](auto& handler) {
    if constexpr (Handles<decltype(handler), Message>) handler.Do(message);
  };
  (offer(handlers), ...);
}

}  // namespace

Session::Session(Shared& shared, Accepted accepted)
    : shared_(shared),
      cl_(*shared.device.cl),
      socket_(std::move(accepted.socket)),
      control_(std::move(accepted.channel.control)),
      in_(std::move(accepted.channel.in)),
      scratch_(wire::kMessageBytesMax),
      client_(cl_, accepted, shared.host_budget),
      ends_(cl_, shared.device.calls_back_late),
      batches_(cl_, Tenancy{shared.agent, shared.meter, shared.work_items}, ends_),
      objects_(client_, ends_, batches_),
      memory_(shared, objects_, batches_, ends_, stop_),
      commands_(cl_, client_, objects_, batches_, memory_, ends_),
      parts_(shared, client_, objects_, batches_, memory_, commands_, ends_, stop_),
      object_messages_(shared, client_, objects_, batches_, memory_, ends_, parts_),
      arg_messages_(shared, client_, objects_, memory_),
      program_messages_(shared, client_, objects_, batches_),
      transfer_messages_(cl_, client_, objects_, memory_, commands_, parts_),
      command_messages_(shared, client_, objects_, batches_, memory_, commands_, ends_, parts_, stop_) {
  auto device = std::make_shared<Device>(cl_);
  device->native = shared.device.device;
  device->in_host_memory = shared.device.in_host_memory && !shared.copies && client_.arrivals == nullptr;
  objects_.Place(1, device);
  wire::PlatformFacts facts = FactsOfPlatform(shared.device);
  facts.devices.push_back(FactsOfDevice(cl_, device->native, 1, device->in_host_memory, shared.quota->limits().each));
  client_.replies->AnswerWith(0, CL_SUCCESS, facts);
}

// The arena stays until the driver's threads have finished with it. Commands that wait for a user event are ended with
// an error, because the client can no longer set it.
void Session::End() {
  batches_.admission().Abandon();
  objects_.ForEach<Event>([this](Event& event) {
    if (event.user && event.native != nullptr) ends_.EndUserEvent(event, CL_DEVICE_NOT_AVAILABLE);
  });
  batches_.Close();
  objects_.ForEach<Queue>([this](Queue& queue) {
    if (queue.native != nullptr) cl_.clFinish(queue.native);
  });
  batches_.admission().Drain();  // a released queue may still be busy
  batches_.Forget();
  client_.replies->Close();
  if (client_.arrivals != nullptr) client_.arrivals->Forget();
  objects_.Clear();
}

Status Session::Run() {
  Status status = Serve();
  End();
  return status;
}

Status Session::Serve() {
  while (!stop_.load(std::memory_order_relaxed)) {
    WEIR_TRY(const wire::ByteView message, in_.Next(scratch_));
    if (!message.empty()) {
      if (!Handle(message)) return Fail(Errc::kProtocol, client_.program + " sent a malformed message");
      continue;
    }
    batches_.Close();
    const bool kept = client_.replies->Flush();
    if (in_.Wait(kept ? kLookSoon : kLook)) continue;
    if (client_.replies->broken()) return Fail(Errc::kProtocol, client_.program + " does not read its answers");
    if (!StillConnected(socket_.get())) break;
  }
  return Ok();
}

void Session::Stop() {
  stop_.store(true, std::memory_order_relaxed);
  batches_.admission().Abandon();
  in_.Interrupt();
  if (shared_.store != nullptr) shared_.store->Wake();
}

std::int64_t Session::BusySinceNs() const { return batches_.admission().BusySinceNs(); }
std::int64_t Session::OldestSinceNs() const { return batches_.admission().OldestSinceNs(); }

void Session::ChargeInFlight(std::int64_t now_ns) { batches_.admission().ChargeInFlight(now_ns); }

bool Session::Handle(wire::ByteView message) {
  return wire::DecodeFromClient(message, [this](const auto& m) {
    Dispatch(m, object_messages_, arg_messages_, program_messages_, transfer_messages_, command_messages_);
  });
}

}  // namespace weir::opencl
