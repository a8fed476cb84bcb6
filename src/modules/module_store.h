// SPDX-License-Identifier: Apache-2.0
// The store: a folder of blobs, each named by the SHA-256 of its bytes. Modules, inputs and outputs are blobs. Several
// nodes and managers may share the folder. The name determines the content, so a blob can't be replaced by different
// bytes, and a damaged or changed file is noticed when it is read.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "platform/fd.h"

namespace weir::modules {

class ModuleStore {
 public:
  static constexpr std::size_t kBlobBytesMax = 64u << 20;

  /// Creates the folder if it does not exist.
  static Result<ModuleStore> Open(const std::string& folder);

  struct Stored {
    std::string blob;
    bool added = false;  // false: it already existed
  };
  /// kResourceExhausted: the blob is too large, or the disk is full; the store is unchanged.
  [[nodiscard]] Result<Stored> Put(std::string_view bytes) const;
  /// As Put, for bytes that must have the name `blob`. kInvalidArgument if they do not.
  [[nodiscard]] Result<Stored> PutAs(std::string_view blob, std::string_view bytes) const;
  /// kNotFound; kIo: the content does not match the name. Such a file is set aside, so that the blob can be written
  /// again.
  [[nodiscard]] Result<std::string> Get(std::string_view blob) const;
  /// The file of a blob, for a process that has no right to the folder: see ReadBlob. kNotFound.
  [[nodiscard]] Result<platform::Fd> File(std::string_view blob) const;
  /// Whether a file of that name exists; only Get checks its bytes.
  [[nodiscard]] bool Has(std::string_view blob) const;

  /// Restarts the blob's grace time. No effect if the blob does not exist.
  void Touch(std::string_view blob) const;
  /// Removes blobs and set-aside files that were neither written nor touched for longer than `grace`. Returns their
  /// number.
  [[nodiscard]] Result<std::size_t> Sweep(Duration grace) const;

  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  explicit ModuleStore(std::string folder) : folder_(std::move(folder)) {}
  [[nodiscard]] std::string PathOf(std::string_view blob) const { return folder_ + "/" + std::string(blob); }

  std::string folder_;
};

/// The bytes of a blob whose file is open. kIo: they do not match its name.
Result<std::string> ReadBlob(const platform::Fd& file, std::string_view blob);

}  // namespace weir::modules
