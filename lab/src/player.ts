/** Plays a traced run: where it is in time, how fast it goes, and what a person does to it. */

import { byId, h, ink, sized } from "./dom";
import type { Chart } from "./charts";
import { Film } from "./film";
import type { Plots } from "./plots";
import type { Stage } from "./stage";
import type { Moment, Trace } from "./trace";

/** Seconds of the run in a second of the person. */
const SPEEDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10];
const STEP_S = 0.01;

export class Player {
  private trace: Trace | undefined;
  private time = 0;
  private isPlaying = false;
  private speed = 0.05;
  private frame = 0;
  private before = 0;
  /** The timeline without the time. */
  private marks: { trace?: Trace; ground?: string; picture?: HTMLCanvasElement } = {};
  private readonly button = byId<HTMLButtonElement>("play");
  private readonly clock = byId("clock");
  private readonly event = byId("event");
  private readonly scrub = byId<HTMLInputElement>("scrub");
  private readonly line = byId<HTMLCanvasElement>("timeline");
  private readonly pace = byId<HTMLSelectElement>("speed");
  /** For people who do not see the picture: what a key or a button has done. */
  private readonly said = byId("said");
  private readonly film = new Film(byId("film"));
  /** What the key that leaves something does. */
  onEscape: () => void = () => {};
  /** Where nothing is to move, pictures follow each other as on slides. */
  private readonly isCalm = matchMedia("(prefers-reduced-motion: reduce)");

  constructor(
    private readonly stage: Stage,
    private readonly plots: Plots,
    private readonly onPacket: (packet: number) => void,
  ) {
    for (const speed of SPEEDS) {
      const label = speed >= 1 ? `${speed} ×` : `1/${Math.round(1 / speed)}`;
      this.pace.append(h("option", { value: speed, selected: speed === this.speed }, label));
    }
    this.pace.onchange = () => (this.speed = Number(this.pace.value));
    this.button.onclick = () => this.toggle();
    byId("step-back").onclick = () => this.move(-1);
    byId("step").onclick = () => this.move(1);
    byId("next-event").onclick = () => this.jump(["event", "window"]);
    byId("next-drop").onclick = () => this.jump(["drop"]);
    byId("next-packet").onclick = () => this.choose(1);
    this.scrub.oninput = () => this.seek(Number(this.scrub.value));
    new ResizeObserver(() => this.drawLine()).observe(this.line);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.seek(this.time));
    document.addEventListener("keydown", (event) => this.hear(event));
    // Keys are the player's again after a click; what the keyboard has reached keeps them.
    document.addEventListener("click", ({ detail, target }) => {
      const pressed = target instanceof Element && target.closest<HTMLElement>("button, summary, [role=button]");
      if (detail > 0 && pressed && !pressed.matches(":focus-visible")) pressed.blur();
    });
  }

  load(trace: Trace | undefined, charts: Chart[]) {
    this.pause();
    this.trace = trace;
    this.stage.play(trace);
    this.film.show(trace);
    this.plots.show(trace, charts);
    this.scrub.max = String(trace?.end ?? 0);
    this.seek(Math.min(this.time, trace?.end ?? 0));
  }

  get now() {
    return this.time;
  }

  setSpeed(speed: number) {
    this.speed = speed;
    this.pace.value = String(speed);
  }

  play() {
    if (!this.trace) return;
    if (this.time >= this.trace.end) this.time = 0;
    this.isPlaying = true;
    this.button.textContent = "Pause";
    this.say(`Playing, ${this.pace.selectedOptions[0]?.textContent ?? ""} of the speed of time.`);
    this.before = performance.now();
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame((now) => this.tick(now));
  }

  pause() {
    if (this.isPlaying) this.say("Paused.");
    this.isPlaying = false;
    this.button.textContent = "Play";
    cancelAnimationFrame(this.frame);
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.play();
  }

  seek(time: number) {
    const end = this.trace?.end ?? 0;
    this.time = Math.min(Math.max(0, time), end);
    this.show();
  }

  private get step() {
    return Math.min(STEP_S, this.speed / 10);
  }

  /** A step, which is said: a picture more does not say itself. */
  private move(steps: number) {
    this.pause();
    this.seek(this.time + steps * this.step);
    this.say("");
  }

  private jump(kinds: Moment["kind"][]) {
    const next = this.trace?.next(this.time, kinds);
    this.pause();
    const none = this.trace ? "Nothing of the kind comes any more." : "The run is not finished yet.";
    if (next) this.seek(next.time);
    else this.event.textContent = none;
    this.say(next ? "" : none);
  }

  /** Says a sentence, where the player is, and what happened last. */
  private say(sentence: string) {
    const last = this.trace?.last(this.time)?.text ?? "";
    const seen = this.film.said(this.time);
    this.said.textContent = [sentence, `At ${this.clock.textContent}.`, seen && `${seen}.`, last].filter(Boolean).join(" ");
  }

  /** The packet after, or before, the one whose story is told; the first in view where none is. */
  private choose(step: 1 | -1) {
    if (!this.trace) return;
    this.pause();
    const { marked, latest } = this.stage;
    const next = marked === undefined ? latest : marked + step;
    const packet = next === undefined ? undefined : this.trace.packets[next];
    if (next === undefined || !packet) {
      this.event.textContent = "There is no packet there.";
      return;
    }
    if (marked !== undefined) this.seek(this.trace.story(next)[0]?.begun ?? packet.sent);
    this.onPacket(next);
  }

  private tick(now: number) {
    if (!this.isPlaying || !this.trace) return;
    const passed = now - this.before;
    if (!this.isCalm.matches || passed >= 700) {
      this.before = now;
      // A tab that was away for long does not leap.
      this.time += Math.min(passed, 1000) * 1e-3 * this.speed;
      if (this.time >= this.trace.end) {
        this.time = this.trace.end;
        this.pause();
      }
      this.show();
    }
    if (this.isPlaying) this.frame = requestAnimationFrame((next) => this.tick(next));
  }

  private show() {
    const { trace, time } = this;
    this.stage.draw(time, this.speed);
    this.plots.seek(time);
    this.film.seek(time);
    this.scrub.value = String(time);
    const digits = this.speed < 0.01 ? 4 : 3;
    this.clock.textContent = `${time.toFixed(digits)} s`;
    this.scrub.setAttribute("aria-valuetext", `${time.toFixed(digits)} seconds`);
    const last = trace?.last(time);
    const text = last ? `${last.time.toFixed(3)} s · ${last.text}` : "";
    if (this.event.textContent !== text) this.event.textContent = text;
    this.drawLine();
  }

  /** Events above, timeouts and cuts in the middle, drops below: drawn once, and the time over it. */
  private drawLine() {
    const { context, width, height } = sized(this.line);
    const { trace } = this;
    if (!trace || trace.end === 0 || width === 0) return;
    const ground = ink("soft") + this.line.width;
    if (this.marks.trace !== trace || this.marks.ground !== ground) {
      this.drawMarks(trace, context, width, height);
      const picture = document.createElement("canvas");
      [picture.width, picture.height] = [this.line.width, this.line.height];
      picture.getContext("2d")?.drawImage(this.line, 0, 0);
      this.marks = { trace, ground, picture };
    } else if (this.marks.picture) context.drawImage(this.marks.picture, 0, 0, width, height);
    context.fillStyle = ink("ink");
    context.fillRect((this.time / trace.end) * width - 1, 0, 2, height);
  }

  private drawMarks(trace: Trace, context: CanvasRenderingContext2D, width: number, height: number) {
    const at = (time: number) => (time / trace.end) * width;
    const rows = {
      event: [2, ink("blue")],
      window: [height / 3 + 1, ink("orange")],
      drop: [(2 * height) / 3 + 1, ink("ink")],
    } as const;
    for (const { time, kind } of trace.moments) {
      const [top, colour] = rows[kind];
      context.fillStyle = colour;
      context.fillRect(at(time) - 0.75, top, 1.5, height / 3 - 3);
    }
  }

  private hear(event: KeyboardEvent) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTaken(event.key, event.target as HTMLElement)) return;
    const actions: Record<string, () => void> = {
      " ": () => this.toggle(),
      ArrowRight: () => this.move(1),
      ArrowLeft: () => this.move(-1),
      e: () => this.jump(["event", "window"]),
      d: () => this.jump(["drop"]),
      n: () => this.choose(1),
      b: () => this.choose(-1),
      Home: () => this.move(-Infinity),
      Escape: () => this.onEscape(),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }
}

/** Whether a key means something to what has the focus. */
function isTaken(key: string, target: HTMLElement): boolean {
  if (/^(TEXTAREA|SELECT)$/.test(target.tagName)) return true;
  const isArrow = /^(Arrow|Home|End|Page)/.test(key);
  if (target instanceof HTMLInputElement && target.type !== "checkbox") return target.type !== "range" || isArrow;
  if (target.getAttribute("role") === "tab" && isArrow) return true;
  return key === " " && target.matches("button, summary, input, [role=button]");
}
