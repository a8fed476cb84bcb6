// SPDX-License-Identifier: Apache-2.0
// A small picture of the last minute, from 0 to 1.
import type { Series } from "../model/series";
import { el } from "./dom";
import { color } from "./theme";

const WINDOW_MS = 60_000;

export class Sparkline {
  readonly root = el("canvas.spark", { "aria-hidden": "true" });

  draw(series: Series, nowMs: number): void {
    const context = this.root.getContext("2d");
    const width = this.root.clientWidth;
    const height = this.root.clientHeight;
    if (!context || width === 0) return;
    const scale = devicePixelRatio || 1;
    if (this.root.width !== Math.round(width * scale)) this.root.width = Math.round(width * scale);
    if (this.root.height !== Math.round(height * scale)) this.root.height = Math.round(height * scale);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    const [times = [], values = []] = series.columns(nowMs - WINDOW_MS);
    const x = (seconds: number) => width * (1 - (nowMs - seconds * 1000) / WINDOW_MS);
    const y = (value: number) => height - 1 - Math.min(1, value) * (height - 2);
    context.lineWidth = 1.5;
    context.strokeStyle = color("--accent");
    context.beginPath();
    let on = false;
    values.forEach((value, i) => {
      const at = times[i];
      if (value === null || at === null || at === undefined) {
        on = false;
        return;
      }
      if (on) context.lineTo(x(at), y(value));
      else context.moveTo(x(at), y(value));
      on = true;
    });
    context.stroke();
  }
}
