// SPDX-License-Identifier: Apache-2.0
// The map of a device's memory slots.
import type { MemoryMap, Vgpu } from "./types";

export interface Slot {
  owner: number; // id of the vGPU whose it is now; 0: nobody's
  holders: number[]; // ids
  leaving: boolean;
}

export function slotsOf(map: MemoryMap): Slot[] {
  const slots: Slot[] = map.owners.map((owner, i) => ({ owner, holders: [], leaving: map.leaving[i] === true }));
  for (const holder of map.holders)
    for (const [first, count] of holder.ranges)
      for (let i = first; i < first + count && i < slots.length; ++i) slots[i]!.holders.push(holder.id);
  return slots;
}

export interface HolderRow {
  id: number;
  name: string;
  holds: number;
  here: number; // slots that are its own now
  shared: number; // slots that others hold, too
  resident: number | null; // slots with contents on the device
  ranges: string;
}

export function holdersOf(map: MemoryMap, vgpus: ReadonlyMap<number, Vgpu>): HolderRow[] {
  const slots = slotsOf(map);
  return map.holders.map((holder) => {
    const own = slots.filter((slot) => slot.holders.includes(holder.id));
    return {
      id: holder.id,
      name: holder.name,
      holds: own.length,
      here: own.filter((slot) => slot.owner === holder.id).length,
      shared: own.filter((slot) => slot.holders.length > 1).length,
      resident: vgpus.get(holder.id)?.memory.resident_slots ?? null,
      ranges: holder.ranges
        .map(([first, count]) => (count > 1 ? `${first}–${first + count - 1}` : `${first}`))
        .join(", "),
    };
  });
}

export function slotText(index: number, slot: Slot, nameOf: (id: number) => string): string {
  const holders = slot.holders.map(nameOf);
  if (holders.length === 0) return `Slot ${index}: free`;
  const held = `Slot ${index}: held by ${holders.join(", ")}`;
  const owner = slot.owner === 0 ? "nobody's now" : `now of ${nameOf(slot.owner)}`;
  return `${held}; ${owner}${slot.leaving ? ", which gives it up" : ""}`;
}
