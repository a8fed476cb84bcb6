// SPDX-License-Identifier: Apache-2.0
// Values over time: rows of the server's history, continued with the ticks that arrive. Nothing is invented: where no
// row is, the picture has a gap.

export type Value = number | null;

export interface Row {
  atMs: number;
  spanMs: number; // what the row stands for
  values: Value[];
}

/** Rows of the last ten minutes are of 1 s, older ones of 10 s. */
const FINE_MS = 600_000;
export const FINE_SPAN_MS = 1000;
export const COARSE_SPAN_MS = 10_000;
/** So many spans without a row are a gap. */
const GAP_SPANS = 2.5;

/** Fields that count up: the last value of a span stands for it, and not the mean. */
const COUNTERS = new Set(["frames", "late", "revenue", "penalty", "processes", "held_slots"]);

export function rowsOfHistory(rows: (number | null)[][]): Row[] {
  const newest = rows.at(-1)?.[0] ?? 0;
  const out: Row[] = [];
  for (const [at, ...values] of rows) {
    if (typeof at !== "number") continue;
    if (out.length > 0 && at <= out[out.length - 1]!.atMs) continue; // never backwards
    out.push({ atMs: at, spanMs: newest - at > FINE_MS ? COARSE_SPAN_MS : FINE_SPAN_MS, values });
  }
  return out;
}

export class Series {
  private rows: Row[] = [];
  private open: { start: number; n: number; sums: number[]; last: Value[]; counts: number[] } | null = null;
  private readonly counts: boolean[];

  constructor(
    readonly fields: readonly string[],
    private readonly keepMs: number,
  ) {
    this.counts = fields.map((field) => COUNTERS.has(field));
  }

  /** Takes the server's rows instead of those up to their end; rows that are newer stay. */
  merge(history: Row[]): void {
    const end = history.at(-1)?.atMs;
    if (end === undefined) return;
    this.rows = [...history, ...this.rows.filter((row) => row.atMs > end)];
    if (this.rows.at(-1) === history.at(-1)) this.open = null;
    this.trim();
  }

  /** A tick. Ticks of the same second become one row. */
  add(atMs: number, values: Value[]): void {
    const start = Math.floor(atMs / FINE_SPAN_MS) * FINE_SPAN_MS;
    const newest = this.rows.at(-1);
    if (newest && atMs <= newest.atMs) return; // known already
    if (this.open && this.open.start !== start) this.open = null;
    if (!this.open) {
      this.open = { start, n: 0, sums: values.map(() => 0), last: [], counts: values.map(() => 0) };
      this.rows.push({ atMs, spanMs: FINE_SPAN_MS, values: [] });
      this.trim();
    }
    const open = this.open;
    open.last = values;
    values.forEach((value, i) => {
      if (value === null) return;
      open.sums[i]! += value;
      open.counts[i]! += 1;
    });
    const row = this.rows.at(-1)!;
    row.atMs = atMs;
    row.values = values.map((value, i) => {
      if (this.counts[i]) return value;
      return open.counts[i]! > 0 ? open.sums[i]! / open.counts[i]! : null;
    });
  }

  length(): number {
    return this.rows.length;
  }

  newest(): Row | undefined {
    return this.rows.at(-1);
  }

  /** Since `fromMs`, as columns: times in seconds, then each field. Gaps are rows of null. */
  columns(fromMs: number): Value[][] {
    return columnsOf(this.rows, this.fields.length, fromMs);
  }

  private trim(): void {
    const newest = this.rows.at(-1)?.atMs ?? 0;
    let drop = 0;
    while (drop < this.rows.length && newest - this.rows[drop]!.atMs > this.keepMs) ++drop;
    if (drop > 0) this.rows.splice(0, drop);
  }
}

export function columnsOf(rows: readonly Row[], fields: number, fromMs: number): Value[][] {
  const out: Value[][] = Array.from({ length: fields + 1 }, () => []);
  let before: Row | null = null;
  for (const row of rows) {
    if (row.atMs < fromMs) continue;
    if (before && isGap(before, row)) {
      out[0]!.push((before.atMs + row.atMs) / 2000);
      for (let i = 1; i <= fields; ++i) out[i]!.push(null);
    }
    out[0]!.push(row.atMs / 1000);
    for (let i = 0; i < fields; ++i) out[i + 1]!.push(row.values[i] ?? null);
    before = row;
  }
  return out;
}

function isGap(before: Row, row: Row): boolean {
  return row.atMs - before.atMs > GAP_SPANS * Math.max(before.spanMs, row.spanMs);
}

/** The values of one field, of columns that begin with the times; none for a field that the server does not send. */
export function columnOf(fields: readonly string[], columns: Value[][], field: string): Value[] {
  const place = fields.indexOf(field);
  return place < 0 ? (columns[0] ?? []).map(() => null) : (columns[place + 1] ?? []);
}

/** Each column becomes the sum of itself and those before it, for a stacked picture. Columns are without times. */
export function stacked(columns: Value[][]): Value[][] {
  const out: Value[][] = [];
  for (const column of columns) {
    const below = out.at(-1);
    out.push(
      column.map((value, i) => {
        const under = below ? (below[i] ?? null) : 0;
        return value === null && under === null ? null : (value ?? 0) + (under ?? 0);
      }),
    );
  }
  // A row without any value is a gap in all layers; with some, an absent layer has no height.
  return out.map((column) => column.map((sum, i) => (columns.every((c) => c[i] === null) ? null : sum)));
}

/** The uses of a tick by the names of a history's "use" series, whose last name may be "others". */
export function usesByName(names: readonly string[], uses: Iterable<[string, number]>): Value[] {
  const places = new Map(names.map((name, i) => [name, i]));
  const out: Value[] = names.map(() => 0);
  const others = places.get("others");
  for (const [name, use] of uses) {
    const place = places.get(name) ?? others;
    if (place !== undefined) out[place] = (out[place] ?? 0) + use;
  }
  return out;
}
