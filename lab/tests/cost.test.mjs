import assert from "node:assert/strict";
import { test } from "node:test";
import { costOfBatch, costOfRun } from "../src/cost";

const scenario = (duration, flows) => ({ run: { duration }, flows });
const call = (more = {}, count = null) => ({ app: { kind: "voip", start: "0 s", duration: "60 s", ...more }, count });

test("many flows and long runs are told, and what ends early is not", () => {
  assert.equal(costOfRun(scenario("3600 s", { call: call() })), "");
  assert.match(costOfRun(scenario("3600 s", { call: call({}, 1000) })), /^The scenario has 1000 flows, which may take long here$/);
  assert.match(costOfRun(scenario("3600 s", { bulk: { app: { kind: "bulk" }, count: null } })), /3600 s .* one flow, which may take long here$/);
  assert.match(costOfRun(scenario("3600 s", { call: call({ duration: "1 h" }) })), /3600 s/);
});

test("an estimate is in seconds of this machine, once a run has been seen", () => {
  const long = scenario("3600 s", { bulk: { app: { kind: "bulk" }, count: null } });
  assert.match(costOfRun(long, { one: 100, all: 800 }), /one flow, about 36 s here$/);
  assert.match(costOfRun(long, { one: 10, all: 80 }), /about 6 min here$/);
  const base = scenario("3600 s", { call: call({ duration: "10 min" }) });
  assert.match(costOfBatch(base, [[]], 50, { one: 100, all: 800 }), /flows, about 41 s here$/);
  // What is over soon is not asked for.
  assert.equal(costOfBatch(base, [[]], 50, { one: 1000, all: 8000 }), "");
});

test("an application that begins late ends late", () => {
  assert.match(costOfRun(scenario("3600 s", { call: call({ start: "3000 s" }) })), /3120 s/);
  assert.match(costOfRun(scenario("3600 s", { call: call({ start: { from: "10 s", to: "50 min" } }) })), /3120 s/);
});

test("sliders and sweeps count as they set the scenario", () => {
  const base = scenario("3600 s", { call: call() });
  assert.equal(costOfBatch(base, [[]], 50), "");
  assert.match(costOfBatch(base, [[["flows.call.count", "65"]]], 1), /65 flows/);
  assert.match(costOfBatch(base, [[["flows.call.app.duration", "40 min"]]], 1), /2460 s/);
  assert.match(costOfBatch(base, [[["flows.call.app.duration", "10 min"]]], 50), /^These are 50 runs, and 33000 s/);
  const cells = ["1 s", "10 min"].map((duration) => [["flows.call.app.duration", duration]]);
  assert.equal(costOfBatch(base, cells, 10), "");
  assert.match(costOfBatch(base, cells, 40), /^These are 80 runs/);
});
