/** Settings as sliders, and what the runs of many replications become as they move. */

import { byId, h, ink, sized } from "./dom";
import { LabError } from "./engine";
import type { ScenarioDocument } from "./document";
import { costOfBatch } from "./cost";
import {
  type Knob,
  labelOf,
  labelOfValue,
  meant,
  type Range,
  rangeAround,
  sameValue,
  shareOf,
  stepsOf,
  toml,
  valueAt,
} from "./knobs";
import type { Scalars, Sets, Tree } from "./messages";
import { type Pool, Stopped } from "./pool";
import { quantity, scheduled, shown } from "./quantities";
import { interval, mean, paired } from "./statistics";

/** An axis of a sweep. */
export interface Axis {
  label: string;
  values: { label: string; sets: Sets }[];
}

interface Turned {
  knob: Knob;
  /** As `--set` has it. */
  value: string;
}

const MOST_KNOBS = 4;

export class Compare {
  private knobs: Turned[] = [];
  private rows = new Map<number, Scalars>();
  private baseline: { rows: Map<number, Scalars>; label: string; key: string } | undefined;
  private turn = 0;
  /** Whether the first result of the latest request has been drawn. */
  private isBusy = false;
  private isWaiting = false;
  private readonly knobBox = byId("knobs");
  private readonly canvas = byId<HTMLCanvasElement>("distribution");
  private readonly finding = byId("finding");
  private readonly metric = byId<HTMLSelectElement>("metric");
  private readonly count = byId<HTMLSelectElement>("replications");
  private readonly status = byId("batch-status");
  private wantedMetric = "";

  constructor(
    private readonly pool: Pool,
    private readonly scenario: ScenarioDocument,
  ) {
    this.metric.onchange = () => {
      this.wantedMetric = this.metric.value;
      this.draw();
    };
    this.count.onchange = () => this.ask();
    byId("pin-baseline").onclick = () => this.pinBaseline();
    byId("stop-batch").onclick = () => this.stop();
    byId("keep").onclick = () => void this.keep();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** Another scenario comes: what runs, and the sliders, are not of it. */
  clear() {
    if (this.isBusy) this.pool.stopBatch();
    this.turn++;
    this.isBusy = this.isWaiting = false;
    this.knobs = [];
    this.rows = new Map();
    this.baseline = undefined;
    this.status.textContent = "";
  }

  /** Another scenario, with these sliders and this scalar. */
  start(knobs: Knob[], metric = "", replications = 50) {
    this.wantedMetric = metric;
    this.count.value = String(replications);
    this.clear();
    this.knobs = knobs.map((knob) => ({ knob, value: this.present(knob.path) ?? knob.choices?.[0]?.value ?? "" }));
    this.showKnobs();
    this.draw();
  }

  /** The scenario has changed by other means. */
  refresh() {
    for (const turned of this.knobs) turned.value = this.present(turned.knob.path) ?? turned.value;
    this.knobs = this.knobs.filter(({ knob }) => knob.choices || this.present(knob.path) !== undefined);
    this.showKnobs();
    if (this.rows.size) this.ask();
  }

  /** Whether there is a number, or a word, that a slider could move. */
  canPin(path: string[]): boolean {
    const tree = this.tree(path);
    return typeof tree === "number" || quantity(tree) !== undefined;
  }

  add(path: string[], range: Range = {}) {
    const value = this.present(path);
    if (value === undefined || this.knobs.some(({ knob }) => knob.path.join() === path.join())) return;
    const found = quantity(scheduled(this.tree(path), 0));
    if (!range.choices && !found) return;
    if (this.knobs.length === MOST_KNOBS) this.knobs.shift();
    // What is set now stays a choice, with all that is set in it.
    const choices = range.choices?.map((one) => (sameValue(one.value, value) ? { ...one, value } : one));
    const moved = choices ? { choices } : rangeAround(found?.value ?? 0, found?.family ?? "", range);
    this.knobs.push({ knob: { path, family: found?.family ?? "", ...moved }, value });
    this.showKnobs();
  }

  /** What a page shows first: the runs of the scenario as it is. */
  ask(isWanted = false) {
    const { good } = this.scenario;
    if (!good) return;
    const cost = isWanted ? "" : costOfBatch(good.opened.scenario, [this.sets], Number(this.count.value), this.pool.pace);
    if (cost) {
      const go = h("button", { type: "button", class: "small" }, "Run them all the same");
      go.onclick = () => this.ask(true);
      this.status.replaceChildren(`${cost}. `, go);
      return;
    }
    // One request after the other, each drawn once at least: a slow machine shows the way of a drag, too.
    if (this.isBusy && this.rows.size === 0) {
      this.isWaiting = true;
      return;
    }
    void this.run();
  }

  stop() {
    this.isWaiting = false;
    this.turn++;
    this.pool.stopBatch();
    this.status.textContent = `Stopped after ${this.rows.size} runs.`;
    this.isBusy = false;
  }

  /** The first two sliders as axes of a sweep: what each of their places sets. */
  axes(places: number): Axis[] {
    return this.knobs.slice(0, 2).map(({ knob }) => {
      const values = knob.choices ?? Array.from({ length: places }, (_, place) => valueAt(knob, place / (places - 1)));
      // Whole numbers that are near each other are the same place.
      const unique = [
        ...new Map(values.map((one) => (typeof one === "string" ? [one, one] : [one.value, one.label]))).entries(),
      ];
      const paths = [knob.path, ...(knob.also ?? [])].map((path) => path.join("."));
      return {
        label: labelOf(knob),
        values: unique.map(([value, label]) => ({ label, sets: paths.map((path): Sets[number] => [path, value]) })),
      };
    });
  }

  get scalar(): string {
    return this.metric.value;
  }

  get sets(): Sets {
    return this.knobs.flatMap(({ knob, value }) =>
      [knob.path, ...(knob.also ?? [])].map((path): Sets[number] => [path.join("."), value]),
    );
  }

  /** What the runs are of. */
  private get key(): string {
    return JSON.stringify([this.scenario.good?.text, this.sets]);
  }

  private async run() {
    const { good } = this.scenario;
    if (!good) return;
    const turn = ++this.turn;
    const count = Number(this.count.value);
    const rows = new Map<number, Scalars>();
    this.rows = rows;
    this.isBusy = true;
    const start = performance.now();
    let frame = 0;
    try {
      await this.pool.batch(good.text, this.sets, count, null, (replication, scalars) => {
        if (turn !== this.turn) return;
        rows.set(replication, scalars);
        if (rows.size === 1) this.offer(scalars);
        if (!frame)
          frame = requestAnimationFrame(() => {
            frame = 0;
            this.draw();
            if (this.isWaiting) {
              this.isWaiting = false;
              void this.run();
            }
          });
        const passed = (performance.now() - start) / 1e3;
        const left = (passed * (count - rows.size)) / rows.size;
        const rest = passed > 2 && rows.size < count ? `, ${Math.ceil(left)} s left` : "";
        this.status.textContent = `${rows.size} of ${count} runs, ${passed.toFixed(2)} s${rest}`;
      });
      if (turn !== this.turn) return;
      this.isBusy = false;
      this.draw();
      if (!this.baseline) this.pinBaseline();
      if (this.isWaiting) {
        this.isWaiting = false;
        void this.run();
      }
    } catch (error) {
      if (error instanceof Stopped || turn !== this.turn) return;
      this.isBusy = false;
      if (!(error instanceof LabError)) throw error;
      this.status.textContent = error.message;
      if (!this.isWaiting) return;
      this.isWaiting = false;
      void this.run();
    }
  }

  private pinBaseline() {
    if (!this.rows.size) return;
    const label = this.knobs.map(({ knob, value }) => `${labelOf(knob)} ${labelOfValue(knob, value)}`).join(", ");
    this.baseline = { rows: new Map(this.rows), label: label || "as it is", key: this.key };
    this.draw();
  }

  /** Puts what the sliders say into the scenario. */
  private async keep() {
    await this.scenario.setAll(this.sets.map(([path, value]) => [path.split("."), meant(value)]));
  }

  /** The names of the scalars, once they are known. */
  private offer(scalars: Scalars) {
    const names = Object.keys(scalars).filter((name) => typeof scalars[name] === "number");
    const chosen = [this.wantedMetric, this.scenario.good?.opened.metrics[0] ?? ""].find((name) =>
      names.includes(name),
    );
    const guess =
      chosen ??
      names.find((name) => /\.mos$/.test(name)) ??
      names.find((name) => /goodput/.test(name)) ??
      names[0] ??
      "";
    if (this.metric.options.length !== names.length || this.metric.value !== guess)
      this.metric.replaceChildren(...names.map((name) => h("option", { value: name, selected: name === guess }, name)));
  }

  private tree(path: string[]): Tree | undefined {
    let tree = this.scenario.good?.opened.scenario as unknown as Tree | undefined;
    for (const key of path) {
      if (typeof tree !== "object" || tree === null) return undefined;
      tree = Array.isArray(tree) ? tree[Number(key)] : tree[key];
    }
    return tree;
  }

  private present(path: string[]): string | undefined {
    const tree = scheduled(this.tree(path), 0);
    if (tree === undefined || tree === null) return undefined;
    return typeof tree === "string" ? tree : toml(tree);
  }

  private showKnobs() {
    if (this.knobs.length === 0) {
      this.knobBox.replaceChildren(h("p", { class: "quiet" }, "Choose “Slider” beside a setting, and it stands here."));
      return;
    }
    this.knobBox.replaceChildren(...this.knobs.map((turned, index) => this.knobOf(turned, index)));
  }

  private knobOf(turned: Turned, index: number): HTMLElement {
    const { knob } = turned;
    const id = `knob-${index}`;
    const remove = h(
      "button",
      { type: "button", class: "small", "aria-label": `Remove the slider of ${labelOf(knob)}` },
      "×",
    );
    remove.onclick = () => {
      this.knobs = this.knobs.filter((one) => one !== turned);
      this.showKnobs();
      (this.knobBox.querySelector("button") ?? byId("ask")).focus();
      this.ask();
    };
    const shownValue = h("output", { for: id }, labelOfValue(knob, turned.value));
    const label = h("label", { for: id, title: knob.path.join(".") }, labelOf(knob));
    if (knob.choices) {
      const select = h("select", { id });
      for (const { label: text, value } of knob.choices)
        select.append(h("option", { value, selected: sameValue(value, turned.value) }, text));
      select.onchange = () => {
        turned.value = select.value;
        this.ask();
      };
      turned.value = select.value;
      return h("div", { class: "knob" }, label, select, remove);
    }
    const steps = stepsOf(knob);
    const now = Math.round(steps * shareOf(knob, quantity(turned.value)?.value ?? knob.least ?? 0));
    const slider = h("input", { id, type: "range", min: 0, max: steps, step: 1, value: now });
    slider.setAttribute("aria-valuetext", turned.value);
    slider.oninput = () => {
      turned.value = valueAt(knob, Number(slider.value) / steps);
      shownValue.textContent = labelOfValue(knob, turned.value);
      slider.setAttribute("aria-valuetext", turned.value);
      this.ask();
    };
    return h("div", { class: "knob" }, label, slider, shownValue, remove);
  }

  /** Each run a dot, the mean and its interval; the baseline below. */
  private draw() {
    const { context, width, height } = sized(this.canvas);
    const name = this.metric.value;
    const own = valuesOf(this.rows, name);
    const other = this.baseline ? valuesOf(this.baseline.rows, name) : new Map<number, number>();
    this.tell(name, own, other);
    const all = [...own.values(), ...other.values()];
    if (all.length === 0 || width === 0) return;
    let [least, most] = [Math.min(...all), Math.max(...all)];
    const room = (most - least) * 0.06 || Math.abs(most) * 0.05 || 1;
    [least, most] = [least - room, most + room];
    const margin = 14;
    const at = (value: number) => margin + ((value - least) / (most - least)) * (width - 2 * margin);
    const axis = height - 20;
    context.strokeStyle = ink("line");
    context.beginPath();
    context.moveTo(margin, axis);
    context.lineTo(width - margin, axis);
    context.stroke();
    context.fillStyle = ink("quiet");
    context.font = "11px system-ui, sans-serif";
    const marks = ticks(least, most, Math.max(3, Math.floor(width / 110)));
    // With as many digits as tell them apart.
    const digits = marks.map((mark) => shown(mark));
    const told = new Set(digits).size === marks.length ? shown : (mark: number) => String(Number(mark.toPrecision(8)));
    for (const mark of marks) {
      context.fillRect(at(mark), axis, 1, 4);
      context.textAlign = "center";
      context.fillText(told(mark), at(mark), axis + 16);
    }
    const band = (axis - 4) / 2;
    this.drawRow(context, [...own.values()], at, 0, band, ink("blue"), "now");
    if (other.size) this.drawRow(context, [...other.values()], at, band, band, ink("grey-3"), "baseline");
  }

  private drawRow(
    context: CanvasRenderingContext2D,
    values: number[],
    at: (value: number) => number,
    top: number,
    high: number,
    colour: string,
    label: string,
  ) {
    if (values.length === 0) return;
    context.save();
    context.fillStyle = colour;
    context.globalAlpha = 0.55;
    // Dots are stacked where they fall together.
    const piles = new Map<number, number>();
    const room = high - 26;
    for (const value of values) {
      const cell = Math.round(at(value) / 5);
      const before = piles.get(cell) ?? 0;
      piles.set(cell, before + 1);
    }
    const tallest = Math.max(...piles.values());
    const step = Math.min(5, room / tallest);
    for (const [cell, pile] of piles)
      for (let index = 0; index < pile; index++) {
        context.beginPath();
        context.arc(cell * 5, top + high - 20 - index * step, 2.3, 0, 2 * Math.PI);
        context.fill();
      }
    context.restore();
    const [centre, half] = [mean(values), interval(values)];
    context.strokeStyle = context.fillStyle = ink("ink");
    context.lineWidth = 2;
    const y = top + high - 9;
    if (Number.isFinite(half)) {
      context.beginPath();
      context.moveTo(at(centre - half), y);
      context.lineTo(at(centre + half), y);
      context.stroke();
    }
    context.beginPath();
    context.arc(at(centre), y, 4, 0, 2 * Math.PI);
    context.fillStyle = colour;
    context.fill();
    context.fillStyle = ink("quiet");
    context.textAlign = "left";
    context.font = "11px system-ui, sans-serif";
    context.fillText(label, 0, top + 11);
  }

  private tell(name: string, own: Map<number, number>, other: Map<number, number>) {
    if (own.size === 0) {
      this.finding.textContent = this.rows.size && name ? `No run has ${name}.` : "Move a slider, or choose “Run”.";
      return;
    }
    const say = (values: number[]) => {
      const half = interval(values);
      return `${shown(mean(values))}${Number.isFinite(half) ? ` ± ${shown(Number(half.toPrecision(2)))}` : ""}`;
    };
    const parts = [
      h("b", {}, `${name}: ${say([...own.values()])}`),
      own.size === 1 ? " in one run" : ` over ${own.size} runs`,
    ];
    const differences = [...own].flatMap(([run, value]) => (other.has(run) ? [value - (other.get(run) ?? 0)] : []));
    if (this.baseline && differences.length > 1 && this.baseline.key !== this.key) {
      const { centre, half } = paired(differences);
      const sign = centre > 0 ? "+" : "";
      const verdict =
        half === 0 && centre === 0
          ? "no difference"
          : Math.abs(centre) > half
            ? Math.abs(centre) + half < matters(name, mean([...other.values()]))
              ? "a difference too small to matter"
              : "a difference"
            : "no difference that these runs show";
      parts.push(
        `; against the baseline (${this.baseline.label}), run by run: ${sign}${shown(centre)} ± ${shown(Number(half.toPrecision(2)))}, ${verdict}`,
      );
    }
    this.finding.replaceChildren(...parts, ".");
  }
}

/** The smallest difference that matters: 0.1 of a MOS, 5 % of a goodput, as in `anabranch compare`; of others any does. */
function matters(name: string, value: number): number {
  if (/\.mos$/.test(name)) return 0.1;
  return /goodput/.test(name) ? 0.05 * Math.abs(value) : 0;
}

function valuesOf(rows: Map<number, Scalars>, name: string): Map<number, number> {
  const values = new Map<number, number>();
  for (const [run, scalars] of rows) {
    const value = scalars[name];
    if (typeof value === "number" && Number.isFinite(value)) values.set(run, value);
  }
  return values;
}

/** Round numbers between two. */
function ticks(least: number, most: number, count: number): number[] {
  const rough = (most - least) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough) ?? rough;
  const marks = [];
  for (let mark = Math.ceil(least / step) * step; mark <= most; mark += step) marks.push(Number(mark.toPrecision(10)));
  return marks;
}
