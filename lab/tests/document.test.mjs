import assert from "node:assert/strict";
import { test } from "node:test";
import { mistakesOf } from "../src/document";

test("one mistake is a sentence, with its line and its key where there are any", () => {
  for (const [told, line, key, sentence] of [
    ["line 4: string values must be quoted", 4, "", "string values must be quoted"],
    ["line 5: links.first.delay: `20 km` is no time", 5, "links.first.delay", "links.first.delay: `20 km` is no time"],
    ["flows.f.count = 0 is not from 1", 0, "flows.f.count", "flows.f.count = 0 is not from 1"],
    ["", 0, "", ""],
  ])
    assert.deepEqual(mistakesOf(told), [{ line, key: key ? key.split(".") : [], sentence }]);
});

test("several mistakes are counted, and each has a line of its own", () => {
  const told = "2 mistakes\n  line 1: seed: invalid value\n  missing field `links`";
  assert.deepEqual(mistakesOf(told), [
    { line: 1, key: ["seed"], sentence: "seed: invalid value" },
    { line: 0, key: [], sentence: "missing field `links`" },
  ]);
});
