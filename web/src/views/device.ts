// SPDX-License-Identifier: Apache-2.0
// One device: who used it, its memory, what it earned, and what was decided about it.
import { Colors, OTHERS } from "../model/colors";
import { amount, bytes, counted, percent, plain, seconds } from "../model/format";
import type { Samples, Topic } from "../model/node";
import { columnOf, stacked, usesByName } from "../model/series";
import type { Device, MemoryMap } from "../model/types";
import { hashOf } from "../model/route";
import { get, messageOf } from "../net/api";
import type { App, View } from "../ui/app";
import { Chart } from "../ui/chart";
import { HistoryFeed } from "../ui/charts";
import { openCreateDialog } from "../ui/create_dialog";
import { DecisionList } from "../ui/decision_list";
import { button, el, fact, listTexts, setText } from "../ui/dom";
import { openPolicyDialog } from "../ui/policy_dialog";
import { SlotMap } from "../ui/slot_map";
import { VgpuTable } from "../ui/vgpu_table";
import { WindowChoice } from "../ui/window_choice";
import { isEmulated } from "./overview";

const MAP_EVERY_MS = 2000;

const USE_ALONE = [{ label: "use", color: "--c0" }];
const USE_AND_LOAD = [...USE_ALONE, { label: "load of those who bought it", color: "--c3", dashed: true }];

export class DeviceView implements View {
  readonly title: string;
  readonly root = el("div");
  private readonly emulated = el("span.badge", { hidden: true }, "emulated");
  private readonly missing = el("p.notice-line", { role: "status", hidden: true });
  private readonly facts = el("dl.facts.wide");
  private readonly kind = fact(this.facts, "Kind");
  private readonly use = fact(this.facts, "Use now");
  private readonly promised = fact(this.facts, "Promised need");
  private readonly policy = fact(this.facts, "Policy");
  private readonly selling = fact(this.facts, "Sold");
  private readonly offer = fact(this.facts, "Can be sold");
  private readonly revenue = fact(this.facts, "Revenue");
  private readonly penalty = fact(this.facts, "Penalties");
  private readonly warnings = el("ul.warnings");
  private readonly change: HTMLButtonElement;
  private readonly create: HTMLButtonElement;
  private readonly window: WindowChoice;
  private readonly chart: Chart;
  private readonly useChart: Chart;
  private readonly feed: HistoryFeed;
  private readonly list: DecisionList;
  private readonly table: VgpuTable;
  private readonly memory = el("section", {}, el("h2", {}, "Memory"));
  private readonly colors = new Colors();
  private readonly map = new SlotMap(this.colors);
  private readonly mapFault = el("p.muted");
  private readonly abort = new AbortController();
  private mapTimer = 0;

  constructor(
    private readonly app: App,
    private readonly name: string,
  ) {
    this.title = name;
    this.change = button("Change the policy", () => {
      const device = this.device();
      if (device) void openPolicyDialog(app, device);
    });
    this.create = button("Create a vGPU", () => openCreateDialog(app, name));
    this.window = new WindowChoice(() => this.feed.drawNow());
    this.chart = new Chart({
      title: "Who used it",
      format: percent,
      top: 1,
      stacked: true,
      height: 240,
      syncKey: `device-${name}`,
    });
    this.useChart = new Chart({
      title: "Its use",
      format: percent,
      top: 1,
      height: 130,
      syncKey: `device-${name}`,
    });
    this.useChart.setSeries(USE_ALONE);
    this.list = new DecisionList("Nothing was decided about this device yet.", 20, (decision) => {
      this.chart.choose(decision);
      this.useChart.choose(decision);
    });
    this.table = new VgpuTable(app.node, name, this.create);
    this.root.append(
      el("h1", { tabindex: -1 }, name, " ", this.emulated),
      this.missing,
      this.facts,
      this.warnings,
      el("div.buttons", {}, this.change),
      el(
        "section",
        {},
        el("div.section-head", {}, el("h2", {}, "Use"), this.window.root),
        this.chart.root,
        this.useChart.root,
      ),
      this.memory,
      el("section", {}, el("h2", {}, "Decisions"), this.list.root),
      el("section", {}, el("h2", {}, "vGPUs"), this.table.root),
    );
    this.memory.append(this.mapFault, this.map.root);
    this.feed = new HistoryFeed(app, `device=${encodeURIComponent(name)}`, () => this.draw());
    this.update(new Set(["lists", "events"]));
    void this.askForMap();
  }

  update(topics: ReadonlySet<Topic>): void {
    const { node } = this.app;
    if (topics.has("connection") && node.connection.state === "live") this.feed.read();
    if (topics.has("lists")) this.listed();
    if (topics.has("tick")) this.ticked();
    if (topics.has("events")) {
      const marks = node.decisions.matching({ device: this.name });
      this.chart.setMarks(marks);
      this.useChart.setMarks(marks);
      this.list.set(marks, node.nowMs(Date.now()));
    }
  }

  close(): void {
    clearTimeout(this.mapTimer);
    this.abort.abort();
    this.feed.close();
    this.chart.close();
    this.useChart.close();
  }

  focusFilter(): void {
    this.table.focusFilter();
  }

  private device(): Device | undefined {
    return this.app.node.devices.get(this.name);
  }

  private listed(): void {
    const device = this.device();
    this.missing.hidden = device !== undefined || !this.app.node.listed;
    setText(this.missing, `There is no device ${this.name} on this node.`);
    this.change.disabled = this.create.disabled = this.app.readOnly || !device;
    if (!device) return;
    this.emulated.hidden = !isEmulated(device);
    const memory = device.memory_bytes > 0 ? `, ${bytes(device.memory_bytes)}` : "";
    setText(this.kind, `${device.model || device.kind}${memory}`);
    const params = Object.entries(device.policy_params).map(
      ([key, value]) => `${key} ${typeof value === "number" ? plain(value, 4) : value}`,
    );
    setText(this.policy, params.length > 0 ? `${device.policy} (${params.join(", ")})` : device.policy);
    const unknown =
      device.promised.unknown > 0 ? `; that of ${counted(device.promised.unknown, "vGPU")} is not known` : "";
    setText(
      this.promised,
      `${percent(device.promised.need)}, ${device.promised.fits ? "which fits" : "which does not fit"}${unknown}`,
    );
    const { oversell } = device;
    setText(
      this.selling,
      `${percent(oversell.sold)} of it, ${oversell.mode === "off" ? "without overselling" : oversell.mode}`,
    );
    const most = Math.max(oversell.offer.guaranteed, oversell.offer.oversold);
    setText(
      this.offer,
      oversell.mode === "off"
        ? "any cap"
        : `${percent(most)}${oversell.offer.reason ? `: ${oversell.offer.reason}` : ""}`,
    );
    listTexts(this.warnings, device.warnings);
    this.map.root.hidden = device.memory.slots === 0;
    if (device.memory.slots === 0)
      setText(this.mapFault, "This device's memory is not elastic: each vGPU has a fixed limit, or none.");
    this.table.listed();
    this.ticked();
  }

  private ticked(): void {
    const { node } = this.app;
    const device = this.device();
    if (!device) return;
    const sample = node.deviceSamples.get(this.name);
    setText(this.use, percent(sample?.["gpu_use"] ?? device.gpu_use));
    const account = device.oversell.account;
    const sold = device.oversell.mode !== "off" || account.sold_s > 0;
    setText(this.revenue, sold ? amount(sample?.["revenue"] ?? account.revenue) : "not sold");
    setText(
      this.penalty,
      sold ? `${amount(sample?.["penalty"] ?? account.penalty)}, broken for ${seconds(account.broken_s)}` : "not sold",
    );
    this.feed.add("device", (fields, samples) =>
      fields.map((field) => samples.devices.get(this.name)?.[field] ?? null),
    );
    this.feed.add("use", (fields, samples) => usesByName(fields, this.uses(samples)));
    this.feed.ticked();
    this.table.ticked();
    this.list.tick(node.nowMs(Date.now()));
  }

  private *uses(samples: Samples): Iterable<[string, number]> {
    for (const vgpu of this.app.node.vgpus.values())
      if (vgpu.device === this.name) yield [vgpu.name, samples.vgpus.get(vgpu.id)?.["gpu_use"] ?? 0];
  }

  private draw(): void {
    const to = (this.app.node.tickAtMs || Date.now()) / 1000;
    const from = to - this.window.seconds;
    this.drawShares(from, to);
    const series = this.feed.series.get("device");
    if (!series) return;
    const columns = series.columns(from * 1000);
    // Only a device that is sold has a load: what those who bought it use or need.
    const sold = (this.device()?.oversell.mode ?? "off") !== "off";
    this.useChart.setSeries(sold ? USE_AND_LOAD : USE_ALONE);
    const values = (sold ? ["gpu_use", "load"] : ["gpu_use"]).map((field) => columnOf(series.fields, columns, field));
    this.useChart.setData([columns[0] ?? [], ...values], values, from, to);
  }

  private drawShares(from: number, to: number): void {
    const series = this.feed.series.get("use");
    if (!series) return;
    const { node } = this.app;
    this.chart.setSeries(
      series.fields.map((name, i) => {
        if (name === "others") return { label: name, color: OTHERS };
        return {
          label: name,
          color: this.colors.of(node.byName.get(name)?.id ?? -1 - i),
          href: hashOf({ view: "vgpu", name }),
        };
      }),
    );
    const columns = series.columns(from * 1000);
    this.chart.setData(columns, stacked(columns.slice(1)), from, to);
  }

  private async askForMap(): Promise<void> {
    if ((this.device()?.memory.slots ?? 0) > 0 && this.app.node.connection.state === "live" && !document.hidden) {
      try {
        const path = `/api/v1/devices/${encodeURIComponent(this.name)}/memory`;
        this.map.update(await get<MemoryMap>(path, this.abort.signal), this.app.node.vgpus);
        setText(this.mapFault, "");
      } catch (error) {
        if (this.abort.signal.aborted) return;
        setText(this.mapFault, `The map could not be read: ${messageOf(error)}`);
      }
    }
    this.mapTimer = window.setTimeout(() => void this.askForMap(), MAP_EVERY_MS);
  }
}
