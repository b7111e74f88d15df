import assert from "node:assert/strict";
import { test } from "node:test";
import { lineOf } from "../src/document";

const TEXT = `# delay of links
run.duration = "60 s"
[links.first]
ends = ["a", "b"]
delay = "20 km"
[flows.call]
paths = ["p0"]
transport = { kind = "sctp",
  rto_max = "1 km" }
[links."second one"]
delay = "1 s"
[[flows.call.app.bursts]]
start = 3`;

test("a sentence about a scenario has its line", () => {
  for (const [sentence, line] of [
    ["line 4: string values must be quoted", 4],
    ["run.duration: `x` is not a length of time", 2],
    ["links.first.delay: `20 km` is not a length of time", 5],
    ["links.first.rat: unknown field", 3],
    ["flows.call.transport.rto_max: `1 km` is not a length", 8],
    ["flows.call.app.bursts: a mistake", 12],
    ["missing field `links`", 0],
    ["links: a mistake", 0],
    ["", 0],
  ])
    assert.equal(lineOf(TEXT, sentence), line, sentence);
});

test("a long text is searched once", () => {
  const text = "[a.b]\nc = 1\n".repeat(100_000) + "[x]\ny = 1";
  const before = performance.now();
  assert.equal(lineOf(text, "x.y: a mistake"), 200_002);
  assert.ok(performance.now() - before < 5000);
});
