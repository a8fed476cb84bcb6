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

interface Wanted {
  wanted: NewVgpu;
  faults: Fault[];
  other: string;
}

/** What of a new vGPU is no setting of the form of settings. */
class OwnFields {
  readonly name = el("input", {
    id: freshId("name"),
    required: true,
    autocomplete: "off",
    spellcheck: "false",
    maxlength: 64,
  });
  readonly devices = el("select", { id: freshId("device") });
  readonly min = el("input", { id: freshId("min"), autocomplete: "off", placeholder: "512M" });
  readonly max = el("input", { id: freshId("max"), autocomplete: "off", placeholder: "no limit" });
  readonly best = el("input", { id: freshId("best"), type: "checkbox" });

  constructor(known: Iterable<string>, chosen: string, changed: () => void) {
    for (const device of known)
      this.devices.append(el("option", { value: device, selected: device === chosen }, device));
    for (const input of [this.name, this.devices, this.min, this.max, this.best])
      input.addEventListener("input", changed);
  }
}

function read(own: OwnFields, fields: SettingsFields): Wanted {
  const { patch, faults } = readForm(fields.values(), PRESET);
  const least = own.min.value.trim() ? bytesIn(own.min.value) : 0;
  const most = own.max.value.trim() ? bytesIn(own.max.value) : 0;
  let other = "";
  if (least === null || most === null) other = "Memory is a size such as 512M or 2G.";
  else if (most > 0 && least > most) other = "The least memory is more than the most.";
  const settings = { ...patch, memory_min_bytes: least ?? 0, memory_max_bytes: most ?? 0 };
  return {
    wanted: { name: own.name.value.trim(), device: own.devices.value, bestEffort: own.best.checked, settings },
    faults,
    other,
  };
}

function labelled(text: string, input: HTMLElement, hint: string): HTMLElement {
  return el("div.field", {}, el("label", { for: input.id }, text), input, el("span.hint", {}, hint));
}

function formOf(own: OwnFields, fields: SettingsFields, ...rest: HTMLElement[]): HTMLFormElement {
  return el(
    "form",
    { novalidate: true },
    el(
      "div.fields",
      {},
      labelled("Name", own.name, "letters, digits, '.', '_' and '-'"),
      labelled("Device", own.devices, "which it is a part of"),
    ),
    fields.root,
    el(
      "div.fields",
      {},
      labelled("Least memory", own.min, "which it always has"),
      labelled("Most memory", own.max, "as 512M or 2G"),
    ),
    el(
      "div.field.check",
      {},
      own.best,
      el("label", { for: own.best.id }, "Best effort: only what no other wants, and no promise"),
    ),
    ...rest,
  );
}

export function openCreateDialog(app: App, device: string): void {
  const preview = el("div");
  const fault = el("p.fault", { role: "alert" });
  const make = el("button", { type: "submit" }, "Create");
  const own = new OwnFields(app.node.devices.keys(), device, changed);
  const fields = new SettingsFields(changed);
  fields.fill({ cap: "100", weight: "100", fps: "0", tasks: "0", latency: "0" }, null);

  function changed(): void {
    const { wanted, faults, other } = read(own, fields);
    fields.show(faults);
    setText(fault, other);
    const good = faults.length === 0 && !other && wanted.name !== "";
    make.disabled = !good;
    preview.replaceChildren(...(good ? [commandLine(createAction(wanted).command)] : []));
  }

  const cancel = button("Cancel", () => dialog.close(), { class: "quiet" });
  const form = formOf(own, fields, preview, fault, el("div.buttons", {}, make, cancel));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (make.disabled) return;
    make.disabled = true;
    void app.act(createAction(read(own, fields).wanted)).then((failed) => {
      make.disabled = false;
      if (failed) setText(fault, failed);
      else dialog.close();
    });
  });
  const dialog = openDialog("Create a vGPU", form);
  changed();
  own.name.focus();
}
