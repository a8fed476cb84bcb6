// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import test from "node:test";
import { createAction, pauseAction, policyAction, quoted, removeAction, setAction } from "../src/model/actions";
import { bytesIn, formOf, patchOptions, readForm } from "../src/model/patch";
import type { Policy } from "../src/model/types";
import { process_, settings, vgpu } from "./samples";

test("a change is a PATCH, and is taken back by the former values of the same settings", () => {
  const action = setAction("game", { cap: 0.4, fps: 60 }, settings({ cap: 0.75, weight: 7 }));
  assert.equal(action.method, "PATCH");
  assert.equal(action.path, "/api/v1/vgpus/game");
  assert.deepEqual(action.body, { cap: 0.4, fps: 60 });
  assert.equal(action.command, "weir vgpu set game --cap 0.4 --fps 60");
  assert.equal(action.done, "game: cap 40 %, 60 frames/s promised");
  assert.deepEqual(action.undo!.body, { cap: 0.75, fps: 0 });
  assert.equal(action.undo!.command, "weir vgpu set game --cap 0.75 --fps 0");
});

test("pause and resume take each other back", () => {
  const action = pauseAction("game", true);
  assert.deepEqual([action.path, action.undo!.path], ["/api/v1/vgpus/game/pause", "/api/v1/vgpus/game/resume"]);
  assert.equal(action.undo!.command, "weir vgpu resume game");
  assert.equal(pauseAction("game", false).undo!.path, "/api/v1/vgpus/game/pause");
});

test("a removed vGPU can be made again as it was", () => {
  const action = removeAction(
    vgpu({
      sale: "best-effort",
      settings: settings({ cap: 0.2, memory_min_bytes: 2 ** 29, memory_max_bytes: 2 ** 31 }),
    }),
    true,
  );
  assert.equal(action.path, "/api/v1/vgpus/game?force=true");
  assert.equal(action.command, "weir vgpu rm game --force");
  assert.deepEqual(action.undo!.body, {
    name: "game",
    device: "gpu0",
    owner_uid: 1000,
    cap: 0.2,
    memory_min_bytes: 2 ** 29,
    memory_max_bytes: 2 ** 31,
    best_effort: true,
  });
  assert.equal(
    action.undo!.command,
    "weir vgpu create game --device gpu0 --owner 1000 --cap 0.2 --memory 512M:2G --best-effort",
  );
  assert.equal(action.undo!.then, undefined);
});

test("a paused one is made again and paused, before its programs go on", () => {
  const undo = removeAction(vgpu({ state: "paused", owner_uid: 0 }), false).undo!;
  assert.deepEqual(undo.body, { name: "game", device: "gpu0", owner_uid: 0 });
  assert.equal(undo.then!.path, "/api/v1/vgpus/game/pause");
  assert.equal(undo.command, "weir vgpu create game --device gpu0 --owner 0 && weir vgpu pause game");
  assert.equal(undo.done, "game is made; game is paused");
});

test("one that belongs to its program cannot", () => {
  assert.equal(removeAction(vgpu({ ephemeral: true, processes: [process_("x")] }), true).undo, undefined);
});

test("what is at its default is not sent", () => {
  const action = createAction({ name: "a", device: "", bestEffort: false, settings: settings({ fps: 30 }) });
  assert.deepEqual(action.body, { name: "a", fps: 30 });
  assert.equal(action.command, "weir vgpu create a --fps 30");
  assert.deepEqual([action.undo!.method, action.undo!.path], ["DELETE", "/api/v1/vgpus/a"]);
});

const policy = (name: string): Policy => ({
  name,
  summary: "",
  keeps_rates: true,
  keeps_rates_unless_zero: "",
  params: [
    { name: "fps", unit: "frames/s", default: 30, min: 0, max: 1000, summary: "" },
    { name: "sync", unit: "", default: 0, min: 0, max: 1, summary: "", choices: ["auto", "none"] },
  ],
});

test("a policy is changed with those parameters that differ from their defaults", () => {
  const before = { policy: policy("cap"), params: { fps: 30, sync: "none" } };
  const action = policyAction("gpu 0", policy("sla-aware"), { fps: 60, sync: "auto" }, before);
  assert.equal(action.path, "/api/v1/devices/gpu%200/policy");
  assert.deepEqual(action.body, { policy: "sla-aware", params: { fps: 60 } });
  assert.equal(action.command, "weir policy sla-aware --device 'gpu 0' --param fps=60");
  assert.deepEqual(action.undo!.body, { policy: "cap", params: { sync: "none" } });
});

test("words of a command are quoted for a shell", () => {
  assert.equal(quoted("tenant-1.a_b"), "tenant-1.a_b");
  assert.equal(quoted("a b"), "'a b'");
  assert.equal(quoted("it's; rm"), "'it'\\''s; rm'");
  assert.equal(quoted(""), "''");
});

test("a form says what differs", () => {
  const before = settings({ cap: 0.333333, fps: 60 });
  assert.deepEqual(readForm(formOf(before), before), { patch: {}, faults: [] });
  const form = { ...formOf(before), cap: "40 %", latency: "12,5" };
  assert.deepEqual(readForm(form, before).patch, { cap: 0.4, latency_ms: 12.5 });
  assert.deepEqual(readForm({ ...form, cap: "" }, before).patch, { latency_ms: 12.5 });
});

test("a form refuses what the daemon would refuse", () => {
  const before = settings({ fps: 60 });
  const faultsOf = (changed: object) =>
    readForm({ ...formOf(before), ...changed }, before).faults.map((fault) => fault.field);
  assert.deepEqual(faultsOf({ cap: "0" }), ["cap"]);
  assert.deepEqual(faultsOf({ cap: "101" }), ["cap"]);
  assert.deepEqual(faultsOf({ weight: "1.5" }), ["weight"]);
  assert.deepEqual(faultsOf({ fps: "many" }), ["fps"]);
  assert.deepEqual(faultsOf({ tasks: "5" }), ["tasks"]); // frames are promised already
  assert.deepEqual(faultsOf({ tasks: "5", fps: "0" }), []);
});

test("sizes of memory", () => {
  assert.equal(bytesIn("512M"), 2 ** 29);
  assert.equal(bytesIn("1.5 GiB"), 1.5 * 2 ** 30);
  assert.equal(bytesIn("1024"), 1024);
  assert.equal(bytesIn("much"), null);
  assert.equal(patchOptions({ memory_max_bytes: 3 * 2 ** 20 + 1 }), " --memory 3145729");
});
