// SPDX-License-Identifier: Apache-2.0
// Functions of the API: modules and kernels. An image is a shared object. A kernel NAME of it is an exported function
// Kernel::Entry, which computes a block; `const size_t NAME_parameters[]` has the sizes of its parameters and ends in
// 0.
#include <cstring>

#include "emulator/cuda/driver.h"

using namespace weir::emulator::cuda;  // NOLINT(google-build-using-namespace): for the functions below alone

namespace {

constexpr std::size_t kParametersMost = 256, kParameterBytesMost = 4096;
constexpr unsigned kThreadsOfBlockMost = 1024;

/// A grid of blocks, and a block of threads.
struct Sizes {
  unsigned grid_block[6];
  [[nodiscard]] bool Valid() const {
    for (const unsigned size : grid_block)
      if (size == 0) return false;
    const auto threads = std::uint64_t{grid_block[3]} * grid_block[4];
    return grid_block[0] <= 0x7fffffffu && grid_block[1] <= 0xffffu && grid_block[2] <= 0xffffu &&
           threads <= kThreadsOfBlockMost && threads * grid_block[5] <= kThreadsOfBlockMost;
  }
  [[nodiscard]] std::uint64_t items() const {
    double product = 1;
    for (const unsigned size : grid_block) product *= size;
    return product < 1e18 ? static_cast<std::uint64_t>(product) : std::uint64_t{1'000'000'000'000'000'000};
  }
};

/// The parameters of a launch, copied.
struct Parameters {
  std::vector<std::byte> bytes;
  std::vector<std::size_t> offsets;
};

void Compute(const Kernel& kernel, const Sizes& sizes, Parameters parameters) {
  std::vector<void*> pointers;
  pointers.reserve(parameters.offsets.size());
  for (const std::size_t offset : parameters.offsets) pointers.push_back(parameters.bytes.data() + offset);
  unsigned index[3];
  for (index[2] = 0; index[2] < sizes.grid_block[2]; ++index[2])
    for (index[1] = 0; index[1] < sizes.grid_block[1]; ++index[1])
      for (index[0] = 0; index[0] < sizes.grid_block[0]; ++index[0])
        kernel.entry(sizes.grid_block, index, pointers.data());
}

Result Launch(Handle handle, const Sizes& sizes, Where where, void** given, void** extra) {
  return CallInStream(where, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    std::shared_ptr<const Kernel> kernel;
    {
      const auto lock = driver.Lock();
      kernel = driver.kernels.Find(handle);
    }
    if (kernel == nullptr || OwnerOf(stream->context) != kernel->module->context) return kInvalidHandle;
    if (!sizes.Valid()) return kInvalidValue;
    if (extra != nullptr) return kNotSupported;
    Parameters parameters;
    for (std::size_t i = 0; i < kernel->sizes.size(); ++i) {
      if (given == nullptr || given[i] == nullptr) return kInvalidValue;
      constexpr std::size_t kAlignment = 16;
      const std::size_t offset = (parameters.bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
      parameters.bytes.resize(offset + kernel->sizes[i]);
      std::memcpy(parameters.bytes.data() + offset, given[i], kernel->sizes[i]);
      parameters.offsets.push_back(offset);
    }
    const weir::emulator::cl::KernelWork cost = driver.CostOf(kernel->name, sizes.items());
    Operation operation{.work = cost.work};
    if (cost.computed)
      operation.compute = [kernel, sizes, parameters = std::move(parameters)] { Compute(*kernel, sizes, parameters); };
    return driver.Do(stream, operation);
  });
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's
WEIR_EXPORT Result cuModuleLoad(Handle* handle, const char* path) {
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (handle == nullptr || path == nullptr) return kInvalidValue;
    void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return kFileNotFound;
    auto module = std::make_shared<Module>(OwnerOf(context), library);
    const auto lock = driver.Lock();
    *handle = driver.modules.Add(std::move(module));
    return *handle == nullptr ? kOutOfMemory : kSuccess;
  });
}

WEIR_EXPORT Result cuModuleUnload(Handle handle) {
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>&) {
    std::shared_ptr<Module> module;  // ends without the lock
    const auto lock = driver.Lock();
    module = driver.modules.Remove(handle);
    if (module == nullptr) return kInvalidHandle;
    driver.kernels.RemoveIf([&](const Kernel& one) { return one.module == module; });
    return kSuccess;
  });
}

WEIR_EXPORT Result cuModuleGetFunction(Handle* handle, Handle from, const char* name) {
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>&) {
    if (handle == nullptr || name == nullptr) return kInvalidValue;
    const auto lock = driver.Lock();
    const std::shared_ptr<Module> module = driver.modules.Find(from);
    if (module == nullptr) return kInvalidHandle;
    auto kernel = std::make_shared<Kernel>();
    kernel->module = module;
    kernel->name = name;
    kernel->entry = reinterpret_cast<Kernel::Entry>(module->Symbol(name));
    const auto* sizes = static_cast<const std::size_t*>(module->Symbol(kernel->name + "_parameters"));
    if (kernel->entry == nullptr || sizes == nullptr) return kNotFound;
    for (; *sizes != 0; ++sizes) {
      if (kernel->sizes.size() == kParametersMost || *sizes > kParameterBytesMost) return kInvalidImage;
      kernel->sizes.push_back(*sizes);
    }
    *handle = driver.kernels.Add(std::move(kernel));
    return *handle == nullptr ? kOutOfMemory : kSuccess;
  });
}

WEIR_EXPORT Result cuLaunchKernel(Handle kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                  unsigned block_y, unsigned block_z, unsigned /*shared_bytes*/, Handle stream,
                                  void** parameters, void** extra) {
  return Launch(kernel, {{grid_x, grid_y, grid_z, block_x, block_y, block_z}}, {stream, false}, parameters, extra);
}

WEIR_EXPORT Result cuLaunchKernel_ptsz(Handle kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned /*shared_bytes*/,
                                       Handle stream, void** parameters, void** extra) {
  return Launch(kernel, {{grid_x, grid_y, grid_z, block_x, block_y, block_z}}, {stream, true}, parameters, extra);
}
// NOLINTEND(readability-identifier-naming)
