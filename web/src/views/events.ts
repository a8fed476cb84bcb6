// SPDX-License-Identifier: Apache-2.0
// All decisions, filtered by device, vGPU, kind and words. The filter is part of the address.
import { titleOf } from "../model/explain";
import { count, counted } from "../model/format";
import type { Topic } from "../model/node";
import { hashOf, type Route } from "../model/route";
import type { HistoryReply } from "../model/types";
import { get } from "../net/api";
import type { App, View } from "../ui/app";
import { DecisionList } from "../ui/decision_list";
import { el, freshId, setText } from "../ui/dom";

type Asked = Extract<Route, { view: "events" }>;

export class EventsView implements View {
  readonly title = "Events";
  readonly root = el("div");
  private readonly list = new DecisionList("No event fits.", 100);
  private readonly summary = el("p.muted", { role: "status" });
  private readonly device = el("select");
  private readonly vgpu = el("select");
  private readonly kind = el("select");
  private readonly words = el("input", { type: "search", class: "filter", placeholder: "words of the text" });
  private readonly abort = new AbortController();

  constructor(
    private readonly app: App,
    asked: Asked,
  ) {
    const bar = el(
      "div.toolbar",
      {},
      field("Device", this.device),
      field("vGPU", this.vgpu),
      field("Kind", this.kind),
      field("Words", this.words),
    );
    this.root.append(
      el("h1", { tabindex: -1 }, "Events"),
      el("p", {}, "What the daemon decided, and why."),
      bar,
      this.summary,
      this.list.root,
    );
    this.offer(asked);
    for (const select of [this.device, this.vgpu, this.kind]) select.addEventListener("change", () => this.chosen());
    this.words.addEventListener("input", () => this.show());
    this.read();
    this.show();
  }

  update(topics: ReadonlySet<Topic>): void {
    if (topics.has("connection") && this.app.node.connection.state === "live") this.read();
    if (topics.has("events") || topics.has("lists")) {
      this.offer({ view: "events", device: this.device.value, vgpu: this.vgpu.value, kind: this.kind.value });
      this.show();
    } else if (topics.has("tick")) this.list.tick(this.app.node.nowMs(Date.now()));
  }

  focusFilter(): void {
    this.words.focus();
  }

  close(): void {
    this.abort.abort();
  }

  private read(): void {
    get<HistoryReply>("/api/history", this.abort.signal)
      .then((history) => {
        this.app.node.addDecisions({ lost: 0, events: history.events?.events ?? [] });
        this.show();
      })
      .catch(() => {}); // the banner says that nothing answers
  }

  /** All that occurs in the events or on the node; a choice stays even where it occurs no more. */
  private offer(asked: Asked): void {
    const { node } = this.app;
    const devices = new Set(node.devices.keys());
    const vgpus = new Set(node.byName.keys());
    const kinds = new Set<string>();
    for (const event of node.decisions.all()) {
      if (event.device) devices.add(event.device);
      if (event.vgpu) vgpus.add(event.vgpu);
      kinds.add(event.kind);
    }
    fill(this.device, devices, asked.device, (name) => name);
    fill(this.vgpu, vgpus, asked.vgpu, (name) => name);
    fill(this.kind, kinds, asked.kind, (kind) => `${titleOf(kind)} (${kind})`);
  }

  private chosen(): void {
    const hash = hashOf({ view: "events", device: this.device.value, vgpu: this.vgpu.value, kind: this.kind.value });
    history.replaceState(null, "", hash);
    this.show();
  }

  private show(): void {
    const { node } = this.app;
    const found = node.decisions.matching({
      device: this.device.value,
      vgpu: this.vgpu.value,
      kind: this.kind.value,
      text: this.words.value,
    });
    const all = node.decisions.all().length;
    const lost = node.lost > 0 ? ` The daemon had already forgotten ${count(node.lost)} older ones.` : "";
    setText(
      this.summary,
      `${counted(found.length, "event")}${found.length === all ? "" : ` of ${count(all)}`}.${lost}`,
    );
    this.list.set(found, node.nowMs(Date.now()));
  }
}

function field(name: string, input: HTMLElement): HTMLElement {
  input.id = freshId("filter");
  return el("div.field", {}, el("label", { for: input.id }, name), input);
}

const collator = new Intl.Collator("en", { numeric: true });

function fill(select: HTMLSelectElement, values: Set<string>, chosen: string, nameOf: (value: string) => string): void {
  if (chosen) values.add(chosen);
  const wanted = ["", ...[...values].sort(collator.compare)];
  const present = [...select.options].map((option) => option.value);
  if (present.join("\n") !== wanted.join("\n"))
    select.replaceChildren(...wanted.map((value) => el("option", { value }, value ? nameOf(value) : "all")));
  select.value = chosen;
}
