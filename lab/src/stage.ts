/** The network drawn, and what moves in it: hosts and links in SVG, packets and queues on a canvas above. */

import { h, ink, shortened, sized, svg, wideOf } from "./dom";
import { drawHosts } from "./gauges";
import { INKS, ROW, TOP, TRACK } from "./looks";
import type { Opened, Tree } from "./messages";
import { quantity, scheduled, shown } from "./quantities";
import { type Host, type Lane, type Layout, layout } from "./topology";
import { drawCross, drawPacket, position } from "./marks";
import type { Trace } from "./trace";

export type Selection = { kind: "link" | "flow" | "path" | "run" | "sweep"; name: string };

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
    // Before its lane hears of it: a click on a packet is none on the lane.
    box.addEventListener("click", (event) => this.pick(event), { capture: true });
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
    if (this.width < 520) return 54;
    return this.width < 700 || this.layout.columns > 2 ? 104 : 128;
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
    for (const host of this.layout.hosts) parts.push(this.hostOf(host, opened));
    for (const lane of this.layout.lanes) parts.push(this.laneOf(lane, opened));
    this.drawing.replaceChildren(...parts);
    this.draw(this.time, this.speed);
  }

  private hostOf(host: Host, opened: Opened): SVGElement {
    const { hostWidth } = this;
    const isNarrow = this.width < 520;
    const [x, y] = [this.columnX(host.column), TOP + host.firstRow * ROW + 12];
    const high = (host.lastRow - host.firstRow + 1) * ROW - 16;
    const text = svg("text", { x: x + hostWidth / 2, y: y + 12, class: isNarrow ? "host-name narrow" : "host-name" });
    text.append(shortened(host.name, hostWidth - 4, `600 ${isNarrow ? 10 : 13}px system-ui, sans-serif`));
    const drawn = [
      svg("title", {}, host.name),
      svg("rect", { x, y, width: hostWidth, height: high, rx: 8, class: "host" }),
      text,
    ];
    // What a host is to be asked for are the flows that begin or end there.
    const flows = Object.entries(opened.scenario.flows).filter(
      ([, { from, to }]) => from === host.name || to === host.name,
    );
    const [first] = flows;
    if (!first) return svg("g", {}, ...drawn);
    const say = `Host ${host.name}: ${flows.map(([name]) => name).join(", ")}. Change ${first[0]}.`;
    return this.button("host-button", say, { kind: "flow", name: first[0] }, drawn);
  }

  /** A part of the drawing that leads to the settings. */
  private button(name: string, label: string, selection: Selection, drawn: SVGElement[]): SVGElement {
    const choose = () => this.onSelect(selection);
    return svg(
      "g",
      {
        class: name,
        tabindex: 0,
        role: "button",
        "aria-label": label,
        [`data-${selection.kind}`]: selection.name,
        onclick: choose,
        onkeydown: (event: KeyboardEvent) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          choose();
        },
      },
      ...drawn,
    );
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
    const whole = `${lane.link} · ${facts.join(" · ")}`;
    const wide = Math.max(0, x2 - x1);
    const [strong, plain] = ["600 12px system-ui, sans-serif", "12px system-ui, sans-serif"];
    const name = shortened(lane.link, wide - 4, strong);
    const rest = name === lane.link ? shortened(whole.slice(name.length), wide - 4 - wideOf(name, strong), plain) : "";
    const group = this.button(
      "lane",
      `Link ${lane.link}: ${facts.join(", ")}. Change it.`,
      { kind: "link", name: lane.link },
      [
        svg("title", {}, whole),
        svg("rect", { x: x1, y: y - TRACK - 20, width: wide, height: 2 * TRACK + 22, rx: 6, class: "lane-hit" }),
        svg("rect", { x: x1, y: y - TRACK, width: wide, height: 2 * TRACK, rx: 6, class: "track" }),
        svg("line", { x1, x2, y1: y, y2: y, class: "middle" }),
      ],
    );
    const label = svg("text", { x: x1 + 2, y: y - TRACK - 6, class: "lane-name" });
    label.append(svg("tspan", { class: "strong" }, name), rest.length > 3 ? rest : "");
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
    this.drawBursts(context, lanes, trace);
    drawHosts(context, trace, time, {
      hosts: this.layout.hosts,
      hostWidth: this.hostWidth,
      isNarrow: this.width < 520,
      columnX: (column) => this.columnX(column),
    });
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
        drawPacket(
          context,
          along,
          across,
          long,
          packet,
          colour,
          ground,
          hop.packet === this.marked ? strong : undefined,
        );
      }
      this.drawn.push({ x: along, y: across, packet: hop.packet });
    }
    this.drawQueues(context, lanes, trace);
    this.canvas.dataset["packets"] = String(this.drawn.length);
  }

  /** The packet in view that came last to its link. */
  get latest(): number | undefined {
    return this.drawn.at(-1)?.packet;
  }

  private drawQueues(
    context: CanvasRenderingContext2D,
    lanes: Map<string, { lane: Lane; place: Place }>,
    trace: Trace,
  ) {
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
        // Over packets that are there, too.
        const wide = context.measureText(String(waiting)).width;
        context.fillStyle = ink("soft");
        context.fillRect(goesRight ? x + 11 : x - 5 - wide, top + high / 2 - 6, wide + 4, 12);
        context.fillStyle = ink("ink");
        context.textAlign = goesRight ? "left" : "right";
        context.fillText(String(waiting), goesRight ? x + 13 : x - 3, top + high / 2);
      }
    }
  }

  /** A half of a lane is shaded while its loss chain is in the bad state. */
  private drawBursts(
    context: CanvasRenderingContext2D,
    lanes: Map<string, { lane: Lane; place: Place }>,
    trace: Trace,
  ) {
    context.fillStyle = ink("bad");
    for (const { lane, place } of lanes.values())
      for (const isForward of [true, false]) {
        if (!trace.states.isBad(lane.link, isForward, this.time)) continue;
        const goesRight = isForward === lane.isForwardRight;
        context.fillRect(
          place.x1 + 1,
          goesRight ? place.y - TRACK + 1 : place.y + 1,
          place.x2 - place.x1 - 2,
          TRACK - 2,
        );
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
    if (nearest === undefined) return;
    event.stopPropagation();
    this.onPacket(nearest);
  }
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
