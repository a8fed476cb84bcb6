// SPDX-License-Identifier: Apache-2.0
// Changes a vGPU's promises and limits. A field that was typed into keeps its text when the lists are read again.
import { setAction } from "../model/actions";
import { formOf, readForm, type SettingsForm } from "../model/patch";
import type { Settings, Vgpu } from "../model/types";
import type { App } from "./app";
import { button, el, freshId, setText } from "./dom";
import { commandLine } from "./notices";

interface FieldSpec {
  key: keyof SettingsForm;
  name: string;
  unit: string;
  hint: string;
}

export const FIELDS: FieldSpec[] = [
  { key: "cap", name: "Cap", unit: "%", hint: "the most of the device that it may use" },
  { key: "weight", name: "Weight", unit: "", hint: "its share beside others while the device is full" },
  { key: "fps", name: "Promised frames", unit: "frames/s", hint: "0: none" },
  { key: "tasks", name: "Promised tasks", unit: "tasks/s", hint: "of a program that computes; 0: none" },
  { key: "latency", name: "Promised latency", unit: "ms", hint: "of a single frame; 0: none" },
];

/** The fields alone, for this form and for that of a new vGPU. */
export class SettingsFields {
  readonly root = el("div.fields");
  private readonly inputs = new Map<keyof SettingsForm, HTMLInputElement>();
  private readonly faults = new Map<keyof SettingsForm, HTMLElement>();

  constructor(changed: () => void) {
    for (const field of FIELDS) {
      const id = freshId("setting");
      const input = el("input", {
        id,
        inputmode: "decimal",
        autocomplete: "off",
        "aria-describedby": `${id}-hint ${id}-fault`,
        name: field.key,
      });
      const fault = el("span.fault", { id: `${id}-fault`, role: "alert" });
      input.addEventListener("input", changed);
      this.inputs.set(field.key, input);
      this.faults.set(field.key, fault);
      const unit = field.unit ? el("span.unit", {}, field.unit) : null;
      this.root.append(
        el(
          "div.field",
          {},
          el("label", { for: id }, field.name),
          el("span.with-unit", {}, input, unit),
          el("span.hint", { id: `${id}-hint` }, field.hint),
          fault,
        ),
      );
    }
  }

  values(): SettingsForm {
    const text = (key: keyof SettingsForm) => this.inputs.get(key)!.value;
    return {
      cap: text("cap"),
      weight: text("weight"),
      fps: text("fps"),
      tasks: text("tasks"),
      latency: text("latency"),
    };
  }

  /** Fields that differ from `before` were typed into and stay. */
  fill(values: SettingsForm, before: SettingsForm | null): void {
    for (const [key, input] of this.inputs) if (!before || input.value === before[key]) input.value = values[key];
  }

  disable(disabled: boolean): void {
    for (const input of this.inputs.values()) input.disabled = disabled;
  }

  show(faults: { field: keyof SettingsForm; message: string }[]): void {
    for (const [key, place] of this.faults) {
      const fault = faults.find((one) => one.field === key);
      setText(place, fault?.message ?? "");
      this.inputs.get(key)!.setAttribute("aria-invalid", fault ? "true" : "false");
    }
  }
}

export class SettingsEditor {
  readonly root = el("form.settings", { novalidate: true, "aria-label": "Settings" });
  private readonly fields = new SettingsFields(() => this.changed());
  private readonly save = el("button", { type: "submit" }, "Change");
  private readonly reset = button("Reset", () => this.fill(true), { class: "quiet" });
  private readonly preview = el("div");
  private readonly fault = el("p.fault", { role: "alert" });
  private filled: SettingsForm | null = null;
  private settings: Settings | null = null;
  private busy = false;

  constructor(
    private readonly app: App,
    private readonly name: string,
  ) {
    this.root.append(this.fields.root, this.preview, this.fault, el("div.buttons", {}, this.save, this.reset));
    this.root.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.submit();
    });
  }

  update(vgpu: Vgpu): void {
    this.settings = vgpu.settings;
    this.fill(false);
    this.fields.disable(this.app.readOnly);
  }

  private fill(all: boolean): void {
    if (!this.settings) return;
    const values = formOf(this.settings);
    this.fields.fill(values, all ? null : this.filled);
    this.filled = values;
    this.changed();
  }

  private changed(): void {
    if (!this.settings) return;
    const { patch, faults } = readForm(this.fields.values(), this.settings);
    this.fields.show(faults);
    const any = Object.keys(patch).length > 0;
    this.save.disabled = !any || faults.length > 0 || this.busy || this.app.readOnly;
    this.reset.disabled = !any && faults.length === 0;
    const command = any && faults.length === 0 ? setAction(this.name, patch, this.settings).command : "";
    if (this.preview.dataset["command"] === command) return;
    this.preview.dataset["command"] = command;
    this.preview.replaceChildren(...(command ? [commandLine(command)] : []));
  }

  private async submit(): Promise<void> {
    if (!this.settings || this.save.disabled) return;
    const { patch } = readForm(this.fields.values(), this.settings);
    const action = setAction(this.name, patch, this.settings);
    this.busy = true;
    setText(this.fault, "");
    const failed = await this.app.act(action);
    this.busy = false;
    if (failed) setText(this.fault, failed);
    this.fill(!failed);
  }
}
