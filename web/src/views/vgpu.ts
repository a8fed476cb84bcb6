// SPDX-License-Identifier: Apache-2.0
// One vGPU: what it got, what was promised, and what was decided about it.
import { pauseAction } from "../model/actions";
import { bytes, count, milliseconds, percent, plain, rate } from "../model/format";
import type { Topic } from "../model/node";
import { keepingText } from "../model/promise";
import { hashOf } from "../model/route";
import { rowOf, rateUnit } from "../model/rows";
import { columnOf, type Value } from "../model/series";
import type { Vgpu } from "../model/types";
import type { App, View } from "../ui/app";
import { Chart, type ChartSeries } from "../ui/chart";
import { HistoryFeed } from "../ui/charts";
import { DecisionList } from "../ui/decision_list";
import { button, el, fact, link, listTexts, setData, setText } from "../ui/dom";
import { commandLine } from "../ui/notices";
import { openRemoveDialog } from "../ui/remove_dialog";
import { SettingsEditor } from "../ui/settings_form";
import { WindowChoice } from "../ui/window_choice";

interface Picture {
  chart: Chart;
  fields: string[];
  series: ChartSeries[];
}

export class VgpuView implements View {
  readonly title: string;
  readonly root = el("div");
  private readonly missing = el("p.notice-line", { role: "status", hidden: true });
  private readonly body = el("div");
  private readonly facts = el("dl.facts.wide");
  private readonly state = fact(this.facts, "State");
  private readonly device = fact(this.facts, "Device");
  private readonly rate = fact(this.facts, "Got / promised");
  private readonly share = fact(this.facts, "Share of cap");
  private readonly p99 = fact(this.facts, "Frame time p50 / p99");
  private readonly late = fact(this.facts, "Late / broken frames");
  private readonly memory = fact(this.facts, "Memory held");
  private readonly sale = fact(this.facts, "Sold as");
  private readonly promise = el("p");
  private readonly warnings = el("ul.warnings");
  private readonly processes = el("tbody");
  private readonly editor: SettingsEditor;
  private readonly pause: HTMLButtonElement;
  private readonly remove: HTMLButtonElement;
  private readonly pauseCommand = el("div");
  private readonly window: WindowChoice;
  private readonly pictures: Picture[];
  private readonly feed: HistoryFeed;
  private readonly list: DecisionList;
  private linked = "";
  private processesListed = "";

  constructor(
    private readonly app: App,
    private readonly name: string,
  ) {
    this.title = name;
    this.editor = new SettingsEditor(app, name);
    this.pause = button("Pause", () => {
      const vgpu = this.vgpu();
      if (vgpu) void app.actAndSay(pauseAction(name, vgpu.state !== "paused"));
    });
    this.remove = button(
      "Remove …",
      () => {
        const vgpu = this.vgpu();
        if (vgpu) openRemoveDialog(app, vgpu);
      },
      { class: "danger" },
    );
    this.window = new WindowChoice(() => this.feed.drawNow());
    this.pictures = this.makePictures();
    this.list = new DecisionList("Nothing was decided about this vGPU yet.", 20, (decision) => {
      for (const picture of this.pictures) picture.chart.choose(decision);
    });
    this.fillRoot();
    this.feed = new HistoryFeed(app, `vgpu=${encodeURIComponent(name)}`, () => this.draw());
    this.update(new Set(["lists", "events"]));
  }

  update(topics: ReadonlySet<Topic>): void {
    const { node } = this.app;
    if (topics.has("connection") && node.connection.state === "live") this.feed.read();
    if (topics.has("lists")) this.listed();
    if (topics.has("tick")) this.ticked();
    if (topics.has("events")) {
      const marks = node.decisions.matching({ vgpu: this.name });
      for (const picture of this.pictures) picture.chart.setMarks(marks);
      this.list.set(marks, node.nowMs(Date.now()));
    }
  }

  close(): void {
    this.feed.close();
    for (const picture of this.pictures) picture.chart.close();
  }

  private vgpu(): Vgpu | undefined {
    return this.app.node.byName.get(this.name);
  }

  private makePictures(): Picture[] {
    const syncKey = `vgpu-${this.name}`;
    const times = (value: Value | undefined) => milliseconds(value);
    return [
      {
        chart: new Chart({ title: "Frame time", format: times, top: 20, syncKey }),
        fields: ["p50_ms", "p99_ms"],
        series: [
          { label: "p50", color: "--c0" },
          { label: "p99", color: "--c1" },
        ],
      },
      {
        chart: new Chart({ title: "Rate", format: (value) => rate(value, "/s"), top: 10, syncKey }),
        fields: ["fps"],
        series: [{ label: "got", color: "--c2" }],
      },
      {
        chart: new Chart({ title: "Share and cap", format: percent, top: 0.1, syncKey }),
        fields: ["gpu_use", "cap"],
        series: [
          { label: "share", color: "--c0" },
          { label: "cap now", color: "--c3", dashed: true },
        ],
      },
    ];
  }

  private fillRoot(): void {
    const head = el("tr");
    for (const name of ["Program", "Process", "Interface", "Renderer", "Measured by"])
      head.append(el("th", { scope: "col" }, name));
    const table = el("table.small", {}, el("thead", {}, head), this.processes);
    this.body.append(
      this.facts,
      this.promise,
      this.warnings,
      el(
        "section",
        {},
        el("div.section-head", {}, el("h2", {}, "What it got"), this.window.root),
        ...this.pictures.map((picture) => picture.chart.root),
      ),
      el(
        "div.columns",
        {},
        el(
          "section",
          {},
          el("h2", {}, "Settings"),
          this.editor.root,
          el("h3", {}, "Hold or remove it"),
          el("div.buttons", {}, this.pause, this.remove),
          this.pauseCommand,
        ),
        el(
          "section",
          {},
          el("h2", {}, "Programs"),
          el("div.scroll", { role: "region", "aria-label": "Programs", tabindex: 0 }, table),
        ),
      ),
    );
    this.root.append(
      el("h1", { tabindex: -1 }, this.name),
      this.missing,
      this.body,
      el("section", {}, el("h2", {}, "Decisions"), this.list.root),
    );
  }

  private listed(): void {
    const vgpu = this.vgpu();
    this.missing.hidden = vgpu !== undefined || !this.app.node.listed;
    setText(
      this.missing,
      `There is no vGPU ${this.name} on this node. What was decided about it is below, as long as the daemon knows it.`,
    );
    this.body.hidden = vgpu === undefined;
    if (!vgpu) return;
    this.editor.update(vgpu);
    const paused = vgpu.state === "paused";
    setText(this.pause, paused ? "Resume" : "Pause");
    this.pause.disabled = this.remove.disabled = this.app.readOnly;
    const command = pauseAction(this.name, !paused).command;
    if (this.pauseCommand.textContent !== command) this.pauseCommand.replaceChildren(commandLine(command));
    setText(this.state, vgpu.state);
    setData(this.state, "state", vgpu.state);
    if (this.linked !== vgpu.device)
      this.device.replaceChildren(link(vgpu.device, hashOf({ view: "device", name: vgpu.device })));
    this.linked = vgpu.device;
    setText(this.sale, vgpu.sale);
    setText(this.promise, vgpu.promise?.text ?? "");
    const warnings = vgpu.promise?.warnings ?? [];
    listTexts(this.warnings, warnings);
    this.listProcesses(vgpu);
    this.setLines(vgpu);
    this.ticked();
  }

  private listProcesses(vgpu: Vgpu): void {
    const listed = JSON.stringify(vgpu.processes);
    if (this.processesListed === listed) return;
    this.processesListed = listed;
    const rows = vgpu.processes.map((process) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, process.program),
        ...[
          String(process.pid),
          process.api + (process.presents ? "" : ", off screen"),
          process.renderer,
          process.meter,
        ].map((text) => el("td", {}, text)),
      ),
    );
    if (rows.length === 0) rows.push(el("tr", {}, el("td", { colspan: 5, class: "muted" }, "No program is attached.")));
    this.processes.replaceChildren(...rows);
  }

  private setLines(vgpu: Vgpu): void {
    const { fps, tasks_per_s, latency_ms, cap } = vgpu.settings;
    const [times, rates, shares] = this.pictures as [Picture, Picture, Picture];
    times.chart.setLines(latency_ms > 0 ? [{ value: latency_ms, label: `promised ${milliseconds(latency_ms)}` }] : []);
    const promised = fps > 0 ? fps : tasks_per_s;
    rates.chart.setLines(
      promised > 0 ? [{ value: promised, label: `promised ${plain(promised)} ${rateUnit(vgpu)}` }] : [],
    );
    shares.chart.setLines(cap < 1 ? [{ value: cap, label: `ceiling ${percent(cap)}` }] : []);
  }

  private ticked(): void {
    const { node } = this.app;
    const vgpu = this.vgpu();
    if (!vgpu) return this.list.tick(node.nowMs(Date.now()));
    const sample = node.vgpuSamples.get(vgpu.id);
    const row = rowOf(vgpu, sample, node.devices.get(vgpu.device)?.memory.slot_bytes ?? 0);
    const got = rate(row.got, row.unit);
    setText(this.rate, row.promised > 0 ? `${got} of ${plain(row.promised)}: ${keepingText(row.keeping)}` : got);
    setData(this.rate, "keeping", row.keeping);
    setText(this.share, `${percent(row.use)} of ${percent(row.cap)}`);
    const p50 = sample?.["p50_ms"] ?? vgpu.window.frame_ms_p50;
    setText(this.p99, row.p99 > 0 ? `${milliseconds(p50)} / ${milliseconds(row.p99)}` : "no frames");
    setText(this.late, `${count(row.late)} / ${count(vgpu.totals.broken_frames)}`);
    setText(this.memory, bytes(row.memory));
    this.feed.add("vgpu", (fields, samples) => fields.map((field) => samples.vgpus.get(vgpu.id)?.[field] ?? null));
    this.feed.ticked();
    this.list.tick(node.nowMs(Date.now()));
  }

  private draw(): void {
    const series = this.feed.series.get("vgpu");
    const to = (this.app.node.tickAtMs || Date.now()) / 1000;
    const from = to - this.window.seconds;
    const columns = series?.columns(from * 1000) ?? [[]];
    for (const picture of this.pictures) {
      picture.chart.setSeries(picture.series);
      const values = picture.fields.map((field) => withoutZero(field, columnOf(series?.fields ?? [], columns, field)));
      picture.chart.setData([columns[0] ?? [], ...values], values, from, to);
    }
  }
}

/** A frame time of 0 means that there was no frame. */
function withoutZero(field: string, values: Value[]): Value[] {
  return field.endsWith("_ms") ? values.map((value) => (value === 0 ? null : value)) : values;
}
