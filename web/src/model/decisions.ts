// SPDX-License-Identifier: Apache-2.0
// The daemon's decisions that the page has heard of, newest last, without repetitions.
import type { Decision } from "./types";

const KEEP = 5000;

export class Decisions {
  private list: Decision[] = [];
  private known = new Set<string>();

  /** Returns those that are new. A daemon that was started again counts from 1, so the time is part of the key. */
  add(events: readonly Decision[]): Decision[] {
    const fresh = events.filter((event) => {
      const key = keyOf(event);
      if (this.known.has(key)) return false;
      this.known.add(key);
      return true;
    });
    if (fresh.length === 0) return fresh;
    const last = this.list.at(-1);
    this.list.push(...fresh);
    if (last && fresh[0]!.time_ms < last.time_ms)
      this.list.sort((a, b) => a.time_ms - b.time_ms || a.number - b.number);
    for (const old of this.list.splice(0, Math.max(0, this.list.length - KEEP))) this.known.delete(keyOf(old));
    return fresh;
  }

  all(): readonly Decision[] {
    return this.list;
  }

  /** Newest first. */
  matching(filter: DecisionFilter): Decision[] {
    return this.list.filter((event) => fits(event, filter)).reverse();
  }
}

export interface DecisionFilter {
  device?: string;
  vgpu?: string;
  kind?: string;
  text?: string;
}

export function fits(event: Decision, filter: DecisionFilter): boolean {
  if (filter.device && event.device !== filter.device) return false;
  if (filter.vgpu && event.vgpu !== filter.vgpu) return false;
  if (filter.kind && event.kind !== filter.kind) return false;
  if (!filter.text) return true;
  const text = `${event.kind} ${event.device} ${event.vgpu} ${event.text}`.toLowerCase();
  return filter.text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

function keyOf(event: Decision): string {
  return `${event.number}/${event.time_ms}`;
}
