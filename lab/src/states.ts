/** What senders, receivers and loss chains are at over the time of a run. */

import { above, numbers, words } from "./columns";
import type { Table } from "./engine";
import { PIECE, type Work } from "./pieces";

/** Stretches of time, in ascending order. */
export interface Spans {
  starts: number[];
  ends: number[];
}

/** What the sender of a path is at over time: columns of the tables `paths` and `limits`. */
export interface Sender {
  flow: string;
  side: string;
  path: number;
  times: number[];
  cwnd: number[];
  outstanding: number[];
  rto: number[];
  states: string[];
  most: number;
  /** What held it back, and when. */
  limits: Spans & { causes: string[] };
}

/** The state of a sender at one time. */
export interface SenderNow {
  cwnd: number;
  outstanding: number;
  rto: number;
  state: string;
  limit: string;
}

/** Data that waits in a receiver for what comes on one path. */
export interface Blocking extends Spans {
  flow: string;
  side: string;
  path: number;
  /** Bytes that wait, on average over each stretch. */
  bytes: number[];
}

/** The stretch that goes on at a time; -1 between them. */
export function spanAt({ starts, ends }: Spans, time: number): number {
  const last = above(starts, time) - 1;
  return last >= 0 && (ends[last] ?? 0) > time ? last : -1;
}

export class States {
  readonly senders: Sender[] = [];
  readonly blockings: Blocking[] = [];
  /** When the loss chain of a link's direction is in its bad state: `link/forward` or `link/reverse`. */
  private readonly bad = new Map<string, Spans>();

  *read(tables: Record<string, Table>): Work<void> {
    yield* this.readSenders(tables["paths"], tables["limits"]);
    yield* this.readBlockings(tables["head_of_line"]);
    yield* this.readLossStates(tables["loss_states"]);
  }

  /** What a sender is at; nothing before it has begun. */
  senderAt({ times, cwnd, outstanding, rto, states, limits }: Sender, time: number): SenderNow | undefined {
    const row = above(times, time) - 1;
    if (row < 0) return undefined;
    const limit = limits.causes[spanAt(limits, time)] ?? "";
    return {
      cwnd: cwnd[row] ?? 0,
      outstanding: outstanding[row] ?? 0,
      rto: rto[row] ?? 0,
      state: states[row] ?? "",
      limit,
    };
  }

  /** Bytes that wait now for what comes on this path. */
  waitingFor(blocking: Blocking, time: number): number {
    return blocking.bytes[spanAt(blocking, time)] ?? 0;
  }

  /** Whether a link's loss chain is in its bad state. */
  isBad(link: string, isForward: boolean, time: number): boolean {
    const spans = this.bad.get(`${link}/${isForward ? "forward" : "reverse"}`);
    return !!spans && spanAt(spans, time) >= 0;
  }

  private *readSenders(paths: Table | undefined, limits: Table | undefined): Work<void> {
    const [times, path, cwnd, outstanding, rto] = ["time_s", "path", "cwnd_bytes", "outstanding_bytes", "rto_ms"].map(
      (name) => numbers(paths, name),
    );
    const [flow, side, state] = [words(paths, "flow"), words(paths, "side"), words(paths, "state")];
    const known = new Map<string, Sender>();
    for (let row = 0; row < (times?.length ?? 0); row++) {
      if (row % PIECE === 0) yield;
      const key = `${flow(row)}/${side(row)}/${path?.[row]}`;
      let sender = known.get(key);
      if (!sender) {
        const name = { flow: flow(row), side: side(row), path: path?.[row] ?? 0 };
        const columns = { times: [], cwnd: [], outstanding: [], rto: [], states: [] };
        sender = { ...name, ...columns, most: 0, limits: { starts: [], ends: [], causes: [] } };
        known.set(key, sender);
      }
      sender.times.push(times?.[row] ?? 0);
      sender.cwnd.push(cwnd?.[row] ?? 0);
      sender.outstanding.push(outstanding?.[row] ?? 0);
      sender.rto.push(rto?.[row] ?? 0);
      sender.states.push(state(row));
      sender.most = Math.max(sender.most, outstanding?.[row] ?? 0);
    }
    const [starts, ends, number] = ["start_s", "end_s", "path"].map((name) => numbers(limits, name));
    const [of, at, cause] = [words(limits, "flow"), words(limits, "side"), words(limits, "limit")];
    for (let row = 0; row < (starts?.length ?? 0); row++) {
      if (row % PIECE === 0) yield;
      const sender = known.get(`${of(row)}/${at(row)}/${number?.[row]}`);
      sender?.limits.starts.push(starts?.[row] ?? 0);
      sender?.limits.ends.push(ends?.[row] ?? 0);
      sender?.limits.causes.push(cause(row));
    }
    // An end that never has anything outstanding sends nothing.
    this.senders.push(...[...known.values()].filter(({ most }) => most > 0));
  }

  private *readBlockings(table: Table | undefined): Work<void> {
    const [starts, ends, path, amount] = ["start_s", "end_s", "missing_path", "waiting_byte_s"].map((name) =>
      numbers(table, name),
    );
    const [flow, side] = [words(table, "flow"), words(table, "side")];
    const known = new Map<string, Blocking>();
    for (let row = 0; row < (starts?.length ?? 0); row++) {
      if (row % PIECE === 0) yield;
      const key = `${flow(row)}/${side(row)}/${path?.[row]}`;
      let blocking = known.get(key);
      if (!blocking) {
        blocking = {
          flow: flow(row),
          side: side(row),
          path: path?.[row] ?? 0,
          starts: [],
          ends: [],
          bytes: [],
        };
        known.set(key, blocking);
        this.blockings.push(blocking);
      }
      const [start, end] = [starts?.[row] ?? 0, ends?.[row] ?? 0];
      blocking.starts.push(start);
      blocking.ends.push(end);
      blocking.bytes.push((amount?.[row] ?? 0) / (end - start));
    }
  }

  private *readLossStates(table: Table | undefined): Work<void> {
    const [times, isBad] = [numbers(table, "time_s"), numbers(table, "is_bad")];
    const [link, direction] = [words(table, "link"), words(table, "direction")];
    for (let row = 0; row < times.length; row++) {
      if (row % PIECE === 0) yield;
      const key = `${link(row)}/${direction(row)}`;
      const spans = this.bad.get(key) ?? { starts: [], ends: [] };
      this.bad.set(key, spans);
      if (isBad[row]) spans.starts.push(times[row] ?? 0);
      else spans.ends.push(times[row] ?? 0);
    }
    // The last one goes on.
    for (const { starts, ends } of this.bad.values()) if (ends.length < starts.length) ends.push(Infinity);
  }
}
