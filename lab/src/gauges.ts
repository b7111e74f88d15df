/** What ends of flows are at, drawn in their hosts. */

import { ink } from "./dom";
import { colourOf, ROW, TOP } from "./looks";
import { shown, written } from "./quantities";
import type { Sender, SenderNow } from "./states";
import type { Host } from "./topology";
import type { Trace } from "./trace";

/** Where hosts stand on the stage. */
export interface Frame {
  hosts: Host[];
  hostWidth: number;
  isNarrow: boolean;
  columnX(column: number): number;
}

/**
 * In each host, what its ends of flows are at: of a sender's path the window and what is outstanding of it,
 * what holds it back and its timer; of a receiver what waits for earlier data.
 */
export function drawHosts(context: CanvasRenderingContext2D, trace: Trace, time: number, frame: Frame) {
  const free = new Map(frame.hosts.map((host) => [host.name, { host, y: TOP + host.firstRow * ROW + 38 }]));
  const isNarrow = frame.isNarrow;
  const wide = frame.hostWidth - 12;
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.font = "10px system-ui, sans-serif";
  const take = (name: string, high: number) => {
    const place = free.get(name);
    if (!place || place.y + high > TOP + (place.host.lastRow + 1) * ROW - 6) return undefined;
    const y = place.y;
    place.y += high;
    return { x: frame.columnX(place.host.column) + 6, y };
  };
  for (const sender of trace.states.senders) {
    const now = trace.states.senderAt(sender, time);
    const at = now && take(trace.host(sender.flow, sender.side), isNarrow ? 12 : 26);
    if (!at) continue;
    const share = now.cwnd > 0 ? Math.min(1, now.outstanding / now.cwnd) : 0;
    context.fillStyle = ink("grey-4");
    context.fillRect(at.x, at.y, wide, 8);
    context.fillStyle = colourOf(trace.colour(sender.flow, sender.path));
    context.fillRect(at.x, at.y, wide * share, 8);
    if (isNarrow) continue;
    context.fillStyle = ink("ink");
    write(context, gauge(sender, now), at.x, at.y + 16, wide);
  }
  for (const blocking of trace.states.blockings) {
    const waiting = trace.states.waitingFor(blocking, time);
    const at = waiting > 0 && take(trace.host(blocking.flow, blocking.side), isNarrow ? 12 : 26);
    if (!at) continue;
    context.strokeStyle = colourOf(trace.colour(blocking.flow, blocking.path));
    context.lineWidth = 2;
    context.strokeRect(at.x + 1, at.y, wide - 2, 8);
    if (isNarrow) continue;
    context.fillStyle = ink("ink");
    const [much, path] = [written(waiting, "B"), trace.pathName(blocking.flow, blocking.path)];
    write(context, [`${much} wait for ${path}`, `${much} wait`], at.x, at.y + 16, wide);
  }
}

/** What holds a sender back, as the table `limits` names it, in a word or two. */
const LIMITS: Record<string, string> = {
  application_limited: "idle",
  cwnd_limited: "window full",
  handshake: "handshake",
  path_down: "path down",
  receive_window_limited: "receiver full",
  in_recovery: "repairs",
  scheduler_waiting: "held back",
  send_buffer_limited: "buffer full",
  standby: "stands by",
  in_timeout: "timeout",
};

/** The first of some texts that there is room for. */
function write(context: CanvasRenderingContext2D, texts: string[], x: number, y: number, wide: number) {
  const text = texts.find((one) => context.measureText(one).width <= wide) ?? texts.at(-1) ?? "";
  context.fillText(text, x, y, wide);
}

/** What is said of a sender, with all of it or with what matters most. */
function gauge(sender: Sender, { cwnd, rto, state, limit }: SenderNow): string[] {
  const why = state === "inactive" ? "failed" : (LIMITS[limit] ?? limit.replaceAll("_", " "));
  const timer = limit === "in_timeout" || sender.rto.length === 0 ? `RTO ${shown(Math.round(rto))} ms` : written(cwnd, "B");
  return [[timer, why].filter(Boolean).join(" · "), why || timer];
}
