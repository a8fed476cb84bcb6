// SPDX-License-Identifier: Apache-2.0
// What the page knows of the node. The stream's events change it; the views read it.
import { Decisions } from "./decisions";
import type { Sample } from "./rows";
import { Series } from "./series";
import type { Decision, DecisionBatch, Device, Hello, Lists, Tick, Vgpu } from "./types";

export type Connection =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "away"; message: string } // the dashboard's server answers, the daemon does not
  | { state: "lost"; message: string } // the dashboard's server does not answer
  | { state: "refused"; message: string }; // the token is missing or wrong

export type Topic = "connection" | "lists" | "tick" | "events";

const SPARK_MS = 60_000;
/** Ticks that a view has not seen yet: a page that is busy or hidden sees several at once. */
const UNSEEN_MAX = 240;

export interface Samples {
  atMs: number;
  devices: Map<string, Sample>;
  vgpus: Map<number, Sample>;
}

export class NodeModel {
  hello: Hello | null = null;
  connection: Connection = { state: "connecting" };
  readonly devices = new Map<string, Device>();
  readonly vgpus = new Map<number, Vgpu>();
  readonly byName = new Map<string, Vgpu>();
  /** Of the last tick. */
  deviceSamples = new Map<string, Sample>();
  vgpuSamples = new Map<number, Sample>();
  /** Oldest first. Whoever has shown them empties it. */
  unseen: Samples[] = [];
  readonly decisions = new Decisions();
  /** Use of each device in the last minute. */
  readonly sparks = new Map<string, Series>();
  lost = 0; // decisions that the daemon had already forgotten
  listed = false;
  tickAtMs = 0;
  /** By how much the server's clock is ahead of the page's. */
  private aheadMs = 0;

  nowMs(clockMs: number): number {
    return clockMs + this.aheadMs;
  }

  setLists(lists: Lists): void {
    this.devices.clear();
    for (const device of lists.devices) this.devices.set(device.name, device);
    this.vgpus.clear();
    this.byName.clear();
    for (const vgpu of lists.vgpus) {
      this.vgpus.set(vgpu.id, vgpu);
      this.byName.set(vgpu.name, vgpu);
    }
    for (const id of this.vgpuSamples.keys()) if (!this.vgpus.has(id)) this.vgpuSamples.delete(id);
    for (const name of this.sparks.keys()) if (!this.devices.has(name)) this.sparks.delete(name);
    this.listed = true;
  }

  /** A vGPU as an action's reply has it; the lists follow later. */
  setVgpu(vgpu: Vgpu): void {
    this.vgpus.set(vgpu.id, vgpu);
    this.byName.set(vgpu.name, vgpu);
  }

  dropVgpu(name: string): void {
    const vgpu = this.byName.get(name);
    if (!vgpu) return;
    this.byName.delete(name);
    this.vgpus.delete(vgpu.id);
    this.vgpuSamples.delete(vgpu.id);
  }

  setDevice(device: Device): void {
    this.devices.set(device.name, device);
  }

  setTick(tick: Tick, clockMs: number): void {
    this.tickAtMs = tick.at_ms;
    this.aheadMs = tick.at_ms - clockMs;
    this.deviceSamples = new Map(tick.devices.map(([name, ...values]) => [name, sampleOf(tick.device_fields, values)]));
    this.vgpuSamples = new Map(tick.vgpus.map(([id = 0, ...values]) => [id, sampleOf(tick.vgpu_fields, values)]));
    for (const [name, sample] of this.deviceSamples) this.sparkOf(name).add(tick.at_ms, [sample["gpu_use"] ?? null]);
    this.unseen.push({ atMs: tick.at_ms, devices: this.deviceSamples, vgpus: this.vgpuSamples });
    if (this.unseen.length > UNSEEN_MAX) this.unseen.shift();
  }

  addDecisions(batch: DecisionBatch): Decision[] {
    this.lost += batch.lost;
    return this.decisions.add(batch.events);
  }

  sparkOf(device: string): Series {
    let series = this.sparks.get(device);
    if (!series) this.sparks.set(device, (series = new Series(["gpu_use"], SPARK_MS)));
    return series;
  }
}

function sampleOf(fields: readonly string[], values: readonly number[]): Sample {
  const sample: Sample = {};
  fields.forEach((field, i) => {
    const value = values[i];
    if (typeof value === "number") sample[field] = value;
  });
  return sample;
}
