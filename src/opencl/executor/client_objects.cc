// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/client_objects.h"

namespace weir::opencl {

void ClientObjects::Keep(std::uint32_t id, std::shared_ptr<Object> object, cl_int error, const char* attempted) {
  object->error = error;
  if (error != CL_SUCCESS) client_.Complain(error, attempted);
  // Without room for the object, the error is not stored either: the id names nothing.
  if (object->host.empty() && client_.Charge(*object) != CL_SUCCESS) object = nullptr;
  if (!Place(id, std::move(object)))
    client_.Complain(CL_INVALID_VALUE, "an id above the largest that a client may use");
}

bool ClientObjects::Place(std::uint32_t id, std::shared_ptr<Object> object) {
  if (const std::shared_ptr<Object> before = table_.Any(id)) LetGo(*before);
  return table_.Put(id, std::move(object));
}

std::shared_ptr<Object> ClientObjects::Take(std::uint32_t id) {
  std::shared_ptr<Object> object = table_.Take(id);
  if (object) LetGo(*object);
  return object;
}

/// Called when the client's id no longer names the object.
void ClientObjects::LetGo(Object& object) {
  if (object.kind == Kind::kEvent && static_cast<Event&>(object).user) {
    // The event can no longer be set, and commands would wait for it forever.
    ends_.EndUserEvent(static_cast<Event&>(object), CL_INVALID_EVENT);
  }
  if (batches_.IsOf(object)) batches_.Close();
}

}  // namespace weir::opencl
