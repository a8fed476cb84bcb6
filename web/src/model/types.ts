// SPDX-License-Identifier: Apache-2.0
// What the server sends, as far as the page uses it: docs/dashboard.md and docs/protocol/control-api.md.

export interface Device {
  name: string;
  kind: string; // "software", "gpu" or "emulated"
  model: string;
  policy: string;
  policy_params: Record<string, number | string>;
  keeps_rates: boolean;
  promised: { need: number; unknown: number; fits: boolean };
  warnings: string[];
  vgpus: number;
  gpu_use: number;
  memory_bytes: number;
  oversell: Oversell;
  memory: DeviceMemory;
}

export interface Oversell {
  mode: string;
  sold: number;
  load: number;
  offer: { guaranteed: number; oversold: number; reason: string };
  account: { revenue: number; penalty: number; cost: number; net: number; sold_s: number; broken_s: number };
}

export interface DeviceMemory {
  slots: number; // 0: not elastic
  slot_bytes: number;
  others_slots: number;
  held_slots: number;
  pressure: string;
}

export interface MemoryMap {
  slots: number;
  slot_bytes: number;
  others_slots: number;
  pressure: string;
  overhead: number;
  switches: number;
  sharers: number[];
  owners: number[]; // ids of vGPUs; 0: nobody's
  leaving: boolean[];
  holders: { name: string; id: number; ranges: [number, number][] }[];
}

export interface Settings {
  weight: number;
  cap: number;
  fps: number;
  tasks_per_s: number;
  latency_ms: number;
  memory_min_bytes: number;
  memory_max_bytes: number;
  partition: string;
}

export interface Vgpu {
  name: string;
  id: number;
  device: string;
  state: string;
  ephemeral: boolean;
  owner_uid: number;
  settings: Settings;
  sale: string;
  cap_now: number;
  promise: Promise_ | null;
  processes: Process[];
  totals: { frames: number; tasks: number; late_frames: number; broken_frames: number };
  memory: VgpuMemory;
  use: { memory_bytes: number };
  window: {
    fps: number;
    frame_ms_p50: number;
    frame_ms_p99: number;
    gpu_use: number;
    wait_share: number;
    pace_share: number;
  };
}

export interface Promise_ {
  kept_by_policy: boolean;
  fits: string;
  need: number | null;
  text: string;
  warnings: string[];
}

export interface VgpuMemory {
  elastic: boolean;
  min_slots: number;
  max_slots: number;
  held_slots: number;
  here_slots: number;
  resident_slots: number;
  waits: boolean;
}

export interface Process {
  pid: number;
  program: string;
  api: string;
  renderer: string;
  meter: string;
  presents: boolean;
}

export interface Policy {
  name: string;
  summary: string;
  keeps_rates: boolean;
  keeps_rates_unless_zero: string;
  params: PolicyParam[];
}

export interface PolicyParam {
  name: string;
  unit: string;
  default: number;
  min: number;
  max: number;
  summary: string;
  choices?: string[];
}

export interface Hello {
  format: number;
  weir: string;
  node: string;
  read_only: boolean;
  tick_ms: number;
}

export interface Lists {
  devices: Device[];
  vgpus: Vgpu[];
}

export interface Tick {
  at_ms: number;
  layout: number;
  device_fields: string[];
  devices: [string, ...number[]][];
  vgpu_fields: string[];
  vgpus: number[][];
}

export interface Decision {
  number: number;
  time_ms: number;
  device: string;
  vgpu: string; // "": the device
  kind: string;
  text: string;
}

export interface DecisionBatch {
  lost: number;
  events: Decision[];
}

export interface HistorySeries {
  name: string;
  kind: string; // "device", "vgpu" or "use"
  fields?: string[];
  rows: (number | null)[][];
}

export interface HistoryReply {
  format: number;
  seconds: number;
  fields: string[];
  series: HistorySeries[];
  events: DecisionBatch;
}
