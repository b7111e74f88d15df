/** A traced run as the player reads it: what is where at a time, and what happens next. */

import type { Scenario } from "./messages";
import { above, numbers, words } from "./columns";
import type { Table } from "./engine";
import { PIECE, type Work } from "./pieces";
import type { Traced } from "./pool";
import { shown } from "./quantities";
import { States } from "./states";
import { type Video, videosOf } from "./video";

/** The tables that the player needs. */
export const TABLES = [
  "packets",
  "hops",
  "paths",
  "queues",
  "events",
  "frames",
  "ratings",
  "intervals",
  "limits",
  "head_of_line",
  "loss_states",
  "media",
];

/** Something that happened. */
export interface Moment {
  time: number;
  kind: "event" | "drop" | "window";
  text: string;
}

export interface Hop {
  packet: number;
  link: string;
  isForward: boolean;
  entered: number;
  /** When the link's server begins with it; the same as `entered` where there is no queue. */
  begun: number;
  /** When its last bit has left; NaN if it never did. */
  left: number;
  /** When it arrived or was dropped; NaN if neither. */
  ended: number;
  /** When it would have arrived, had it taken as long as the packet before it, which was not lost. */
  expected: number;
  fate: string;
}

export interface Packet {
  sent: number;
  flow: string;
  side: string;
  path: number;
  size: number;
  kind: string;
  tsn: number;
  fate: string;
  delivered: number;
  isData: boolean;
}

const DATA = /^(i_)?data$|^datagram$|^fragment$|^retransmission$/;

/** A queue's length over time. */
export interface Queue {
  link: string;
  isForward: boolean;
  times: number[];
  packets: number[];
  most: number;
}

export class Trace {
  end = 0;
  readonly packets: Packet[] = [];
  readonly hops: Hop[] = [];
  readonly queues: Queue[] = [];
  readonly moments: Moment[] = [];
  readonly states = new States();
  /** Videos that were sent. */
  videos: Video[] = [];
  /** Of each packet, its hops. */
  private readonly hopsOf = new Map<number, Hop[]>();
  private entered: ArrayLike<number> = [];
  /** The longest time that a packet was at a link. */
  private longest = 0;

  private constructor(
    readonly scenario: Scenario,
    readonly traced: Traced,
  ) {}

  /** Reads a run. */
  static *read(scenario: Scenario, traced: Traced): Work<Trace> {
    const { tables } = traced;
    const trace = new Trace(scenario, traced);
    yield* trace.readPackets(tables["packets"]);
    yield* trace.readHops(tables["hops"]);
    trace.entered = numbers(tables["hops"], "entered_s");
    yield* trace.readQueues(tables["queues"]);
    for (const time of numbers(tables["events"], "time_s")) trace.end = Math.max(trace.end, time);
    yield* trace.states.read(tables);
    trace.videos = yield* videosOf(trace, traced);
    yield* trace.readMoments(tables["events"]);
    return trace;
  }

  /** Hops that are going on at a time, and those that ended at most `after` seconds ago. */
  *at(time: number, after: number): Generator<Hop> {
    const last = above(this.entered, time);
    for (let index = above(this.entered, time - this.longest - after); index < last; index++) {
      const hop = this.hops[index];
      if (hop && !(Math.max(hop.ended, hop.fate === "arrived" ? 0 : hop.expected) + after < time)) yield hop;
    }
  }

  story(packet: number): Hop[] {
    return this.hopsOf.get(packet) ?? [];
  }

  /** Other packets that have carried, or are going to carry, the same data. */
  twins(number: number): number[] {
    const own = this.packets[number];
    if (!own?.isData || own.tsn < 0) return [];
    return this.packets.flatMap(({ isData, flow, side, tsn }, other) =>
      other !== number && isData && flow === own.flow && side === own.side && tsn === own.tsn ? [other] : [],
    );
  }

  waiting({ times, packets }: Queue, time: number): number {
    return packets[above(times, time) - 1] ?? 0;
  }

  /** The next moment of these kinds behind a time. */
  next(time: number, kinds: Moment["kind"][]): Moment | undefined {
    return this.moments.find((moment) => moment.time > time + 1e-9 && kinds.includes(moment.kind));
  }

  /** The last moment up to a time, drops apart. */
  last(time: number): Moment | undefined {
    return this.moments.findLast((moment) => moment.time <= time + 1e-9 && moment.kind !== "drop");
  }

  private *readPackets(table: Table | undefined): Work<void> {
    const [sent, path, size, tsn, delivered] = ["sent_s", "path", "size_bytes", "tsn", "delivered_s"].map((name) =>
      numbers(table, name),
    );
    const [flow, side, kind, fate] = [
      words(table, "flow"),
      words(table, "side"),
      words(table, "kind"),
      words(table, "fate"),
    ];
    for (let row = 0; row < (sent?.length ?? 0); row++) {
      if (row % PIECE === 0) yield;
      this.packets.push({
        sent: sent?.[row] ?? 0,
        flow: flow(row),
        side: side(row),
        path: path?.[row] ?? 0,
        size: size?.[row] ?? 0,
        kind: kind(row),
        tsn: tsn?.[row] ?? -1,
        fate: fate(row),
        delivered: delivered?.[row] ?? NaN,
        isData: DATA.test(kind(row)),
      });
    }
  }

  private *readHops(table: Table | undefined): Work<void> {
    const [packet, entered, left, ended] = ["packet", "entered_s", "left_s", "ended_s"].map((name) =>
      numbers(table, name),
    );
    const [link, direction, fate] = [words(table, "link"), words(table, "direction"), words(table, "fate")];
    const begun = numbers(table, "begun_s");
    // Of each direction of a link, what the packets before have shown.
    const known = new Map<string, { left: number; travel: number }>();
    for (let row = 0; row < (packet?.length ?? 0); row++) {
      if (row % PIECE === 0) yield;
      const hop: Hop = {
        packet: packet?.[row] ?? 0,
        link: link(row),
        isForward: direction(row) === "forward",
        entered: entered?.[row] ?? 0,
        begun: begun[row] ?? NaN,
        left: left?.[row] ?? NaN,
        ended: ended?.[row] ?? NaN,
        expected: NaN,
        fate: fate(row),
      };
      const key = `${hop.link}/${direction(row)}`;
      const before = known.get(key) ?? { left: 0, travel: 0 };
      // Where a medium serves the link, a packet's turn comes once the one before it has left.
      if (Number.isNaN(hop.begun))
        hop.begun = Number.isNaN(hop.left) ? hop.entered : Math.min(hop.left, Math.max(hop.entered, before.left));
      const travel = hop.fate === "arrived" ? hop.ended - hop.left : before.travel;
      hop.expected = Number.isNaN(hop.left) ? hop.ended : hop.left + travel;
      known.set(key, {
        left: Number.isNaN(hop.left) ? before.left : hop.left,
        travel: Number.isNaN(travel) ? before.travel : travel,
      });
      if (Number.isFinite(hop.ended))
        this.longest = Math.max(this.longest, Math.max(hop.ended, hop.expected || 0) - hop.entered);
      this.end = Math.max(this.end, Number.isFinite(hop.ended) ? hop.ended : hop.entered);
      this.hops.push(hop);
      const story = this.hopsOf.get(hop.packet);
      if (story) story.push(hop);
      else this.hopsOf.set(hop.packet, [hop]);
    }
  }

  private *readQueues(table: Table | undefined): Work<void> {
    const [times, waiting] = [numbers(table, "time_s"), numbers(table, "waiting_packets")];
    const [link, direction] = [words(table, "link"), words(table, "direction")];
    const known = new Map<string, Queue>();
    for (let row = 0; row < times.length; row++) {
      if (row % PIECE === 0) yield;
      const key = `${link(row)}/${direction(row)}`;
      let queue = known.get(key);
      if (!queue) {
        queue = { link: link(row), isForward: direction(row) === "forward", times: [], packets: [], most: 0 };
        known.set(key, queue);
        this.queues.push(queue);
      }
      queue.times.push(times[row] ?? 0);
      queue.packets.push(waiting[row] ?? 0);
      queue.most = Math.max(queue.most, waiting[row] ?? 0);
    }
  }

  private *readMoments(events: Table | undefined): Work<void> {
    const [flow, side] = [words(events, "flow"), words(events, "side")];
    const [event, detail] = [words(events, "event"), words(events, "detail")];
    let last = "";
    for (const [row, time] of numbers(events, "time_s").entries()) {
      if (row % PIECE === 0) yield;
      const name = event(row);
      // What an application could not write it writes later; rates of encoders have a plot.
      if (name === "refused" || name === "target_rate") continue;
      // Messages that are given up come by the dozen.
      const key = `${Math.round(time * 1e3)}/${name}/${flow(row)}`;
      const isAgain = name === "abandoned" && key === last;
      last = key;
      if (isAgain) continue;
      const named = (text: string) =>
        text
          .replace(/\bpath ?(\d+)\b/g, (_, path: string) => this.pathName(flow(row), Number(path)))
          .replace(/\d+\.\d{3,}/g, (number) => shown(Number(number)))
          .replaceAll("->", "→");
      const what =
        name === "abandoned"
          ? "messages are given up: too old"
          : [(WORDS[name] ?? name).replaceAll("_", " "), named(detail(row))].filter(Boolean).join(": ");
      const kind = name in WORDS ? "window" : "event";
      this.moments.push({ time, kind, text: `${flow(row)}, ${this.host(flow(row), side(row))}: ${what}` });
    }
    for (const [number, packet] of this.packets.entries()) {
      if (number % PIECE === 0) yield;
      if (packet.fate === "delivered" || packet.fate === "in_flight") continue;
      const path = this.pathName(packet.flow, packet.path);
      const text = `${packet.flow}: ${packet.kind} on ${path}: ${packet.fate.replaceAll("_", " ")}`;
      this.moments.push({ time: packet.sent, kind: "drop", text });
    }
    for (const { flow, side, freezes } of this.videos)
      for (const { start, end } of freezes) {
        const text = `${flow}, ${this.host(flow, side === "a" ? "b" : "a")}: the picture stands still for ${shown(Number((end - start).toFixed(3)))} s`;
        this.moments.push({ time: start, kind: "event", text });
      }
    this.moments.sort((a, b) => a.time - b.time);
  }

  host(flow: string, side: string): string {
    const config = this.scenario.flows[flow];
    return (side === "a" ? config?.from : config?.to) ?? side;
  }

  pathName(flow: string, path: number): string {
    return this.scenario.flows[flow]?.paths[path] ?? `path ${path}`;
  }

  /** The number of a flow's path among all: its colour. */
  colour(flow: string, path: number): number {
    let number = 0;
    for (const [name, { paths }] of Object.entries(this.scenario.flows)) {
      if (name === flow) return number + path;
      number += paths.length;
    }
    return number;
  }
}

/** What senders do about losses and marks, as the table `events` names it. */
const WORDS: Record<string, string> = {
  timeout: "timeout",
  fast_recovery: "fast retransmit",
  ecn_reduction: "congestion marks",
};
