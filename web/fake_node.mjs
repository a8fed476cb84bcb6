// SPDX-License-Identifier: Apache-2.0
// A node that does not exist, for fake_server.mjs: its values are functions of the time, so that the past and the
// present agree. A cap takes effect at once, a removed vGPU is gone, a policy changes.

const MIB = 2 ** 20;
export const SLOT_BYTES = 64 * MIB;
const DEVICES = [
  { name: "card-0", kind: "emulated", model: "Card (emulated)", policy: "sla-aware", mode: "adaptive" },
  { name: "card-1", kind: "emulated", model: "Card (emulated)", policy: "cap", mode: "strict" },
  { name: "gpu-0", kind: "gpu", model: "NVIDIA RTX A4000", policy: "proportional-share", mode: "off" },
  { name: "embedded", kind: "software", model: "llvmpipe (LLVM 15.0.6, 256 bits)", policy: "none", mode: "off" },
];
const PROGRAMS = ["glmark2", "blender", "clpeak", "ffmpeg", "vkcube", "x264"];

const PARAM = (name, unit, preset, min, max, summary, choices) => ({
  name,
  unit,
  default: preset,
  min,
  max,
  summary,
  ...(choices ? { choices } : {}),
});
export const POLICIES = [
  {
    name: "none",
    summary: "first come, first served; only measures",
    keeps_rates: false,
    keeps_rates_unless_zero: "",
    params: [],
  },
  {
    name: "proportional-share",
    summary: "GPU time by weight; idle time goes to any vGPU that wants it",
    keeps_rates: false,
    keeps_rates_unless_zero: "",
    params: [
      PARAM(
        "quantum_ms",
        "ms of GPU time",
        5,
        0.1,
        100,
        "GPU time that all competing vGPUs together may run ahead of the last",
      ),
      PARAM(
        "lag_ms",
        "ms of GPU time",
        100,
        1,
        10000,
        "upper bound of what a vGPU that could not use its share may catch up",
      ),
    ],
  },
  {
    name: "sla-aware",
    summary: "each program at its promised rate and no faster (VGRIS)",
    keeps_rates: true,
    keeps_rates_unless_zero: "",
    params: [
      PARAM("fps", "frames/s", 30, 0, 1000, "rate of a vGPU without its own promise; 0: unlimited"),
      PARAM(
        "give_way",
        "switch",
        0,
        0,
        1,
        "1: where promised rates need more than the device has, the lightest gives way",
      ),
      PARAM("sync", "", 0, 0, 4, "synchronisation before a frame is delayed", [
        "auto",
        "none",
        "flush",
        "fence",
        "finish",
      ]),
    ],
  },
  {
    name: "cap",
    summary: "each vGPU at most its cap of every period, in stages (gOver); debt is carried",
    keeps_rates: true,
    keeps_rates_unless_zero: "ahead_ms",
    params: [
      PARAM("period_ms", "ms", 1000, 10, 60000, "length of a period, at whose end unused time is lost (gOver: 1 s)"),
      PARAM("stages", "stages", 10, 1, 100, "number of stages in a period, each with its part of the cap (gOver: 10)"),
      PARAM(
        "ahead_ms",
        "ms of GPU time",
        2,
        0,
        100,
        "while a vGPU is behind its promised rate, others submit only below this load of the device",
      ),
    ],
  },
];

const EVENTS = [
  ["sold", "a cap of 40 % was sold, guaranteed"],
  ["overload", "overloaded: 51.2 of 60.0 frames/s, 38 % of its cap of 40 % used"],
  ["stolen", "overloaded, so 5 % of the unused cap of tenant-7, the lightest, goes to it: 45 %"],
  ["broken", "its promise is broken: 51.2 of 60.0 frames/s"],
  ["kept", "its promise is kept again"],
  ["regained", "takes 5 % from tenant-3, to 45 %"],
  ["at-ceiling", "needs more than was sold to it: 48.0 of 60.0 frames/s at its ceiling of 40 %"],
  ["grown", "asked for 6 slots, got 2 more: it holds 6 slots now"],
  ["not-grown", "asked for 9 slots: it holds 8 slots, its maximum. To raise it: weir vgpu set NAME --memory MIN:MAX"],
  ["shrunk", "gives up 2 slots that it doesn't use: it holds 4 slots, and uses 3"],
  ["warning", "several are overloaded: this one should be moved to another device (40 % of its cap of 40 % used)"],
  ["relieved", "it need not be moved any more"],
  ["parts", "1 launch ran in 4 parts, needing more memory than it may have: copied 512.0 MiB in and 128.0 MiB out"],
];
const DEVICE_EVENTS = [
  ["policy", "policy is sla-aware now"],
  ["sellable", "a cap of up to 30 % can be sold: the load is 42 %"],
  ["overpromised", "its promises need 1.04 of it; by weight all could be kept but those of: tenant-9"],
  ["fits", "its promises fit again: they need 0.81 of it"],
  ["pressure", "memory pressure is middle: overhead 0.62 of 2 (steal 12 %, copying 3.0 %)"],
];

export class FakeError extends Error {
  constructor(status, code, message) {
    super(message);
    Object.assign(this, { status, code });
  }
}

const wave = (seed, seconds, period) => 0.5 + 0.5 * Math.sin(seed * 1.7 + (2 * Math.PI * seconds) / period);

export class FakeNode {
  constructor({ vgpus = 200 } = {}) {
    this.layout = 1;
    this.nextId = 1;
    this.nextEvent = 1;
    this.events = [];
    this.vgpus = new Map();
    this.devices = DEVICES.map((device) => ({ ...device, params: {}, soldAt: Date.now() - 3_600_000 }));
    for (let i = 0; i < vgpus; ++i) this.addFirst(i);
    const begin = Date.now() - 3_500_000;
    for (let i = 0; i < 120; ++i) this.addEvent(begin + i * 29_000);
  }

  addFirst(i) {
    const device = DEVICES[i % 8 < 4 ? 0 : i % 8 < 6 ? 1 : i % 8 < 7 ? 2 : 3].name;
    const promises = [{ fps: 60 }, { fps: 30, latency_ms: 40 }, {}, { tasks_per_s: 20 }, {}][i % 5];
    const vgpu = this.add({
      name: `tenant-${i + 1}`,
      device,
      cap: [1, 0.4, 0.2, 0.6][i % 4],
      weight: 50 + (i % 4) * 50,
      ...promises,
    });
    vgpu.paused = i % 29 === 28;
    vgpu.seed = i;
    if (i % 6 === 5) return;
    const computes = i % 5 === 3;
    const count = 1 + (i % 3);
    for (let k = 0; k < count; ++k) {
      vgpu.processes.push({
        id: i * 4 + k + 1,
        pid: 4000 + i * 7 + k,
        program: PROGRAMS[(i + (k > 1 ? 1 : 0)) % PROGRAMS.length],
        api: computes ? "opencl" : "gl",
        renderer: "llvmpipe (LLVM 15.0.6, 256 bits)",
        meter: computes ? "executor" : "worker-cpu-time",
        presents: !computes,
      });
    }
  }

  add({ name, device, best_effort = false, ...settings }) {
    if (!/^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$/.test(name ?? ""))
      throw new FakeError(
        400,
        "invalid-argument",
        `'${name}' can't name a vGPU: 1 to 64 letters, digits, '.', '_' or '-', not starting with '.' or '-'`,
      );
    if (this.vgpus.has(name)) throw new FakeError(409, "already-exists", `a vGPU named '${name}' exists`);
    const vgpu = {
      name,
      id: this.nextId++,
      device: device || DEVICES[0].name,
      best_effort,
      paused: false,
      seed: this.nextId,
      settings: {
        weight: 100,
        cap: 1,
        fps: 0,
        tasks_per_s: 0,
        latency_ms: 0,
        memory_min_bytes: 0,
        memory_max_bytes: 0,
        partition: "auto",
        ...settings,
      },
      processes: [],
    };
    this.vgpus.set(name, vgpu);
    this.layout += 1;
    return vgpu;
  }

  find(name) {
    const vgpu = this.vgpus.get(name);
    if (!vgpu) throw new FakeError(404, "not-found", `no vGPU named '${name}'`);
    return vgpu;
  }

  findDevice(name) {
    const device = this.devices.find((one) => one.name === name);
    if (!device) throw new FakeError(404, "not-found", `no device named '${name}'`);
    return device;
  }

  set(name, patch) {
    const vgpu = this.find(name);
    for (const key of Object.keys(patch))
      if (!(key in vgpu.settings)) throw new FakeError(400, "invalid-argument", `unknown setting '${key}'`);
    if (patch.cap !== undefined && !(patch.cap >= 0.01 && patch.cap <= 1))
      throw new FakeError(400, "invalid-argument", `cap ${patch.cap} is outside 0.01 … 1`);
    Object.assign(vgpu.settings, patch);
    this.layout += 1;
    if (patch.cap !== undefined)
      this.addEvent(Date.now(), ["sold", `a cap of ${Math.round(patch.cap * 100)} % was sold, guaranteed`], vgpu);
    return vgpu;
  }

  pause(name, paused) {
    this.find(name).paused = paused;
    this.layout += 1;
    return this.find(name);
  }

  remove(name, force) {
    const vgpu = this.find(name);
    if (vgpu.processes.length > 0 && !force)
      throw new FakeError(409, "busy", `${vgpu.processes.length} processes are attached to '${name}'`);
    this.vgpus.delete(name);
    this.layout += 1;
    this.addEvent(Date.now(), ["removed", "as asked"], vgpu);
  }

  setPolicy(name, { policy, params = {} }) {
    const device = this.findDevice(name);
    if (!POLICIES.some((one) => one.name === policy))
      throw new FakeError(404, "not-found", `unknown policy '${policy}'`);
    Object.assign(device, { policy, params });
    this.layout += 1;
    this.addEvent(Date.now(), ["policy", `policy is ${policy} now`], null, name);
    return device;
  }

  /** Without `what` one that fits the next number. */
  addEvent(at, what, vgpu, device) {
    const number = this.nextEvent++;
    const all = [...this.vgpus.values()];
    let subject = vgpu;
    if (!what) {
      const ofDevice = number % 6 === 0;
      what = ofDevice ? DEVICE_EVENTS[(number / 6) % DEVICE_EVENTS.length] : EVENTS[number % EVENTS.length];
      subject = ofDevice ? null : all[(number * 7) % Math.max(1, Math.min(24, all.length))];
      device ??= DEVICES[number % 2].name;
    }
    const event = {
      number,
      time_ms: Math.round(at),
      device: subject?.device ?? device,
      vgpu: subject?.name ?? "",
      kind: what[0],
      text: what[1],
    };
    this.events.push(event);
    return event;
  }

  // -- Values at a time ----------------------------------------------------------------------------------------------

  /** One number for each of VGPU_FIELDS. */
  vgpuAt(vgpu, atMs) {
    const s = atMs / 1000;
    const { cap, fps, tasks_per_s } = vgpu.settings;
    const works = vgpu.processes.length > 0 && !vgpu.paused;
    const size = vgpu.seed % 9 === 0 ? 0.065 : 0.002 + (vgpu.seed % 5) / 2000;
    const demand = works ? size * (0.35 + 0.9 * wave(vgpu.seed, s, 40 + (vgpu.seed % 7) * 25)) : 0;
    const use = Math.min(demand, cap);
    const held = use < demand;
    const promised = fps || tasks_per_s || 45;
    const slow = held || (vgpu.seed % 11 === 4 && wave(vgpu.seed, s, 120) > 0.7);
    const rate = works ? promised * (slow ? 0.82 : 0.99 + 0.02 * wave(vgpu.seed, s, 3)) : 0;
    const p50 = rate > 0 ? 1000 / rate : 0;
    const p99 = p50 * (1.08 + 0.25 * wave(vgpu.seed + 2, s, 17) * (slow ? 2 : 1));
    const frames = Math.floor((s % 100_000) * rate);
    return [
      use,
      Math.min(cap, 0.9 + 0.1 * wave(vgpu.seed, s, 300)),
      rate,
      p50,
      p99,
      slow ? 0.25 : 0.03,
      0.02,
      frames,
      Math.floor(frames / (slow ? 40 : 4000)),
      vgpu.processes.length,
      this.heldSlots(vgpu),
    ];
  }

  heldSlots(vgpu) {
    return vgpu.device === "card-0" ? 2 + (vgpu.seed % 5) : 0;
  }

  /** One number for each of DEVICE_FIELDS. */
  deviceAt(device, atMs) {
    const own = [...this.vgpus.values()].filter((vgpu) => vgpu.device === device.name);
    const use = Math.min(
      1,
      own.reduce((sum, vgpu) => sum + this.vgpuAt(vgpu, atMs)[0], 0),
    );
    const sold = device.mode === "off" ? 0 : own.reduce((sum, vgpu) => sum + vgpu.settings.cap, 0) / 20;
    const soldFor = device.mode === "off" ? 0 : Math.max(0, atMs - device.soldAt) / 1000;
    const slots = device.name === "card-0" ? 118 : 0;
    return [use, 0.6 + 0.3 * wave(3, atMs / 1000, 500), sold, slots, soldFor * 0.02, soldFor * 0.0011];
  }

  // -- What the daemon says ------------------------------------------------------------------------------------------

  promiseJson(vgpu) {
    const { fps, tasks_per_s, latency_ms } = vgpu.settings;
    if (!(fps > 0 || tasks_per_s > 0 || latency_ms > 0)) return null;
    const policy = this.findDevice(vgpu.device).policy;
    const keeps = policy === "sla-aware" || policy === "cap";
    return {
      kept_by_policy: keeps,
      fits: "yes",
      frame_gpu_ns: 4_100_000,
      loops: 1,
      need: 0.25,
      others_need: 0.41,
      others_unknown: 0,
      text: `${fps || tasks_per_s} ${fps ? "frames/s" : "tasks/s"} need 25 % of ${vgpu.device}; the others need 41 %, so it fits.`,
      warnings: keeps
        ? []
        : [`The policy ${policy} does not keep promised rates: 'weir policy sla-aware --device ${vgpu.device}' does.`],
    };
  }

  vgpuJson(vgpu, now = Date.now()) {
    const [use, capNow, fps, p50, p99, wait, pace, frames, late] = this.vgpuAt(vgpu, now);
    const { settings } = vgpu;
    const held = this.heldSlots(vgpu);
    return {
      name: vgpu.name,
      id: vgpu.id,
      device: vgpu.device,
      state: vgpu.paused ? "paused" : vgpu.processes.length === 0 ? "idle" : wait > 0.2 ? "waiting" : "running",
      ephemeral: false,
      owner_uid: 1000,
      settings: { ...settings },
      sale: vgpu.best_effort ? "best-effort" : "guaranteed",
      cap_now: capNow,
      promise: this.promiseJson(vgpu),
      attach: `/run/weir/vgpu/${vgpu.name}.sock`,
      processes: vgpu.processes,
      totals: {
        frames,
        tasks: 0,
        late_frames: late,
        broken_frames: Math.floor(late / 3),
        gpu_ns: 0,
        wait_ns: 0,
        pace_ns: 0,
      },
      memory: {
        elastic: held > 0,
        min_slots: 1,
        max_slots: 8,
        held_slots: held,
        here_slots: Math.max(0, held - 1),
        waits: false,
        resident_slots: Math.max(0, held - 1),
      },
      use: { work_items: 0, memory_bytes: vgpu.processes.length * 96 * MIB },
      window: {
        span_ns: 1e9,
        frames: Math.round(fps),
        fps,
        frame_ms_mean: p50,
        frame_ms_p50: p50,
        frame_ms_p95: p99,
        frame_ms_p99: p99,
        frame_ms_max: p99,
        gpu_use: use,
        gpu_share: use,
        wait_share: wait,
        pace_share: pace,
      },
    };
  }

  deviceJson(device, now = Date.now()) {
    const [use, load, sold, slots, revenue, penalty] = this.deviceAt(device, now);
    const own = [...this.vgpus.values()].filter((vgpu) => vgpu.device === device.name);
    const keeps = POLICIES.find((one) => one.name === device.policy).keeps_rates;
    const params = {};
    for (const param of POLICIES.find((one) => one.name === device.policy).params)
      params[param.name] = device.params[param.name] ?? (param.choices ? param.choices[param.default] : param.default);
    return {
      name: device.name,
      kind: device.kind,
      cpus: [],
      model: device.model,
      uuid: "",
      pci: "",
      memory_bytes: 8 * 1024 * MIB,
      policy: device.policy,
      policy_params: params,
      keeps_rates: keeps,
      promised: { need: load, unknown: device.name === "card-0" ? 3 : 0, fits: load < 0.88 },
      warnings:
        keeps || own.length === 0
          ? []
          : [
              `Rates are promised, but the policy ${device.policy} does not keep them: choose sla-aware, hybrid or cap.`,
            ],
      vgpus: own.length,
      gpu_use: use,
      gpu_ns_total: 0,
      oversell: {
        mode: device.mode,
        params: {},
        sold,
        load,
        offer: { guaranteed: 0, oversold: 0.3, reason: "" },
        account: {
          revenue,
          penalty,
          cost: 0,
          net: revenue - penalty,
          sold_s: soldSeconds(device, now),
          broken_s: soldSeconds(device, now) / 50,
        },
      },
      memory: {
        slots: slots > 0 ? 128 : 0,
        slot_bytes: SLOT_BYTES,
        size_slots: slots > 0 ? 128 : 0,
        others_slots: slots > 0 ? 4 : 0,
        held_slots: slots,
        guaranteed_slots: 40,
        overhead: 0.62,
        steal_percent: 12,
        copying_percent: 3,
        pressure: slots > 0 ? "middle" : "low",
        switches: 40,
        params: {},
      },
    };
  }

  memoryJson(device) {
    const { memory } = this.deviceJson(device);
    const holders = [];
    const sharers = Array.from({ length: memory.slots }, () => 0);
    const owners = Array.from({ length: memory.slots }, () => 0);
    const turn = Math.floor(Date.now() / 2000);
    let first = 0;
    for (const vgpu of memory.slots > 0
      ? [...this.vgpus.values()].filter((one) => one.device === device.name).slice(0, 34)
      : []) {
      const count = this.heldSlots(vgpu);
      const at = Math.max(0, first - (vgpu.seed % 3));
      if (at + count > memory.slots - 6) break;
      holders.push({ name: vgpu.name, id: vgpu.id, ranges: [[at, count]] });
      for (let i = at; i < at + count; ++i) {
        sharers[i] += 1;
        if (owners[i] === 0 || (turn + i) % 2 === 0) owners[i] = i % 17 === 3 ? 0 : vgpu.id;
      }
      first = at + count;
    }
    const leaving = owners.map((owner, i) => owner !== 0 && sharers[i] > 1 && (turn + i) % 7 === 0);
    return { device: device.name, ...memory, copy_bytes_per_s: 12e9, sharers, owners, leaving, holders };
  }
}

function soldSeconds(device, now) {
  return device.mode === "off" ? 0 : (now - device.soldAt) / 1000;
}
