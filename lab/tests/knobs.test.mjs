import assert from "node:assert/strict";
import { test } from "node:test";
import { rangeAround, shareOf, stepsOf, valueAt } from "../src/knobs";

test("a slider for whole numbers has a step for each", () => {
  const knob = { path: ["flows", "call", "transport", "path_max_retrans"], ...rangeAround(5, "", { isWhole: true }) };
  const steps = stepsOf(knob);
  assert.equal(steps, knob.most - knob.least);
  const values = Array.from({ length: steps + 1 }, (_, step) => valueAt(knob, step / steps));
  assert.deepEqual(values, values.map((_, step) => String(knob.least + step)));
  assert.equal(Math.round(steps * shareOf(knob, 7)), 7 - knob.least);
});

test("other sliders have many places", () => {
  assert.equal(stepsOf({ path: ["links", "a", "delay"], family: "s", least: 1e-3, most: 1, isLogarithmic: true }), 200);
  assert.equal(stepsOf({ path: ["links", "a", "loss"], least: 0, most: 0.2, isWhole: false }), 200);
});
