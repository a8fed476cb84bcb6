// SPDX-License-Identifier: Apache-2.0
// Decisions of the daemon as a list, newest first, each with what it means.
import type { Decision } from "../model/types";
import { titleOf, toneOf, whyOf } from "../model/explain";
import { ago, clock, counted } from "../model/format";
import { hashOf } from "../model/route";
import { button, el, link, setText } from "./dom";

const MORE = 100;

interface Item {
  decision: Decision;
  root: HTMLElement;
  age: HTMLElement;
}

export class DecisionList {
  readonly root = el("div.decisions");
  private readonly list = el("ol");
  private readonly more: HTMLButtonElement;
  private items: Item[] = [];
  private shown: readonly Decision[] = [];

  constructor(
    private readonly empty: string,
    private most: number, // shown at first
    private readonly choose: (decision: Decision | null) => void = () => {},
  ) {
    this.more = button("Show more", () => {
      this.most += MORE;
      this.set(this.shown, Date.now());
    });
    this.root.append(this.list, this.more);
  }

  /** `decisions`: newest first. Elements of decisions that stay are kept. */
  set(decisions: readonly Decision[], nowMs: number): void {
    this.shown = decisions;
    const before = new Map(this.items.map((item) => [item.decision, item]));
    this.items = decisions.slice(0, this.most).map((decision) => before.get(decision) ?? this.item(decision));
    const wanted: HTMLElement[] = this.items.map((item) => item.root);
    if (wanted.length === 0) wanted.push(el("li.muted", {}, this.empty));
    reconcile(this.list, wanted);
    this.more.hidden = decisions.length <= this.most;
    setText(this.more, `Show more of ${counted(decisions.length, "event")}`);
    this.tick(nowMs);
  }

  tick(nowMs: number): void {
    for (const item of this.items) setText(item.age, ago(item.decision.time_ms, nowMs));
  }

  private item(decision: Decision): Item {
    const age = el("span.muted");
    const at = new Date(decision.time_ms).toISOString();
    const who = decision.vgpu
      ? link(decision.vgpu, hashOf({ view: "vgpu", name: decision.vgpu }))
      : decision.device
        ? link(decision.device, hashOf({ view: "device", name: decision.device }))
        : el("span", {}, "node");
    const why = whyOf(decision.kind);
    const root = el(
      "li.decision",
      { "data-tone": toneOf(decision.kind) },
      el("div.when", {}, el("time", { datetime: at }, clock(decision.time_ms, Date.now())), age),
      el("div.what", {}, el("strong", { title: decision.kind }, titleOf(decision.kind)), el("span.who", {}, who)),
      el("div.text", {}, el("p", {}, decision.text), why ? el("p.muted", {}, why) : null),
    );
    root.addEventListener("pointerenter", () => this.choose(decision));
    root.addEventListener("pointerleave", () => this.choose(null));
    root.addEventListener("focusin", () => this.choose(decision));
    root.addEventListener("focusout", () => this.choose(null));
    return { decision, root, age };
  }
}

/** Makes `wanted` the children of `parent`, and moves only what is not yet in its place. */
export function reconcile(parent: Element, wanted: readonly Element[]): void {
  const keep = new Set(wanted);
  for (const child of [...parent.children]) if (!keep.has(child)) child.remove();
  let at = parent.firstElementChild;
  for (const element of wanted) {
    if (element === at) at = at.nextElementSibling;
    else parent.insertBefore(element, at);
  }
}
