// SPDX-License-Identifier: Apache-2.0
// Numbers and times as people read them, always with a unit. Unknown is a dash, never a zero.

export const UNKNOWN = "–";

type Maybe = number | null | undefined;

function known(value: Maybe): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

/** At most `digits` decimals, without zeros at the end. */
export function plain(value: Maybe, digits = 2): string {
  if (!known(value)) return UNKNOWN;
  const text = value.toFixed(digits);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

export function percent(fraction: Maybe): string {
  if (!known(fraction)) return UNKNOWN;
  const value = fraction * 100;
  return `${value > 0 && value < 9.95 ? value.toFixed(1) : value.toFixed(0)} %`;
}

export function milliseconds(value: Maybe): string {
  if (!known(value)) return UNKNOWN;
  if (value >= 10000) return `${plain(value / 1000, 1)} s`;
  return `${value >= 100 ? value.toFixed(0) : value.toFixed(1)} ms`;
}

export function rate(value: Maybe, unit: string): string {
  if (!known(value)) return UNKNOWN;
  return `${value >= 99.95 ? value.toFixed(0) : value.toFixed(1)} ${unit}`;
}

export function bytes(value: Maybe): string {
  if (!known(value)) return UNKNOWN;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let scaled = value;
  let unit = 0;
  while (scaled >= 1024 && unit < units.length - 1) {
    scaled /= 1024;
    ++unit;
  }
  return `${plain(scaled, unit === 0 ? 0 : scaled < 10 ? 2 : scaled < 100 ? 1 : 0)} ${units[unit]}`;
}

export function count(value: Maybe): string {
  if (!known(value)) return UNKNOWN;
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, "\u202f"); // a narrow space
}

export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function amount(value: Maybe): string {
  if (!known(value)) return UNKNOWN;
  return plain(value, Math.abs(value) < 10 ? 3 : 1);
}

export function seconds(value: Maybe): string {
  if (!known(value)) return UNKNOWN;
  const whole = Math.max(0, Math.round(value));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

export function ago(atMs: number, nowMs: number): string {
  const passed = (nowMs - atMs) / 1000;
  return passed < 1 ? "now" : `${seconds(passed)} ago`;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

/** In the reader's time zone; with the day where it is not that of `nowMs`. */
export function clock(atMs: number, nowMs: number): string {
  const at = new Date(atMs);
  const now = new Date(nowMs);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return at.toDateString() === now.toDateString() ? time : `${day(at)} ${time}`;
}

function day(at: Date): string {
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}
