/** Settings as sliders: their range, their words, and what they say to the engine. */

import type { Tree } from "./messages";
import { written } from "./quantities";

/** A setting that a person moves. */
export interface Knob {
  path: string[];
  /** Other keys that get the same value. */
  also?: string[][];
  label?: string;
  /** Numbers, on a scale of factors or of differences... */
  least?: number;
  most?: number;
  isLogarithmic?: boolean;
  family?: string;
  /** Whether only whole numbers mean something. */
  isWhole?: boolean;
  /** ... or words and what they stand for. */
  choices?: { label: string; value: string }[];
}

/** What the schema says of a setting. */
export interface Range {
  minimum?: number;
  maximum?: number;
  isWhole?: boolean;
  choices?: { label: string; value: string }[];
}

/** Places of a slider for a number that has no steps of its own. */
const STEPS = 200;

function isWhole({ isWhole: isSaid, family = "", most = 1 }: Knob): boolean {
  return isSaid ?? (family === "" && most > 2);
}

/** How many steps a slider has: one for each whole number, as far as there are that few. */
export function stepsOf(knob: Knob): number {
  const { least = 0, most = 1, isLogarithmic } = knob;
  return isWhole(knob) && !isLogarithmic && most - least <= STEPS ? Math.max(1, Math.round(most - least)) : STEPS;
}

/** How far along its slider a value is, from 0 to 1. */
export function shareOf({ least = 0, most = 1, isLogarithmic }: Knob, value: number): number {
  return isLogarithmic
    ? Math.log(Math.max(value, least) / least) / Math.log(most / least)
    : (value - least) / (most - least);
}

/** The value at a place of its slider, as `--set` has it. */
export function valueAt(knob: Knob, share: number): string {
  const { least = 0, most = 1, isLogarithmic, family = "" } = knob;
  const value = isLogarithmic ? least * (most / least) ** share : least + (most - least) * share;
  return isWhole(knob) ? String(Math.round(value)) : written(value, family);
}

/** A slider for a number that is `value` now: within what the schema allows, and wide enough to see something. */
export function rangeAround(value: number, family: string, { minimum, maximum, isWhole: isInteger }: Range): Partial<Knob> {
  const within = (one: number) => Math.min(maximum ?? Infinity, Math.max(minimum ?? 0, one));
  if (family === "" && !isInteger && value <= 1)
    return { least: within(0), most: within(Math.max(0.2, Math.min(1, 2 * value))), isWhole: false };
  const usual = { s: [1e-3, 10], "bit/s": [1e5, 1e8], B: [1e3, 1e7] }[family] ?? [0, 100];
  const [low = 0, high = 1] = value > 0 ? [value / 20, value * 20] : usual;
  const least = isInteger ? Math.max(minimum ?? 0, Math.floor(low)) : within(low);
  return {
    least,
    most: within(isInteger ? Math.max(Math.ceil(high), 10) : high),
    isLogarithmic: !isInteger && least > 0,
    isWhole: !!isInteger,
  };
}

/** A value as `--set` has it: a table in one line. */
export function toml(tree: Tree): string {
  if (Array.isArray(tree)) return `[${tree.map(toml).join(", ")}]`;
  if (typeof tree !== "object" || tree === null) return JSON.stringify(tree);
  const pairs = Object.entries(tree).filter(([, value]) => value !== null);
  return `{ ${pairs.map(([key, value]) => `${key} = ${toml(value)}`).join(", ")} }`;
}

export function labelOf({ label, path }: Knob): string {
  return label ?? path.slice(1).join(" ").replaceAll("_", " ");
}

export function labelOfValue({ choices }: Knob, value: string): string {
  return choices?.find((choice) => sameValue(choice.value, value))?.label ?? value;
}

/** A choice stands for a table, too: of that the scenario has all keys, and the choice a few. */
export function sameValue(choice: string, value: string): boolean {
  if (choice === value) return true;
  const kind = /kind"?\s*[=:]\s*"([a-z0-9_]+)"/;
  const [one, other] = [kind.exec(choice)?.[1], kind.exec(value)?.[1]];
  return one !== undefined && one === other;
}

/** The value of a slider as an edit has it. */
export function meant(value: string): Tree {
  const choice = /^\{/.test(value) ? value.replace(/([a-z_]+)\s*=/g, '"$1":') : value;
  try {
    return JSON.parse(choice) as Tree;
  } catch {
    return value;
  }
}
