// SPDX-License-Identifier: Apache-2.0
// Sessions: the main loop and the dispatch of messages.
#include "opencl/executor/session.h"

#include <algorithm>

#include "platform/clock.h"
#include "proto/opencl_message_list.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

constexpr Duration kLook = milliseconds(50);     // interval of checks of the socket while no message comes
constexpr Duration kLookSoon = milliseconds(1);  // the same while replies wait for room

}  // namespace

Session::Session(Shared& shared, Accepted accepted)
    : shared_(shared),
      cl_(*shared.device.cl),
      socket_(std::move(accepted.socket)),
      program_(std::move(accepted.program)),
      arena_(std::move(accepted.arena)),
      buffers_(std::move(accepted.buffers)),
      control_(std::move(accepted.channel.control)),
      in_(std::move(accepted.channel.in)),
      host_budget_(std::make_shared<HostBudget>(HostBudget::kSessionBytesMax, shared.host_budget)),
      replies_(std::make_shared<Replies>(std::move(accepted.channel.out), host_budget_)),
      arrivals_(accepted.remote ? std::make_shared<Arrivals>(cl_, replies_) : nullptr),
      admission_(std::make_shared<Admission>(Tenancy{shared.agent, shared.meter, shared.work_items})),
      scratch_(wire::kMessageBytesMax),
      from_elsewhere_(program_.starts_with(kPartsProgram)),
      peers_(from_elsewhere_ ? PeerSources() : shared.peers, stop_) {
  auto device = std::make_shared<Device>(cl_);
  device->native = shared.device.device;
  device->in_host_memory = shared.device.in_host_memory && !shared.copies && arrivals_ == nullptr;
  objects_.Put(1, device);
  wire::PlatformFacts facts = FactsOfPlatform(shared.device);
  facts.devices.push_back(FactsOfDevice(cl_, device->native, 1, device->in_host_memory, shared.quota->limits().each));
  replies_->AnswerWith(0, CL_SUCCESS, facts);
}

// The arena stays until the driver's threads have finished with it. Commands that wait for a user event are ended with
// an error, because the client can no longer set it.
void Session::End() {
  admission_->Abandon();
  objects_.ForEach<Event>([this](Event& event) {
    if (event.user && event.native != nullptr) EndUserEvent(event, CL_DEVICE_NOT_AVAILABLE);
  });
  CloseBatch();
  objects_.ForEach<Queue>([this](Queue& queue) {
    if (queue.native != nullptr) cl_.clFinish(queue.native);
  });
  admission_->Drain();  // a released queue may still be busy
  open_queue_.reset();
  replies_->Close();
  if (arrivals_ != nullptr) arrivals_->Forget();
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
      if (!Handle(message)) return Fail(Errc::kProtocol, program_ + " sent a malformed message");
      continue;
    }
    CloseBatch();
    const bool kept = replies_->Flush();
    if (in_.Wait(kept ? kLookSoon : kLook)) continue;
    if (replies_->broken()) return Fail(Errc::kProtocol, program_ + " does not read its answers");
    if (!StillConnected(socket_.get())) break;
  }
  return Ok();
}

void Session::Stop() {
  stop_.store(true, std::memory_order_relaxed);
  admission_->Abandon();
  in_.Interrupt();
  if (shared_.store != nullptr) shared_.store->Wake();
}

std::int64_t Session::BusySinceNs() const { return admission_->BusySinceNs(); }

void Session::ChargeInFlight(std::int64_t now_ns) { admission_->ChargeInFlight(now_ns); }

bool Session::Handle(wire::ByteView message) {
  return wire::DecodeFromClient(message, [this](const auto& m) { Do(m); });
}

cl_int Session::Charge(Object& object, std::uint64_t more) const {
  return object.host.Take(host_budget_, HostBytesOf(object.kind) + more) ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
}

void Session::Keep(std::uint32_t id, std::shared_ptr<Object> object, cl_int error, const char* attempted) {
  object->error = error;
  if (error != CL_SUCCESS) Complain(error, attempted);
  // Without room for the object, the error is not stored either: the id names nothing.
  if (object->host.empty() && Charge(*object) != CL_SUCCESS) object = nullptr;
  if (!Place(id, std::move(object))) Complain(CL_INVALID_VALUE, "an id above the largest that a client may use");
}

void Session::Complain(cl_int error, const char* attempted) {
  replies_->Send(wire::Notice{.context = 0, .status = error, .text = attempted});
}

bool Session::InArena(std::uint64_t offset, std::uint64_t size) const {
  return offset <= arena_.bytes() && size <= arena_.bytes() - offset;
}

cl_int Session::View(const wire::Blob& blob, wire::ByteView& bytes) const {
  if (blob.kind == wire::Blob::kInline) {
    bytes = blob.bytes;
    return CL_SUCCESS;
  }
  if (!InArena(blob.offset, blob.size)) return CL_INVALID_VALUE;
  bytes = {arena_.As<std::byte>() + blob.offset, blob.size};
  return CL_SUCCESS;
}

}  // namespace weir::opencl
