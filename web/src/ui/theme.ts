// SPDX-License-Identifier: Apache-2.0
// Light, dark, or as the system has it. The colours are in style/colors.css; canvases ask for them here.

type Theme = "auto" | "light" | "dark";
const KEY = "weir-theme";
const listeners = new Set<() => void>();

export function startTheme(): void {
  const kept = localStorage.getItem(KEY);
  apply(kept === "light" || kept === "dark" ? kept : "auto");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
}

export function isDark(): boolean {
  const set = document.documentElement.dataset["theme"];
  return set === "dark" || (set !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
}

export function toggleTheme(): void {
  const next: Theme = isDark() ? "light" : "dark";
  localStorage.setItem(KEY, next);
  apply(next);
}

/** Returns what ends it. */
export function onTheme(act: () => void): () => void {
  listeners.add(act);
  return () => listeners.delete(act);
}

function apply(theme: Theme): void {
  document.documentElement.dataset["theme"] = theme;
  tell();
}

function tell(): void {
  cache.clear();
  for (const act of listeners) act();
}

const cache = new Map<string, string>();
let probe: HTMLElement | null = null;

/** A custom property of style/colors.css as a colour that a canvas takes. */
export function color(name: string): string {
  const kept = cache.get(name);
  if (kept) return kept;
  if (!probe) {
    probe = document.createElement("span");
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(${name})`;
  const found = getComputedStyle(probe).color;
  cache.set(name, found);
  return found;
}
