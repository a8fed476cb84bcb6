// SPDX-License-Identifier: Apache-2.0
// The rows of the overview's table: which are shown, and in which order.
import { keepingOf, type Keeping } from "./promise";
import type { Vgpu } from "./types";

export interface VgpuRow {
  id: number;
  name: string;
  device: string;
  state: string;
  programs: string;
  processes: number;
  got: number;
  promised: number;
  unit: string;
  keeping: Keeping;
  use: number;
  cap: number;
  p99: number;
  latency: number;
  late: number;
  memory: number;
}

export type SortKey = "name" | "device" | "state" | "programs" | "got" | "use" | "p99" | "late" | "memory";
export interface Sort {
  key: SortKey;
  down: boolean;
}

/** What is best seen first when a column is chosen: large numbers, but names from A. */
export function firstDirection(key: SortKey): boolean {
  return !["name", "device", "state", "programs"].includes(key);
}

const STATES = ["running", "waiting", "paused", "idle"];

export function compareRows(sort: Sort): (a: VgpuRow, b: VgpuRow) => number {
  const sign = sort.down ? -1 : 1;
  return (a, b) => sign * compareBy(sort.key, a, b) || compareNames(a.name, b.name) || a.id - b.id;
}

function compareBy(key: SortKey, a: VgpuRow, b: VgpuRow): number {
  if (key === "state") return STATES.indexOf(a.state) - STATES.indexOf(b.state);
  if (key === "name" || key === "device" || key === "programs") return compareNames(a[key], b[key]);
  return a[key] - b[key];
}

const collator = new Intl.Collator("en", { numeric: true });
function compareNames(a: string, b: string): number {
  return collator.compare(a, b);
}

/** Each word must occur somewhere: in the name, device, state, programs, or in what became of the promise. */
export function matches(row: VgpuRow, filter: string): boolean {
  const text = `${row.name} ${row.device} ${row.state} ${row.programs} ${row.keeping}`.toLowerCase();
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

export interface Sample {
  [field: string]: number;
}

/** A vGPU as the lists have it, with the values of the last tick where there is one. */
export function rowOf(vgpu: Vgpu, sample: Sample | undefined, slotBytes: number): VgpuRow {
  const promised = vgpu.settings.fps > 0 ? vgpu.settings.fps : vgpu.settings.tasks_per_s;
  const got = sample?.["fps"] ?? vgpu.window.fps;
  const wait = sample?.["wait_share"] ?? vgpu.window.wait_share;
  const held = sample?.["held_slots"] ?? vgpu.memory.held_slots;
  return {
    id: vgpu.id,
    name: vgpu.name,
    device: vgpu.device,
    state: vgpu.state,
    programs: programsText(vgpu),
    processes: vgpu.processes.length,
    got,
    promised,
    unit: rateUnit(vgpu),
    keeping: keepingOf(got, promised, wait),
    use: sample?.["gpu_use"] ?? vgpu.window.gpu_use,
    cap: sample?.["cap"] ?? vgpu.cap_now,
    p99: sample?.["p99_ms"] ?? vgpu.window.frame_ms_p99,
    latency: vgpu.settings.latency_ms,
    late: sample?.["late"] ?? vgpu.totals.late_frames,
    memory: vgpu.memory.elastic ? held * slotBytes : vgpu.use.memory_bytes,
  };
}

export function rateUnit(vgpu: Vgpu): string {
  const computes = vgpu.processes.length > 0 && vgpu.processes.every((process) => !process.presents);
  return vgpu.settings.tasks_per_s > 0 || (vgpu.settings.fps <= 0 && computes) ? "tasks/s" : "frames/s";
}

const PROGRAMS_MAX = 2;
export function programsText(vgpu: Vgpu): string {
  const counts = new Map<string, number>();
  for (const process of vgpu.processes) counts.set(process.program, (counts.get(process.program) ?? 0) + 1);
  const names = [...counts].map(([name, n]) => (n > 1 ? `${name} ×${n}` : name));
  const more = names.length - PROGRAMS_MAX;
  return names.slice(0, PROGRAMS_MAX).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
