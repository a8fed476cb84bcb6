// SPDX-License-Identifier: Apache-2.0
// Blobs as files named by the SHA-256 of their bytes, in a folder that managers and nodes may share.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weir::cluster {

/// In 64 hexadecimal digits, lower case.
std::string BlobNameOf(std::string_view bytes);
bool IsBlobName(std::string_view text);

class BlobFolder {
 public:
  static constexpr std::size_t kBlobBytesMax = 64U << 20;

  /// Makes the folder.
  static Result<BlobFolder> Open(const std::string& folder);
  /// True: it was added; false: it was there. kInvalidArgument: the bytes are not those of that name.
  [[nodiscard]] Result<bool> Put(const std::string& blob, std::string_view bytes) const;
  /// kNotFound; kIo: the file is not what its name says.
  [[nodiscard]] Result<std::string> Get(const std::string& blob) const;
  [[nodiscard]] bool Has(const std::string& blob) const;

 private:
  explicit BlobFolder(std::string folder) : folder_(std::move(folder)) {}
  [[nodiscard]] std::string PathOf(const std::string& blob) const { return folder_ + "/" + blob; }
  std::string folder_;
};

}  // namespace weir::cluster
