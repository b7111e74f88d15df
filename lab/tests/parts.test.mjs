import assert from "node:assert/strict";
import { test } from "node:test";
import { rangeAround, shareOf, toml, valueAt } from "../src/knobs";
import { freeName, newPart, removals, renames } from "../src/parts";

const TREE = {
  links: { wifi: { ends: ["a", "b"] }, lte: { ends: ["a", "b"] } },
  paths: { one: { via: ["wifi"] }, two: { via: ["lte"], back: ["wifi"] } },
  flows: { call: { from: "a", to: "b", paths: ["one", "two"] }, other: { from: "a", to: "b", paths: ["two"] } },
};

test("a part that gets another name keeps those that name it", () => {
  assert.deepEqual(renames(TREE, "link", "wifi", "wlan"), [
    [["paths", "one", "via"], ["wlan"]],
    [["paths", "two", "back"], ["wlan"]],
  ]);
  assert.deepEqual(renames(TREE, "path", "two", "2"), [
    [
      ["flows", "call", "paths"],
      ["one", "2"],
    ],
    [["flows", "other", "paths"], ["2"]],
  ]);
  assert.deepEqual(renames(TREE, "flow", "call", "talk"), []);
});

test("with a part go those that cannot be without it", () => {
  assert.deepEqual(removals(TREE, "link", "lte"), [
    [["flows", "call", "paths"], ["one"]],
    [["flows", "other"], null],
    [["paths", "two"], null],
    [["links", "lte"], null],
  ]);
  assert.deepEqual(removals(TREE, "flow", "call"), [[["flows", "call"], null]]);
});

test("a new part has a free name and goes with what there is", () => {
  assert.equal(freeName({ ...TREE, links: { link1: {} } }, "link"), "link2");
  assert.deepEqual(newPart(TREE, "path"), { via: ["wifi"] });
  assert.deepEqual(newPart(TREE, "flow").paths, ["one"]);
});

test("a slider's places and values belong together, within what the schema allows", () => {
  for (const [value, family, range] of [
    [0.02, "s", {}],
    [1e6, "bit/s", {}],
    [0.5, "", { minimum: 0, maximum: 1 }],
    [5, "", { isWhole: true, minimum: 1, maximum: 20 }],
  ]) {
    const knob = { path: [], family, ...rangeAround(value, family, range) };
    assert.ok(knob.least >= (range.minimum ?? 0) && knob.most <= (range.maximum ?? Infinity), JSON.stringify(knob));
    const share = shareOf(knob, value);
    assert.ok(share > 0 && share < 1, JSON.stringify([knob, share]));
    assert.ok(Math.abs(Number.parseFloat(valueAt(knob, share)) - value) < value || family !== "");
  }
});

test("a table in one line is TOML", () => {
  assert.equal(
    toml({ kind: "codel", target: "5 ms", rates: [1, 2], none: null, on: true }),
    '{ kind = "codel", target = "5 ms", rates = [1, 2], on = true }',
  );
});
