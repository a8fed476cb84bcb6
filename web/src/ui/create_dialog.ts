// SPDX-License-Identifier: Apache-2.0
// Makes a vGPU.
import { createAction, type NewVgpu } from "../model/actions";
import { bytesIn, readForm, type Fault } from "../model/patch";
import type { Settings } from "../model/types";
import type { App } from "./app";
import { openDialog } from "./dialog";
import { button, el, freshId, setText } from "./dom";
import { commandLine } from "./notices";
import { SettingsFields } from "./settings_form";

const PRESET: Settings = {
  weight: 100,
  cap: 1,
  fps: 0,
  tasks_per_s: 0,
  latency_ms: 0,
  memory_min_bytes: 0,
  memory_max_bytes: 0,
  partition: "auto",
};

export function openCreateDialog(app: App, device: string): void {
  const ids = {
    name: freshId("name"),
    device: freshId("device"),
    min: freshId("min"),
    max: freshId("max"),
    best: freshId("best"),
  };
  const name = el("input", { id: ids.name, required: true, autocomplete: "off", spellcheck: "false", maxlength: 64 });
  const devices = el("select", { id: ids.device });
  for (const known of app.node.devices.keys())
    devices.append(el("option", { value: known, selected: known === device }, known));
  const min = el("input", { id: ids.min, autocomplete: "off", placeholder: "512M" });
  const max = el("input", { id: ids.max, autocomplete: "off", placeholder: "no limit" });
  const best = el("input", { id: ids.best, type: "checkbox" });
  const preview = el("div");
  const fault = el("p.fault", { role: "alert" });
  const make = el("button", { type: "submit" }, "Create");
  const fields = new SettingsFields(changed);
  fields.fill({ cap: "100", weight: "100", fps: "0", tasks: "0", latency: "0" }, null);

  function read(): { wanted: NewVgpu; faults: Fault[]; other: string } {
    const { patch, faults } = readForm(fields.values(), PRESET);
    const least = min.value.trim() ? bytesIn(min.value) : 0;
    const most = max.value.trim() ? bytesIn(max.value) : 0;
    let other = "";
    if (least === null || most === null) other = "Memory is a size such as 512M or 2G.";
    else if (most > 0 && least > most) other = "The least memory is more than the most.";
    const settings = { ...patch, memory_min_bytes: least ?? 0, memory_max_bytes: most ?? 0 };
    return {
      wanted: { name: name.value.trim(), device: devices.value, bestEffort: best.checked, settings },
      faults,
      other,
    };
  }

  function changed(): void {
    const { wanted, faults, other } = read();
    fields.show(faults);
    setText(fault, other);
    const good = faults.length === 0 && !other && wanted.name !== "";
    make.disabled = !good;
    preview.replaceChildren(...(good ? [commandLine(createAction(wanted).command)] : []));
  }

  const field = (id: string, text: string, input: HTMLElement, hint: string) =>
    el("div.field", {}, el("label", { for: id }, text), input, el("span.hint", {}, hint));
  const form = el(
    "form",
    { novalidate: true },
    el(
      "div.fields",
      {},
      field(ids.name, "Name", name, "letters, digits, '.', '_' and '-'"),
      field(ids.device, "Device", devices, "which it is a part of"),
    ),
    fields.root,
    el(
      "div.fields",
      {},
      field(ids.min, "Least memory", min, "which it always has"),
      field(ids.max, "Most memory", max, "as 512M or 2G"),
    ),
    el(
      "div.field.check",
      {},
      best,
      el("label", { for: ids.best }, "Best effort: only what no other wants, and no promise"),
    ),
    preview,
    fault,
    el(
      "div.buttons",
      {},
      make,
      button("Cancel", () => dialog.close(), { class: "quiet" }),
    ),
  );
  for (const input of [name, devices, min, max, best]) input.addEventListener("input", changed);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (make.disabled) return;
    make.disabled = true;
    void app.act(createAction(read().wanted)).then((failed) => {
      make.disabled = false;
      if (failed) setText(fault, failed);
      else dialog.close();
    });
  });
  const dialog = openDialog("Create a vGPU", form);
  changed();
  name.focus();
}
