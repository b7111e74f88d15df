/** Quantities of scenarios as numbers: "20 ms", "1 Mbit/s", "500 B", "2 %". */

import type { Tree } from "./messages";

const UNITS: Record<string, [family: string, factor: number]> = {
  ns: ["s", 1e-9],
  us: ["s", 1e-6],
  µs: ["s", 1e-6],
  ms: ["s", 1e-3],
  s: ["s", 1],
  min: ["s", 60],
  h: ["s", 3600],
  usec: ["s", 1e-6],
  usecs: ["s", 1e-6],
  msec: ["s", 1e-3],
  msecs: ["s", 1e-3],
  sec: ["s", 1],
  secs: ["s", 1],
  "bit/s": ["bit/s", 1],
  "kbit/s": ["bit/s", 1e3],
  "Mbit/s": ["bit/s", 1e6],
  "Gbit/s": ["bit/s", 1e9],
  "Tbit/s": ["bit/s", 1e12],
  bps: ["bit/s", 1],
  kbps: ["bit/s", 1e3],
  Mbps: ["bit/s", 1e6],
  Gbps: ["bit/s", 1e9],
  bit: ["bit/s", 1],
  kbit: ["bit/s", 1e3],
  Kbit: ["bit/s", 1e3],
  mbit: ["bit/s", 1e6],
  Mbit: ["bit/s", 1e6],
  gbit: ["bit/s", 1e9],
  Gbit: ["bit/s", 1e9],
  tbit: ["bit/s", 1e12],
  Tbit: ["bit/s", 1e12],
  B: ["B", 1],
  kB: ["B", 1e3],
  MB: ["B", 1e6],
  GB: ["B", 1e9],
  KiB: ["B", 1024],
  MiB: ["B", 1048576],
  GiB: ["B", 1073741824],
  "%": ["", 0.01],
  "": ["", 1],
};

export interface Quantity {
  value: number;
  /** s, bit/s, B, or nothing. */
  family: string;
}

export function quantity(tree: Tree | undefined): Quantity | undefined {
  if (typeof tree === "number") return { value: tree, family: "" };
  if (typeof tree !== "string") return undefined;
  const parts = /^\s*\+?([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*(\S*)\s*$/.exec(tree);
  const unit = parts && UNITS[parts[2] ?? ""];
  if (!parts || !unit) return undefined;
  return { value: Number(parts[1]) * unit[1], family: unit[0] };
}

/** A value of a key that may follow a timetable: the one in force at this time, in seconds. Whatever is no timetable is itself. */
export function scheduled(tree: Tree | undefined, time: number): Tree | undefined {
  if (typeof tree !== "object" || tree === null || Array.isArray(tree)) return tree;
  if (!("timetable" in tree)) return tree;
  const table = tree["timetable"];
  if (!Array.isArray(table)) return undefined;
  const repeat = quantity(tree["repeat"])?.value;
  const at = repeat ? time % repeat : time;
  let now: Tree | undefined;
  for (const row of table) {
    if (!Array.isArray(row) || (quantity(row[0])?.value ?? 0) > at) break;
    now = row[1];
  }
  return now;
}

const SHOWN: Record<string, [least: number, factor: number, unit: string][]> = {
  s: [
    [1, 1, "s"],
    [1e-3, 1e-3, "ms"],
    [0, 1e-6, "us"],
  ],
  "bit/s": [
    [1e9, 1e9, "Gbit/s"],
    [1e6, 1e6, "Mbit/s"],
    [1e3, 1e3, "kbit/s"],
    [0, 1, "bit/s"],
  ],
  B: [
    [1e6, 1e6, "MB"],
    [1e3, 1e3, "kB"],
    [0, 1, "B"],
  ],
};

/** A quantity as a scenario has it, with three digits. */
export function written(value: number, family: string): string {
  const digits = (number: number) => String(Number(number.toPrecision(3)));
  const scale = SHOWN[family]?.find(([least]) => value >= least);
  if (!scale || value === 0) return family ? `0 ${SHOWN[family]?.at(-1)?.[2] ?? family}` : digits(value);
  return `${digits(value / scale[1])} ${scale[2]}`;
}

/** A number for people. */
export function shown(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-4)) return value.toExponential(2);
  return String(Number(value.toPrecision(size >= 1000 ? 5 : 4)));
}

/** The next round number above a value, half of which is round, too: for the end of a scale that begins at 0. */
export function roundAbove(value: number, isWhole: boolean): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const found = [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].find((factor) => factor * power >= value * 1.02) ?? 12;
  const most = Number((found * power).toPrecision(6));
  return isWhole ? Math.ceil(most) : most;
}
