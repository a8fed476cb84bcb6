// SPDX-License-Identifier: Apache-2.0
// Values that tests begin with.
import type { Decision, Settings, Vgpu } from "../src/model/types";

export function settings(changed: Partial<Settings> = {}): Settings {
  return {
    weight: 100,
    cap: 1,
    fps: 0,
    tasks_per_s: 0,
    latency_ms: 0,
    memory_min_bytes: 0,
    memory_max_bytes: 0,
    partition: "auto",
    ...changed,
  };
}

export function vgpu(changed: Partial<Vgpu> = {}): Vgpu {
  return {
    name: "game",
    id: 3,
    device: "gpu0",
    state: "running",
    ephemeral: false,
    owner_uid: 1000,
    settings: settings(),
    sale: "guaranteed",
    cap_now: 1,
    promise: null,
    processes: [],
    totals: { frames: 0, tasks: 0, late_frames: 0, broken_frames: 0 },
    memory: {
      elastic: false,
      min_slots: 0,
      max_slots: 0,
      held_slots: 0,
      here_slots: 0,
      resident_slots: 0,
      waits: false,
    },
    use: { memory_bytes: 0 },
    window: { fps: 0, frame_ms_p50: 0, frame_ms_p99: 0, gpu_use: 0, wait_share: 0, pace_share: 0 },
    ...changed,
  };
}

export function process_(program: string, presents = true) {
  return { pid: 1, program, api: "gl", renderer: "", meter: "", presents };
}

export function decision(number: number, changed: Partial<Decision> = {}): Decision {
  return { number, time_ms: number * 1000, device: "gpu0", vgpu: "game", kind: "sold", text: "text", ...changed };
}
