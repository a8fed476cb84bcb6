// SPDX-License-Identifier: Apache-2.0
// The dispatch table, and how loaders get it. Every slot has a function: those of unsupported features fail as OpenCL
// 3.0 specifies. No exception leaves the library.
#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <tuple>

#include "opencl/icd/link.h"

namespace weir::opencl::icd {
namespace {

/// The result of a function that fails. A function that creates an object reports the error through its last argument.
template <typename R, typename... A>
R Failure(cl_int code, A... arguments) {
  if constexpr (std::is_same_v<R, cl_int>) {
    return code;
  } else {
    if constexpr (sizeof...(A) > 0) {
      auto last = std::get<sizeof...(A) - 1>(std::tuple<A...>(arguments...));
      if constexpr (std::is_same_v<decltype(last), cl_int*>)
        if (last != nullptr) *last = code;
    }
    return R();
  }
}

template <auto kFunction>
struct Guarded;
template <typename R, typename... A, R (*kFunction)(A...)>
struct Guarded<kFunction> {
  static R Call(A... arguments) noexcept {
    try {
      return kFunction(arguments...);
    } catch (...) {
      return Failure<R>(CL_OUT_OF_HOST_MEMORY, arguments...);
    }
  }
};

template <typename F, cl_int kCode>
struct Absent;
template <typename R, typename... A, cl_int kCode>
struct Absent<R (*)(A...), kCode> {
  static R Call(A... arguments) noexcept { return Failure<R>(kCode, arguments...); }
};

/// Slots of other systems' graphics, whose types are unknown here. Those that return an object return null.
cl_int AbsentCommand() { return CL_INVALID_OPERATION; }
void* AbsentObject() { return nullptr; }

cl_icd_dispatch MakeDispatch() {
  cl_icd_dispatch table{};
#define WEIR_SLOT(name) table.cl##name = &Guarded<&api::name>::Call;
  WEIR_ENTRY_POINTS(WEIR_SLOT)
#undef WEIR_SLOT
#define WEIR_ABSENT(name, code) table.cl##name = &Absent<cl_api_cl##name, code>::Call;
  WEIR_ABSENT_ENTRY_POINTS(WEIR_ABSENT)
#undef WEIR_ABSENT
  table.clSVMFree = [](cl_context, void*) {};
#define WEIR_FOREIGN(name, function) \
  table.cl##name = reinterpret_cast<decltype(table.cl##name)>(reinterpret_cast<void*>(&function));
  WEIR_FOREIGN(GetDeviceIDsFromD3D10KHR, AbsentCommand)
  WEIR_FOREIGN(CreateFromD3D10BufferKHR, AbsentObject)
  WEIR_FOREIGN(CreateFromD3D10Texture2DKHR, AbsentObject)
  WEIR_FOREIGN(CreateFromD3D10Texture3DKHR, AbsentObject)
  WEIR_FOREIGN(EnqueueAcquireD3D10ObjectsKHR, AbsentCommand)
  WEIR_FOREIGN(EnqueueReleaseD3D10ObjectsKHR, AbsentCommand)
  WEIR_FOREIGN(GetDeviceIDsFromD3D11KHR, AbsentCommand)
  WEIR_FOREIGN(CreateFromD3D11BufferKHR, AbsentObject)
  WEIR_FOREIGN(CreateFromD3D11Texture2DKHR, AbsentObject)
  WEIR_FOREIGN(CreateFromD3D11Texture3DKHR, AbsentObject)
  WEIR_FOREIGN(CreateFromDX9MediaSurfaceKHR, AbsentObject)
  WEIR_FOREIGN(EnqueueAcquireD3D11ObjectsKHR, AbsentCommand)
  WEIR_FOREIGN(EnqueueReleaseD3D11ObjectsKHR, AbsentCommand)
  WEIR_FOREIGN(GetDeviceIDsFromDX9MediaAdapterKHR, AbsentCommand)
  WEIR_FOREIGN(EnqueueAcquireDX9MediaSurfacesKHR, AbsentCommand)
  WEIR_FOREIGN(EnqueueReleaseDX9MediaSurfacesKHR, AbsentCommand)
#undef WEIR_FOREIGN
  return table;
}

/// For tests: messages and round trips of this process's connection so far.
void ReadStats(cl_ulong* messages, cl_ulong* round_trips) {
  Link* link = Link::Existing();
  *messages = link == nullptr ? 0 : link->stats().messages.load();
  *round_trips = link == nullptr ? 0 : link->stats().round_trips.load();
}

struct NamedFunction {
  std::string_view name;
  void* function;
};

}  // namespace

const cl_icd_dispatch kDispatch = MakeDispatch();

// front.S finds the functions by the order of this list.
namespace order {
#define WEIR_CL_SLOT(name) k##name,
#define WEIR_CL_HIDDEN(name) WEIR_CL_SLOT(name)
enum {
#include "opencl/icd/front_slots.inc"
  kEnd
};
#undef WEIR_CL_SLOT
#define WEIR_CL_SLOT(name) static_assert(offsetof(cl_icd_dispatch, name) == k##name * sizeof(void*));
#include "opencl/icd/front_slots.inc"
#undef WEIR_CL_SLOT
#undef WEIR_CL_HIDDEN
static_assert(sizeof(cl_icd_dispatch) == kEnd * sizeof(void*));

// clSVMFree, and the functions of other systems' graphics.
constexpr int kOtherSlots = 1 + 16;
#define WEIR_ONE(...) +1
constexpr int kListedSlots = WEIR_ENTRY_POINTS(WEIR_ONE) WEIR_ABSENT_ENTRY_POINTS(WEIR_ONE);
#undef WEIR_ONE
static_assert(kListedSlots + kOtherSlots == static_cast<int>(kEnd),
              "a function is in none of the lists of entry_points.h, or in two");
}  // namespace order

namespace api {

void* GetExtensionFunctionAddress(const char* name) {
  if (name == nullptr) return nullptr;
  // Functions that a loader needs before it has a table, and functions that are not in it.
  static const std::array<NamedFunction, 3> kFunctions{{
      {"clIcdGetPlatformIDsKHR", reinterpret_cast<void*>(&Guarded<&GetPlatformIDs>::Call)},
      {"clGetPlatformInfo", reinterpret_cast<void*>(&Guarded<&GetPlatformInfo>::Call)},
      {"weirGetOpenClStats", reinterpret_cast<void*>(&ReadStats)},
  }};
  for (const NamedFunction& entry : kFunctions)
    if (entry.name == name) return entry.function;
  return nullptr;
}

void* GetExtensionFunctionAddressForPlatform(cl_platform_id /*platform*/, const char* name) {
  return GetExtensionFunctionAddress(name);
}

}  // namespace api
}  // namespace weir::opencl::icd
