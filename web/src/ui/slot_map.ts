// SPDX-License-Identifier: Apache-2.0
// The memory of a device as a map of slots, with the vGPUs that hold them.
import type { Colors } from "../model/colors";
import { bytes, counted, plain } from "../model/format";
import { hashOf } from "../model/route";
import { holdersOf, slotsOf, slotText, type Slot } from "../model/slots";
import type { MemoryMap, Vgpu } from "../model/types";
import { el, link, setData, setText } from "./dom";

export class SlotMap {
  readonly root = el("div.slot-map");
  private readonly summary = el("p.muted");
  private readonly grid = el("div.slots", { role: "img" });
  private readonly said = el("p.muted.slot-said", {}, "A slot under the pointer is explained here.");
  private readonly body = el("tbody");
  private slots: Slot[] = [];
  private names = new Map<number, string>();

  constructor(private readonly colors: Colors) {
    const head = el("tr");
    for (const name of ["vGPU", "Holds", "Its own now", "Shared", "Resident", "Slots"])
      head.append(el("th", { scope: "col" }, name));
    this.root.append(
      this.summary,
      this.grid,
      this.said,
      el(
        "ul.legend",
        {},
        sample("owned", "of a vGPU now"),
        sample("held", "held, nobody's now"),
        sample("shared", "held by several"),
        sample("leaving", "being given up"),
        sample("free", "free"),
      ),
      el(
        "div.scroll",
        { role: "region", "aria-label": "Holders of memory", tabindex: 0 },
        el("table.small", {}, el("thead", {}, head), this.body),
      ),
    );
    this.grid.addEventListener("pointerover", (event) => this.explain(event.target));
  }

  update(map: MemoryMap, vgpus: ReadonlyMap<number, Vgpu>): void {
    this.slots = slotsOf(map);
    this.names = new Map(map.holders.map((holder) => [holder.id, holder.name]));
    const size = bytes(map.slots * map.slot_bytes);
    const others = map.others_slots > 0 ? ` Other programs hold ${counted(map.others_slots, "slot")}.` : "";
    setText(
      this.summary,
      `${counted(map.slots, "slot")} of ${bytes(map.slot_bytes)}, ${size} together. Pressure is ${map.pressure}, overhead ${plain(map.overhead)} of 2.${others}`,
    );
    while (this.grid.children.length > this.slots.length) this.grid.lastElementChild!.remove();
    this.slots.forEach((slot, i) => this.drawSlot(i, slot));
    const held = this.slots.filter((slot) => slot.holders.length > 0).length;
    this.grid.setAttribute(
      "aria-label",
      `${held} of ${this.slots.length} slots are held. The table below says by which vGPUs.`,
    );
    this.listHolders(map, vgpus);
  }

  private drawSlot(index: number, slot: Slot): void {
    let cell = this.grid.children[index] as HTMLElement | undefined;
    if (!cell) this.grid.append((cell = el("span", { "data-slot": index })));
    const state = slot.leaving ? "leaving" : slot.owner !== 0 ? "owned" : slot.holders.length > 0 ? "held" : "free";
    setData(cell, "state", state);
    setData(cell, "shared", String(slot.holders.length > 1));
    const whose = slot.owner || slot.holders[0] || 0;
    const color = whose ? `var(${this.colors.of(whose)})` : "";
    if (cell.style.getPropertyValue("--slot") !== color) cell.style.setProperty("--slot", color);
  }

  private explain(target: EventTarget | null): void {
    const index = target instanceof HTMLElement ? Number(target.dataset["slot"] ?? NaN) : NaN;
    const slot = this.slots[index];
    if (slot)
      setText(
        this.said,
        slotText(index, slot, (id) => this.names.get(id) ?? `vGPU ${id}`),
      );
  }

  private listHolders(map: MemoryMap, vgpus: ReadonlyMap<number, Vgpu>): void {
    const rows = holdersOf(map, vgpus);
    while (this.body.children.length > rows.length) this.body.lastElementChild!.remove();
    rows.forEach((row, i) => {
      let line = this.body.children[i] as HTMLElement | undefined;
      if (!line || line.dataset["name"] !== row.name) {
        const made = el("tr", { "data-name": row.name });
        const swatch = el("span.swatch");
        swatch.style.setProperty("--swatch", `var(${this.colors.of(row.id)})`);
        made.append(el("th", { scope: "row" }, swatch, link(row.name, hashOf({ view: "vgpu", name: row.name }))));
        for (let k = 0; k < 5; ++k) made.append(el("td"));
        if (line) line.replaceWith(made);
        else this.body.append(made);
        line = made;
      }
      const texts = [row.holds, row.here, row.shared, row.resident ?? "–", row.ranges].map(String);
      texts.forEach((text, k) => setText(line!.children[k + 1]!, text));
    });
  }
}

function sample(state: string, text: string): HTMLElement {
  const shared = state === "shared";
  return el(
    "li",
    {},
    el("span.slot-sample", { "data-state": shared ? "owned" : state, "data-shared": String(shared) }),
    el("span", {}, text),
  );
}
