// SPDX-License-Identifier: Apache-2.0
// Says that the values are old, and why.
import { clock } from "../model/format";
import type { NodeModel } from "../model/node";
import { button, el, setText } from "./dom";

export class Banner {
  readonly root = el("div.banner", { role: "alert", hidden: true });
  private readonly text = el("span");
  private readonly retry: HTMLButtonElement;

  constructor(retry: () => void) {
    this.retry = button("Try now", retry);
    this.root.append(this.text, this.retry);
  }

  update(node: NodeModel): void {
    const text = bannerText(node);
    document.body.classList.toggle("stale", text !== "" && node.listed);
    this.retry.hidden = node.connection.state !== "lost";
    if (text) setText(this.text, text);
    this.root.hidden = text === "";
  }
}

function bannerText(node: NodeModel): string {
  const connection = node.connection;
  const old = node.tickAtMs > 0 ? ` The values are of ${clock(node.tickAtMs, node.nowMs(Date.now()))}.` : "";
  switch (connection.state) {
    case "away":
      return `Not connected: ${sentence(connection.message || "the daemon does not answer")}${old}`;
    case "lost":
      return `Not connected: ${sentence(connection.message)}${old}`;
    case "refused":
      return `Not connected: ${sentence(connection.message)}${old}`;
    default:
      return "";
  }
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
