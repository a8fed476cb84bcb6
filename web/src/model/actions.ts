// SPDX-License-Identifier: Apache-2.0
// What the page can do. Each action is one request of the control API, the `weir` command that does the same, and,
// where there is one, the action that takes it back.
import { percent, plain } from "./format";
import { patchOptions, type Patch } from "./patch";
import type { Policy, Settings, Vgpu } from "./types";

export interface Action {
  method: "POST" | "PATCH" | "PUT" | "DELETE";
  path: string;
  body?: unknown;
  command: string;
  done: string; // said when it has succeeded
  then?: Action; // carried out after it; `command` has that of both
  undo?: Action;
  undoName?: string; // the name of the button, where "Undo" would promise too much
}

/** A word as a shell reads it. */
export function quoted(word: string): string {
  return /^[A-Za-z0-9._:/@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

const vgpuPath = (name: string) => `/api/v1/vgpus/${encodeURIComponent(name)}`;

/** `before` has at least the keys of `patch`. */
export function setAction(name: string, patch: Patch, before: Settings): Action {
  const keys = Object.keys(patch) as (keyof Patch)[];
  const back: Patch = Object.fromEntries(keys.map((key) => [key, before[key]]));
  return { ...setOnly(name, patch), undo: setOnly(name, back) };
}

function setOnly(name: string, patch: Patch): Action {
  return {
    method: "PATCH",
    path: vgpuPath(name),
    body: patch,
    command: `weir vgpu set ${quoted(name)}${patchOptions(patch)}`,
    done: `${name}: ${patchText(patch)}`,
  };
}

function patchText(patch: Patch): string {
  const parts: string[] = [];
  if (patch.cap !== undefined) parts.push(`cap ${percent(patch.cap)}`);
  if (patch.weight !== undefined) parts.push(`weight ${patch.weight}`);
  if (patch.fps !== undefined)
    parts.push(patch.fps > 0 ? `${plain(patch.fps)} frames/s promised` : "no frame rate promised");
  if (patch.tasks_per_s !== undefined)
    parts.push(patch.tasks_per_s > 0 ? `${plain(patch.tasks_per_s)} tasks/s promised` : "no task rate promised");
  if (patch.latency_ms !== undefined)
    parts.push(patch.latency_ms > 0 ? `${plain(patch.latency_ms)} ms promised` : "no latency promised");
  return parts.join(", ");
}

export function pauseAction(name: string, pause: boolean): Action {
  return { ...pauseOnly(name, pause), undo: pauseOnly(name, !pause) };
}

function pauseOnly(name: string, pause: boolean): Action {
  const verb = pause ? "pause" : "resume";
  return {
    method: "POST",
    path: `${vgpuPath(name)}/${verb}`,
    command: `weir vgpu ${verb} ${quoted(name)}`,
    done: `${name} ${pause ? "is paused" : "goes on"}`,
  };
}

/** An ephemeral vGPU belongs to its program, so it cannot be made again. */
export function removeAction(vgpu: Vgpu, force: boolean): Action {
  const action: Action = {
    method: "DELETE",
    path: vgpuPath(vgpu.name) + (force ? "?force=true" : ""),
    command: `weir vgpu rm ${quoted(vgpu.name)}${force ? " --force" : ""}`,
    done: `${vgpu.name} is removed`,
  };
  if (vgpu.ephemeral) return action;
  const made = createOnly({
    name: vgpu.name,
    device: vgpu.device,
    owner: vgpu.owner_uid,
    bestEffort: vgpu.sale === "best-effort",
    settings: vgpu.settings,
  });
  const undo = vgpu.state === "paused" ? followed(made, pauseOnly(vgpu.name, true)) : made;
  return { ...action, undo, undoName: "Make it again" };
}

function followed(first: Action, then: Action): Action {
  return { ...first, then, command: `${first.command} && ${then.command}`, done: `${first.done}; ${then.done}` };
}

export interface NewVgpu {
  name: string;
  device: string;
  owner?: number; // a user's number; absent: who asks
  bestEffort: boolean;
  settings: Partial<Settings>;
}

export function createAction(wanted: NewVgpu): Action {
  const undo: Action = {
    method: "DELETE",
    path: vgpuPath(wanted.name),
    command: `weir vgpu rm ${quoted(wanted.name)}`,
    done: `${wanted.name} is removed`,
  };
  return { ...createOnly(wanted), undo };
}

const DEFAULTS: Settings = {
  weight: 100,
  cap: 1,
  fps: 0,
  tasks_per_s: 0,
  latency_ms: 0,
  memory_min_bytes: 0,
  memory_max_bytes: 0,
  partition: "auto",
};

function createOnly(wanted: NewVgpu): Action {
  const body: Record<string, unknown> = { name: wanted.name };
  let options = "";
  if (wanted.device) {
    body["device"] = wanted.device;
    options += ` --device ${quoted(wanted.device)}`;
  }
  if (wanted.owner !== undefined) {
    body["owner_uid"] = wanted.owner;
    options += ` --owner ${wanted.owner}`;
  }
  const changed: Patch = {};
  for (const key of Object.keys(DEFAULTS) as (keyof Settings)[]) {
    const value = wanted.settings[key];
    if (value === undefined || value === DEFAULTS[key]) continue;
    body[key] = value;
    Object.assign(changed, { [key]: value });
  }
  options += patchOptions(changed);
  if (wanted.bestEffort) {
    body["best_effort"] = true;
    options += " --best-effort";
  }
  return {
    method: "POST",
    path: "/api/v1/vgpus",
    body,
    command: `weir vgpu create ${quoted(wanted.name)}${options}`,
    done: `${wanted.name} is made`,
  };
}

export type Params = Record<string, number | string>;

/** Parameters at their defaults are left out: the daemon gives an absent one its default. */
export function policyAction(
  device: string,
  policy: Policy,
  params: Params,
  before: { policy: Policy; params: Params },
): Action {
  return { ...policyOnly(device, policy, params), undo: policyOnly(device, before.policy, before.params) };
}

function policyOnly(device: string, policy: Policy, params: Params): Action {
  const changed: Params = {};
  let options = "";
  for (const param of policy.params) {
    const value = params[param.name];
    const preset = param.choices ? param.choices[param.default] : param.default;
    if (value === undefined || value === preset) continue;
    changed[param.name] = value;
    options += ` --param ${quoted(`${param.name}=${value}`)}`;
  }
  return {
    method: "PUT",
    path: `/api/v1/devices/${encodeURIComponent(device)}/policy`,
    body: { policy: policy.name, params: changed },
    command: `weir policy ${quoted(policy.name)} --device ${quoted(device)}${options}`,
    done: `${device} is shared by ${policy.name}`,
  };
}
