// SPDX-License-Identifier: Apache-2.0
#include "modules/host/host_run.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "modules/module_store.h"

namespace weir::modules {

HostRun::HostRun(const ExecuteFrame& order, ResidualData& residual) : weir_run{}, order_(order), residual_(residual) {
  allocate = Allocate;
  output = Output;
  say = Say;
  fail = FailRun;
  keep = Keep;
  find = Find;
  make_room = MakeRoom;
}

HostRun::~HostRun() {
  if (queue_of_run != nullptr) ::clReleaseCommandQueue(queue_of_run);
}

void* HostRun::Allocate(const weir_run* run, std::uint64_t bytes) {
  HostRun& self = Of(run);
  std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[bytes]);
  if (!memory) return nullptr;
  const std::scoped_lock lock(self.mutex_);
  self.memory_.push_back(std::move(memory));
  return self.memory_.back().get();
}

int HostRun::Output(const weir_run* run, const void* bytes, std::uint64_t count) {
  HostRun& self = Of(run);
  const std::scoped_lock lock(self.mutex_);
  if (count > ModuleStore::kBlobBytesMax - self.output_.size()) {
    self.words_ = "its output is larger than " + std::to_string(ModuleStore::kBlobBytesMax) + " bytes";
    return 1;
  }
  self.output_.append(static_cast<const char*>(bytes), static_cast<std::size_t>(count));
  return 0;
}

void HostRun::Say(const weir_run* run, const char* text) {
  HostRun& self = Of(run);
  const std::scoped_lock lock(self.mutex_);
  self.text_.append(text, ::strnlen(text, kTextBytesMax - self.text_.size()));
}

int HostRun::FailRun(const weir_run* run, const char* words) {
  HostRun& self = Of(run);
  const std::scoped_lock lock(self.mutex_);
  // Keeps the first reason: later ones are its consequences.
  if (self.words_.empty()) self.words_.assign(words, ::strnlen(words, kTextBytesMax));
  return 1;
}

int HostRun::Keep(const weir_run* run, const char* name, void* object, std::uint64_t bytes, void (*release)(void*)) {
  HostRun& self = Of(run);
  const ResidualData::Key key{self.order_.tenant, self.order_.blob, name};
  return self.residual_.Keep(self.order_.run, key, object, bytes, release) ? 0 : 1;
}

void* HostRun::Find(const weir_run* run, const char* name) {
  HostRun& self = Of(run);
  return self.residual_.Find(self.order_.run, {self.order_.tenant, self.order_.blob, name});
}

std::uint64_t HostRun::MakeRoom(const weir_run* run, std::uint64_t bytes) { return Of(run).residual_.MakeRoom(bytes); }

Status HostRun::Outcome(const char* what, int failed) {
  // Commands that are still in the queue may use objects that the run owns.
  const cl_int error = queue_of_run != nullptr ? ::clFinish(queue_of_run) : CL_SUCCESS;
  const std::scoped_lock lock(mutex_);
  if (!words_.empty()) return Fail(Errc::kInternal, words_);
  if (failed != 0)
    return Fail(Errc::kInternal, std::string(what) + " failed with " + std::to_string(failed) + " without a reason");
  if (error != CL_SUCCESS)
    return Fail(Errc::kInternal, std::string("OpenCL commands of the run failed with error ") + std::to_string(error));
  return Ok();
}

Result<platform::Fd> HostRun::SealedOutput() const {
  if (output_.empty()) return platform::Fd{};
  platform::Fd fd(::memfd_create("weir-module-output", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return platform::ErrnoError("making a file in memory for the output", errno);
  for (std::string_view left = output_; !left.empty();) {
    const ssize_t wrote = ::write(fd.get(), left.data(), left.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return platform::ErrnoError("copying the output", errno);
    left.remove_prefix(static_cast<std::size_t>(wrote));
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return platform::ErrnoError("sealing the output", errno);
  return fd;
}

}  // namespace weir::modules
