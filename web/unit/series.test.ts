// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import test from "node:test";
import { columnOf, columnsOf, rowsOfHistory, Series, stacked, usesByName, type Row } from "../src/model/series";

const NOW = 1_000_000_000;
const row = (atMs: number, ...values: number[]): Row => ({ atMs, spanMs: 1000, values });

test("rows before the last ten minutes stand for ten seconds", () => {
  const rows = rowsOfHistory([
    [NOW - 620_000, 1],
    [NOW - 610_000, 1],
    [NOW - 600_000, 1],
    [NOW, 1],
  ]);
  assert.deepEqual(
    rows.map((one) => one.spanMs),
    [10_000, 10_000, 1000, 1000],
  );
});

test("rows that go backwards are left out", () => {
  assert.deepEqual(
    rowsOfHistory([
      [5, 1],
      [4, 2],
      [5, 3],
      [6, 4],
    ]).map((one) => one.values[0]),
    [1, 4],
  );
});

test("a gap in the rows is a gap in the columns, and nothing else is", () => {
  const rows = [row(NOW, 1), row(NOW + 1000, 2), row(NOW + 3400, 3), row(NOW + 6000, 4)];
  const [times, values] = columnsOf(rows, 1, 0);
  assert.deepEqual(values, [1, 2, 3, null, 4]);
  assert.equal(times![3], (NOW + 4700) / 1000);
  const coarse = rowsOfHistory([
    [0, 1],
    [10_000, 1],
    [20_000, 1],
    [50_000, 1],
    [1_000_000, 1],
  ]);
  assert.deepEqual(columnsOf(coarse, 1, 0)[1], [1, 1, 1, null, 1, null, 1]);
});

test("ticks of a second become one row: its mean, and the last value of a counter", () => {
  const series = new Series(["gpu_use", "frames"], 3_600_000);
  for (const [ms, use, frames] of [
    [0, 0.2, 10],
    [250, 0.4, 11],
    [500, 0.6, 12],
    [1000, 1, 20],
  ])
    series.add(NOW + ms!, [use!, frames!]);
  const [, use, frames] = series.columns(0);
  assert.deepEqual(
    use!.map((value) => value!.toFixed(3)),
    ["0.400", "1.000"],
  );
  assert.deepEqual(frames, [12, 20]);
  series.add(NOW + 1000, [9, 9]); // the same tick again
  assert.deepEqual(series.columns(0)[2], [12, 20]);
});

test("an absent value is not a zero", () => {
  const series = new Series(["gpu_use"], 3_600_000);
  series.add(NOW, [null]);
  series.add(NOW + 250, [0.5]);
  assert.deepEqual(series.columns(0)[1], [0.5]);
  series.add(NOW + 1000, [null]);
  assert.deepEqual(series.columns(0)[1], [0.5, null]);
});

test("history replaces what the page saw itself, and ticks go on after it", () => {
  const series = new Series(["gpu_use"], 3_600_000);
  series.add(NOW, [0.9]);
  series.add(NOW + 1000, [0.9]);
  series.add(NOW + 2000, [0.9]);
  series.merge(
    rowsOfHistory([
      [NOW, 0.1],
      [NOW + 1500, 0.2],
    ]),
  );
  series.add(NOW + 2250, [0.7]);
  series.add(NOW + 3000, [0.4]);
  assert.deepEqual(
    series.columns(0)[1]!.map((value) => value!.toFixed(1)),
    ["0.1", "0.2", "0.8", "0.4"],
  );
});

test("ticks that history has already are not counted twice", () => {
  const series = new Series(["gpu_use"], 3_600_000);
  series.add(NOW, [0.9]);
  series.merge(rowsOfHistory([[NOW + 500, 0.1]]));
  series.add(NOW + 250, [0.9]);
  series.add(NOW + 750, [0.3]);
  assert.deepEqual(series.columns(0)[1], [0.1, 0.3]);
});

test("no more than the kept time stays", () => {
  const series = new Series(["gpu_use"], 5000);
  for (let i = 0; i < 100; ++i) series.add(NOW + i * 1000, [i]);
  assert.equal(series.length(), 6);
  assert.equal(series.newest()!.values[0], 99);
});

test("a field that the server does not send has no values", () => {
  assert.deepEqual(
    columnOf(
      ["a"],
      [
        [1, 2],
        [3, 4],
      ],
      "a",
    ),
    [3, 4],
  );
  assert.deepEqual(
    columnOf(
      ["a"],
      [
        [1, 2],
        [3, 4],
      ],
      "b",
    ),
    [null, null],
  );
});

test("layers add up, and gaps stay gaps", () => {
  assert.deepEqual(
    stacked([
      [0.1, null, 0.2],
      [0.3, null, null],
    ]),
    [
      [0.1, null, 0.2],
      [0.4, null, 0.2],
    ],
  );
  assert.deepEqual(
    stacked([
      [null, 1],
      [0.5, 1],
    ]),
    [
      [0, 1],
      [0.5, 2],
    ],
  );
  assert.deepEqual(stacked([]), []);
});

test("a use goes to its layer, or to the others", () => {
  assert.deepEqual(
    usesByName(
      ["a", "others"],
      [
        ["a", 0.5],
        ["b", 0.1],
        ["c", 0.2],
      ],
    ).map((value) => value!.toFixed(1)),
    ["0.5", "0.3"],
  );
  assert.deepEqual(usesByName(["a", "b"], [["c", 0.2]]), [0, 0]);
});
