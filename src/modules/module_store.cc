// SPDX-License-Identifier: Apache-2.0
#include "modules/module_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "modules/sha256.h"
#include "platform/file_calls.h"
#include "platform/files.h"

namespace weir::modules {
namespace {

Status CheckBlobName(std::string_view blob) {
  if (IsSha256(blob)) return Ok();
  return Fail(Errc::kInvalidArgument, "a blob is named by the 64 hexadecimal digits of its SHA-256, not '" +
                                          std::string(blob.substr(0, 80)) + "'");
}

Error NotInStore(std::string_view blob, const std::string& folder) {
  return Fail(Errc::kNotFound, "blob " + std::string(blob) + " is not in the store " + folder);
}

}  // namespace

Result<ModuleStore> ModuleStore::Open(const std::string& folder) {
  WEIR_TRY_STATUS(platform::MakeFolder(folder, 0750));
  return ModuleStore(folder);
}

Result<ModuleStore::Stored> ModuleStore::Put(std::string_view bytes) const {
  if (bytes.size() > kBlobBytesMax)
    return Fail(Errc::kResourceExhausted, "a blob of " + std::to_string(bytes.size()) +
                                              " bytes is too large: the maximum is " + std::to_string(kBlobBytesMax) +
                                              " bytes");
  Stored stored{.blob = Sha256Of(bytes), .added = false};
  // A damaged file is written again; checking an intact one costs a read.
  if (Get(stored.blob)) return Touch(stored.blob), stored;
  WEIR_TRY_STATUS(platform::WriteFileAtomically(PathOf(stored.blob), bytes));
  stored.added = true;
  return stored;
}

Result<ModuleStore::Stored> ModuleStore::PutAs(std::string_view blob, std::string_view bytes) const {
  WEIR_TRY_STATUS(CheckBlobName(blob));
  if (bytes.size() <= kBlobBytesMax) {
    const std::string is = Sha256Of(bytes);
    if (is != blob)
      return Fail(Errc::kInvalidArgument,
                  "the bytes are not those of blob " + std::string(blob) + ": their SHA-256 is " + is);
  }
  return Put(bytes);
}

Result<std::string> ModuleStore::Get(std::string_view blob) const {
  WEIR_TRY_STATUS(CheckBlobName(blob));
  const std::string path = PathOf(blob);
  auto bytes = platform::ReadFile(path, kBlobBytesMax);
  if (!bytes && bytes.error().code == Errc::kNotFound) return NotInStore(blob, folder_);
  if (!bytes) return bytes;
  if (Sha256Of(*bytes) == blob) return bytes;
  ::rename(path.c_str(), (path + ".torn").c_str());
  return Fail(Errc::kIo, "blob " + std::string(blob) + " in " + folder_ +
                             " does not match its digest, and was renamed with the suffix '.torn': put it again");
}

Result<platform::Fd> ModuleStore::File(std::string_view blob) const {
  WEIR_TRY_STATUS(CheckBlobName(blob));
  platform::Fd file(::open(PathOf(blob).c_str(), O_RDONLY | O_CLOEXEC));
  if (file) return file;
  if (errno == ENOENT) return NotInStore(blob, folder_);
  return platform::ErrnoError("opening blob " + std::string(blob), errno);
}

void ModuleStore::Touch(std::string_view blob) const {
  if (IsSha256(blob)) ::utimensat(AT_FDCWD, PathOf(blob).c_str(), nullptr, 0);
}

Result<std::size_t> ModuleStore::Sweep(Duration grace) const {
  std::error_code error;
  // The file system's clock may differ from this machine's, so that a new file's time serves as the present.
  const std::string clock = PathOf(".now." + std::to_string(::getpid()));
  WEIR_TRY_STATUS(platform::ReplaceFile(clock, ""));
  const auto now = std::filesystem::last_write_time(clock, error);
  ::unlink(clock.c_str());
  if (error) return Fail(Errc::kIo, "asking for the time of " + clock + ": " + error.message());
  std::size_t removed = 0;
  for (auto at = std::filesystem::directory_iterator(folder_, error); !error && at != decltype(at)();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!IsSha256(std::string_view(name).substr(0, 64)) || (name.size() != 64 && name.substr(64) != ".torn")) continue;
    std::error_code gone;
    const auto touched = at->last_write_time(gone);
    if (gone || now - touched <= grace) continue;
    removed += ::unlink(at->path().c_str()) == 0 ? 1 : 0;
  }
  if (error) return Fail(Errc::kIo, "listing " + folder_ + ": " + error.message());
  return removed;
}

bool ModuleStore::Has(std::string_view blob) const {
  struct stat found {};
  return IsSha256(blob) && ::stat(PathOf(blob).c_str(), &found) == 0 && S_ISREG(found.st_mode);
}

Result<std::string> ReadBlob(const platform::Fd& file, std::string_view blob) {
  WEIR_TRY(std::string bytes, platform::ReadAll(platform::FileCalls::System(), file.get(), ModuleStore::kBlobBytesMax,
                                                "blob " + std::string(blob)));
  if (Sha256Of(bytes) == blob) return bytes;
  return Fail(Errc::kIo, "blob " + std::string(blob) + " does not match its digest: put it again");
}

}  // namespace weir::modules
