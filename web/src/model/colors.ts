// SPDX-License-Identifier: Apache-2.0
// Which of the palette's colours a vGPU has. The colours themselves are in style/colors.css (--c0 …).

const PALETTE = 16;
export const OTHERS = "--c-others";

/** One view's choice. Each vGPU keeps its colour, and as long as there are enough, no two have the same. */
export class Colors {
  private readonly chosen = new Map<number, number>();

  of(id: number): string {
    const kept = this.chosen.get(id);
    if (kept !== undefined) return nameOf(kept);
    const taken = new Set(this.chosen.values());
    let place = ((id % PALETTE) + PALETTE) % PALETTE;
    for (let tries = 0; tries < PALETTE && taken.has(place); ++tries) place = (place + 1) % PALETTE;
    this.chosen.set(id, place);
    return nameOf(place);
  }
}

function nameOf(place: number): string {
  return `--c${place}`;
}
