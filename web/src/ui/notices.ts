// SPDX-License-Identifier: Apache-2.0
// What has just been done, with the command that does the same and a button that takes it back. Where there is such a
// button, or something failed, the notice stays until it is closed or newer ones have come: nobody has to hurry.
import type { Action } from "../model/actions";
import { button, el } from "./dom";

const MOST = 3;
const SHORT_MS = 10_000;
let place: HTMLElement | null = null;

export function startNotices(parent: HTMLElement): void {
  place = el("section.notices", { "aria-label": "Last actions", "aria-live": "polite" });
  parent.append(place);
}

export function sayDone(action: Action, undo: (action: Action) => void): void {
  const undone = action.undo;
  show(
    "good",
    action.done,
    action.command,
    undone && {
      name: action.undoName ?? "Undo",
      act: () => undo(undone),
    },
  );
}

export function sayFailed(what: string, message: string): void {
  show("bad", `${what}: ${message}`, "", undefined);
}

function show(tone: string, text: string, command: string, undo: { name: string; act: () => void } | undefined): void {
  if (!place) return;
  const close = button("×", () => notice.remove(), { class: "quiet", "aria-label": "Close" });
  const notice = el("div.notice", { "data-tone": tone }, el("div.notice-head", {}, el("p", {}, text), close));
  if (command) notice.append(commandLine(command));
  if (undo) {
    const back = button(undo.name, () => {
      notice.remove();
      undo.act();
    });
    notice.append(el("div.buttons", {}, back));
  } else if (tone === "good") fade(notice);
  place.prepend(notice);
  while (place.children.length > MOST) place.lastElementChild?.remove();
}

function fade(notice: HTMLElement): void {
  setTimeout(() => {
    if (notice.matches(":hover, :focus-within")) fade(notice);
    else notice.remove();
  }, SHORT_MS);
}

/** A command of `weir`, to be copied. */
export function commandLine(command: string): HTMLElement {
  const code = el("code", {}, command);
  const copy = button("Copy", () => void copyText(code, copy), { class: "quiet", "aria-label": "Copy the command" });
  return el("div.command", {}, code, copy);
}

async function copyText(code: HTMLElement, copy: HTMLElement): Promise<void> {
  try {
    await navigator.clipboard.writeText(code.textContent ?? "");
    copy.textContent = "Copied";
  } catch {
    getSelection()?.selectAllChildren(code); // where the browser forbids it: Ctrl-C does the rest
  }
}
