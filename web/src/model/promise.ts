// SPDX-License-Identifier: Apache-2.0
// Whether a promise is kept, by the same rule as `weir top`.

export type Keeping = "none" | "kept" | "broken" | "asks-less" | "silent";

/** What an average over one second wavers by. */
const WAVER = 0.97;
/** Of the time: from here on a program is slow because it waits for others. */
const WAITS = 0.1;

export function keepingOf(got: number, promised: number, waitShare: number): Keeping {
  if (promised <= 0) return "none";
  if (got <= 0) return "silent";
  if (got >= WAVER * promised) return "kept";
  return waitShare >= WAITS ? "broken" : "asks-less";
}

export function keepingText(keeping: Keeping): string {
  switch (keeping) {
    case "none":
      return "no promise";
    case "kept":
      return "kept";
    case "broken":
      return "not kept";
    case "asks-less":
      return "asks for less";
    case "silent":
      return "shows nothing";
  }
}

export function latencyKept(p99Ms: number, promisedMs: number): Keeping {
  if (promisedMs <= 0) return "none";
  if (p99Ms <= 0) return "silent";
  return p99Ms <= promisedMs ? "kept" : "broken";
}
