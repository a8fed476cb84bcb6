// SPDX-License-Identifier: Apache-2.0
// The node: its devices, and a table of all vGPUs.
import { amount, counted, percent } from "../model/format";
import type { NodeModel, Topic } from "../model/node";
import { hashOf } from "../model/route";
import { rowsOfHistory } from "../model/series";
import type { Device, HistoryReply } from "../model/types";
import { get } from "../net/api";
import type { App, View } from "../ui/app";
import { openCreateDialog } from "../ui/create_dialog";
import { reconcile } from "../ui/decision_list";
import { button, el, fact, link, listTexts, setData, setText } from "../ui/dom";
import { Sparkline } from "../ui/sparkline";
import { VgpuTable } from "../ui/vgpu_table";

/** Emulated figures are always labelled. */
export function isEmulated(device: Device): boolean {
  return device.kind === "emulated" || /emulated/i.test(device.model);
}

class DeviceCard {
  readonly root = el("article.card");
  private readonly model = el("span.muted");
  private readonly emulated = el("span.badge", {}, "emulated");
  private readonly use = el("span.big.value");
  private readonly spark = new Sparkline();
  private readonly warnings = el("ul.warnings");
  private readonly facts = el("dl.facts");
  private readonly policy = fact(this.facts, "Policy");
  private readonly promised = fact(this.facts, "Promised need");
  private readonly sold = fact(this.facts, "Selling");
  private readonly memory = fact(this.facts, "Memory pressure");
  private readonly vgpus = fact(this.facts, "vGPUs");

  constructor(private readonly name: string) {
    this.root.append(
      el("h2", {}, link(name, hashOf({ view: "device", name })), " ", this.emulated),
      this.model,
      el("div.use", {}, el("div", {}, this.use, el("span.muted", {}, " in use")), this.spark.root),
      this.facts,
      this.warnings,
    );
  }

  listed(device: Device): void {
    this.emulated.hidden = !isEmulated(device);
    setText(this.model, device.model || device.kind);
    setText(this.policy, device.policy);
    const unknown = device.promised.unknown > 0 ? ` and ${device.promised.unknown} unknown` : "";
    setText(this.promised, `${percent(device.promised.need)}${unknown}`);
    setData(this.promised, "tone", device.promised.fits ? "" : "warning");
    const memory = device.memory;
    setText(this.memory, memory.slots > 0 ? memory.pressure : "not elastic");
    setData(this.memory, "tone", memory.slots > 0 && memory.pressure === "high" ? "warning" : "");
    setText(this.vgpus, String(device.vgpus));
    listTexts(this.warnings, device.warnings);
  }

  ticked(node: NodeModel, device: Device): void {
    const sample = node.deviceSamples.get(this.name);
    setText(this.use, percent(sample?.["gpu_use"] ?? device.gpu_use));
    const { mode } = device.oversell;
    setText(
      this.sold,
      mode === "off"
        ? "off"
        : `${percent(sample?.["sold"] ?? device.oversell.sold)} sold (${mode}), load ${percent(sample?.["load"] ?? device.oversell.load)}`,
    );
    this.spark.draw(node.sparkOf(this.name), node.tickAtMs || Date.now());
  }
}

export class Overview implements View {
  readonly title = "Node";
  readonly root = el("div");
  private readonly heading = el("h1", { tabindex: -1 }, "Node");
  private readonly summary = el("p.muted");
  private readonly cards = el("div.cards");
  private readonly byName = new Map<string, DeviceCard>();
  private readonly table: VgpuTable;
  private readonly create: HTMLButtonElement;
  private readonly abort = new AbortController();

  constructor(private readonly app: App) {
    this.create = button("Create a vGPU", () => openCreateDialog(app, ""));
    this.table = new VgpuTable(app.node, "", this.create);
    this.root.append(this.heading, this.summary, this.cards, el("h2", {}, "vGPUs"), this.table.root);
    this.update(new Set(["connection", "lists", "tick"]));
  }

  update(topics: ReadonlySet<Topic>): void {
    const { node } = this.app;
    if (topics.has("connection") && node.connection.state === "live") this.readHistory();
    if (topics.has("lists")) this.listed();
    if (topics.has("tick") || topics.has("lists")) {
      for (const [name, card] of this.byName) card.ticked(node, node.devices.get(name)!);
      this.table.ticked();
    }
  }

  focusFilter(): void {
    this.table.focusFilter();
  }

  close(): void {
    this.abort.abort();
  }

  private listed(): void {
    const { node } = this.app;
    setText(this.heading, node.hello?.node || "Node");
    for (const name of this.byName.keys()) if (!node.devices.has(name)) this.byName.delete(name);
    const wanted: Element[] = [];
    let earned = 0;
    for (const device of node.devices.values()) {
      let card = this.byName.get(device.name);
      if (!card) this.byName.set(device.name, (card = new DeviceCard(device.name)));
      card.listed(device);
      wanted.push(card.root);
      earned += device.oversell.account.net;
    }
    reconcile(this.cards, wanted);
    const sold = [...node.devices.values()].some((device) => device.oversell.mode !== "off");
    const text = `${counted(node.devices.size, "device")}, ${counted(node.vgpus.size, "vGPU")}`;
    setText(this.summary, node.listed ? text + (sold ? `, net income ${amount(earned)}` : "") : "Reading the node …");
    this.create.disabled = this.app.readOnly || node.devices.size === 0;
    this.table.listed();
  }

  /** What the devices did before this page was opened. */
  private readHistory(): void {
    const { node } = this.app;
    get<HistoryReply>("/api/history", this.abort.signal)
      .then((history) => {
        node.addDecisions({ lost: 0, events: history.events?.events ?? [] });
        for (const series of history.series) {
          const use = (series.fields ?? history.fields).indexOf("gpu_use");
          if (series.kind !== "device" || use < 0) continue;
          const rows = rowsOfHistory(series.rows).map((row) => ({ ...row, values: [row.values[use] ?? null] }));
          node.sparkOf(series.name).merge(rows);
        }
      })
      .catch(() => {}); // the banner says that nothing answers; the next connection reads it again
  }
}
