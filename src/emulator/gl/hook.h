// SPDX-License-Identifier: Apache-2.0
// How a function of this driver replaces one of Mesa's. Each hooked name has a slot with Mesa's function.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <span>

namespace weir::emulator::gl {

template <std::size_t N>
struct Name {
  constexpr Name(const char (&text)[N]) { std::copy_n(text, N, value.begin()); }  // NOLINT: implicit on purpose
  std::array<char, N> value{};
};

template <Name N>
inline std::atomic<void*> mesa_slot{nullptr};

/// Mesa's function of this name. Resolve stored it before it returned the hook.
template <Name N, typename F>
F Mesa() {
  void* found = mesa_slot<N>.load(std::memory_order_relaxed);
  F function = nullptr;
  std::memcpy(&function, &found, sizeof function);
  return function;
}

struct Hook {
  const char* name;
  std::atomic<void*>* slot;
  void* ours;
};

template <Name N, typename F>
Hook MakeHook(F ours) {
  void* pointer = nullptr;
  std::memcpy(&pointer, &ours, sizeof pointer);
  return {N.value.data(), &mesa_slot<N>, pointer};
}

std::span<const Hook> GlHooks();
std::span<const Hook> DrawHooks();
std::span<const Hook> GlxHooks();
std::span<const Hook> EglHooks();

}  // namespace weir::emulator::gl
