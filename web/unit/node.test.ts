// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { Colors } from "../src/model/colors";
import { Decisions } from "../src/model/decisions";
import { knownKinds, titleOf, toneOf, whyOf } from "../src/model/explain";
import { NodeModel } from "../src/model/node";
import { keepingOf, latencyKept } from "../src/model/promise";
import { hashOf, parseRoute, tokenIn, type Route } from "../src/model/route";
import { compareRows, matches, rowOf, type Sort } from "../src/model/rows";
import { holdersOf, slotsOf, slotText } from "../src/model/slots";
import type { MemoryMap, Tick } from "../src/model/types";
import { decision, process_, settings, vgpu } from "./samples";

test("a decision is kept once, also when the daemon counts from 1 again", () => {
  const decisions = new Decisions();
  assert.equal(decisions.add([decision(1), decision(2)]).length, 2);
  assert.equal(decisions.add([decision(2), decision(3)]).length, 1);
  assert.equal(decisions.add([decision(1, { time_ms: 99_000 })]).length, 1);
  assert.deepEqual(
    decisions.all().map((one) => one.time_ms),
    [1000, 2000, 3000, 99_000],
  );
});

test("history that arrives late is put in its place, and there is a bound", () => {
  const decisions = new Decisions();
  decisions.add([decision(9)]);
  decisions.add([decision(1), decision(2)]);
  assert.deepEqual(
    decisions.all().map((one) => one.number),
    [1, 2, 9],
  );
  decisions.add(Array.from({ length: 6000 }, (_, i) => decision(i + 10)));
  assert.equal(decisions.all().length, 5000);
});

test("filters of decisions", () => {
  const decisions = new Decisions();
  decisions.add([
    decision(1, { vgpu: "a" }),
    decision(2, { vgpu: "b", kind: "broken", text: "51.2 of 60.0" }),
    decision(3, { vgpu: "", device: "gpu1" }),
  ]);
  const found = (filter: object) => decisions.matching(filter).map((one) => one.number);
  assert.deepEqual(found({}), [3, 2, 1]);
  assert.deepEqual(found({ vgpu: "a" }), [1]);
  assert.deepEqual(found({ device: "gpu0", kind: "broken" }), [2]);
  assert.deepEqual(found({ text: "GPU1" }), [3]);
  assert.deepEqual(found({ text: "of 51" }), [2]);
});

test("each kind that the control API names has an explanation", () => {
  const page = readFileSync("../docs/protocol/control-api.md", "utf8");
  const table = page.slice(page.indexOf("| kind | |"), page.indexOf("**vgpu**:"));
  const kinds = table
    .split("\n")
    .flatMap((line) => [...(line.split("|")[1] ?? "").matchAll(/`([a-z-]+)`/g)].map((found) => found[1]!));
  assert.ok(kinds.length > 25, `only ${kinds.length} kinds were found`);
  assert.deepEqual(
    kinds.filter((kind) => !knownKinds().includes(kind)),
    [],
  );
});

test("a kind that nobody knows is shown as it is", () => {
  assert.deepEqual([titleOf("toString"), toneOf("toString"), whyOf("toString")], ["toString", "neutral", ""]);
});

test("whether a promise is kept", () => {
  assert.equal(keepingOf(30, 0, 0), "none");
  assert.equal(keepingOf(58.5, 60, 0.5), "kept");
  assert.equal(keepingOf(50, 60, 0.2), "broken");
  assert.equal(keepingOf(50, 60, 0.01), "asks-less");
  assert.equal(keepingOf(0, 60, 0), "silent");
  assert.equal(latencyKept(41, 40), "broken");
  assert.equal(latencyKept(40, 40), "kept");
});

test("addresses lead back to their views", () => {
  const routes: Route[] = [
    { view: "overview" },
    { view: "device", name: "gpu 0/a?" },
    { view: "vgpu", name: "tenant-1" },
    { view: "events", device: "gpu&0", vgpu: "", kind: "broken" },
    { view: "events", device: "", vgpu: "", kind: "" },
  ];
  for (const route of routes) assert.deepEqual(parseRoute(hashOf(route)), route);
  assert.deepEqual(parseRoute("#/nothing"), { view: "overview" });
  assert.deepEqual(parseRoute("#/vgpu/%E0%A4%A"), { view: "vgpu", name: "%E0%A4%A" });
});

test("a token is only what begins with #token=", () => {
  assert.equal(tokenIn("#token=abc"), "abc");
  assert.equal(tokenIn("#/vgpu/token=abc"), null);
  assert.equal(tokenIn(""), null);
});

test("rows have the last tick's values where there is one", () => {
  const one = vgpu({
    settings: settings({ fps: 60 }),
    processes: [process_("a"), process_("a"), process_("b"), process_("c")],
  });
  assert.equal(rowOf(one, undefined, 0).got, 0);
  const row = rowOf(one, { fps: 59, wait_share: 0 }, 0);
  assert.deepEqual([row.got, row.keeping, row.unit, row.programs], [59, "kept", "frames/s", "a ×2, b and 1 more"]);
  assert.equal(rowOf(vgpu({ processes: [process_("x", false)] }), undefined, 0).unit, "tasks/s");
  const elastic = vgpu({ memory: { ...one.memory, elastic: true, held_slots: 2 } });
  assert.equal(rowOf(elastic, undefined, 64).memory, 128);
});

test("the order of rows", () => {
  const rows = ["t10", "t2", "t1"].map((name, i) => ({ ...rowOf(vgpu({ name, id: i }), { gpu_use: i % 2 }, 0) }));
  const sorted = (sort: Sort) => [...rows].sort(compareRows(sort)).map((row) => row.name);
  assert.deepEqual(sorted({ key: "name", down: false }), ["t1", "t2", "t10"]);
  assert.deepEqual(sorted({ key: "name", down: true }), ["t10", "t2", "t1"]);
  assert.deepEqual(sorted({ key: "use", down: true }), ["t2", "t1", "t10"]);
  assert.ok(matches(rows[0]!, "gpu0 t1") && !matches(rows[0]!, "gpu1"));
});

test("a tick gives each row its fields by name", () => {
  const node = new NodeModel();
  const tick: Tick = {
    at_ms: 5000,
    layout: 1,
    device_fields: ["load", "gpu_use"],
    devices: [["gpu0", 0.1, 0.7]],
    vgpu_fields: ["fps", "new_field"],
    vgpus: [[3, 60, 1]],
  };
  node.setTick(tick, 4000);
  assert.deepEqual(node.vgpuSamples.get(3), { fps: 60, new_field: 1 });
  assert.equal(node.deviceSamples.get("gpu0")!["gpu_use"], 0.7);
  assert.equal(node.nowMs(4500), 5500);
  for (let i = 0; i < 500; ++i) node.setTick({ ...tick, at_ms: 5250 + i * 250 }, 4000);
  assert.deepEqual([node.unseen.length, node.unseen.at(-1)!.atMs], [240, 5250 + 499 * 250]);
  node.setLists({ devices: [], vgpus: [vgpu({ id: 4 })] });
  assert.equal(node.vgpuSamples.has(3), false);
  node.dropVgpu("game");
  assert.equal(node.vgpus.size, 0);
});

const MAP: MemoryMap = {
  slots: 4,
  slot_bytes: 64,
  others_slots: 0,
  pressure: "low",
  overhead: 0,
  switches: 0,
  sharers: [1, 2, 1, 0],
  owners: [1, 2, 0, 0],
  leaving: [false, true, false, false],
  holders: [
    { name: "a", id: 1, ranges: [[0, 2]] },
    {
      name: "b",
      id: 2,
      ranges: [
        [1, 1],
        [2, 1],
      ],
    },
  ],
};

test("the map of slots", () => {
  assert.deepEqual(
    slotsOf(MAP).map((slot) => slot.holders),
    [[1], [1, 2], [2], []],
  );
  const beyond = { ...MAP, holders: [{ name: "a", id: 1, ranges: [[3, 9]] as [number, number][] }] };
  assert.deepEqual(
    slotsOf(beyond).map((slot) => slot.holders),
    [[], [], [], [1]],
  );
  const [a, b] = holdersOf(MAP, new Map([[1, vgpu({ memory: { ...vgpu().memory, resident_slots: 7 } })]]));
  assert.deepEqual([a!.holds, a!.here, a!.shared, a!.resident, a!.ranges], [2, 1, 1, 7, "0–1"]);
  assert.deepEqual([b!.here, b!.shared, b!.resident], [1, 1, null]);
  const text = (i: number) => slotText(i, slotsOf(MAP)[i]!, (id) => `v${id}`);
  assert.equal(text(1), "Slot 1: held by v1, v2; now of v2, which gives it up");
  assert.equal(text(2), "Slot 2: held by v2; nobody's now");
  assert.equal(text(3), "Slot 3: free");
});

test("colours differ as long as there are enough, and stay", () => {
  const colors = new Colors();
  const first = colors.of(5);
  const all = new Set([first, ...Array.from({ length: 15 }, (_, i) => colors.of(21 + i * 16))]);
  assert.equal(all.size, 16);
  assert.equal(colors.of(5), first);
});
