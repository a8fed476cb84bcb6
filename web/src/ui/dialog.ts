// SPDX-License-Identifier: Apache-2.0
// Dialogs: Escape and a press beside it close one, and the focus goes back to where it was.
import { button, el, freshId, type Child } from "./dom";

export interface Dialog {
  root: HTMLDialogElement;
  close(): void;
}

export function openDialog(title: string, ...children: Child[]): Dialog {
  const id = freshId("dialog");
  const root = el("dialog", { "aria-labelledby": id });
  const before = document.activeElement;
  const close = () => root.close();
  const head = el(
    "div.dialog-head",
    {},
    el("h2", { id }, title),
    button("×", close, { class: "quiet", "aria-label": "Close" }),
  );
  root.append(head);
  for (const child of children) if (child) root.append(child);
  root.addEventListener("click", (event) => {
    if (event.target === root) close();
  });
  root.addEventListener("close", () => {
    root.remove();
    if (before instanceof HTMLElement && before.isConnected) before.focus();
  });
  document.body.append(root);
  root.showModal();
  return { root, close };
}

export function dialogIsOpen(): boolean {
  return document.querySelector("dialog[open]") !== null;
}
