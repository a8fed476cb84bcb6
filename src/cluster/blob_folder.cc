// SPDX-License-Identifier: Apache-2.0
#include "cluster/blob_folder.h"

#include <fmt/format.h>
#include <openssl/sha.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "platform/files.h"

namespace weir::cluster {

std::string BlobNameOf(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  std::string name;
  for (const unsigned char byte : digest) name += fmt::format("{:02x}", byte);
  return name;
}

bool IsBlobName(std::string_view text) {
  return text.size() == 64 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Result<BlobFolder> BlobFolder::Open(const std::string& folder) {
  WEIR_TRY_STATUS(platform::MakeFolder(folder, 0700));
  return BlobFolder(folder);
}

bool BlobFolder::Has(const std::string& blob) const { return ::access(PathOf(blob).c_str(), R_OK) == 0; }

Result<bool> BlobFolder::Put(const std::string& blob, std::string_view bytes) const {
  if (BlobNameOf(bytes) != blob)
    return Fail(Errc::kInvalidArgument, fmt::format("the {} bytes that were sent are not those of blob {}; they are "
                                                    "those of {}",
                                                    bytes.size(), blob, BlobNameOf(bytes)));
  if (Has(blob)) return false;
  WEIR_TRY_STATUS(platform::WriteFileAtomically(PathOf(blob), bytes));
  return true;
}

Result<std::string> BlobFolder::Get(const std::string& blob) const {
  auto bytes = platform::ReadFile(PathOf(blob), kBlobBytesMax);
  if (!bytes && bytes.error().code == Errc::kNotFound)
    return Fail(Errc::kNotFound, fmt::format("there is no blob {} here: PUT /v1/blobs/{} brings it", blob, blob));
  if (!bytes) return bytes;
  if (BlobNameOf(*bytes) != blob)
    return Fail(Errc::kIo,
                fmt::format("the file of blob {} is damaged: remove {} and bring it again", blob, PathOf(blob)));
  return bytes;
}

}  // namespace weir::cluster
