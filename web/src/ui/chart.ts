// SPDX-License-Identifier: Apache-2.0
// A picture of values over time, with the daemon's decisions as marks. uPlot draws; this file adds the legend, lines
// for promises, marks, and a text for those who cannot see it.
import uPlot from "uplot";
import { titleOf, toneOf, whyOf } from "../model/explain";
import { clock } from "../model/format";
import type { Value } from "../model/series";
import type { Decision } from "../model/types";
import { el, setText } from "./dom";
import { color, onTheme } from "./theme";

export interface ChartSeries {
  label: string;
  color: string; // a custom property of style/colors.css
  href?: string;
  dashed?: boolean;
  hidden?: boolean; // drawn by nobody, but with a value in the legend
}

export interface ChartOptions {
  title: string;
  format(value: Value | undefined): string;
  /** The least value of the upper end. */
  top: number;
  stacked?: boolean;
  height?: number;
  syncKey: string;
}

export interface PromiseLine {
  value: number;
  label: string;
}

const MARK_REACH = 7; // pixels

export class Chart {
  readonly root: HTMLElement;
  private readonly frame = el("div.plot-frame");
  private readonly legend = el("ul.legend");
  private readonly promised = el("span.promised");
  private readonly tip = el("div.mark-tip", { hidden: true });
  private plot: uPlot | null = null;
  private series: ChartSeries[] = [];
  private legendValues: HTMLElement[] = [];
  private raw: Value[][] = [];
  private from = 0;
  private to = 1;
  private marks: readonly Decision[] = [];
  private lines: PromiseLine[] = [];
  private chosen: Decision | null = null;
  private readonly watch: ResizeObserver;
  private readonly endTheme: () => void;

  constructor(private readonly options: ChartOptions) {
    this.frame.setAttribute("role", "img");
    this.frame.append(this.tip);
    this.root = el("figure.chart", {}, el("figcaption", {}, options.title, this.promised), this.frame, this.legend);
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(this.frame);
    this.endTheme = onTheme(() => this.plot?.redraw());
  }

  close(): void {
    this.watch.disconnect();
    this.endTheme();
    this.plot?.destroy();
  }

  setSeries(series: ChartSeries[]): void {
    const same =
      series.length === this.series.length &&
      series.every((s, i) => s.label === this.series[i]!.label && s.color === this.series[i]!.color);
    if (same) return;
    this.series = series;
    this.plot?.destroy();
    this.plot = null;
    this.legendValues = [];
    this.legend.replaceChildren(
      ...series.map((one) => {
        const swatch = el("span.swatch", { "data-dashed": one.dashed ?? false });
        swatch.style.setProperty("--swatch", `var(${one.color})`);
        const value = el("span.value");
        this.legendValues.push(value);
        const name = one.href ? el("a", { href: one.href }, one.label) : el("span", {}, one.label);
        return el("li", {}, swatch, name, value);
      }),
    );
  }

  /** `columns`: times in seconds, then the values of each series, not stacked. */
  setData(columns: Value[][], drawn: Value[][], from: number, to: number): void {
    this.raw = columns;
    this.from = from;
    this.to = to;
    // The painter's order: the uppermost layer first, so that lower ones cover it.
    const layers = this.options.stacked ? [...drawn].reverse() : drawn;
    const data = [columns[0] ?? [], ...layers] as uPlot.AlignedData;
    if (this.plot) this.plot.setData(data);
    else this.make(data);
    this.sayLegend(null);
  }

  setMarks(marks: readonly Decision[]): void {
    this.marks = marks;
  }

  setLines(lines: PromiseLine[]): void {
    if (lines.map((line) => line.label).join() !== this.lines.map((line) => line.label).join()) {
      this.promised.replaceChildren(
        ...lines.map((line) => {
          const swatch = el("span.swatch", { "data-dashed": true });
          swatch.style.setProperty("--swatch", "var(--promise)");
          return el("span.promise-line", {}, swatch, line.label);
        }),
      );
    }
    this.lines = lines;
  }

  /** Shows which mark a decision of a list is. */
  choose(decision: Decision | null): void {
    this.chosen = decision;
    this.plot?.redraw(false);
  }

  private make(data: uPlot.AlignedData): void {
    const width = this.frame.clientWidth;
    if (width === 0 || this.series.length === 0) return;
    const series = this.series.map(
      (one): uPlot.Series => ({
        label: one.label,
        stroke: () => color(one.color),
        width: this.options.stacked ? 0 : 1.5,
        points: { show: false },
        ...(this.options.stacked ? { fill: () => color(one.color) } : {}),
        ...(one.dashed ? { dash: [6, 4] } : {}),
        show: !one.hidden,
      }),
    );
    const axis = { stroke: () => color("--muted"), font: "12px system-ui, sans-serif", ticks: { show: false } };
    this.plot = new uPlot(
      {
        width,
        height: this.options.height ?? 170,
        legend: { show: false },
        cursor: {
          drag: { x: false, y: false },
          y: false,
          points: { show: !this.options.stacked },
          sync: { key: this.options.syncKey },
        },
        scales: {
          x: { time: true, range: () => [this.from, this.to] },
          y: { range: (_plot, _low, high) => [0, this.topOf(high)] },
        },
        axes: [
          { ...axis, grid: { show: false }, size: 26, space: 70, values: (_plot, splits) => this.times(splits) },
          {
            ...axis,
            size: 62,
            grid: { stroke: () => color("--line"), width: 1 },
            values: (_plot, splits) => splits.map((value) => this.options.format(value)),
          },
        ],
        series: [{}, ...(this.options.stacked ? series.reverse() : series)],
        hooks: { draw: [(plot) => this.drawOver(plot)], setCursor: [(plot) => this.onCursor(plot)] },
      },
      data,
      this.frame,
    );
  }

  private topOf(high: number): number {
    const most = Math.max(Number.isFinite(high) ? high : 0, ...this.lines.map((line) => line.value));
    return Math.max(this.options.top, most * 1.08);
  }

  private times(splits: number[]): string[] {
    const fine = this.to - this.from <= 180;
    return splits.map((at) => {
      const text = clock(at * 1000, at * 1000);
      return fine ? text : text.slice(0, 5);
    });
  }

  private resize(): void {
    const width = this.frame.clientWidth;
    if (width === 0) return;
    if (this.plot) this.plot.setSize({ width, height: this.options.height ?? 170 });
  }

  private drawOver(plot: uPlot): void {
    const { ctx } = plot;
    const { left, top, width, height } = plot.bbox;
    const scale = devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top - 8 * scale, width, height + 8 * scale);
    ctx.clip();
    ctx.lineWidth = scale;
    for (const line of this.lines) {
      const y = Math.round(plot.valToPos(line.value, "y", true));
      ctx.strokeStyle = color("--promise");
      ctx.setLineDash([8 * scale, 4 * scale]);
      ctx.beginPath();
      ctx.moveTo(left, y);
      ctx.lineTo(left + width, y);
      ctx.stroke();
    }
    ctx.setLineDash([]);
    for (const mark of this.marks) this.drawMark(plot, mark, scale);
    ctx.restore();
  }

  private drawMark(plot: uPlot, mark: Decision, scale: number): void {
    const at = mark.time_ms / 1000;
    if (at < this.from || at > this.to) return;
    const { ctx } = plot;
    const { top, height } = plot.bbox;
    const x = Math.round(plot.valToPos(at, "x", true));
    const bold = mark === this.chosen;
    const size = (bold ? 7 : 5) * scale;
    ctx.strokeStyle = ctx.fillStyle = color(`--${toneOf(mark.kind)}`);
    ctx.globalAlpha = bold ? 1 : 0.45;
    ctx.lineWidth = (bold ? 2 : 1) * scale;
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, top + height);
    ctx.stroke();
    ctx.globalAlpha = 1;
    ctx.beginPath();
    ctx.moveTo(x - size, top - size);
    ctx.lineTo(x + size, top - size);
    ctx.lineTo(x, top + size * 0.8);
    ctx.fill();
  }

  private onCursor(plot: uPlot): void {
    const { idx, left } = plot.cursor;
    const inside = left !== undefined && left !== null && left >= 0;
    this.sayLegend(inside ? (idx ?? null) : null);
    this.sayMark(inside ? this.markNear(plot, left) : null, left ?? 0, plot);
  }

  private markNear(plot: uPlot, left: number): Decision | null {
    let best: Decision | null = null;
    let reach = MARK_REACH;
    for (const mark of this.marks) {
      const distance = Math.abs(plot.valToPos(mark.time_ms / 1000, "x") - left);
      if (distance > reach) continue;
      best = mark;
      reach = distance;
    }
    return best;
  }

  private sayMark(mark: Decision | null, left: number, plot: uPlot): void {
    this.tip.hidden = mark === null;
    if (!mark) return;
    this.tip.replaceChildren(
      el("strong", {}, `${titleOf(mark.kind)}${mark.vgpu ? `: ${mark.vgpu}` : ""}`),
      el("span", {}, clock(mark.time_ms, this.to * 1000)),
      el("p", {}, mark.text),
      el("p.muted", {}, whyOf(mark.kind)),
    );
    const offset = plot.over.offsetLeft + left;
    const room = this.frame.clientWidth - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(room, offset + 12))}px`;
  }

  private sayLegend(index: number | null): void {
    this.series.forEach((_, i) => {
      const column = this.raw[i + 1] ?? [];
      const value = index === null ? column.at(-1) : column[index];
      const text = this.options.format(value);
      if (this.legendValues[i]) setText(this.legendValues[i]!, text);
    });
    if (index === null) this.describe();
  }

  private describe(): void {
    const now = this.series.map((one, i) => `${one.label} ${this.options.format(this.raw[i + 1]?.at(-1))}`);
    const promises = this.lines.map((line) => line.label);
    const text = `${this.options.title}. Now: ${[...now, ...promises].join(", ")}.`;
    if (this.frame.getAttribute("aria-label") !== text) this.frame.setAttribute("aria-label", text);
  }
}
