// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import test from "node:test";
import {
  ago,
  amount,
  bytes,
  clock,
  count,
  counted,
  milliseconds,
  percent,
  plain,
  rate,
  seconds,
  UNKNOWN,
} from "../src/model/format";

test("unknown is a dash, not a zero", () => {
  for (const text of [
    percent(null),
    milliseconds(undefined),
    bytes(NaN),
    rate(null, "frames/s"),
    count(undefined),
    plain(Infinity),
    amount(null),
    seconds(null),
  ])
    assert.equal(text, UNKNOWN);
});

test("numbers have units and no more digits than they are worth", () => {
  assert.equal(percent(0), "0 %");
  assert.equal(percent(0.0123), "1.2 %");
  assert.equal(percent(0.4), "40 %");
  assert.equal(percent(0.0999), "10 %");
  assert.equal(milliseconds(16.64), "16.6 ms");
  assert.equal(milliseconds(250.4), "250 ms");
  assert.equal(milliseconds(12_500), "12.5 s");
  assert.equal(rate(59.97, "frames/s"), "60.0 frames/s");
  assert.equal(rate(144.2, "frames/s"), "144 frames/s");
  assert.equal(bytes(64 * 2 ** 20), "64 MiB");
  assert.equal(bytes(1.5 * 2 ** 30), "1.5 GiB");
  assert.equal(bytes(0), "0 B");
  assert.equal(plain(100, 4), "100");
  assert.equal(plain(0.25, 6), "0.25");
  assert.equal(plain(1000), "1000");
  assert.equal(count(1234567), "1\u202f234\u202f567");
  assert.equal(counted(1, "slot"), "1 slot");
  assert.equal(counted(2, "slot"), "2 slots");
  assert.equal(amount(3.96712), "3.967");
  assert.equal(amount(136.06), "136.1");
});

test("times", () => {
  assert.equal(seconds(59.4), "59 s");
  assert.equal(seconds(61), "1 min");
  assert.equal(seconds(7260), "2 h 1 min");
  assert.equal(seconds(90000), "1 d 1 h");
  assert.equal(ago(1000, 1500), "now");
  assert.equal(ago(1000, 13_000), "12 s ago");
  assert.equal(ago(5000, 1000), "now"); // clocks differ a little
  const noon = new Date(2026, 0, 2, 12, 3, 4).getTime();
  assert.equal(clock(noon, noon), "12:03:04");
  assert.equal(clock(noon, noon + 86_400_000), "2026-01-02 12:03:04");
});
