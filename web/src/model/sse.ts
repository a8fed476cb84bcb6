// SPDX-License-Identifier: Apache-2.0
// Server-sent events from pieces of text. EventSource cannot send an Authorization header, so the page reads the stream
// itself.

export interface ServerEvent {
  event: string;
  data: string;
}

export class SseParser {
  private rest = "";
  private event = "";
  private data: string[] = [];

  /** The events that are complete with this piece. Pieces may end anywhere, also between CR and LF. */
  push(piece: string): ServerEvent[] {
    const done: ServerEvent[] = [];
    let text = this.rest + piece;
    const held = text.endsWith("\r"); // a LF may follow
    if (held) text = text.slice(0, -1);
    const lines = text.split(/\r\n|\n|\r/);
    this.rest = (lines.pop() ?? "") + (held ? "\r" : "");
    for (const line of lines) {
      const event = this.line(line);
      if (event) done.push(event);
    }
    return done;
  }

  private line(line: string): ServerEvent | null {
    if (line === "") {
      const event = { event: this.event || "message", data: this.data.join("\n") };
      const any = this.data.length > 0;
      this.event = "";
      this.data = [];
      return any ? event : null;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return null; // a comment, which keeps the connection open
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (field === "event") this.event = value;
    else if (field === "data") this.data.push(value);
    return null;
  }
}
