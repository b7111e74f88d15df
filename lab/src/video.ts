/** What a viewer has seen of a video up to a time: its frames, freezes, delays, and the bytes that were sent for it. */

import { above, numbers, words } from "./columns";
import type { Traced } from "./pool";
import { PIECE, type Work } from "./pieces";
import type { Trace } from "./trace";

/** `made`: nobody knows yet whether it is going to be shown. */
export type Fate = "made" | "shown" | "late" | "lost";

/** The video that one side of a flow sends. */
export class Video {
  /** Of each frame, when it was made. */
  readonly made: number[] = [];
  /** When it was shown; NaN if it never was. */
  private readonly shown: number[] = [];
  private readonly isLate: boolean[] = [];
  /** When it is known to be lost: a later one is shown, or nothing comes any more. */
  private readonly missed: number[] = [];
  /** Stretches in which the picture stood still. */
  readonly freezes: { start: number; end: number }[] = [];
  /** Of each path, when a packet was sent and how many bytes that makes. */
  readonly sent: { times: number[]; bytes: number[] }[] = [];

  constructor(
    readonly flow: string,
    readonly side: string,
  ) {}

  add(made: number, shown: number, isLate: boolean, freeze: number) {
    this.made.push(made);
    this.shown.push(shown);
    this.isLate.push(isLate);
    if (freeze > 0) this.freezes.push({ start: shown - freeze, end: shown });
  }

  /** All frames are there. */
  finish(end: number) {
    let next = end;
    for (let frame = this.made.length - 1; frame >= 0; frame--) {
      this.missed[frame] = next;
      if (Number.isFinite(this.shown[frame])) next = Math.min(next, this.shown[frame] ?? next);
    }
  }

  addPacket(path: number, time: number, size: number) {
    while (this.sent.length <= path) this.sent.push({ times: [], bytes: [] });
    const { times, bytes } = this.sent[path] ?? { times: [], bytes: [] };
    times.push(time);
    bytes.push((bytes.at(-1) ?? 0) + size);
  }

  /** The number of frames that were made up to a time. */
  count(time: number): number {
    return above(this.made, time);
  }

  fate(frame: number, time: number): Fate {
    const shown = this.shown[frame] ?? NaN;
    if (shown <= time) return this.isLate[frame] ? "late" : "shown";
    return Number.isNaN(shown) && (this.missed[frame] ?? Infinity) <= time ? "lost" : "made";
  }

  /** Whether the picture stands still at a time. */
  isFrozen(time: number): boolean {
    return this.freezes.some(({ start, end }) => start < time && time < end);
  }

  /** What is measured up to a time, as the engine measures it at the end. */
  measures(time: number) {
    const fates = { made: 0, shown: 0, late: 0, lost: 0 };
    const delays: number[] = [];
    for (let frame = 0; frame < this.count(time); frame++) {
      const fate = this.fate(frame, time);
      fates[fate]++;
      if (fate === "shown" || fate === "late") delays.push((this.shown[frame] ?? 0) - (this.made[frame] ?? 0));
    }
    delays.sort((a, b) => a - b);
    const over = this.freezes.filter(({ end }) => end <= time);
    return {
      ...fates,
      freezes: over.length,
      frozen: over.reduce((sum, { start, end }) => sum + end - start, 0),
      p99: delays[Math.max(0, Math.ceil(0.99 * delays.length) - 1)],
      bytes: this.sent.map(({ times, bytes }) => bytes[above(times, time) - 1] ?? 0),
    };
  }
}

/** The videos of a run. */
export function* videosOf(trace: Trace, { tables }: Traced): Work<Video[]> {
  const frames = tables["frames"];
  const [made, shown, freeze] = ["created_s", "played_s", "freeze_ms"].map((name) => numbers(frames, name));
  const [flow, side, status] = [words(frames, "flow"), words(frames, "side"), words(frames, "status")];
  const videos = new Map<string, Video>();
  for (let row = 0; row < (made?.length ?? 0); row++) {
    if (row % PIECE === 0) yield;
    if (trace.scenario.flows[flow(row)]?.app.kind !== "video") continue;
    const key = `${flow(row)}/${side(row)}`;
    const video = videos.get(key) ?? new Video(flow(row), side(row));
    videos.set(key, video);
    video.add(made?.[row] ?? 0, shown?.[row] ?? NaN, status(row) === "late", (freeze?.[row] ?? 0) * 1e-3);
  }
  for (const video of videos.values()) video.finish(trace.end);
  for (const [number, { flow, side, isData, path, sent, size }] of trace.packets.entries()) {
    if (number % PIECE === 0) yield;
    if (isData) videos.get(`${flow}/${side}`)?.addPacket(path, sent, size);
  }
  return [...videos.values()];
}
