// SPDX-License-Identifier: Apache-2.0
// Starts the page: the stream changes the node, the node's changes reach the open view once a picture.
import { NodeModel, type Topic } from "./model/node";
import { hashOf, parseRoute, tokenIn } from "./model/route";
import type { ServerEvent } from "./model/sse";
import type { DecisionBatch, Hello, Lists, Tick } from "./model/types";
import { Stream } from "./net/stream";
import { takeToken } from "./net/token";
import { App, type View } from "./ui/app";
import { Banner } from "./ui/banner";
import { openCreateDialog } from "./ui/create_dialog";
import { button, el, link, setText } from "./ui/dom";
import { showKeys, startKeys, type Key } from "./ui/keys";
import { startNotices } from "./ui/notices";
import { startTheme, toggleTheme } from "./ui/theme";
import { askForToken } from "./ui/token_dialog";
import { DeviceView } from "./views/device";
import { EventsView } from "./views/events";
import { Overview } from "./views/overview";
import { VgpuView } from "./views/vgpu";

const node = new NodeModel();
const app = new App(node, changed);
const banner = new Banner(() => stream.start());
const place = el("main", { id: "main", tabindex: -1 });
const version = el("span.muted");
const readOnly = el(
  "span.badge",
  { hidden: true, title: "This dashboard was started with --http-read-only" },
  "read only",
);
let view: View | null = null;

// -- Changes ----------------------------------------------------------------------------------------------------------

const pending = new Set<Topic>();
let asked = 0;

function changed(topic: Topic): void {
  pending.add(topic);
  if (topic === "connection") banner.update(node);
  if (!asked) asked = requestAnimationFrame(show);
}

function show(): void {
  asked = 0;
  const topics = new Set(pending);
  pending.clear();
  if (topics.has("connection") || topics.has("lists")) showHead();
  view?.update(topics);
  node.unseen = [];
}

function showHead(): void {
  setText(version, node.hello ? `weir ${node.hello.weir}` : "");
  readOnly.hidden = !app.readOnly;
  setTitle();
}

function setTitle(): void {
  const parts = [view?.title ?? "", node.hello?.node ?? "", "Weir"].filter(
    (part, i) => part && !(i === 0 && part === "Node"),
  );
  document.title = parts.join(" – ");
}

// -- The stream -------------------------------------------------------------------------------------------------------

const stream: Stream = new Stream({
  event: onEvent,
  lost(message) {
    node.connection = { state: "lost", message };
    changed("connection");
  },
  refused(message) {
    node.connection = { state: "refused", message };
    changed("connection");
    askForToken(() => stream.start());
  },
});

function onEvent(event: ServerEvent): void {
  const data: unknown = JSON.parse(event.data);
  switch (event.event) {
    case "hello":
      node.hello = data as Hello;
      return live();
    case "lists":
      node.setLists(data as Lists);
      return changed("lists");
    case "tick":
      node.setTick(data as Tick, Date.now());
      return changed("tick");
    case "events":
      if (node.addDecisions(data as DecisionBatch).length > 0) changed("events");
      return;
    case "away":
      node.connection = { state: "away", message: (data as { message: string }).message };
      return changed("connection");
    case "back":
      return live();
  }
}

function live(): void {
  node.connection = { state: "live" };
  changed("connection");
}

/** A browser opens six connections to a server at most, for all tabs together. A tab that nobody sees gives its own
 * back after a while. What it misses is read from the past when it is shown again. */
const HIDDEN_MS = 60_000;
let restAt = 0;
let rests = false;

function restWhileHidden(): void {
  clearTimeout(restAt);
  if (document.hidden) {
    restAt = window.setTimeout(() => {
      rests = true;
      stream.stop();
    }, HIDDEN_MS);
  } else if (rests) {
    rests = false;
    stream.start();
  }
}

// -- Views ------------------------------------------------------------------------------------------------------------

function open(): void {
  if (tokenIn(location.hash) !== null) {
    takeToken();
    stream.start();
  }
  const route = parseRoute(location.hash);
  view?.close();
  if (route.view === "device") view = new DeviceView(app, route.name);
  else if (route.view === "vgpu") view = new VgpuView(app, route.name);
  else if (route.view === "events") view = new EventsView(app, route);
  else view = new Overview(app);
  place.replaceChildren(view.root);
  for (const [name, anchor] of tabs) {
    const here = name === route.view;
    if (here) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  setTitle();
  scrollTo(0, 0);
}

const tabs: [string, HTMLAnchorElement][] = [
  ["overview", link("Node", "#/")],
  ["events", link("Events", hashOf({ view: "events", device: "", vgpu: "", kind: "" }))],
];

const keys: Key[] = [
  { key: "o", name: "Go to the node", act: () => (location.hash = "#/") },
  { key: "e", name: "Go to the events", act: () => (location.hash = "#/events") },
  { key: "/", name: "Filter", act: () => (view as { focusFilter?(): void } | null)?.focusFilter?.() },
  {
    key: "c",
    name: "Create a vGPU",
    act: () => {
      if (!app.readOnly && node.devices.size > 0) openCreateDialog(app, "");
    },
  },
  { key: "t", name: "Light or dark", act: toggleTheme },
];

function fillBody(): void {
  const skip = link("Skip to the content", "#main");
  skip.className = "skip";
  skip.addEventListener("click", (event) => {
    event.preventDefault(); // the part after '#' is the open view
    place.focus();
  });
  const nav = el("nav", { "aria-label": "Views" }, ...tabs.map(([, anchor]) => anchor));
  const tools = el(
    "div.tools",
    {},
    readOnly,
    version,
    button("Keys", () => showKeys(keys), { class: "quiet" }),
    button("Light / dark", toggleTheme, { class: "quiet" }),
  );
  const brand = el("a.brand", { href: "#/" }, "Weir");
  document.body.append(skip, el("header", {}, brand, nav, tools), banner.root, place);
  startNotices(document.body);
}

takeToken();
startTheme();
fillBody();
startKeys(keys);
addEventListener("hashchange", () => {
  open();
  view?.root.querySelector("h1")?.focus({ preventScroll: true });
});
addEventListener("online", () => stream.start());
document.addEventListener("visibilitychange", restWhileHidden);
stream.start(); // first, because rows matter more than the past
open();
