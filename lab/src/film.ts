/** The last frames of a video, and in words what was seen of it so far. */

import { h, ink, sized } from "./dom";
import { shown, written } from "./quantities";
import type { Trace } from "./trace";
import type { Video } from "./video";

/** A frame with its gap, in CSS pixels. */
const [WIDE, HIGH, GAP] = [9, 18, 2];

export class Film {
  private rows: { video: Video; strip: HTMLCanvasElement; line: HTMLElement }[] = [];
  private trace: Trace | undefined;

  constructor(private readonly box: HTMLElement) {}

  show(trace: Trace | undefined) {
    this.trace = trace;
    this.rows = (trace?.videos ?? []).map((video) => ({
      video,
      strip: h("canvas", { role: "img", "aria-label": "The last frames of the video; said in words below" }),
      line: h("p", {}),
    }));
    this.box.replaceChildren(...this.rows.flatMap(({ strip, line }) => [strip, line]));
    this.box.hidden = this.rows.length === 0;
  }

  /** What is seen and said at a time. */
  seek(time: number) {
    for (const { video, strip, line } of this.rows) {
      draw(video, strip, time);
      const text = this.words(video, time).join(" · ");
      if (line.textContent !== text) line.textContent = text;
    }
  }

  /** In words, for whoever does not see the strip. */
  said(time: number): string {
    return this.rows.map(({ video }) => this.words(video, time).join(", ")).join(" ");
  }

  private words(video: Video, time: number): string[] {
    const { shown: inTime, late, lost, freezes, frozen, p99, bytes } = video.measures(time);
    const name = this.rows.length > 1 ? `${video.flow}, ${this.trace?.host(video.flow, video.side)}: ` : "";
    const sent = bytes.map((size, path) =>
      [written(size, "B"), bytes.length > 1 && `on ${this.trace?.pathName(video.flow, path)}`].filter(Boolean).join(" "),
    );
    return [
      `${name}Frames: ${inTime} in time, ${late} late, ${lost} lost`,
      `${freezes} ${freezes === 1 ? "freeze" : "freezes"}${freezes ? `, ${shown(Number(frozen.toFixed(2)))} s` : ""}`,
      `p99 ${p99 === undefined ? "–" : `${Math.round(p99 * 1e3)} ms`}`,
      `sent ${sent.join(", ") || "nothing"}`,
      ...(video.isFrozen(time) ? ["the picture stands still"] : []),
    ];
  }
}

function draw(video: Video, strip: HTMLCanvasElement, time: number) {
  const { context, width } = sized(strip);
  if (width === 0) return;
  const count = video.count(time);
  const first = Math.max(0, count - Math.floor(width / WIDE));
  for (let frame = first; frame < count; frame++) {
    const [x, high] = [(frame - first) * WIDE, HIGH];
    const wide = WIDE - GAP;
    const fate = video.fate(frame, time);
    const made = video.made[frame] ?? 0;
    // Shape says what colour says: full, struck out from below, crossed out, empty.
    context.lineWidth = 1.5;
    if (fate === "shown") {
      context.fillStyle = ink("blue");
      context.fillRect(x, 2, wide, high);
    } else if (fate === "late") {
      context.fillStyle = ink("orange");
      context.fillRect(x, 2 + high / 2, wide, high / 2);
      context.strokeStyle = ink("orange");
      context.strokeRect(x + 0.75, 2.75, wide - 1.5, high - 1.5);
    } else if (fate === "lost") {
      context.strokeStyle = ink("ink");
      context.beginPath();
      context.moveTo(x, 4);
      context.lineTo(x + wide, high);
      context.moveTo(x + wide, 4);
      context.lineTo(x, high);
      context.stroke();
    } else {
      context.strokeStyle = ink("grey-3");
      context.strokeRect(x + 0.75, 2.75, wide - 1.5, high - 1.5);
    }
    if (video.isFrozen(made)) {
      context.fillStyle = ink("ink");
      context.fillRect(x - GAP / 2, high + 5, WIDE, 3);
    }
  }
}
