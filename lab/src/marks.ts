/** Packets drawn: where each is on its link, and what it looks like. */

import type { Hop, Packet } from "./trace";

export interface Point {
  /** How far along the link, from 0 to 1. */
  share: number;
  isLost: boolean;
  /** Which part of the link it takes. */
  length: number;
  /** From 1, just lost, to 0, forgotten. */
  strength: number;
}

/** Where a packet is on its link; nowhere while it waits in the queue, and when it is gone. */
export function position(hop: Hop, time: number, fade: number): Point | undefined {
  const { begun, ended, left, expected, fate } = hop;
  if (fate !== "arrived" && fate !== "on_link") {
    const isOnWire = Number.isFinite(left);
    // Where on the wire is nobody's knowledge: in the middle.
    const when = isOnWire ? begun + (Math.max(expected, left) - begun) / 2 : ended;
    if (time >= when) {
      const strength = fade > 0 ? 1 - (time - when) / fade : 0;
      return strength <= 0 ? undefined : { share: isOnWire ? 0.5 : 0, isLost: true, length: 0, strength };
    }
    if (!isOnWire || time < begun) return undefined;
    return moving(hop, Math.max(expected, left), time);
  }
  const until = fate === "arrived" ? ended : expected;
  if (time < begun || !(time < until)) return undefined;
  return moving(hop, until, time);
}

export function moving({ begun, left }: Hop, until: number, time: number): Point {
  const whole = until - begun;
  const length = Number.isFinite(left) ? (left - begun) / whole : 0;
  return { share: (time - begun) / whole, isLost: false, length, strength: 1 };
}

export function drawPacket(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  long: number,
  packet: Packet,
  colour: string,
  ground: string,
  ring: string | undefined,
) {
  context.beginPath();
  if (packet.isData) {
    context.roundRect(x - long / 2 + 0.5, y - 5, long - 1, 10, Math.min(2.5, long / 3));
    context.fillStyle = colour;
    context.fill();
  } else {
    context.arc(x, y, 3.5, 0, 2 * Math.PI);
    context.fillStyle = ground;
    context.fill();
    context.strokeStyle = colour;
    context.lineWidth = 1.75;
    context.stroke();
  }
  if (!ring) return;
  context.beginPath();
  context.arc(x, y, 10, 0, 2 * Math.PI);
  context.strokeStyle = ring;
  context.lineWidth = 2;
  context.stroke();
}

export function drawCross(context: CanvasRenderingContext2D, x: number, y: number, colour: string, strength: number) {
  context.save();
  context.globalAlpha = Math.max(0.15, strength);
  context.strokeStyle = colour;
  context.lineWidth = 2.5;
  context.beginPath();
  context.moveTo(x - 5, y - 5);
  context.lineTo(x + 5, y + 5);
  context.moveTo(x + 5, y - 5);
  context.lineTo(x - 5, y + 5);
  context.stroke();
  context.restore();
}
