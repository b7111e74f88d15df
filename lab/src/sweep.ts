/** A small sweep over one or two sliders, drawn as curves or as a heat map while it runs. */

import type { Axis, Compare } from "./compare";
import { costOfBatch } from "./cost";
import type { ScenarioDocument } from "./document";
import { byId, h, ink, sized } from "./dom";
import { LabError } from "./engine";
import { type Pool, Stopped } from "./pool";
import { shown } from "./quantities";
import { interval, mean } from "./statistics";

const PLACES = 7;
const RUNS = 10;
const LEFT = 52;
const BOTTOM = 34;

export class Sweep {
  private axes: Axis[] = [];
  /** The runs of each cell, the last axis fastest. */
  private cells: number[][] = [];
  private scalar = "";
  private turn = 0;
  private readonly canvas = byId<HTMLCanvasElement>("sweep");
  private readonly finding = byId("sweep-finding");

  constructor(
    private readonly pool: Pool,
    private readonly scenario: ScenarioDocument,
    private readonly compare: Compare,
  ) {
    byId("run-sweep").onclick = () => void this.run();
    byId("stop-batch").addEventListener("click", () => this.stop());
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** Another scenario: what is drawn is not of it. */
  clear() {
    this.turn++;
    this.axes = [];
    this.cells = [];
    this.canvas.hidden = true;
    this.finding.textContent = "";
  }

  private stop() {
    if (!this.axes.length) return;
    this.turn++;
    this.tell("stopped");
  }

  private async run(isWanted = false) {
    const { good } = this.scenario;
    if (!good) return;
    const axes = this.compare.axes(PLACES);
    if (axes.length === 0 || !this.compare.scalar) {
      this.finding.textContent = axes.length
        ? "Choose “Run” first: its runs say which scalars there are."
        : "A sweep needs a slider.";
      return;
    }
    const cells = places(axes);
    const others = this.compare.sets;
    const sets = cells.map((cell) => {
      const moved = cell.flatMap((place, axis) => axes[axis]?.values[place]?.sets ?? []);
      return [...others.filter(([path]) => !moved.some(([one]) => one === path)), ...moved];
    });
    const cost = isWanted ? "" : costOfBatch(good.opened.scenario, sets, RUNS, this.pool.pace);
    if (cost) {
      const go = h("button", { type: "button", class: "small" }, "Run it all the same");
      go.onclick = () => void this.run(true);
      this.finding.replaceChildren(`${cost}. `, go);
      return;
    }
    const turn = ++this.turn;
    this.axes = axes;
    this.scalar = this.compare.scalar;
    this.cells = cells.map(() => []);
    this.canvas.hidden = false;
    let mistake = "";
    for (const [index, cell] of sets.entries()) {
      try {
        await this.pool.batch(good.text, cell, RUNS, [this.scalar], (_, scalars) => {
          const value = scalars[this.scalar];
          if (turn === this.turn && typeof value === "number") this.cells[index]?.push(value);
        });
      } catch (error) {
        if (error instanceof Stopped || turn !== this.turn) return;
        // What goes with one value need not go with another; the others are run.
        if (!(error instanceof LabError)) throw error;
        mistake = error.message;
      }
      if (turn !== this.turn) return;
      this.draw();
      this.tell(index + 1 < cells.length ? `${index + 1} of ${cells.length} cells` : mistake);
    }
  }

  /** The cell of the largest and of the smallest mean, in words. */
  private tell(state: string) {
    const cells = places(this.axes);
    const means = this.cells.map((runs) => mean(runs));
    const said = (best: (...values: number[]) => number) => {
      const index = means.indexOf(best(...means.filter(Number.isFinite)));
      const name = cells[index]?.map(
        (place, axis) => `${this.axes[axis]?.label} ${this.axes[axis]?.values[place]?.label}`,
      );
      return name ? `${shown(means[index])} with ${name.join(" and ")}` : "–";
    };
    const text = `${this.scalar}, means of ${RUNS} runs: most ${said(Math.max)}; least ${said(Math.min)}.`;
    this.finding.textContent = state ? `${state}. ${text}` : text;
  }

  private draw() {
    const { context, width, height } = sized(this.canvas);
    const [first, second] = this.axes;
    if (!first || width === 0) return;
    const known = this.cells.filter((runs) => runs.length > 0);
    if (known.length === 0) return;
    const top = second ? 20 : 8;
    const box = { left: LEFT, top, wide: width - LEFT - 8, high: height - BOTTOM - top };
    context.font = "11px system-ui, sans-serif";
    if (second) this.drawMap(context, box, first, second);
    else this.drawCurve(context, box, first);
    context.fillStyle = ink("quiet");
    context.textBaseline = "alphabetic";
    context.textAlign = "center";
    const step = box.wide / first.values.length;
    const most = Math.max(3, Math.floor(step / 6));
    first.values.forEach(({ label }, place) => {
      context.fillText(
        label.length > most ? `${label.slice(0, most - 1)}…` : label,
        box.left + (place + 0.5) * step,
        height - 20,
      );
    });
    context.fillText(first.label, box.left + box.wide / 2, height - 5);
    if (!second) return;
    context.textAlign = "left";
    context.fillText(second.label, 0, 12);
  }

  private drawCurve(context: CanvasRenderingContext2D, box: Box, { values }: Axis) {
    const ends = this.cells.flatMap((runs) => (runs.length ? [mean(runs) - half(runs), mean(runs) + half(runs)] : []));
    const [least, most] = [Math.min(...ends), Math.max(...ends)];
    const room = (most - least) * 0.08 || Math.abs(most) * 0.05 || 1;
    const y = (value: number) => box.top + box.high * (1 - (value - least + room) / (most - least + 2 * room));
    const x = (place: number) => box.left + ((place + 0.5) * box.wide) / values.length;
    context.fillStyle = ink("quiet");
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const value of [least, (least + most) / 2, most]) context.fillText(shown(value), box.left - 6, y(value));
    context.strokeStyle = ink("line");
    context.strokeRect(box.left, box.top, box.wide, box.high);
    context.strokeStyle = context.fillStyle = ink("blue");
    context.lineWidth = 2;
    context.beginPath();
    this.cells.forEach((runs, place) => runs.length && context.lineTo(x(place), y(mean(runs))));
    context.stroke();
    this.cells.forEach((runs, place) => {
      if (!runs.length) return;
      context.beginPath();
      context.moveTo(x(place), y(mean(runs) - half(runs)));
      context.lineTo(x(place), y(mean(runs) + half(runs)));
      context.stroke();
      context.beginPath();
      context.arc(x(place), y(mean(runs)), 3.5, 0, 2 * Math.PI);
      context.fill();
    });
  }

  private drawMap(context: CanvasRenderingContext2D, box: Box, first: Axis, second: Axis) {
    const means = this.cells.map((runs) => mean(runs));
    const known = means.filter(Number.isFinite);
    const [least, most] = [Math.min(...known), Math.max(...known)];
    const [wide, high] = [box.wide / first.values.length, box.high / second.values.length];
    means.forEach((value, index) => {
      if (!Number.isFinite(value)) return;
      const [column, row] = [Math.floor(index / second.values.length), index % second.values.length];
      const [x, y] = [box.left + column * wide, box.top + box.high - (row + 1) * high];
      const strength = most > least ? (value - least) / (most - least) : 0.5;
      context.globalAlpha = 0.08 + 0.72 * strength;
      context.fillStyle = ink("blue");
      context.fillRect(x + 0.5, y + 0.5, wide - 1, high - 1);
      context.globalAlpha = 1;
      context.fillStyle = ink("ink");
      context.textAlign = "center";
      context.textBaseline = "middle";
      if (wide > 34) context.fillText(shown(Number(value.toPrecision(3))), x + wide / 2, y + high / 2);
    });
    context.fillStyle = ink("quiet");
    context.textAlign = "right";
    context.textBaseline = "middle";
    second.values.forEach(({ label }, row) => {
      context.fillText(
        label.length > 8 ? `${label.slice(0, 7)}…` : label,
        box.left - 4,
        box.top + box.high - (row + 0.5) * high,
      );
    });
  }
}

interface Box {
  left: number;
  top: number;
  wide: number;
  high: number;
}

/** Of a single run there is no interval. */
const half = (runs: number[]) => (runs.length > 1 ? interval(runs) : 0);

/** The places on all axes of every cell. */
function places(axes: Axis[]): number[][] {
  return axes.reduce<number[][]>(
    (cells, { values }) => cells.flatMap((cell) => values.map((_, place) => [...cell, place])),
    [[]],
  );
}
