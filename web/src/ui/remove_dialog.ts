// SPDX-License-Identifier: Apache-2.0
// Asks before a vGPU is removed.
import { removeAction } from "../model/actions";
import { counted } from "../model/format";
import type { Vgpu } from "../model/types";
import type { App } from "./app";
import { openDialog } from "./dialog";
import { button, el, freshId, setText } from "./dom";
import { commandLine } from "./notices";

export function openRemoveDialog(app: App, vgpu: Vgpu): void {
  const id = freshId("force");
  const attached = vgpu.processes.length;
  const force = el("input", { type: "checkbox", id });
  const preview = el("div");
  const fault = el("p.fault", { role: "alert" });
  const remove = button(`Remove ${vgpu.name}`, () => void submit(), { class: "danger" });

  function changed(): void {
    preview.replaceChildren(commandLine(removeAction(vgpu, force.checked).command));
    remove.disabled = attached > 0 && !force.checked;
  }
  async function submit(): Promise<void> {
    remove.disabled = true;
    const failed = await app.act(removeAction(vgpu, force.checked));
    remove.disabled = false;
    if (failed) return setText(fault, failed);
    dialog.close();
    location.hash = "#/";
  }

  force.addEventListener("change", changed);
  const programs = counted(attached, "program is", "programs are");
  const dialog = openDialog(
    `Remove ${vgpu.name}?`,
    el("p", {}, attached > 0 ? `${programs} attached.` : "No program is attached to it.", " Its promise ends."),
    attached > 0 &&
      el(
        "div.field.check",
        {},
        force,
        el("label", { for: id }, "Remove it all the same; its programs go on without any limit"),
      ),
    preview,
    fault,
    el(
      "div.buttons",
      {},
      remove,
      button("Keep it", () => dialog.close(), { class: "quiet" }),
    ),
  );
  changed();
}
