/** What runs are going to cost, if that is more than a page should begin by itself. */

import { meant } from "./knobs";
import type { Scenario, Sets, Tree } from "./messages";
import { quantity, shown } from "./quantities";

const MOST_FLOWS = 64;
const MOST_FLOW_SECONDS = 1200;
/** Of all runs of a batch. */
const MOST_BATCH_FLOW_SECONDS = 24_000;

function flowsOf({ flows }: Scenario): number {
  return Object.values(flows).reduce((sum, { count }) => sum + (count ?? 1), 0);
}

/** Simulated seconds of a run: until it ends, or a minute after the last application has. */
function secondsOf({ flows, run }: Scenario): number {
  const seconds = quantity(run.duration)?.value ?? 0;
  const ends = Object.values(flows).map(
    ({ app }) => latest(app["start"]) + (quantity(app["duration"])?.value ?? Infinity),
  );
  return Math.min(seconds, Math.max(0, ...ends) + 60);
}

/** When a start is, or the end of the range that it is drawn from. */
function latest(start: Tree | undefined): number {
  const isRange = typeof start === "object" && start !== null && !Array.isArray(start);
  return quantity(isRange ? start["to"] : start)?.value ?? 0;
}

/** The scenario as these settings make it. */
function withSets(scenario: Scenario, sets: Sets): Scenario {
  const changed = structuredClone(scenario);
  for (const [path, value] of sets) {
    const keys = path.split(".");
    const last = keys.pop() ?? "";
    let tree = changed as unknown as Tree | undefined;
    for (const key of keys) {
      if (typeof tree !== "object" || tree === null) break;
      tree = Array.isArray(tree) ? tree[Number(key)] : tree[key];
    }
    // What the scenario does not have the engine refuses.
    if (typeof tree === "object" && tree !== null && !Array.isArray(tree)) tree[last] = meant(value);
  }
  return changed;
}

/** Simulated seconds of all flows of a run. */
export function workOf(scenario: Scenario): number {
  return flowsOf(scenario) * secondsOf(scenario);
}

/** Seconds of a person that a batch may take without being asked for, where they are known. */
const PATIENCE_S = 15;

/** How long it takes on this machine, where that is known. */
function here(seconds: number, pace: number): string {
  if (pace <= 0) return ", which may take long here";
  const wait = seconds / pace;
  return wait < 100 ? `, about ${Math.max(1, Math.round(wait))} s here` : `, about ${Math.round(wait / 60)} min here`;
}

/** Simulated seconds of flows that this machine computes in a second: one run after another, and in batches. */
export interface Pace {
  one: number;
  all: number;
}

const UNKNOWN: Pace = { one: 0, all: 0 };

/** Of one run. */
export function costOfRun(scenario: Scenario, pace = UNKNOWN): string {
  const [flows, seconds] = [flowsOf(scenario), secondsOf(scenario)];
  const wait = here(flows * seconds, pace.one);
  if (flows > MOST_FLOWS) return `The scenario has ${flows} flows${wait}`;
  const isLong = seconds * flows > MOST_FLOW_SECONDS;
  const many = flows === 1 ? "one flow" : `${flows} flows`;
  return isLong ? `The run takes ${shown(seconds)} s of simulated time with ${many}${wait}` : "";
}

/** Of so many runs of each cell, which is the scenario with some settings. */
export function costOfBatch(scenario: Scenario, cells: Sets[], runs: number, pace = UNKNOWN): string {
  let seconds = 0;
  for (const sets of cells) {
    const cell = withSets(scenario, sets);
    const one = costOfRun(cell, pace);
    if (one) return one;
    seconds += runs * workOf(cell);
  }
  const isLong = seconds > MOST_BATCH_FLOW_SECONDS && !(seconds < PATIENCE_S * pace.all);
  return isLong
    ? `These are ${runs * cells.length} runs, and ${shown(seconds)} s of simulated time in all of their flows${here(seconds, pace.all)}`
    : "";
}
