// SPDX-License-Identifier: Apache-2.0
// The objects of a session's client, by the ids that it chose. Each is charged to the client's budget.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "opencl/executor/batches.h"
#include "opencl/executor/client.h"
#include "opencl/executor/event_ends.h"
#include "opencl/executor/objects.h"

namespace weir::opencl {

class ClientObjects {
 public:
  ClientObjects(const Client& client, EventEnds& ends, Batches& batches)
      : client_(client), ends_(ends), batches_(batches) {}
  ClientObjects(const ClientObjects&) = delete;
  ClientObjects& operator=(const ClientObjects&) = delete;

  // As in Objects.
  template <typename T>
  cl_int Find(std::uint32_t id, T*& found) const {
    return table_.Find(id, found);
  }
  template <typename T>
  cl_int Share(std::uint32_t id, std::shared_ptr<T>& found) const {
    return table_.Share(id, found);
  }
  [[nodiscard]] std::shared_ptr<Object> Any(std::uint32_t id) const { return table_.Any(id); }
  template <typename T, typename Each>
  void ForEach(Each each) const {
    table_.ForEach<T>(std::move(each));
  }
  void Clear() { table_.Clear(); }

  /// Stores an object under an id. With an error, the entry holds the reason, and the client's context is notified.
  void Keep(std::uint32_t id, std::shared_ptr<Object> object, cl_int error, const char* attempted);
  /// Stores an object in place of an earlier one with the same id. False: the id is out of range.
  bool Place(std::uint32_t id, std::shared_ptr<Object> object);
  /// Removes an object. Null: no object has this id.
  std::shared_ptr<Object> Take(std::uint32_t id);

 private:
  void LetGo(Object& object);

  const Client& client_;
  EventEnds& ends_;
  Batches& batches_;
  Objects table_;
};

}  // namespace weir::opencl
