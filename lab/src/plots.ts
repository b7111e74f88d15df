/** Plots of a run over time, under one cursor. */

import uPlot from "uplot";
import { h, ink } from "./dom";
import { colourOf } from "./looks";
import type { Chart, Series } from "./charts";
import { above } from "./columns";
import type { Trace } from "./trace";

/** Points of a line: more than there are pixels of a plot tells nothing. */
const POINTS = 900;
const HEIGHT = 128;

/** A series on a grid that all share: the last value of a cell, or the one that holds. */
function onGrid({ times, values, isHeld }: Series, grid: number[], step: number): (number | null)[] {
  return grid.map((time) => {
    const last = above(times, time) - 1;
    if (last < 0) return null;
    if (!isHeld && (times[last] ?? 0) <= time - step) return null;
    const value = values[last] ?? NaN;
    return Number.isFinite(value) ? value : null;
  });
}

/** The largest value of each cell: what a queue is about are its peaks. */
function peaks({ times, values }: Series, grid: number[]): (number | null)[] {
  let from = 0;
  return grid.map((time) => {
    const until = above(times, time);
    let most = values[Math.max(0, from - 1)] ?? 0;
    for (let index = from; index < until; index++) most = Math.max(most, values[index] ?? 0);
    from = until;
    return until === 0 ? 0 : most;
  });
}

export class Plots {
  /** Each with the line that shows where the player is: moving it costs less than drawing the plot anew. */
  private plots: { plot: uPlot; line: HTMLElement }[] = [];
  private trace: Trace | undefined;
  private charts: Chart[] = [];
  private time = 0;

  constructor(
    private readonly box: HTMLElement,
    private readonly onSeek: (time: number) => void,
  ) {
    new ResizeObserver(() => this.resize()).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.show(this.trace, this.charts));
  }

  show(trace: Trace | undefined, charts: Chart[]) {
    this.trace = trace;
    this.charts = charts;
    for (const { plot } of this.plots) plot.destroy();
    this.plots = [];
    this.box.replaceChildren();
    if (!trace || trace.end === 0) return;
    const step = trace.end / POINTS;
    const grid = Array.from({ length: POINTS + 1 }, (_, index) => index * step);
    for (const chart of charts) this.add(chart, grid, step);
  }

  /** Where the player is. */
  seek(time: number) {
    this.time = time;
    for (const { plot, line } of this.plots) line.style.transform = `translateX(${plot.valToPos(time, "x")}px)`;
  }

  private add({ title, unit, series }: Chart, grid: number[], step: number) {
    const figure = h("figure", { class: "plot" });
    const names = series.map(({ label, colour }) => {
      const key = h("span", { class: "key" }, label);
      key.style.setProperty("--key", colourOf(colour));
      return key;
    });
    figure.append(h("figcaption", {}, h("b", {}, title), ` in ${unit} `, ...names));
    this.box.append(figure);
    const values = series.map((one) => (unit === "packets" ? peaks(one, grid) : onGrid(one, grid, step)));
    const axis = {
      stroke: ink("quiet"),
      grid: { stroke: ink("line"), width: 1 },
      ticks: { stroke: ink("line"), width: 1 },
      font: "11px system-ui, sans-serif",
    };
    const line = (one: Series): uPlot.Series => ({
      label: one.label,
      stroke: colourOf(one.colour),
      width: 1.5,
      spanGaps: !one.isHeld && one.times.length < POINTS,
      points: { show: false },
      ...(one.isHeld ? { paths: uPlot.paths.stepped?.({ align: 1 }) } : {}),
    });
    const plot = new uPlot(
      {
        width: Math.max(200, figure.clientWidth),
        height: HEIGHT,
        legend: { show: false },
        cursor: { sync: { key: "lab" }, drag: { x: false, y: false }, y: false },
        scales: {
          x: { time: false },
          y: unit === "MOS" ? { range: [1, 4.6] } : { range: (_plot, _least, most) => [0, most > 0 ? most * 1.05 : 1] },
        },
        axes: [
          { ...axis, size: 26, values: (_plot, marks) => marks.map((mark) => `${Number(mark.toPrecision(6))} s`) },
          { ...axis, size: 54 },
        ],
        series: [{}, ...series.map(line)],
      },
      [grid, ...values] as uPlot.AlignedData,
      figure,
    );
    plot.over.addEventListener("click", () => {
      const left = plot.cursor.left ?? -1;
      if (left >= 0) this.onSeek(plot.posToVal(left, "x"));
    });
    const now = h("div", { class: "now" });
    plot.over.append(now);
    this.plots.push({ plot, line: now });
    this.seek(this.time);
  }

  private resize() {
    for (const { plot } of this.plots) {
      const width = plot.root.parentElement?.clientWidth ?? 0;
      if (width > 0 && width !== plot.width) plot.setSize({ width, height: HEIGHT });
    }
    this.seek(this.time);
  }
}
