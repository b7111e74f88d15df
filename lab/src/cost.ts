/** What runs are going to cost, if that is more than a page should begin by itself. */

import type { Scenario } from "./messages";
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
  const ends = Object.values(flows).map(({ app }) => quantity(app["duration"])?.value ?? Infinity);
  return Math.min(seconds, Math.max(0, ...ends) + 60);
}

/** Of one run. */
export function costOfRun(scenario: Scenario): string {
  const [flows, seconds] = [flowsOf(scenario), secondsOf(scenario)];
  if (flows > MOST_FLOWS) return `The scenario has ${flows} flows`;
  const isLong = seconds * flows > MOST_FLOW_SECONDS;
  return isLong ? `The run takes ${shown(seconds)} s of simulated time with ${flows} flows` : "";
}

/** Of so many runs. */
export function costOfBatch(scenario: Scenario, runs: number): string {
  const one = costOfRun(scenario);
  if (one) return one;
  const [flows, seconds] = [flowsOf(scenario), secondsOf(scenario)];
  const isLong = seconds * flows * runs > MOST_BATCH_FLOW_SECONDS;
  return isLong ? `These are ${runs} runs of ${shown(seconds)} s of simulated time with ${flows} flows` : "";
}
