// SPDX-License-Identifier: Apache-2.0
// Which of the palette's colours a vGPU has: the same in every picture. The colours themselves are in app.css (--c0 …).

export const PALETTE = 12;

/** By id, so that neighbours in the list differ and a vGPU keeps its colour while it lives. */
export function colorOf(id: number): string {
  return `--c${((id % PALETTE) + PALETTE) % PALETTE}`;
}

export const OTHERS = "--c-others";
