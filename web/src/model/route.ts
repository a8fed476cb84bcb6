// SPDX-License-Identifier: Apache-2.0
// The part of the address after '#': which view is open, or a token.

export type Route =
  | { view: "overview" }
  | { view: "device"; name: string }
  | { view: "vgpu"; name: string }
  | { view: "events"; device: string; vgpu: string; kind: string };

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [view, ...rest] = path.split("/");
  const name = decoded(rest.join("/"));
  if (view === "device" && name) return { view, name };
  if (view === "vgpu" && name) return { view, name };
  if (view === "events") {
    const asked = new URLSearchParams(query);
    return { view, device: asked.get("device") ?? "", vgpu: asked.get("vgpu") ?? "", kind: asked.get("kind") ?? "" };
  }
  return { view: "overview" };
}

export function hashOf(route: Route): string {
  switch (route.view) {
    case "overview":
      return "#/";
    case "device":
    case "vgpu":
      return `#/${route.view}/${encodeURIComponent(route.name)}`;
    case "events": {
      const asked = new URLSearchParams();
      if (route.device) asked.set("device", route.device);
      if (route.vgpu) asked.set("vgpu", route.vgpu);
      if (route.kind) asked.set("kind", route.kind);
      const query = asked.toString();
      return query ? `#/events?${query}` : "#/events";
    }
  }
}

/** The token of an address such as http://127.0.0.1:8080/#token=…, or null. */
export function tokenIn(hash: string): string | null {
  const found = /^#token=([^&]+)/.exec(hash);
  return found ? decoded(found[1] ?? "") : null;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
