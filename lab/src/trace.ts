/** A traced run as the player reads it: what is where at a time, and what happens next. */

import type { Column, Table } from "./engine";
import type { Scenario } from "./messages";
import type { Traced } from "./pool";
import { quantity, scheduled } from "./quantities";

/** The tables that the player needs. */
export const TABLES = ["packets", "hops", "paths", "queues", "events", "frames", "ratings", "intervals"];

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
  /** When its first bit leaves the queue; the same as `entered` where there is no queue. */
  begun: number;
  /** When its last bit has left; NaN if it never did. */
  left: number;
  /** When it arrived or was dropped; NaN if neither. */
  ended: number;
  /** When it would have arrived, had it not been lost on the wire. */
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

const DATA = /^(i_)?data$|^datagram$|^fragment$/;

const numbers = (table: Table | undefined, name: string): Float64Array =>
  table && table[name] instanceof Float64Array ? table[name] : new Float64Array();
const words = (table: Table | undefined, name: string): string[] => {
  const column: Column | undefined = table?.[name];
  return Array.isArray(column) ? column : [];
};

/** The first place in ascending numbers that is above this one. */
export function above(values: ArrayLike<number>, value: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] ?? Infinity) > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** A queue's length over time. */
export interface Queue {
  link: string;
  isForward: boolean;
  times: number[];
  packets: number[];
  most: number;
}

export interface Series {
  label: string;
  times: ArrayLike<number>;
  values: ArrayLike<number>;
  /** Values hold until the next; otherwise each is a point. */
  isHeld: boolean;
  /** The number of its flow's path, or of its link: its colour. */
  colour: number;
}

export interface Chart {
  title: string;
  unit: string;
  series: Series[];
}

export class Trace {
  readonly end: number;
  readonly packets: Packet[] = [];
  readonly hops: Hop[] = [];
  readonly queues: Queue[] = [];
  readonly moments: Moment[] = [];
  /** Of each packet, its hops. */
  private readonly hopsOf = new Map<number, Hop[]>();
  private readonly entered: Float64Array;
  /** The longest time that a packet was at a link. */
  private longest = 0;

  constructor(
    readonly scenario: Scenario,
    readonly traced: Traced,
  ) {
    const { tables } = traced;
    this.readPackets(tables["packets"]);
    this.readHops(tables["hops"]);
    this.entered = Float64Array.from(this.hops, (hop) => hop.entered);
    this.readQueues(tables["queues"]);
    let end = 0;
    for (const hop of this.hops) end = Math.max(end, Number.isFinite(hop.ended) ? hop.ended : hop.entered);
    for (const time of numbers(tables["events"], "time_s")) end = Math.max(end, time);
    this.end = end;
    this.readMoments(tables["events"], tables["paths"]);
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

  private readPackets(table: Table | undefined) {
    const [sent, path, size, tsn, delivered] = ["sent_s", "path", "size_bytes", "tsn", "delivered_s"].map((name) =>
      numbers(table, name),
    );
    const [flow, side, kind, fate] = ["flow", "side", "kind", "fate"].map((name) => words(table, name));
    for (let row = 0; row < (sent?.length ?? 0); row++) {
      this.packets.push({
        sent: sent?.[row] ?? 0,
        flow: flow?.[row] ?? "",
        side: side?.[row] ?? "",
        path: path?.[row] ?? 0,
        size: size?.[row] ?? 0,
        kind: kind?.[row] ?? "",
        tsn: tsn?.[row] ?? -1,
        fate: fate?.[row] ?? "",
        delivered: delivered?.[row] ?? NaN,
        isData: DATA.test(kind?.[row] ?? ""),
      });
    }
  }

  private readHops(table: Table | undefined) {
    const [packet, entered, left, ended] = ["packet", "entered_s", "left_s", "ended_s"].map((name) => numbers(table, name));
    const [link, direction, fate] = ["link", "direction", "fate"].map((name) => words(table, name));
    for (let row = 0; row < (packet?.length ?? 0); row++) {
      const hop: Hop = {
        packet: packet?.[row] ?? 0,
        link: link?.[row] ?? "",
        isForward: direction?.[row] === "forward",
        entered: entered?.[row] ?? 0,
        begun: 0,
        left: left?.[row] ?? NaN,
        ended: ended?.[row] ?? NaN,
        expected: 0,
        fate: fate?.[row] ?? "",
      };
      const service = (8 * (this.packets[hop.packet]?.size ?? 0)) / this.rate(hop.link, hop.isForward, hop.entered);
      hop.begun = Number.isNaN(hop.left) ? hop.entered : Math.max(hop.entered, hop.left - service);
      hop.expected = Number.isNaN(hop.left) ? hop.ended : hop.left + this.delay(hop.link, hop.isForward, hop.left);
      if (Number.isFinite(hop.ended)) this.longest = Math.max(this.longest, Math.max(hop.ended, hop.expected || 0) - hop.entered);
      this.hops.push(hop);
      const story = this.hopsOf.get(hop.packet);
      if (story) story.push(hop);
      else this.hopsOf.set(hop.packet, [hop]);
    }
  }

  /** The rate of a link in bit/s; no limit where it has none of its own. */
  private rate(link: string, isForward: boolean, time: number): number {
    const config = this.scenario.links[link];
    const tree = (isForward ? undefined : config?.reverse?.["rate"]) ?? config?.rate;
    return quantity(scheduled(tree, time))?.value ?? Infinity;
  }

  private delay(link: string, isForward: boolean, time: number): number {
    const config = this.scenario.links[link];
    const tree = (isForward ? undefined : config?.reverse?.["delay"]) ?? config?.delay;
    return quantity(scheduled(tree, time))?.value ?? 0;
  }

  private readQueues(table: Table | undefined) {
    const [times, waiting] = [numbers(table, "time_s"), numbers(table, "waiting_packets")];
    const [link, direction] = [words(table, "link"), words(table, "direction")];
    const known = new Map<string, Queue>();
    for (let row = 0; row < times.length; row++) {
      const key = `${link[row]}/${direction[row]}`;
      let queue = known.get(key);
      if (!queue) {
        queue = { link: link[row] ?? "", isForward: direction[row] === "forward", times: [], packets: [], most: 0 };
        known.set(key, queue);
        this.queues.push(queue);
      }
      queue.times.push(times[row] ?? 0);
      queue.packets.push(waiting[row] ?? 0);
      queue.most = Math.max(queue.most, waiting[row] ?? 0);
    }
  }

  private readMoments(events: Table | undefined, paths: Table | undefined) {
    const [flow, side, event, detail] = ["flow", "side", "event", "detail"].map((name) => words(events, name));
    let last = "";
    numbers(events, "time_s").forEach((time, row) => {
      const name = event?.[row]?.replaceAll("_", " ") ?? "";
      // What an application could not write it writes later.
      if (name === "refused") return;
      // Messages that are given up come by the dozen.
      const key = `${Math.round(time * 1e3)}/${name}/${flow?.[row]}`;
      const isAgain = name === "abandoned" && key === last;
      last = key;
      if (isAgain) return;
      const what = name === "abandoned" ? "messages are given up: too old" : [name, detail?.[row]].filter(Boolean).join(": ");
      this.moments.push({ time, kind: "event", text: `${flow?.[row]}, ${this.host(flow?.[row], side?.[row])}: ${what}` });
    });
    for (const packet of this.packets) {
      if (packet.fate === "delivered" || packet.fate === "in_flight") continue;
      const path = this.pathName(packet.flow, packet.path);
      this.moments.push({ time: packet.sent, kind: "drop", text: `${packet.flow}: ${packet.kind} on ${path}: ${packet.fate.replaceAll("_", " ")}` });
    }
    this.readWindows(paths);
    this.moments.sort((a, b) => a.time - b.time);
  }

  /** Timeouts and cuts of windows, as the states of paths show them. */
  private readWindows(paths: Table | undefined) {
    const [times, path, cwnd, rto, srtt] = ["time_s", "path", "cwnd_bytes", "rto_ms", "srtt_ms"].map((name) => numbers(paths, name));
    const [flow, side] = [words(paths, "flow"), words(paths, "side")];
    const before = new Map<string, { cwnd: number; rto: number; srtt: number }>();
    for (let row = 0; row < (times?.length ?? 0); row++) {
      const key = `${flow[row]}/${side[row]}/${path?.[row]}`;
      const now = { cwnd: cwnd?.[row] ?? 0, rto: rto?.[row] ?? 0, srtt: srtt?.[row] ?? 0 };
      const was = before.get(key);
      before.set(key, now);
      if (!was) continue;
      const where = `${flow[row]}, ${this.host(flow[row], side[row])}, ${this.pathName(flow[row] ?? "", path?.[row] ?? 0)}`;
      const kb = (bytes: number) => `${(bytes / 1e3).toFixed(1)} kB`;
      if (now.rto > 1.9 * was.rto && now.srtt === was.srtt) {
        this.moments.push({ time: times?.[row] ?? 0, kind: "window", text: `${where}: timeout, the next one after ${Math.round(now.rto)} ms` });
      } else if (now.cwnd < 0.8 * was.cwnd) {
        this.moments.push({ time: times?.[row] ?? 0, kind: "window", text: `${where}: window cut from ${kb(was.cwnd)} to ${kb(now.cwnd)}` });
      }
    }
  }

  host(flow: string | undefined, side: string | undefined): string {
    const config = this.scenario.flows[flow ?? ""];
    return (side === "a" ? config?.from : config?.to) ?? side ?? "";
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

  /** What can be drawn over time. */
  charts(): Chart[] {
    const { tables } = this.traced;
    const groups = (table: Table | undefined, time: string, value: string, scale: number, isHeld: boolean, byPath: boolean) => {
      const known = new Map<string, { label: string; times: number[]; values: number[]; isHeld: boolean; colour: number }>();
      const [times, values, path] = [numbers(table, time), numbers(table, value), numbers(table, "path")];
      const [flow, side] = [words(table, "flow"), words(table, "side")];
      for (let row = 0; row < times.length; row++) {
        const number = byPath ? (path[row] ?? 0) : 0;
        const key = `${flow[row]}/${side[row]}/${number}`;
        let series = known.get(key);
        if (!series) {
          const names = [flow[row], byPath && this.pathName(flow[row] ?? "", number), this.host(flow[row], side[row])];
          const colour = this.colour(flow[row] ?? "", number) + (byPath || side[row] === "a" ? 0 : 1);
          series = { label: names.filter(Boolean).join(", "), times: [], values: [], isHeld, colour };
          known.set(key, series);
        }
        series.times.push(times[row] ?? 0);
        series.values.push((values[row] ?? NaN) * scale);
      }
      return [...known.values()];
    };
    const senders = new Set(this.packets.filter((packet) => packet.isData).map((packet) => `${packet.flow}, ${this.host(packet.flow, packet.side)}`));
    const isSender = ({ label }: Series) => {
      const parts = label.split(", ");
      return senders.has(`${parts[0]}, ${parts.at(-1)}`);
    };
    const queues: Series[] = this.queues
      .filter(({ most }) => most > 0)
      .map(({ link, isForward, times, packets }) => ({
        label: `${link}${isForward ? "" : ", reverse"}`,
        times,
        values: packets,
        isHeld: true,
        colour: Object.keys(this.scenario.links).indexOf(link) + (isForward ? 0 : 4),
      }));
    const all: Chart[] = [
      { title: "Call quality", unit: "MOS", series: groups(tables["ratings"], "start_s", "mos", 1, true, false) },
      { title: "Delay of frames", unit: "ms", series: groups(tables["frames"], "created_s", "delay_ms", 1, false, false) },
      { title: "Goodput", unit: "Mbit/s", series: groups(tables["intervals"], "start_s", "goodput_kbit_per_s", 1e-3, true, false) },
      { title: "Congestion window", unit: "kB", series: groups(tables["paths"], "time_s", "cwnd_bytes", 1e-3, true, true).filter(isSender) },
      { title: "Smoothed round-trip time", unit: "ms", series: groups(tables["paths"], "time_s", "srtt_ms", 1, true, true).filter(isSender) },
      { title: "Retransmission timeout", unit: "ms", series: groups(tables["paths"], "time_s", "rto_ms", 1, true, true).filter(isSender) },
      { title: "Packets that wait", unit: "packets", series: queues },
    ];
    const isThere = ({ values }: Series) => Array.prototype.some.call(values, (value: number) => Number.isFinite(value));
    return all
      .map((chart) => ({ ...chart, series: chart.series.filter(isThere).slice(0, MOST_SERIES) }))
      .filter(({ series }) => series.length > 0);
  }
}

/** More lines than colours tell nothing. */
const MOST_SERIES = 8;
