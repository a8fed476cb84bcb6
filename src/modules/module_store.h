// SPDX-License-Identifier: Apache-2.0
// The store: a folder of blobs, each named by the SHA-256 of its bytes. Modules, inputs and outputs are blobs. Several
// nodes and managers may share the folder: a name says what is in the file, so nobody can overwrite what another put
// there with anything else, and what is torn or changed is found when it is read.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace weir::modules {

class ModuleStore {
 public:
  static constexpr std::size_t kBlobBytesMax = 64u << 20;

  /// Makes the folder.
  static Result<ModuleStore> Open(const std::string& folder);

  struct Stored {
    std::string blob;
    bool added = false;  // false: it was there
  };
  /// kResourceExhausted: too large, or the disk is full; the store is as before.
  [[nodiscard]] Result<Stored> Put(std::string_view bytes) const;
  /// The same of bytes that must be `blob`'s, else kInvalidArgument.
  [[nodiscard]] Result<Stored> PutAs(std::string_view blob, std::string_view bytes) const;
  /// kNotFound; kIo: what is there is not what its name says. Such a file is set aside, so that it can be put again.
  [[nodiscard]] Result<std::string> Get(std::string_view blob) const;
  /// There is a file of that name; its bytes are looked at by Get only.
  [[nodiscard]] bool Has(std::string_view blob) const;

  /// It is named, now: Sweep counts from here. Nothing where it is not there.
  void Touch(std::string_view blob) const;
  /// Removes blobs, and what was set aside, that were neither put nor touched for longer than `grace`. Returns how
  /// many.
  [[nodiscard]] Result<std::size_t> Sweep(Duration grace) const;

  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  explicit ModuleStore(std::string folder) : folder_(std::move(folder)) {}
  [[nodiscard]] std::string PathOf(std::string_view blob) const { return folder_ + "/" + std::string(blob); }

  std::string folder_;
};

}  // namespace weir::modules
