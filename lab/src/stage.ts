/** The network drawn, and what moves in it: hosts and links in SVG, packets and queues on a canvas above. */

import { h, ink, sized, svg } from "./dom";
import type { Opened, Tree } from "./messages";
import { quantity, scheduled, shown } from "./quantities";
import { type Lane, type Layout, layout } from "./topology";
import { type Hop, type Packet, type Trace } from "./trace";

export type Selection = { kind: "link" | "flow" | "path" | "run"; name: string };

const INKS = ["blue", "orange", "green", "pink", "sky", "amber", "grey-3", "grey-2"];

/** The colour of a series, a flow's path or a link, by its number. */
export function colourOf(number: number): string {
  return ink(INKS[number % INKS.length] ?? "blue");
}

const ROW = 84;
const TOP = 14;
const TRACK = 26;

interface Place {
  x1: number;
  x2: number;
  y: number;
}

export class Stage {
  private readonly drawing = svg("svg", { class: "network", role: "group", "aria-label": "The network" });
  private readonly canvas = h("canvas", { class: "packets", "aria-hidden": "true" });
  private layout: Layout = { hosts: [], lanes: [], columns: 1, rows: 1 };
  private opened: Opened | undefined;
  private trace: Trace | undefined;
  private time = 0;
  /** Seconds of the run that pass in a second of the person. */
  private speed = 0.05;
  /** Where packets were drawn last: for clicks. */
  private drawn: { x: number; y: number; packet: number }[] = [];
  /** The packet whose story is told. */
  marked: number | undefined;

  constructor(
    private readonly box: HTMLElement,
    private readonly onSelect: (selection: Selection) => void,
    private readonly onPacket: (packet: number) => void,
  ) {
    box.append(this.drawing, this.canvas);
    new ResizeObserver(() => this.arrange()).observe(box);
    box.addEventListener("click", (event) => this.pick(event));
  }

  show(opened: Opened) {
    this.opened = opened;
    this.layout = layout(opened.scenario);
    this.arrange();
  }

  play(trace: Trace | undefined) {
    this.trace = trace;
    this.marked = undefined;
    this.draw(0, this.speed);
  }

  private get width() {
    return this.box.clientWidth;
  }

  private get hostWidth() {
    return this.width < 520 ? 50 : 92;
  }

  private columnX(column: number): number {
    const { columns } = this.layout;
    const span = this.width - this.hostWidth;
    return columns < 2 ? 0 : (span * column) / (columns - 1);
  }

  private place({ left, right, row }: Lane): Place {
    const column = (name: string) => this.layout.hosts.find((host) => host.name === name)?.column ?? 0;
    const gap = this.width < 520 ? 4 : 8;
    return {
      x1: this.columnX(column(left)) + this.hostWidth + gap,
      x2: this.columnX(column(right)) - gap,
      y: TOP + row * ROW + ROW / 2 + 10,
    };
  }

  private arrange() {
    const { opened } = this;
    if (!opened || this.width === 0) return;
    const height = TOP + this.layout.rows * ROW + 6;
    this.box.style.height = `${height}px`;
    this.drawing.setAttribute("viewBox", `0 0 ${this.width} ${height}`);
    const parts: SVGElement[] = [];
    for (const host of this.layout.hosts) {
      const [x, y] = [this.columnX(host.column), TOP + host.firstRow * ROW + 12];
      const tall = (host.lastRow - host.firstRow + 1) * ROW - 16;
      const text = svg("text", { x: x + this.hostWidth / 2, y: y + tall / 2, class: "host-name" });
      const most = this.width < 520 ? 7 : 13;
      text.append(host.name.length > most ? `${host.name.slice(0, most - 1)}…` : host.name);
      parts.push(svg("g", {}, svg("title", {}, host.name), svg("rect", { x, y, width: this.hostWidth, height: tall, rx: 8, class: "host" }), text));
    }
    for (const lane of this.layout.lanes) parts.push(this.laneOf(lane, opened));
    this.drawing.replaceChildren(...parts);
    this.draw(this.time, this.speed);
  }

  private laneOf(lane: Lane, opened: Opened): SVGElement {
    const { x1, x2, y } = this.place(lane);
    const link = opened.scenario.links[lane.link];
    const facts = [
      say(link?.rate) || (link?.radio ? "radio" : "no limit"),
      say(link?.delay),
      link && link.loss.kind !== "none" ? `${link.loss.kind} loss${sayLoss(link.loss)}` : "",
      link && link.queue.kind !== "drop_tail" ? link.queue.kind : "",
    ].filter(Boolean);
    const choose = () => this.onSelect({ kind: "link", name: lane.link });
    const room = Math.floor((x2 - x1) / 6.4);
    const whole = `${lane.link} · ${facts.join(" · ")}`;
    const group = svg(
      "g",
      {
        class: "lane",
        tabindex: 0,
        role: "button",
        "aria-label": `Link ${lane.link}: ${facts.join(", ")}. Change it.`,
        "data-link": lane.link,
        onclick: choose,
        onkeydown: (event: KeyboardEvent) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          choose();
        },
      },
      svg("title", {}, whole),
      svg("rect", { x: x1, y: y - TRACK - 20, width: Math.max(0, x2 - x1), height: 2 * TRACK + 22, rx: 6, class: "lane-hit" }),
      svg("rect", { x: x1, y: y - TRACK, width: Math.max(0, x2 - x1), height: 2 * TRACK, rx: 6, class: "track" }),
      svg("line", { x1, x2, y1: y, y2: y, class: "middle" }),
    );
    const label = svg("text", { x: x1 + 2, y: y - TRACK - 6, class: "lane-name" });
    const [name, rest] = [lane.link, whole.slice(lane.link.length, Math.max(lane.link.length, room))];
    label.append(svg("tspan", { class: "strong" }, name.slice(0, room)), rest.length + name.length < whole.length && rest ? `${rest.slice(0, -1)}…` : rest);
    group.append(label);
    return group;
  }

  draw(time: number, speed: number) {
    this.time = time;
    this.speed = speed;
    const { context, width } = sized(this.canvas);
    this.drawn = [];
    if (!this.opened || width === 0) return;
    const lanes = new Map(this.layout.lanes.map((lane) => [lane.link, { lane, place: this.place(lane) }]));
    this.drawClosed(context, lanes);
    const { trace } = this;
    if (!trace) return;
    this.drawQueues(context, lanes, trace);
    // What was dropped stays for half a second of the person.
    const fade = 0.5 * speed;
    const colours = INKS.map((name) => ink(name));
    const [ground, strong] = [ink("paper"), ink("ink")];
    for (const hop of trace.at(time, fade)) {
      const where = lanes.get(hop.link);
      const packet = trace.packets[hop.packet];
      if (!where || !packet || hop.entered > time) continue;
      const point = position(hop, time, fade);
      if (!point) continue;
      const goesRight = hop.isForward === where.lane.isForwardRight;
      const { x1, x2, y } = where.place;
      const inset = 20;
      const along = x1 + inset + (x2 - x1 - 2 * inset) * (goesRight ? point.share : 1 - point.share);
      const across = y + (goesRight ? -TRACK / 2 : TRACK / 2);
      const colour = colours[trace.colour(packet.flow, packet.path) % INKS.length] ?? strong;
      if (point.isLost) drawCross(context, along, across, strong, point.strength);
      else {
        // As long as it is on the link.
        const long = Math.min(12, Math.max(3, point.length * (x2 - x1 - 2 * inset)));
        drawPacket(context, along, across, long, packet, colour, ground, hop.packet === this.marked ? strong : undefined);
      }
      this.drawn.push({ x: along, y: across, packet: hop.packet });
    }
  }

  /** How many packets were in view when it was drawn last. */
  get inView(): number {
    return this.drawn.length;
  }

  private drawQueues(context: CanvasRenderingContext2D, lanes: Map<string, { lane: Lane; place: Place }>, trace: Trace) {
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const queue of trace.queues) {
      const where = lanes.get(queue.link);
      if (!where || queue.most === 0) continue;
      const goesRight = queue.isForward === where.lane.isForwardRight;
      const { x1, x2, y } = where.place;
      const waiting = trace.waiting(queue, this.time);
      const [x, top] = [goesRight ? x1 + 3 : x2 - 13, goesRight ? y - TRACK + 2 : y + 2];
      const high = TRACK - 4;
      context.fillStyle = ink("grey-4");
      context.fillRect(x, top, 10, high);
      context.fillStyle = ink("grey-3");
      const filled = waiting === 0 ? 0 : Math.max(2, (high * waiting) / queue.most);
      context.fillRect(x, top + high - filled, 10, filled);
      if (waiting > 0) {
        context.fillStyle = ink("ink");
        context.textAlign = goesRight ? "left" : "right";
        context.fillText(String(waiting), goesRight ? x + 13 : x - 3, top + high / 2);
      }
    }
  }

  /** Links that are down now are hatched. */
  private drawClosed(context: CanvasRenderingContext2D, lanes: Map<string, { lane: Lane; place: Place }>) {
    for (const { lane, place } of lanes.values()) {
      if (scheduled(this.opened?.scenario.links[lane.link]?.["up"] as Tree | undefined, this.time) !== false) continue;
      const { x1, x2, y } = place;
      context.save();
      context.beginPath();
      context.rect(x1, y - TRACK, x2 - x1, 2 * TRACK);
      context.clip();
      context.strokeStyle = ink("grey-1");
      for (let x = x1 - 2 * TRACK; x < x2; x += 9) {
        context.moveTo(x, y + TRACK);
        context.lineTo(x + 2 * TRACK, y - TRACK);
      }
      context.stroke();
      context.fillStyle = ink("ink");
      context.font = "600 12px system-ui, sans-serif";
      context.textAlign = "center";
      context.textBaseline = "middle";
      const middle = (x1 + x2) / 2;
      context.clearRect(middle - 24, y - 9, 48, 18);
      context.fillText("down", middle, y);
      context.restore();
    }
  }

  private pick(event: MouseEvent) {
    const box = this.box.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let [nearest, least] = [undefined as number | undefined, 11];
    for (const one of this.drawn) {
      const distance = Math.hypot(one.x - x, one.y - y);
      if (distance < least) [nearest, least] = [one.packet, distance];
    }
    if (nearest !== undefined) this.onPacket(nearest);
  }
}

interface Point {
  /** How far along the link, from 0 to 1. */
  share: number;
  isLost: boolean;
  /** Which part of the link it takes. */
  length: number;
  /** From 1, just lost, to 0, forgotten. */
  strength: number;
}

/** Where a packet is on its link; nowhere while it waits in the queue, and when it is gone. */
function position(hop: Hop, time: number, fade: number): Point | undefined {
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

function moving({ begun, left }: Hop, until: number, time: number): Point {
  const whole = until - begun;
  const length = Number.isFinite(left) ? (left - begun) / whole : 0;
  return { share: (time - begun) / whole, isLost: false, length, strength: 1 };
}

function drawPacket(
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

function drawCross(context: CanvasRenderingContext2D, x: number, y: number, colour: string, strength: number) {
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

/** A setting in a few words. */
function say(tree: Tree | undefined): string {
  if (typeof tree === "string") return tree === "0 s" ? "" : tree;
  if (typeof tree !== "object" || tree === null || Array.isArray(tree)) return "";
  const table = tree["timetable"];
  if (!Array.isArray(table)) return "from a file";
  const values = table.map((row) => (Array.isArray(row) ? row[1] : null)).filter((value) => typeof value === "string");
  return values.length ? `${values[0]} → ${values.at(-1)}` : "by a timetable";
}

function sayLoss(loss: { [key: string]: Tree }): string {
  const share = quantity(loss["probability"] ?? loss["mean_loss"])?.value;
  return share === undefined ? "" : ` ${shown(100 * share)} %`;
}
