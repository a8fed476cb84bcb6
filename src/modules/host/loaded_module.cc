// SPDX-License-Identifier: Apache-2.0
#include "modules/host/loaded_module.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "platform/fd.h"

namespace weir::modules {
namespace {

/// A copy of the image in memory, so that the file that is opened is the one that was checked, even if the store's file
/// changes. /proc/PID/maps shows its name.
Result<platform::Fd> InMemory(const std::string& name, std::string_view image) {
  platform::Fd fd(::memfd_create(("weir-module-" + name).substr(0, 200).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return platform::ErrnoError("making a file in memory for module " + name, errno);
  for (std::string_view left = image; !left.empty();) {
    const ssize_t wrote = ::write(fd.get(), left.data(), left.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return platform::ErrnoError("copying module " + name, errno);
    left.remove_prefix(static_cast<std::size_t>(wrote));
  }
  ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
  return fd;
}

std::string Bounded(const char* text, std::size_t max) {
  return text == nullptr ? std::string{} : std::string(text, ::strnlen(text, max));
}

Error BadTable(const std::string& why) { return Fail(Errc::kInvalidArgument, "this is not a module: " + why); }

}  // namespace

const weir_kernel* LoadedModule::KernelAt(std::size_t index) const {
  // The step is the table's own size of a kernel: later versions have larger entries.
  return reinterpret_cast<const weir_kernel*>(reinterpret_cast<const char*>(table_->kernels) +
                                              index * table_->kernel_size);
}

Status LoadedModule::ReadTable() {
  if (table_->abi != WEIR_MODULE_ABI)
    return Fail(Errc::kVersionMismatch, "the module is of version " + std::to_string(table_->abi) +
                                            " of the ABI, and this Weir runs version 1 (weir/module.h)");
  if (table_->api != WEIR_API_OPENCL)
    return Fail(Errc::kVersionMismatch,
                "the module requires " +
                    (table_->api == WEIR_API_CUDA ? std::string("CUDA") : "API " + std::to_string(table_->api)) +
                    ", and this node serves OpenCL only");
  if (table_->size < sizeof(weir_module) || table_->kernel_size < sizeof(weir_kernel) || table_->kernel_size > 4096)
    return BadTable("the sizes in its table are not those of weir/module.h");
  if (table_->kernel_count == 0 || table_->kernel_count > kKernelsMax || table_->kernels == nullptr)
    return BadTable("it has " + std::to_string(table_->kernel_count) + " kernels, and 1 to " +
                    std::to_string(kKernelsMax) + " are allowed");
  for (std::size_t i = 0; i < table_->kernel_count; ++i) {
    const weir_kernel& kernel = *KernelAt(i);
    KernelLine line{.name = Bounded(kernel.name, kKernelNameMax + 1), .summary = Bounded(kernel.summary, kSummaryMax)};
    if (!IsPlainName(line.name))
      return BadTable("the name of kernel " + std::to_string(i) + " is not 1 to 64 of A-Z a-z 0-9 . _ -");
    if (std::ranges::any_of(lines_.kernels, [&](const KernelLine& other) { return other.name == line.name; }))
      return BadTable("two kernels are called '" + line.name + "'");
    if (kernel.execute == nullptr) return BadTable("kernel '" + line.name + "' has no execute");
    const weir_need& need = kernel.need;
    line.need.memory.count = need.memory_bytes;
    line.need.loads = {need.local_memory, need.traffic, need.threads, need.blocks};
    if (!(need.alone_s >= 0) || need.alone_s > static_cast<double>(core::kAloneMaxMs) / 1e3)
      return BadTable("kernel '" + line.name + "': alone_s is not between 0 and 4.6 hours");
    if (need.alone_s > 0) line.need.alone_ms = static_cast<std::uint64_t>(std::ceil(need.alone_s * 1e3));
    if (const Status status = core::CheckNeed(line.need); !status)
      return BadTable("kernel '" + line.name + "': " + status.error().message);
    lines_.kernels.push_back(std::move(line));
  }
  return Ok();
}

Result<std::unique_ptr<LoadedModule>> LoadedModule::Open(const std::string& name, std::string_view image) {
  WEIR_TRY(platform::Fd fd, InMemory(name, image));
  // The descriptor stays open. ld.so identifies libraries by path, so a reused descriptor number would name the older
  // library.
  const std::string path = "/proc/self/fd/" + std::to_string(fd.Release());
  void* opened = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) return BadTable(std::string("it can't be opened: ") + ::dlerror());
  const auto* table = static_cast<const weir_module*>(::dlsym(opened, WEIR_MODULE_SYMBOL));
  if (table == nullptr) return BadTable("it exports no " WEIR_MODULE_SYMBOL);
  // Never closed: a module may have threads and registrations in libraries that can't be detected.
  std::unique_ptr<LoadedModule> module(new LoadedModule(table));
  WEIR_TRY_STATUS(module->ReadTable());
  return module;
}

const weir_kernel* LoadedModule::Kernel(std::string_view name) const {
  for (std::size_t i = 0; i < lines_.kernels.size(); ++i)
    if (lines_.kernels[i].name == name) return KernelAt(i);
  return nullptr;
}

}  // namespace weir::modules
