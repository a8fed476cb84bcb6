// SPDX-License-Identifier: Apache-2.0
// Keeps the pictures of one view: reads the hour from the server, continues it with ticks, and draws once a second.
import type { Samples } from "../model/node";
import { rowsOfHistory, Series, type Value } from "../model/series";
import type { HistoryReply, HistorySeries } from "../model/types";
import { ApiError, get } from "../net/api";
import type { App } from "./app";

const KEEP_MS = 3_600_000;
const DRAW_EVERY_MS = 1000;
/** So that a vGPU that has become one of the largest gets a layer of its own, and short breaks are filled. */
const READ_EVERY_MS = 60_000;

export class HistoryFeed {
  readonly series = new Map<string, Series>(); // by kind
  private readonly abort = new AbortController();
  private drawnAt = 0;
  private readAt = 0;
  private reading = false;

  constructor(
    private readonly app: App,
    private readonly query: string,
    private readonly draw: () => void,
  ) {
    this.read();
    // While the page is hidden no picture is drawn, and its ticks pass by.
    const visible = () => {
      if (!document.hidden) this.read();
    };
    document.addEventListener("visibilitychange", visible, { signal: this.abort.signal });
  }

  close(): void {
    this.abort.abort();
  }

  read(): void {
    if (this.reading) return;
    this.reading = true;
    this.readAt = performance.now();
    get<HistoryReply>(`/api/history?${this.query}`, this.abort.signal)
      .then((history) => this.take(history))
      .catch((error: unknown) => {
        if (!(error instanceof ApiError) && !this.abort.signal.aborted) throw error;
      })
      .finally(() => (this.reading = false));
  }

  /** Continues a series with the ticks that have come since the last picture. */
  add(kind: string, values: (fields: readonly string[], samples: Samples) => Value[]): void {
    const series = this.series.get(kind);
    if (!series) return;
    for (const samples of this.app.node.unseen) series.add(samples.atMs, values(series.fields, samples));
  }

  ticked(): void {
    const now = performance.now();
    if (now - this.readAt >= READ_EVERY_MS) this.read();
    if (now - this.drawnAt >= DRAW_EVERY_MS) this.drawNow();
  }

  drawNow(): void {
    this.drawnAt = performance.now();
    this.draw();
  }

  private take(history: HistoryReply): void {
    if (this.app.node.addDecisions({ lost: 0, events: history.events?.events ?? [] }).length > 0)
      this.app.tell("events");
    for (const one of history.series) this.takeSeries(one, one.fields ?? history.fields);
    this.drawNow();
  }

  private takeSeries(one: HistorySeries, fields: string[]): void {
    let series = this.series.get(one.kind);
    if (!series || series.fields.join("\n") !== fields.join("\n")) {
      series = new Series(fields, KEEP_MS);
      this.series.set(one.kind, series);
    }
    series.merge(rowsOfHistory(one.rows));
  }
}
