// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import test from "node:test";
import { waitBefore } from "../src/model/backoff";
import { SseParser } from "../src/model/sse";

test("an event is complete with its empty line", () => {
  const parser = new SseParser();
  assert.deepEqual(parser.push("event: tick\ndata: {}\n"), []);
  assert.deepEqual(parser.push("\n"), [{ event: "tick", data: "{}" }]);
});

test("pieces may end anywhere", () => {
  const text = "event: hello\r\ndata: a\r\ndata: b\r\n\r\n: alive\n\nevent:tick\rdata:1\r\r\ndata: last\n\n";
  const whole = new SseParser().push(text);
  assert.deepEqual(whole, [
    { event: "hello", data: "a\nb" },
    { event: "tick", data: "1" },
    { event: "message", data: "last" },
  ]);
  for (let at = 1; at < text.length; ++at) {
    const parser = new SseParser();
    assert.deepEqual([...parser.push(text.slice(0, at)), ...parser.push(text.slice(at))], whole, `cut at ${at}`);
  }
  const parser = new SseParser();
  assert.deepEqual(
    [...text].flatMap((letter) => parser.push(letter)),
    whole,
  );
});

test("comments, unknown fields and events without data are skipped", () => {
  assert.deepEqual(new SseParser().push(": x\nid: 7\nretry: 5\nevent: empty\n\ndata\n\n"), [
    { event: "message", data: "" },
  ]);
});

test("waits grow, have a bound, and are spread", () => {
  assert.equal(waitBefore(1, 0.5), 500);
  assert.equal(waitBefore(3, 0.5), 2000);
  assert.equal(waitBefore(40, 0.5), 8000);
  assert.ok(waitBefore(1, 0) < 500 && waitBefore(1, 0.99) > 500);
});
