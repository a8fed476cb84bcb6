// SPDX-License-Identifier: Apache-2.0
// memcpy for what programs read and write by the hundred megabytes.
#pragma once

#include <cstddef>

namespace weir::opencl::icd {

/// As memcpy, and as fast wherever the two lie. The C library's choice for large copies takes three times as long on
/// some processors when source and destination are not aligned alike, as malloc's memory and a buffer are: 62 ms where
/// this takes 22, for 256 MiB on an EPYC.
void BulkCopy(void* to, const void* from, std::size_t bytes);
/// The same where `bytes` are a part of more than the caches hold: writes past them, however few they are.
void StreamCopy(void* to, const void* from, std::size_t bytes);

}  // namespace weir::opencl::icd
