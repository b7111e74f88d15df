/** Plots of a run over time, under one cursor. */

import uPlot from "uplot";
import type { Chart, Series } from "./charts";
import { above } from "./columns";
import { h, ink } from "./dom";
import { colourOf } from "./looks";
import { roundAbove } from "./quantities";
import type { Trace } from "./trace";

/** Points of a line: more than there are pixels of a plot tells nothing. */
const POINTS = 900;
/** How high a plot may be, in CSS pixels: all are to be seen below the network, as far as they can be read. */
const [LEAST_HEIGHT, MOST_HEIGHT] = [40, 112];
/** Where plots have their names above them, and the page is scrolled anyway. */
const NARROW_HEIGHT = 84;
const AXIS = 24;
/** What `--scale` and `--edge` are in the style: the timeline ends where plots do. */
const [SCALE, EDGE] = [48, 16];

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

/** Numbers beside a plot: few, round, and none of them cut. */
function marksOf(unit: string, least: number, most: number, height: number): number[] {
  if (unit === "MOS") return height < 80 ? [1, 4] : [1, 2, 3, 4];
  const middle = most / 2;
  const isShown = height >= 80 && (unit !== "packets" || Number.isInteger(middle));
  return isShown ? [least, middle, most] : [least, most];
}

export class Plots {
  /** Each with the line that shows where the player is: moving it costs less than drawing the plot anew. */
  private plots: { plot: uPlot; line: HTMLElement; hasAxis: boolean }[] = [];
  private trace: Trace | undefined;
  private charts: Chart[] = [];
  private time = 0;
  /** Plots stand in one column, so that a time is at one place in all of them and in the timeline. */
  private readonly isNarrow = matchMedia("(max-width: 45rem)");

  constructor(
    private readonly box: HTMLElement,
    private readonly onSeek: (time: number) => void,
  ) {
    const watch = new ResizeObserver(() => this.resize());
    watch.observe(box);
    // What stands above takes more room, or less.
    if (box.previousElementSibling) watch.observe(box.previousElementSibling);
    window.addEventListener("resize", () => this.resize());
    const anew = () => this.show(this.trace, this.charts);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", anew);
    this.isNarrow.addEventListener("change", anew);
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
    const height = this.height;
    charts.forEach((chart, place) => this.add(chart, grid, step, height, this.isNarrow.matches || place === charts.length - 1));
    this.seek(this.time);
  }

  /** Where the player is. */
  seek(time: number) {
    this.time = time;
    for (const { plot, line } of this.plots) line.style.transform = `translateX(${plot.valToPos(time, "x")}px)`;
  }

  /** So high that all are in the window, if they can be. */
  private get height(): number {
    if (this.isNarrow.matches) return NARROW_HEIGHT;
    const top = this.box.getBoundingClientRect().top + window.scrollY;
    const room = window.innerHeight - top - AXIS - MARGIN;
    const each = Math.floor(room / Math.max(1, this.charts.length)) - GAP;
    return Math.min(MOST_HEIGHT, Math.max(LEAST_HEIGHT, each));
  }

  private add({ title, unit, series }: Chart, grid: number[], step: number, height: number, hasAxis: boolean) {
    const names = series.map(({ label, colour }) => {
      const key = h("span", { class: "key" }, label);
      key.style.setProperty("--key", colourOf(colour));
      return key;
    });
    const place = h("div", {});
    this.box.append(h("figure", { class: "plot" }, h("figcaption", {}, h("b", {}, title), ` ${unit} `, ...names), place));
    const values = series.map((one) => (unit === "packets" ? peaks(one, grid) : onGrid(one, grid, step)));
    const axis = {
      stroke: ink("quiet"),
      grid: { stroke: ink("line"), width: 1 },
      ticks: { stroke: ink("line"), width: 1, size: 4 },
      gap: 3,
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
    const range = (_plot: uPlot, _least: number | null, most: number | null): [number, number] =>
      unit === "MOS" ? [1, 4.6] : [0, roundAbove(most ?? 0, unit === "packets")];
    const number = (mark: number) =>
      Number(mark.toPrecision(6)).toLocaleString("en", mark >= 1e5 ? { notation: "compact" } : {});
    const plot = new uPlot(
      {
        width: Math.max(120, place.clientWidth),
        height: height + (hasAxis ? AXIS : 0),
        padding: [5, EDGE, hasAxis ? 0 : 5, 0],
        legend: { show: false },
        cursor: { sync: { key: "lab" }, drag: { x: false, y: false }, y: false },
        scales: { x: { time: false }, y: { range } },
        axes: [
          {
            ...axis,
            // Its grid is drawn in every plot.
            size: hasAxis ? AXIS : 0,
            ticks: { ...axis.ticks, show: hasAxis },
            values: (_plot, marks) => marks.map((mark) => (hasAxis ? `${number(mark)} s` : "")),
          },
          {
            ...axis,
            size: SCALE,
            splits: ({ height: high }, _axis, least, most) => marksOf(unit, least, most, high),
            values: (_plot, marks) => marks.map(number),
          },
        ],
        series: [{}, ...series.map(line)],
      },
      [grid, ...values] as uPlot.AlignedData,
      place,
    );
    plot.over.addEventListener("click", () => {
      const left = plot.cursor.left ?? -1;
      if (left >= 0) this.onSeek(plot.posToVal(left, "x"));
    });
    const now = h("div", { class: "now" });
    plot.over.append(now);
    this.plots.push({ plot, line: now, hasAxis });
  }

  private resize() {
    const { height } = this;
    for (const { plot, hasAxis } of this.plots) {
      const width = plot.root.parentElement?.clientWidth ?? 0;
      const high = height + (hasAxis ? AXIS : 0);
      if (width > 0 && (width !== plot.width || high !== plot.height)) plot.setSize({ width, height: high });
    }
    this.seek(this.time);
  }
}

/** Between plots, and below the last. */
const [GAP, MARGIN] = [2, 6];
