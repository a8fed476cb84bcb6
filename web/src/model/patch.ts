// SPDX-License-Identifier: Apache-2.0
// Changes of a vGPU's settings: read from a form's texts, checked, and written as options of `weir`.
import { plain } from "./format";
import type { Settings } from "./types";

export type Patch = Partial<Settings>;

/** Texts as people type them; the cap is in per cent. */
export interface SettingsForm {
  cap: string;
  weight: string;
  fps: string;
  tasks: string;
  latency: string;
}

export function formOf(settings: Settings): SettingsForm {
  return {
    cap: plain(settings.cap * 100, 4),
    weight: plain(settings.weight),
    fps: plain(settings.fps, 4),
    tasks: plain(settings.tasks_per_s, 4),
    latency: plain(settings.latency_ms, 4),
  };
}

export type Fault = { field: keyof SettingsForm; message: string };
export type Read = { patch: Patch; faults: Fault[] };

interface Rule {
  field: keyof SettingsForm;
  key: "cap" | "weight" | "fps" | "tasks_per_s" | "latency_ms";
  scale: number;
  min: number;
  max: number;
  whole: boolean;
  unit: string;
}

const RULES: Rule[] = [
  { field: "cap", key: "cap", scale: 0.01, min: 1, max: 100, whole: false, unit: "%" },
  { field: "weight", key: "weight", scale: 1, min: 1, max: 10000, whole: true, unit: "" },
  { field: "fps", key: "fps", scale: 1, min: 0, max: 1000, whole: false, unit: "frames/s" },
  { field: "tasks", key: "tasks_per_s", scale: 1, min: 0, max: 10000, whole: false, unit: "tasks/s" },
  { field: "latency", key: "latency_ms", scale: 1, min: 0, max: 10000, whole: false, unit: "ms" },
];

/** What differs from `before`. An empty text leaves the setting as it is. */
export function readForm(form: SettingsForm, before: Settings): Read {
  const patch: Patch = {};
  const faults: Fault[] = [];
  for (const rule of RULES) {
    const text = form[rule.field].trim().replace(",", ".").replace(/\s*%$/, "");
    if (text === "") continue;
    const value = Number(text);
    const range = `${rule.min} to ${rule.max}${rule.unit ? ` ${rule.unit}` : ""}`;
    if (!Number.isFinite(value)) faults.push({ field: rule.field, message: `"${text}" is not a number; ${range} is` });
    else if (value < rule.min || value > rule.max) faults.push({ field: rule.field, message: `From ${range}` });
    else if (rule.whole && !Number.isInteger(value))
      faults.push({ field: rule.field, message: `A whole number, ${range}` });
    else {
      const scaled = rule.scale === 1 ? value : Number((value * rule.scale).toFixed(6));
      if (Math.abs(scaled - before[rule.key]) > 1e-9) patch[rule.key] = scaled;
    }
  }
  const fps = patch.fps ?? before.fps;
  const tasks = patch.tasks_per_s ?? before.tasks_per_s;
  if (faults.length === 0 && fps > 0 && tasks > 0)
    faults.push({ field: "tasks", message: "Frames or tasks can be promised, not both: set one of them to 0" });
  return { patch, faults };
}

export function patchOptions(patch: Patch): string {
  let out = "";
  if (patch.weight !== undefined) out += ` --weight ${patch.weight}`;
  if (patch.cap !== undefined) out += ` --cap ${plain(patch.cap, 6)}`;
  if (patch.fps !== undefined) out += ` --fps ${plain(patch.fps, 4)}`;
  if (patch.tasks_per_s !== undefined) out += ` --tasks ${plain(patch.tasks_per_s, 4)}`;
  if (patch.latency_ms !== undefined) out += ` --latency-ms ${plain(patch.latency_ms, 4)}`;
  if (patch.memory_min_bytes !== undefined || patch.memory_max_bytes !== undefined)
    out += ` --memory ${memoryOption(patch.memory_min_bytes ?? 0, patch.memory_max_bytes ?? 0)}`;
  if (patch.partition !== undefined) out += ` --partition ${patch.partition}`;
  return out;
}

function memoryOption(min: number, max: number): string {
  return min > 0 ? `${size(min)}:${size(max)}` : size(max);
}

function size(bytes: number): string {
  const units: [number, string][] = [
    [2 ** 30, "G"],
    [2 ** 20, "M"],
    [2 ** 10, "K"],
  ];
  for (const [unit, name] of units) if (bytes >= unit && bytes % unit === 0) return `${bytes / unit}${name}`;
  return String(bytes);
}

/** "512M", "1.5 GiB" or "1073741824" as bytes; null if it is none of these. */
export function bytesIn(text: string): number | null {
  const found = /^\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*$/i.exec(text);
  if (!found) return null;
  const power = " KMGT".indexOf((found[2] || " ").toUpperCase());
  return Math.round(Number(found[1]) * 1024 ** power);
}
