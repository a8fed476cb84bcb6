// SPDX-License-Identifier: Apache-2.0
// Keys of the page. They do nothing while a text is typed or a dialog is open.
import { dialogIsOpen, openDialog } from "./dialog";
import { el } from "./dom";

export interface Key {
  key: string;
  name: string;
  act(): void;
}

export function startKeys(keys: Key[]): void {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || dialogIsOpen()) return;
    if (event.key === "?") {
      event.preventDefault();
      showKeys(keys);
      return;
    }
    const found = keys.find((one) => one.key === event.key);
    if (!found) return;
    event.preventDefault();
    found.act();
  });
}

export function showKeys(keys: readonly Key[]): void {
  const list = el("dl.keys");
  const all = [
    ...keys.map((one) => [one.key, one.name]),
    ["?", "Show the keys"],
    ["Esc", "Close a dialog"],
    ["Tab, Enter", "Go to a link, button or column, and use it"],
  ];
  for (const [key, name] of all) list.append(el("div", {}, el("dt", {}, el("kbd", {}, key)), el("dd", {}, name)));
  openDialog("Keys", list);
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input:not([type=checkbox], [type=radio]), textarea, select");
}
