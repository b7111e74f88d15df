import assert from "node:assert/strict";
import { test } from "node:test";
import { quantity, roundAbove, scheduled, shown, written } from "../src/quantities";

test("quantities are read with their units", () => {
  for (const [text, value, family] of [
    ["20 ms", 0.02, "s"],
    ["1.5 Mbit/s", 1.5e6, "bit/s"],
    ["2 KiB", 2048, "B"],
    ["2 %", 0.02, ""],
    [" +3e2 us ", 3e-4, "s"],
    [7, 7, ""],
  ]) {
    const found = quantity(text);
    assert.ok(found, String(text));
    assert.ok(Math.abs(found.value - value) < 1e-12 * value, String(text));
    assert.equal(found.family, family);
  }
  for (const text of ["20 km", "-1 s", "codel", "", "ms", null, [1]]) assert.equal(quantity(text), undefined);
});

test("what is written is read as the same", () => {
  for (const family of ["s", "bit/s", "B"])
    for (let power = -4; power < 9; power += 0.37) {
      const value = 10 ** power;
      const found = quantity(written(value, family));
      assert.equal(found?.family, family);
      if (family === "s" || value > 10) assert.ok(Math.abs(found.value / value - 1) < 0.006, written(value, family));
    }
  assert.equal(written(0, "s"), "0 us");
});

test("a timetable has one value at a time, and begins anew", () => {
  const table = {
    timetable: [
      ["0 s", "1 Mbit/s"],
      ["2 s", "3 Mbit/s"],
    ],
    repeat: "5 s",
  };
  assert.equal(scheduled(table, 1.9), "1 Mbit/s");
  assert.equal(scheduled(table, 2), "3 Mbit/s");
  assert.equal(scheduled(table, 6.5), "1 Mbit/s");
  assert.equal(scheduled("4 ms", 3), "4 ms");
  assert.deepEqual(scheduled({ kind: "codel" }, 3), { kind: "codel" });
});

test("numbers are short", () => {
  assert.equal(shown(NaN), "–");
  assert.equal(shown(3.14159), "3.142");
  assert.equal(shown(12345.6), "12346");
  assert.equal(shown(2.87e-4), "0.000287");
  assert.equal(shown(1e-5), "1.00e-5");
});

test("a scale ends at a round number that nothing is above", () => {
  for (let power = -7; power < 13; power += 0.013) {
    const value = 10 ** power;
    const most = roundAbove(value, false);
    assert.ok(most > value && most <= 2.1 * value, `${value}: ${most}`);
    assert.ok(String(Number((most / 2).toPrecision(6))).replace(/[.0]|e.*/g, "").length <= 2, `${most}`);
  }
  assert.deepEqual([1, 2, 3, 9, 99].map((value) => roundAbove(value, true)), [2, 3, 4, 10, 120]);
  for (const value of [0, -1, NaN, null]) assert.equal(roundAbove(value, false), 1);
});
