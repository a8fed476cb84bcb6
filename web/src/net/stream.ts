// SPDX-License-Identifier: Apache-2.0
// Reads /api/stream and opens it again after a break.
import { waitBefore } from "../model/backoff";
import { SseParser, type ServerEvent } from "../model/sse";
import { errorOf, headers } from "./api";

/** Ticks come 4 times a second; after so long without a byte the connection counts as lost. */
const SILENCE_MS = 6000;
/** While the daemon is away there are no ticks. */
const SILENCE_AWAY_MS = 60_000;

export interface StreamHandler {
  event(event: ServerEvent): void;
  lost(message: string): void;
  refused(message: string): void;
}

export class Stream {
  private abort: AbortController | null = null;
  private timer = 0;
  private silence = 0;
  private failures = 0;
  private away = false;

  constructor(private readonly handler: StreamHandler) {}

  /** Opens the stream now, also in the middle of a wait. */
  start(): void {
    this.stop();
    this.abort = new AbortController();
    void this.read(this.abort);
  }

  stop(): void {
    clearTimeout(this.timer);
    clearTimeout(this.silence);
    this.abort?.abort();
    this.abort = null;
  }

  private async read(abort: AbortController): Promise<void> {
    let message = "the dashboard's server has closed the connection";
    this.away = false;
    this.expect(abort);
    try {
      const reply = await fetch("/api/stream", { headers: headers(), signal: abort.signal, cache: "no-store" });
      if (reply.status === 401) {
        clearTimeout(this.silence);
        this.handler.refused((await errorOf(reply)).message);
        return;
      }
      if (!reply.ok || !reply.body) throw await errorOf(reply);
      await this.events(reply.body, abort);
    } catch (error) {
      if (abort !== this.abort) return; // stopped, or started again
      message = abort.signal.aborted ? String(abort.signal.reason) : textOf(error);
    }
    if (abort !== this.abort) return;
    clearTimeout(this.silence);
    this.handler.lost(message);
    this.timer = window.setTimeout(() => this.start(), waitBefore(++this.failures, Math.random()));
  }

  private async events(body: ReadableStream<Uint8Array>, abort: AbortController): Promise<void> {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    const parser = new SseParser();
    for (;;) {
      const { done, value } = await reader.read();
      if (done || abort !== this.abort) return;
      for (const event of parser.push(decoder.decode(value, { stream: true }))) {
        this.failures = 0;
        if (event.event === "away") this.away = true;
        if (event.event === "back" || event.event === "tick") this.away = false;
        this.handler.event(event);
      }
      this.expect(abort);
    }
  }

  /** Gives up if nothing is heard. */
  private expect(abort: AbortController): void {
    clearTimeout(this.silence);
    const wait = this.away ? SILENCE_AWAY_MS : SILENCE_MS;
    this.silence = window.setTimeout(() => abort.abort(`nothing was heard for ${wait / 1000} s`), wait);
  }
}

/** A browser's own words for a refused connection help nobody. */
function textOf(error: unknown): string {
  if (error instanceof TypeError) return "the dashboard's server does not answer";
  return error instanceof Error ? error.message : String(error);
}
