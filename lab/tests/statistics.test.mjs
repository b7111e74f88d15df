import assert from "node:assert/strict";
import { test } from "node:test";
import { interval, mean, paired, quantile } from "../src/statistics";

test("quantiles of Student's t are those of tables", () => {
  // NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, at 0.975.
  const table = { 1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262, 19: 2.093, 49: 2.01, 100: 1.984 };
  for (const [freedom, exact] of Object.entries(table)) {
    const error = Math.abs(quantile(Number(freedom)) / exact - 1);
    assert.ok(error < 0.01, `${freedom}: ${quantile(Number(freedom))}, not ${exact}`);
  }
});

test("an interval is as wide as that of a sample known by hand", () => {
  // 1 to 5: variance 2.5, t of 4 degrees 2.776.
  assert.equal(mean([1, 2, 3, 4, 5]), 3);
  assert.ok(Math.abs(interval([1, 2, 3, 4, 5]) - 2.776 * Math.sqrt(0.5)) < 0.01);
  assert.equal(interval([7]), Infinity);
});

test("pairs whose difference is always the same have no width", () => {
  assert.deepEqual(paired([2, 2, 2]), { centre: 2, half: 0 });
});
