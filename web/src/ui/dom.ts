// SPDX-License-Identifier: Apache-2.0
// Making elements. Text always goes through textContent, so nothing of the server's is ever read as HTML.

export type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined>;

/** `what` is a tag with classes, as "div.card.wide". */
export function el<K extends keyof HTMLElementTagNameMap>(
  what: K | `${K}.${string}`,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const [tag, ...classes] = what.split(".");
  const element = document.createElement(tag as K);
  if (classes.length > 0) element.className = classes.join(" ");
  setAttributes(element, attributes);
  append(element, ...children);
  return element;
}

export function setAttributes(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

export function append(parent: Element, ...children: Child[]): void {
  for (const child of children) if (child !== null && child !== undefined && child !== false) parent.append(child);
}

/** Changes the text only where it differs, so that a tick without news costs nothing. */
export function setText(element: Element, text: string): void {
  const node = element.firstChild;
  if (node instanceof Text && node === element.lastChild) {
    if (node.data !== text) node.data = text;
  } else if (element.textContent !== text) element.textContent = text;
}

export function setClass(element: Element, name: string, on: boolean): void {
  if (element.classList.contains(name) !== on) element.classList.toggle(name, on);
}

export function setData(element: HTMLElement, name: string, value: string): void {
  if (element.dataset[name] !== value) element.dataset[name] = value;
}

export function button(text: string, act: () => void, attributes: Attributes = {}): HTMLButtonElement {
  const made = el("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", act);
  return made;
}

export function link(text: string, href: string): HTMLAnchorElement {
  return el("a", { href }, text);
}

/** A list of texts, such as warnings. It is hidden when empty, and left alone while it says the same. */
export function listTexts(list: HTMLElement, texts: readonly string[]): void {
  list.hidden = texts.length === 0;
  if ([...list.children].map((child) => child.textContent).join("\n") === texts.join("\n")) return;
  list.replaceChildren(...texts.map((text) => el("li", {}, text)));
}

let made = 0;
export function freshId(prefix: string): string {
  return `${prefix}-${++made}`;
}

/** A definition list's pair whose value can change. */
export function fact(list: HTMLElement, name: string): HTMLElement {
  const value = el("dd");
  list.append(el("div", {}, el("dt", {}, name), value));
  return value;
}
