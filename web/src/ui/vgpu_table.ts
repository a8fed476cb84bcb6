// SPDX-License-Identifier: Apache-2.0
// The table of vGPUs. A tick changes texts of cells and nothing else: rows are made once and moved only when the order
// changes.
import { bytes, count, milliseconds, percent, plain, rate } from "../model/format";
import { keepingText, latencyKept } from "../model/promise";
import { hashOf } from "../model/route";
import { compareRows, firstDirection, matches, rowOf, type Sort, type SortKey, type VgpuRow } from "../model/rows";
import type { NodeModel } from "../model/node";
import { reconcile } from "./decision_list";
import { el, freshId, link, setData, setText } from "./dom";

interface Column {
  key: SortKey;
  name: string;
  cell: string; // its class
}

const COLUMNS: Column[] = [
  { key: "name", name: "vGPU", cell: "name" },
  { key: "device", name: "Device", cell: "device" },
  { key: "state", name: "State", cell: "state" },
  { key: "programs", name: "Programs", cell: "programs" },
  { key: "got", name: "Got / promised", cell: "got" },
  { key: "use", name: "Share of cap", cell: "share" },
  { key: "p99", name: "p99", cell: "p99" },
  { key: "late", name: "Late", cell: "late" },
  { key: "memory", name: "Memory", cell: "memory" },
];

/** A moving order is hard to read: values change 4 times a second, the order once. */
const SORT_EVERY_MS = 1000;

class Row {
  readonly root = el("tr", { role: "row" });
  private readonly cells: HTMLElement[];
  private readonly keeping = el("span.keeping");
  private readonly gotText = el("span");
  private readonly bar = el("span.bar", { "aria-hidden": "true" });
  private readonly shareText = el("span");
  data: VgpuRow;

  constructor(data: VgpuRow) {
    this.data = data;
    this.cells = COLUMNS.map((column) => el(`td.${column.cell}`, { role: "cell", "data-name": column.name }));
    const cell = (key: SortKey) => this.cells[COLUMNS.findIndex((column) => column.key === key)]!;
    cell("name").append(link(data.name, hashOf({ view: "vgpu", name: data.name })));
    cell("device").append(link(data.device, hashOf({ view: "device", name: data.device })));
    cell("state").append(el("span.state"));
    cell("got").append(this.gotText, this.keeping);
    cell("use").append(this.bar, this.shareText);
    this.root.append(...this.cells);
  }

  update(data: VgpuRow): void {
    this.data = data;
    const [, , state, programs, , , p99, late, memory] = this.cells as [
      HTMLElement,
      HTMLElement,
      HTMLElement,
      HTMLElement,
      HTMLElement,
      HTMLElement,
      HTMLElement,
      HTMLElement,
      HTMLElement,
    ];
    setText(state.firstElementChild!, data.state);
    setData(state, "state", data.state);
    setText(programs, data.programs || "none");
    setText(
      this.gotText,
      data.promised > 0 ? `${plain(data.got, 1)} / ${plain(data.promised)} ${data.unit}` : rate(data.got, data.unit),
    );
    setText(this.keeping, data.keeping === "none" ? "" : keepingText(data.keeping));
    setData(this.keeping, "keeping", data.keeping);
    setText(this.shareText, `${percent(data.use)} of ${percent(data.cap)}`);
    const filled = data.cap > 0 ? Math.min(1, data.use / data.cap) : 0;
    const width = filled.toFixed(2);
    if (this.bar.style.getPropertyValue("--filled") !== width) this.bar.style.setProperty("--filled", width);
    setText(
      p99,
      data.p99 > 0 ? milliseconds(data.p99) + (data.latency > 0 ? ` of ${milliseconds(data.latency)}` : "") : "–",
    );
    setData(p99, "keeping", latencyKept(data.p99, data.latency));
    setText(late, count(data.late));
    setText(memory, bytes(data.memory));
  }
}

export class VgpuTable {
  readonly root = el("div.vgpus");
  private readonly rows = new Map<number, Row>();
  private readonly body = el("tbody", { role: "rowgroup" });
  private readonly heads: HTMLElement[] = [];
  private readonly filter: HTMLInputElement;
  private readonly summary = el("p.muted", { role: "status" });
  private readonly order: HTMLSelectElement;
  private sort: Sort = { key: "name", down: false };
  private sortedAt = 0;

  /** `device`: only its vGPUs; "" all. */
  constructor(
    private readonly node: NodeModel,
    private readonly device: string,
    ...tools: HTMLElement[]
  ) {
    const filterId = freshId("filter");
    const orderId = freshId("order");
    this.filter = el("input", { type: "search", id: filterId, class: "filter", placeholder: "name, program, state …" });
    this.filter.addEventListener("input", () => this.arrange());
    this.order = el("select", { id: orderId });
    for (const column of COLUMNS) this.order.append(el("option", { value: column.key }, column.name));
    this.order.addEventListener("change", () => this.sortBy(this.order.value as SortKey));
    const bar = el(
      "div.toolbar",
      {},
      el("div.field", {}, el("label", { for: filterId }, "Filter"), this.filter),
      el("div.field.order", {}, el("label", { for: orderId }, "Sort by"), this.order),
      ...tools,
    );
    const table = el("table", { role: "table", "aria-label": "vGPUs" }, this.head(), this.body);
    if (device) table.classList.add("one-device");
    this.root.append(
      bar,
      this.summary,
      el("div.scroll", { role: "region", "aria-label": "vGPUs", tabindex: 0 }, table),
    );
    this.showSort();
  }

  focusFilter(): void {
    this.filter.focus();
  }

  /** After new lists: rows come and go. */
  listed(): void {
    const here = [...this.node.vgpus.values()].filter((vgpu) => !this.device || vgpu.device === this.device);
    const known = new Set(here.map((vgpu) => vgpu.id));
    for (const id of this.rows.keys()) if (!known.has(id)) this.rows.delete(id);
    for (const vgpu of here) if (!this.rows.has(vgpu.id)) this.rows.set(vgpu.id, new Row(this.dataOf(vgpu.id)!));
    this.ticked();
    this.arrange();
  }

  ticked(): void {
    for (const [id, row] of this.rows) {
      const data = this.dataOf(id);
      if (data) row.update(data);
    }
    const now = performance.now();
    if (now - this.sortedAt >= SORT_EVERY_MS && !this.isUsed()) this.arrange();
  }

  private dataOf(id: number): VgpuRow | null {
    const vgpu = this.node.vgpus.get(id);
    if (!vgpu) return null;
    const slotBytes = this.node.devices.get(vgpu.device)?.memory.slot_bytes ?? 0;
    return rowOf(vgpu, this.node.vgpuSamples.get(id), slotBytes);
  }

  /** Rows do not move away under a pointer or from the keyboard's focus. */
  private isUsed(): boolean {
    return this.body.matches(":hover") || this.body.contains(document.activeElement);
  }

  private arrange(): void {
    this.sortedAt = performance.now();
    const shown = [...this.rows.values()].filter((row) => matches(row.data, this.filter.value));
    const compare = compareRows(this.sort);
    shown.sort((a, b) => compare(a.data, b.data));
    reconcile(
      this.body,
      shown.map((row) => row.root),
    );
    const all = this.rows.size;
    const text = all === 0 ? "No vGPU yet." : shown.length === all ? `${all} vGPUs` : `${shown.length} of ${all} vGPUs`;
    setText(this.summary, all === 1 && shown.length === 1 ? "1 vGPU" : text);
  }

  private head(): HTMLElement {
    const row = el("tr", { role: "row" });
    for (const column of COLUMNS) {
      const choose = el("button", { type: "button" }, column.name);
      choose.addEventListener("click", () => this.sortBy(column.key));
      const head = el(`th.${column.cell}`, { role: "columnheader", scope: "col" }, choose);
      this.heads.push(head);
      row.append(head);
    }
    return el("thead", { role: "rowgroup" }, row);
  }

  private sortBy(key: SortKey): void {
    this.sort = { key, down: this.sort.key === key ? !this.sort.down : firstDirection(key) };
    this.showSort();
    this.arrange();
  }

  private showSort(): void {
    COLUMNS.forEach((column, i) => {
      const on = column.key === this.sort.key;
      this.heads[i]!.setAttribute("aria-sort", on ? (this.sort.down ? "descending" : "ascending") : "none");
    });
    this.order.value = this.sort.key;
  }
}
