// SPDX-License-Identifier: Apache-2.0
// Copies boxes of bytes between a program's memory, which has pitches, and tightly packed content.
#pragma once

#include <cstddef>
#include <cstring>

#include "opencl/icd/bulk_copy.h"

namespace weir::opencl::icd {

struct Pitched {
  std::byte* base = nullptr;  // the box's first byte
  std::size_t row_pitch = 0, slice_pitch = 0;
};
inline Pitched Packed(std::byte* base, const std::size_t (&box)[3]) { return {base, box[0], box[0] * box[1]}; }

/// `box`: bytes of a row, rows, slices.
inline void CopyBox(Pitched to, Pitched from, const std::size_t (&box)[3]) {
  if (box[0] == 0 || box[1] == 0 || box[2] == 0) return;
  const bool rows_touch = (to.row_pitch == box[0] && from.row_pitch == box[0]) || box[1] == 1;
  const bool slices_touch =
      rows_touch && ((to.slice_pitch == box[0] * box[1] && from.slice_pitch == box[0] * box[1]) || box[2] == 1);
  if (slices_touch) {
    BulkCopy(to.base, from.base, box[0] * box[1] * box[2]);
    return;
  }
  for (std::size_t slice = 0; slice < box[2]; ++slice) {
    std::byte* into = to.base + slice * to.slice_pitch;
    const std::byte* out_of = from.base + slice * from.slice_pitch;
    if (rows_touch) {
      std::memcpy(into, out_of, box[0] * box[1]);
      continue;
    }
    for (std::size_t row = 0; row < box[1]; ++row)
      std::memcpy(into + row * to.row_pitch, out_of + row * from.row_pitch, box[0]);
  }
}

}  // namespace weir::opencl::icd
