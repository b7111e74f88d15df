import assert from "node:assert/strict";
import { test } from "node:test";
import { above } from "../src/columns";
import { spanAt } from "../src/states";
import { inPieces } from "../src/pieces";
import { Trace } from "../src/trace";

const numbers = (...values) => Float64Array.from(values);
const words = (...values) => ({ rows: Uint32Array.from(values, (_, row) => row), words: values });

const SCENARIO = {
  links: { wifi: { ends: ["a", "b"] } },
  paths: { one: { via: ["wifi"] }, two: { via: ["wifi"] } },
  flows: {
    call: { from: "phone", to: "server", paths: ["one", "two"], transport: { kind: "sctp" }, app: { kind: "voip" } },
  },
};

const packets = {
  sent_s: numbers(0, 0.01, 0.02),
  flow: words("call", "call", "call"),
  side: words("a", "a", "b"),
  path: numbers(0, 0, 1),
  size_bytes: numbers(1000, 1000, 60),
  kind: words("data", "data", "sack"),
  tsn: numbers(1, 2, -1),
  fate: words("delivered", "lost", "delivered"),
  delivered_s: numbers(0.1, NaN, 0.12),
};

const hops = {
  packet: numbers(0, 1, 2),
  link: words("wifi", "wifi", "wifi"),
  direction: words("forward", "forward", "reverse"),
  entered_s: numbers(0, 0.01, 0.02),
  begun_s: numbers(0, 0.03, NaN),
  left_s: numbers(0.03, 0.06, 0.021),
  ended_s: numbers(0.1, 0.06, 0.12),
  fate: words("arrived", "lost", "arrived"),
};

const read = (tables) => Trace.read(SCENARIO, { scalars: {}, tables: { packets, hops, ...tables }, took: 1 });

const traced = (tables) => {
  const work = read(tables);
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
};

test("places and stretches are found", () => {
  assert.equal(above([1, 2, 2, 3], 2), 3);
  assert.equal(above([], 2), 0);
  const spans = { starts: [1, 3], ends: [2, 4] };
  assert.deepEqual(
    [0.5, 1, 1.9, 2, 3.5, 4].map((time) => spanAt(spans, time)),
    [-1, 0, 0, -1, 1, -1],
  );
});

test("a hop begins when the engine says, and a lost packet goes as long as the one before it", () => {
  const trace = traced({});
  assert.deepEqual(
    trace.hops.map(({ begun }) => begun),
    [0, 0.03, 0.02],
  );
  assert.ok(Math.abs(trace.hops[1].expected - 0.13) < 1e-12);
  assert.deepEqual(
    [...trace.at(0.05, 0)].map(({ packet }) => packet),
    [0, 1, 2],
  );
  assert.deepEqual([...trace.at(0.5, 0)], []);
  assert.equal(trace.end, 0.12);
});

test("events have the names of hosts and paths", () => {
  const events = {
    time_s: numbers(0.05, 0.06),
    flow: words("call", "call"),
    side: words("a", "a"),
    event: words("timeout", "primary_changed"),
    detail: words("path 0, window 3000 B -> 1500 B, the next after 200.123456 ms", "path0 -> path1: failure"),
  };
  const moments = traced({ events }).moments.filter(({ kind }) => kind !== "drop");
  assert.deepEqual(
    moments.map(({ kind, text }) => [kind, text]),
    [
      ["window", "call, phone: timeout: one, window 3000 B → 1500 B, the next after 200.1 ms"],
      ["event", "call, phone: primary changed: one → two: failure"],
    ],
  );
});

test("bursts, senders and what waits are known at each time", () => {
  const trace = traced({
    loss_states: {
      time_s: numbers(1, 2, 5),
      link: words("wifi", "wifi", "wifi"),
      direction: words("forward", "forward", "forward"),
      is_bad: numbers(1, 0, 1),
    },
    paths: {
      time_s: numbers(0, 1),
      flow: words("call", "call"),
      side: words("a", "a"),
      path: numbers(0, 0),
      cwnd_bytes: numbers(3000, 1500),
      outstanding_bytes: numbers(1000, 0),
      rto_ms: numbers(200, 400),
      state: words("active", "inactive"),
    },
    limits: {
      flow: words("call"),
      side: words("a"),
      path: numbers(0),
      start_s: numbers(0.5),
      end_s: numbers(2),
      limit: words("in_timeout"),
    },
    head_of_line: {
      flow: words("call"),
      side: words("b"),
      missing_path: numbers(1),
      start_s: numbers(1),
      end_s: numbers(3),
      waiting_byte_s: numbers(4000),
    },
  });
  assert.deepEqual(
    [0.5, 1.5, 3, 9].map((time) => trace.states.isBad("wifi", true, time)),
    [false, true, false, true],
  );
  assert.equal(trace.states.isBad("wifi", false, 1.5), false);
  const [sender] = trace.states.senders;
  assert.equal(trace.states.senderAt(sender, -1), undefined);
  assert.deepEqual(trace.states.senderAt(sender, 0.6), {
    cwnd: 3000,
    outstanding: 1000,
    rto: 200,
    state: "active",
    limit: "in_timeout",
  });
  assert.deepEqual(trace.states.senderAt(sender, 2.5), {
    cwnd: 1500,
    outstanding: 0,
    rto: 400,
    state: "inactive",
    limit: "",
  });
  assert.deepEqual(
    [0.5, 2, 3.5].map((time) => trace.states.waitingFor(trace.states.blockings[0], time)),
    [0, 2000, 0],
  );
});

test("a run that nobody wants any more is not read to its end", async () => {
  let pieces = 0;
  const work = (function* () {
    for (; pieces < 1000; pieces++) {
      const until = performance.now() + 3;
      while (performance.now() < until);
      yield;
    }
    return "done";
  })();
  assert.equal(await inPieces(work, () => pieces < 20), undefined);
  assert.ok(pieces < 100);
  assert.equal((await inPieces(read({}), () => true)).packets.length, 3);
});
