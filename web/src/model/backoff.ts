// SPDX-License-Identifier: Apache-2.0
// How long to wait before the next try.

const FIRST_MS = 500;
const LONGEST_MS = 8000;

/** `failures` in a row, 1 or more; `chance` in [0, 1) spreads pages that lost the same server. */
export function waitBefore(failures: number, chance: number): number {
  const full = Math.min(LONGEST_MS, FIRST_MS * 2 ** (Math.max(1, failures) - 1));
  return Math.round(full * (0.75 + chance / 2));
}
