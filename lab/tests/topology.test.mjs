import assert from "node:assert/strict";
import { test } from "node:test";
import { layout } from "../src/topology";

const scenario = (links, paths, flows) => ({
  links: Object.fromEntries(Object.entries(links).map(([name, ends]) => [name, { ends }])),
  paths: Object.fromEntries(Object.entries(paths).map(([name, via]) => [name, { via }])),
  flows,
});

test("hosts stand behind those before them, and lanes do not cross", () => {
  const found = layout(
    scenario(
      { wifi: ["phone", "router"], lte: ["phone", "router"], wan: ["router", "server"] },
      { one: ["wifi", "wan"], two: ["lte", "wan"] },
      { call: { from: "phone", to: "server", paths: ["one", "two"] } },
    ),
  );
  const column = Object.fromEntries(found.hosts.map((host) => [host.name, host.column]));
  assert.deepEqual(column, { phone: 0, router: 1, server: 2 });
  const rows = Object.fromEntries(found.lanes.map((lane) => [lane.link, lane.row]));
  assert.notEqual(rows.wifi, rows.lte);
});

test("a link against the flow's direction runs from right to left", () => {
  const found = layout(scenario({ back: ["b", "a"] }, { p: ["back"] }, { f: { from: "a", to: "b", paths: ["p"] } }));
  assert.equal(found.lanes[0].isForwardRight, false);
  assert.equal(found.lanes[0].left, "a");
});

test("circles and links that nobody uses end", () => {
  const found = layout(
    scenario(
      { one: ["a", "b"], two: ["b", "a"], idle: ["x", "y"] },
      { there: ["one"], back: ["two"] },
      { f: { from: "a", to: "b", paths: ["there"] }, g: { from: "b", to: "a", paths: ["back"] } },
    ),
  );
  assert.equal(found.lanes.length, 3);
  for (const lane of found.lanes) {
    const others = found.lanes.filter((one) => one !== lane && one.row === lane.row);
    for (const other of others)
      assert.ok(
        lane.left === other.right || lane.right === other.left || lane.link === "idle" || other.link === "idle",
      );
  }
});

test("a network without links is empty", () => {
  assert.deepEqual(layout({ links: {}, paths: {}, flows: {} }), { hosts: [], lanes: [], columns: 1, rows: 1 });
});
