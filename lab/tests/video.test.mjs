import assert from "node:assert/strict";
import { test } from "node:test";
import { Trace } from "../src/trace";

const numbers = (...values) => Float64Array.from(values);
const words = (...values) => ({ rows: Uint32Array.from(values, (_, row) => row), words: values });

const SCENARIO = {
  links: { wifi: { ends: ["a", "b"] } },
  paths: { one: { via: ["wifi"] }, two: { via: ["wifi"] } },
  flows: {
    call: { from: "train", to: "office", paths: ["one", "two"], transport: { kind: "rtp" }, app: { kind: "video" } },
    talk: { from: "train", to: "office", paths: ["one"], transport: { kind: "rtp" }, app: { kind: "voip" } },
  },
};

// Five frames of the video, of which the third is lost, the fourth ends a freeze of 0.65 s and is late, the fifth is lost at the end.
const frames = {
  flow: words("call", "call", "call", "call", "call", "talk"),
  side: words("a", "a", "a", "a", "a", "a"),
  created_s: numbers(0, 0.1, 0.2, 0.3, 0.9, 0.1),
  played_s: numbers(0.05, 0.15, NaN, 0.8, NaN, 0.2),
  status: words("played", "played", "lost", "late", "lost", "played"),
  freeze_ms: numbers(0, 0, 0, 650, 0, 0),
};
const packets = {
  sent_s: numbers(0, 0, 0.1, 0.5, 0.6),
  flow: words("call", "call", "call", "call", "call"),
  side: words("a", "a", "a", "a", "b"),
  path: numbers(0, 1, 0, 1, 0),
  size_bytes: numbers(1000, 1000, 500, 700, 60),
  kind: words("datagram", "datagram", "datagram", "retransmission", "feedback"),
  tsn: numbers(0, 0, 1, 1, -1),
  fate: words("delivered", "delivered", "delivered", "delivered", "delivered"),
  delivered_s: numbers(0.04, 0.05, 0.14, 0.6, 0.7),
};
const events = {
  time_s: numbers(0.01, 1),
  flow: words("call", "call"),
  side: words("a", "a"),
  event: words("target_rate", "closed"),
  detail: words("1 Mbit/s", ""),
};

const traced = () => {
  const work = Trace.read(SCENARIO, { scalars: {}, tables: { packets, frames, events }, took: 1 });
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
};

test("a video is what its viewer has seen so far", () => {
  const trace = traced();
  assert.equal(trace.videos.length, 1, "a call has no pictures");
  const [video] = trace.videos;
  assert.deepEqual(
    [0.04, 0.06, 0.2, 0.79, 0.8, 1].map((time) => [0, 1, 2, 3, 4].map((frame) => video.fate(frame, time)).join()),
    [
      "made,made,made,made,made",
      "shown,made,made,made,made",
      "shown,shown,made,made,made",
      "shown,shown,made,made,made",
      "shown,shown,lost,late,made",
      "shown,shown,lost,late,lost",
    ],
  );
  assert.equal(video.count(0.25), 3);
  assert.deepEqual([0.1, 0.16, 0.7, 0.8].map((time) => video.isFrozen(time)), [false, true, true, false]);
});

test("its measures are those of the engine", () => {
  const [video] = traced().videos;
  const { p99, frozen, ...rest } = video.measures(1);
  assert.deepEqual(rest, { made: 0, shown: 2, late: 1, lost: 2, freezes: 1, bytes: [1500, 1700] });
  assert.ok(Math.abs(p99 - 0.5) < 1e-9 && Math.abs(frozen - 0.65) < 1e-9);
  assert.equal(video.measures(0.01).p99, undefined);
  assert.deepEqual(video.measures(0.3).bytes, [1500, 1000]);
});

test("freezes are moments, targets of an encoder are none", () => {
  const trace = traced();
  assert.deepEqual(
    trace.moments.map(({ time, text }) => [Number(time.toFixed(3)), text]),
    [
      [0.15, "call, office: the picture stands still for 0.65 s"],
      [1, "call, train: closed"],
    ],
  );
  assert.equal(trace.next(0, ["event"]).text, "call, office: the picture stands still for 0.65 s");
});
