// SPDX-License-Identifier: Apache-2.0
// A kernel and its arguments. The arguments are kept here, so that an enqueue detects a missing one, a clone can copy
// them, and unchanged ones are not sent again.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "opencl/icd/program.h"

namespace weir::opencl::icd {

/// The kind of an argument, from the driver's facts.
struct ArgType {
  /// kNeverThere: a device queue or a pipe, which no program of this client can have.
  enum class Class : std::uint8_t { kUnknown, kBuffer, kImage, kSampler, kLocal, kData, kNeverThere };
  Class what = Class::kUnknown;
  std::size_t bytes = 0;  // of kData; 0: unknown
};
ArgType ArgTypeOf(const wire::ArgFacts& facts);

struct KernelArg {
  static constexpr std::size_t kFew = 16;
  bool set = false;
  bool sent = false;  // the executor has it
  wire::ArgKind kind = wire::ArgKind::kData;
  std::uint64_t size = 0;       // of data, of local memory, or of the pointer of a null object
  std::uint64_t serial = 0;     // of the object
  std::uint32_t object = 0;     // its id
  std::byte few[kFew];          // data of at most kFew bytes
  std::vector<std::byte> more;  // longer data
  [[nodiscard]] wire::ByteView data() const { return {size <= kFew ? few : more.data(), size}; }
};

struct Kernel : Object {
  static constexpr Kind kKind = Kind::kKernel;
  Kernel(Program& of, std::shared_ptr<const wire::KernelFacts> what);
  static void End(Kernel* kernel);
  /// The facts for this device, or with `parents_too` for its parents; null: unknown.
  [[nodiscard]] const wire::WorkGroupFacts* GroupsOn(const Device& device, bool parents_too) const;

  Ref<Program> program;
  std::shared_ptr<const wire::KernelFacts> facts;
  std::vector<ArgType> types;
  std::vector<KernelArg> args;
  std::uint32_t args_missing = 0;
  bool args_unsent = false;
};

/// Sends the arguments that the executor does not have yet.
cl_int SendArgs(Kernel& kernel);

}  // namespace weir::opencl::icd
