// SPDX-License-Identifier: Apache-2.0
// The objects of strict_opencl.h's driver, the checks of their handles, and the copies that its commands make.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "opencl/channel/cl.h"

namespace weir::testing::strict_cl {

[[noreturn]] inline void Die(const char* why) {
  std::fprintf(stderr, "strict_opencl: %s\n", why);
  std::abort();
}

struct Thing : std::enable_shared_from_this<Thing> {
  explicit Thing(char a_kind) : kind(a_kind) { ++alive; }
  virtual ~Thing() {
    kind = 0;
    --alive;
  }
  Thing(const Thing&) = delete;
  Thing& operator=(const Thing&) = delete;

  char kind;
  int refs = 1;                 // references of the caller
  std::shared_ptr<Thing> self;  // set while the caller has references
  static inline int alive = 0;
};

struct Context : Thing {
  static constexpr char kKind = 'c';
  Context() : Thing(kKind) {}
};

struct Event : Thing {
  static constexpr char kKind = 'e';
  using Callback = void(CL_CALLBACK*)(cl_event, cl_int, void*);
  Event() : Thing(kKind) {}
  [[nodiscard]] bool ended() const { return status <= CL_COMPLETE; }

  cl_int status = CL_QUEUED;
  cl_int failed = CL_SUCCESS;  // error of an event that it waited for
  bool user = false, timed = false;
  std::size_t waits = 0;
  std::vector<std::shared_ptr<Event>> next;
  std::vector<std::pair<Callback, void*>> callbacks;
  std::function<void()> run;
};

struct Queue : Thing {
  static constexpr char kKind = 'q';
  Queue() : Thing(kKind) {}
  [[nodiscard]] bool idle() const {
    return std::ranges::all_of(pending, [](const auto& event) { return event->ended(); });
  }
  std::shared_ptr<Context> context;
  bool in_order = true, timed = false;
  std::vector<std::shared_ptr<Event>> pending;
  std::shared_ptr<Event> barrier;
};

struct Memory : Thing {
  static constexpr char kKind = 'm';
  using Callback = void(CL_CALLBACK*)(cl_mem, void*);
  Memory() : Thing(kKind) {}
  ~Memory() override {
    for (const auto& [call, data] : callbacks) call(reinterpret_cast<cl_mem>(this), data);
  }
  std::shared_ptr<Context> context;
  std::shared_ptr<Memory> parent;
  std::size_t size = 0;
  std::vector<std::byte> own;
  std::byte* bytes = nullptr;
  bool image = false;
  std::size_t pixel = 0, extent[3] = {};
  std::vector<std::pair<Callback, void*>> callbacks;
};

struct Sampler : Thing {
  static constexpr char kKind = 's';
  Sampler() : Thing(kKind) {}
};

struct Program : Thing {
  static constexpr char kKind = 'p';
  Program() : Thing(kKind) {}
  std::shared_ptr<Context> context;
  bool built = false;
};

/// (global int*, int, local int*, image2d_t, sampler_t)
struct Kernel : Thing {
  static constexpr char kKind = 'k';
  static constexpr cl_uint kArgs = 5;
  Kernel() : Thing(kKind) {}
  std::shared_ptr<Program> program;
  std::array<bool, kArgs> set{};
  cl_mem buffer = nullptr, image = nullptr;
  cl_sampler sampler = nullptr;
};

struct Device : Thing {
  static constexpr char kKind = 'd';
  Device() : Thing(kKind) { --alive; }  // devices do not count as remaining objects
  ~Device() override { ++alive; }
};

template <typename T, typename Handle>
T& Of(Handle handle) {
  auto* const thing = reinterpret_cast<T*>(handle);
  if (thing == nullptr || thing->kind != T::kKind || thing->refs <= 0) Die("called with a handle that is none");
  return *thing;
}
template <typename T, typename Handle>
std::shared_ptr<T> Share(Handle handle) {
  return std::static_pointer_cast<T>(Of<T>(handle).shared_from_this());
}
template <typename Handle, typename T>
Handle Give(std::shared_ptr<T> thing) {
  T* const raw = thing.get();
  raw->self = std::move(thing);
  return reinterpret_cast<Handle>(raw);
}
template <typename T, typename Handle>
cl_int Retain(Handle handle) {
  ++Of<T>(handle).refs;
  return CL_SUCCESS;
}
template <typename T, typename Handle>
cl_int Release(Handle handle) {
  Thing& thing = Of<T>(handle);
  if (--thing.refs == 0) {
    const std::shared_ptr<Thing> last = std::move(thing.self);
  }
  return CL_SUCCESS;
}

/// A box of bytes, row by row.
struct Box {
  std::size_t origin[3], region[3], row = 0, slice = 0;
  static Box Of(const std::size_t* origin, const std::size_t* region, std::size_t row, std::size_t slice) {
    Box box{{origin[0], origin[1], origin[2]}, {region[0], region[1], region[2]}, row, slice};
    if (box.row == 0) box.row = box.region[0];
    if (box.slice == 0) box.slice = box.region[1] * box.row;
    return box;
  }
  [[nodiscard]] bool sound() const {
    using Wide = unsigned __int128;
    return region[0] > 0 && region[1] > 0 && region[2] > 0 && row >= region[0] && slice >= Wide{region[1]} * row;
  }
  [[nodiscard]] bool within(std::size_t bytes) const {
    using Wide = unsigned __int128;
    for (int i = 0; i < 3; ++i)
      if (Wide{origin[i]} + region[i] > bytes) return false;
    const Wide end =
        (Wide{origin[2]} + region[2] - 1) * slice + (Wide{origin[1]} + region[1] - 1) * row + origin[0] + region[0];
    return end <= bytes;
  }
  [[nodiscard]] std::size_t At(std::size_t y, std::size_t z) const {
    return (origin[2] + z) * slice + (origin[1] + y) * row + origin[0];
  }
};

inline void CopyBox(std::byte* to, const Box& there, const std::byte* from, const Box& here) {
  for (std::size_t z = 0; z < here.region[2]; ++z)
    for (std::size_t y = 0; y < here.region[1]; ++y)
      std::memmove(to + there.At(y, z), from + here.At(y, z), here.region[0]);
}

/// A part of an image, in bytes.
inline bool PartOf(const Memory& image, const std::size_t* origin, const std::size_t* region, Box& box) {
  for (int i = 0; i < 3; ++i)
    if (region[i] == 0 || origin[i] > image.extent[i] || region[i] > image.extent[i] - origin[i]) return false;
  const std::size_t row = image.extent[0] * image.pixel;
  box = {{origin[0] * image.pixel, origin[1], origin[2]},
         {region[0] * image.pixel, region[1], region[2]},
         row,
         row * image.extent[1]};
  return true;
}
/// The same box stored densely.
inline Box Packed(const Box& part) {
  return {{}, {part.region[0], part.region[1], part.region[2]}, part.region[0], part.region[0] * part.region[1]};
}

inline cl_int Tell(const void* from, std::size_t bytes, std::size_t room, void* value, std::size_t* size) {
  if (size != nullptr) *size = bytes;
  if (value == nullptr) return CL_SUCCESS;
  if (room < bytes) return CL_INVALID_VALUE;
  if (bytes > 0) std::memcpy(value, from, bytes);
  return CL_SUCCESS;
}
template <typename T>
cl_int Tell(const T& number, std::size_t room, void* value, std::size_t* size) {
  return Tell(&number, sizeof number, room, value, size);
}
inline cl_int Tell(const char* text, std::size_t room, void* value, std::size_t* size) {
  return Tell(text, std::strlen(text) + 1, room, value, size);
}

/// Reads every byte.
inline void Touch(const void* from, std::size_t bytes) {
  unsigned sum = 0;
  for (std::size_t i = 0; i < bytes; ++i) sum += static_cast<const unsigned char*>(from)[i];
  volatile unsigned seen = sum;
  static_cast<void>(seen);
}

}  // namespace weir::testing::strict_cl
