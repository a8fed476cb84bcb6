// SPDX-License-Identifier: Apache-2.0
// A server that keeps the contract of docs/dashboard.md for a node that does not exist: to work on the page, and for
// browser_test.mjs. `node fake_server.mjs [PORT]` prints its address; POST /fake/away, /fake/back and /fake/break?ms=N
// make outages.
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { FakeError, FakeNode, POLICIES } from "./fake_node.mjs";

const DEVICE_FIELDS = ["gpu_use", "load", "sold", "held_slots", "revenue", "penalty"];
const VGPU_FIELDS = [
  "gpu_use",
  "cap",
  "fps",
  "p50_ms",
  "p99_ms",
  "wait_share",
  "pace_share",
  "frames",
  "late",
  "processes",
  "held_slots",
];
const TICK_MS = 250;
const BODY_MAX = 64 * 1024;
const EVENT_EVERY_MS = 4000;
const LISTS_EVERY_MS = 5000;
/** In the past the daemon did not answer for two minutes. */
const GAP = { fromMs: 25 * 60_000, toMs: 23 * 60_000 };

const HEADERS = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
  "Cache-Control": "no-store",
};
const FILES = {
  "/": ["index.html", "text/html"],
  "/app.js": ["app.js", "text/javascript"],
  "/app.css": ["app.css", "text/css"],
  "/icon.svg": ["icon.svg", "image/svg+xml"],
};

/** `token` "": as with --http-plain. */
export class FakeServer {
  constructor({ vgpus = 200, token = "0123456789abcdef".repeat(4), readOnly = false, port = 0 } = {}) {
    Object.assign(this, { token, readOnly, port, away: "", streams: new Set(), server: null });
    this.node = new FakeNode({ vgpus });
  }

  async start() {
    this.server = createServer((request, response) => void this.answer(request, response));
    await new Promise((resolve, reject) => this.server.once("error", reject).listen(this.port, "127.0.0.1", resolve));
    this.port = this.server.address().port;
    this.timers = [
      setInterval(() => this.tick(), TICK_MS),
      setInterval(() => this.happen(), EVENT_EVERY_MS),
      setInterval(() => this.lists(), LISTS_EVERY_MS),
    ];
  }

  get url() {
    return `http://127.0.0.1:${this.port}/${this.token ? `#token=${this.token}` : ""}`;
  }

  /** As when the dashboard's process ends. */
  async stop() {
    for (const timer of this.timers) clearInterval(timer);
    this.streams.clear();
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.server.closeAllConnections();
    await closed;
  }

  goAway(message = "no daemon answers at /run/weir/control.sock") {
    this.away = message;
    this.send("away", { message });
  }

  comeBack() {
    this.away = "";
    this.send("back", {});
    this.lists();
  }

  // -- The stream ----------------------------------------------------------------------------------------------------

  send(event, data, to = this.streams) {
    for (const response of to) response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  tick() {
    if (this.away) return;
    const at = Date.now();
    if (this.listed !== this.node.layout) this.lists();
    this.send("tick", {
      at_ms: at,
      layout: this.node.layout,
      device_fields: DEVICE_FIELDS,
      devices: this.node.devices.map((device) => [device.name, ...this.node.deviceAt(device, at)]),
      vgpu_fields: VGPU_FIELDS,
      vgpus: [...this.node.vgpus.values()].map((vgpu) => [vgpu.id, ...this.node.vgpuAt(vgpu, at)]),
    });
    const fresh = this.node.events.filter((event) => event.number >= (this.said ?? this.node.nextEvent));
    this.said = this.node.nextEvent;
    if (fresh.length > 0) this.send("events", { lost: 0, events: fresh });
  }

  happen() {
    this.node.addEvent(Date.now());
  }

  lists(to = this.streams) {
    if (this.away) return;
    this.listed = this.node.layout;
    this.send(
      "lists",
      {
        devices: this.node.devices.map((device) => this.node.deviceJson(device)),
        vgpus: [...this.node.vgpus.values()].map((vgpu) => this.node.vgpuJson(vgpu)),
      },
      to,
    );
  }

  stream(response) {
    response.writeHead(200, { ...HEADERS, "Content-Type": "text/event-stream" });
    this.streams.add(response);
    response.on("close", () => this.streams.delete(response));
    this.send("hello", { format: 1, weir: "0.0.0", node: "fake-node", read_only: this.readOnly, tick_ms: TICK_MS }, [
      response,
    ]);
    if (this.away) this.send("away", { message: this.away }, [response]);
    else this.lists([response]);
  }

  // -- Requests ------------------------------------------------------------------------------------------------------

  async answer(request, response) {
    try {
      const url = new URL(request.url, "http://fake");
      if (url.pathname.startsWith("/fake/")) return this.control(url, response);
      this.checkAccess(request, url);
      if (url.pathname === "/api/stream" && request.method === "GET") return this.stream(response);
      this.reply(response, ...(await this.handle(request, url)));
    } catch (error) {
      if (!(error instanceof FakeError)) console.error(error);
      const { status = 500, code = "internal", message } = error;
      this.reply(response, status, { error: { code, message } });
    }
  }

  checkAccess(request, url) {
    const hosts = ["127.0.0.1", "localhost", "[::1]"].map((host) => `${host}:${this.port}`);
    if (!hosts.includes(request.headers.host)) throw new FakeError(421, "invalid-argument", "this is another host");
    const origin = request.headers.origin;
    if (origin && origin !== `http://${request.headers.host}`)
      throw new FakeError(403, "permission-denied", "the request comes from another site");
    const isApi = url.pathname.startsWith("/api/");
    if (isApi && this.token && request.headers.authorization !== `Bearer ${this.token}`)
      throw new FakeError(401, "permission-denied", "the token is missing or wrong");
    const changes = request.method !== "GET";
    const hasBody =
      Number(request.headers["content-length"] ?? 0) > 0 || request.headers["transfer-encoding"] !== undefined;
    if (changes && hasBody && request.headers["content-type"] !== "application/json")
      throw new FakeError(415, "invalid-argument", "the body is not application/json");
    if (changes && this.readOnly) throw new FakeError(403, "permission-denied", "this dashboard only shows");
    if (isApi && this.away && url.pathname !== "/api/stream" && url.pathname !== "/api/history")
      throw new FakeError(503, "unavailable", this.away);
  }

  async handle(request, url) {
    const { method } = request;
    const path = url.pathname;
    if (method === "GET" && FILES[path]) {
      const [name, type] = FILES[path];
      return [200, readFileSync(new URL(`dist/${name}`, import.meta.url)), type];
    }
    const [, api, v1, kind, name, verb] = path.split("/").map(decodeURIComponent);
    if (api !== "api") throw new FakeError(404, "not-found", `nothing is at ${path}`);
    if (method === "GET" && v1 === "history") return [200, this.history(url.searchParams)];
    if (v1 !== "v1") throw new FakeError(404, "not-found", `nothing is at ${path}`);
    const node = this.node;
    const body = await bodyOf(request);
    switch (`${method} ${kind}${name ? "/NAME" : ""}${verb ? `/${verb}` : ""}`) {
      case "GET policies":
        return [200, { policies: POLICIES }];
      case "GET devices":
        return [200, { devices: node.devices.map((device) => node.deviceJson(device)) }];
      case "GET devices/NAME/memory":
        return [200, node.memoryJson(node.findDevice(name))];
      case "PUT devices/NAME/policy":
        return [200, node.deviceJson(node.setPolicy(name, body))];
      case "GET vgpus":
        return [200, { vgpus: [...node.vgpus.values()].map((vgpu) => node.vgpuJson(vgpu)) }];
      case "POST vgpus":
        return [201, node.vgpuJson(node.add(body))];
      case "GET vgpus/NAME":
        return [200, node.vgpuJson(node.find(name))];
      case "PATCH vgpus/NAME":
        return [200, node.vgpuJson(node.set(name, body))];
      case "POST vgpus/NAME/pause":
        return [200, node.vgpuJson(node.pause(name, true))];
      case "POST vgpus/NAME/resume":
        return [200, node.vgpuJson(node.pause(name, false))];
      case "DELETE vgpus/NAME":
        node.remove(name, url.searchParams.get("force") === "true");
        return [200, { removed: name }];
      default:
        throw new FakeError(404, "not-found", `nothing is at ${path}`);
    }
  }

  history(asked) {
    const now = Date.now();
    const reply = {
      format: 1,
      seconds: 3600,
      fields: DEVICE_FIELDS,
      series: [],
      events: { lost: 0, events: this.node.events.slice(-1000) },
    };
    if (asked.has("vgpu")) {
      const vgpu = this.node.vgpus.get(asked.get("vgpu"));
      const rows = vgpu ? rowsOf(now, (at) => this.node.vgpuAt(vgpu, at)) : [];
      return { ...reply, fields: VGPU_FIELDS, series: vgpu ? [{ name: vgpu.name, kind: "vgpu", rows }] : [] };
    }
    const only = asked.get("device");
    for (const device of this.node.devices) {
      if (only && device.name !== only) continue;
      reply.series.push({
        name: device.name,
        kind: "device",
        rows: rowsOf(now, (at) => this.node.deviceAt(device, at)),
      });
      if (only) reply.series.push(this.uses(device, now));
    }
    return reply;
  }

  uses(device, now) {
    const own = [...this.node.vgpus.values()].filter((vgpu) => vgpu.device === device.name);
    const largest = own.sort((a, b) => this.node.vgpuAt(b, now)[0] - this.node.vgpuAt(a, now)[0]).slice(0, 16);
    const others = own.filter((vgpu) => !largest.includes(vgpu));
    const use = (vgpu, at) => this.node.vgpuAt(vgpu, at)[0];
    const rows = rowsOf(now, (at) => [
      ...largest.map((vgpu) => use(vgpu, at)),
      ...(others.length > 0 ? [others.reduce((sum, vgpu) => sum + use(vgpu, at), 0)] : []),
    ]);
    return {
      name: device.name,
      kind: "use",
      fields: [...largest.map((vgpu) => vgpu.name), ...(others.length > 0 ? ["others"] : [])],
      rows,
    };
  }

  reply(response, status, body, type = "application/json") {
    const text = Buffer.isBuffer(body) ? body : JSON.stringify(body);
    response.writeHead(status, { ...HEADERS, "Content-Type": type }).end(text);
  }

  async control(url, response) {
    if (url.pathname === "/fake/away") this.goAway();
    if (url.pathname === "/fake/back") this.comeBack();
    response.writeHead(204).end();
    if (url.pathname !== "/fake/break") return;
    await this.stop();
    setTimeout(() => void this.start(), Number(url.searchParams.get("ms") ?? 5000));
  }
}

function rowsOf(now, valuesAt, span = 3_600_000) {
  const rows = [];
  for (let at = now - span; at <= now; at += now - at > 600_000 ? 10_000 : 1000)
    if (now - at > GAP.fromMs || now - at < GAP.toMs) rows.push([at, ...valuesAt(at)]);
  return rows;
}

async function bodyOf(request) {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > BODY_MAX) throw new FakeError(413, "resource-exhausted", "the body has more than 64 KiB");
    parts.push(part);
  }
  return size > 0 ? JSON.parse(Buffer.concat(parts).toString()) : {};
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const server = new FakeServer({ port: Number(process.argv[2] ?? 8080) });
  await server.start();
  console.log(server.url);
}
