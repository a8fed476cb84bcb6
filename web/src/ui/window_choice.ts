// SPDX-License-Identifier: Apache-2.0
// How much of the past the pictures of a view show.
import { el } from "./dom";

const CHOICES: [string, number][] = [
  ["1 min", 60],
  ["10 min", 600],
  ["1 hour", 3600],
];
let kept = 600;

export class WindowChoice {
  readonly root = el("fieldset.choice", {}, el("legend", {}, "Time shown"));

  constructor(changed: () => void) {
    for (const [name, seconds] of CHOICES) {
      const input = el("input", { type: "radio", name: "window", value: seconds, checked: seconds === kept });
      input.addEventListener("change", () => {
        kept = seconds;
        changed();
      });
      this.root.append(el("label", {}, input, el("span", {}, name)));
    }
  }

  get seconds(): number {
    return kept;
  }
}
