/** The scenario that is being worked on: its text, what the engine makes of it, and what can be undone. */

import { LabError } from "./engine";
import type { Opened, Tree } from "./messages";
import { type Pool, Stopped } from "./pool";

export type Listener = (change: "opened" | "mistaken" | "waiting") => void;

export class ScenarioDocument {
  text = "";
  /** The last text that was without a mistake, and what the engine says of it. */
  good: { text: string; opened: Opened } | undefined;
  /** The sentence about the text, if there is something wrong with it. */
  mistake = "";
  private readonly before: string[] = [];
  private readonly after: string[] = [];
  private readonly listeners: Listener[] = [];
  private turn = 0;
  private isBusy = false;

  constructor(private readonly pool: Pool) {}

  listen(listener: Listener) {
    this.listeners.push(listener);
  }

  get canUndo() {
    return this.before.length > 0;
  }

  get canRedo() {
    return this.after.length > 0;
  }

  /** Another text. `isNew`: of another scenario, so that nothing of this one is to be undone into it. */
  async replace(text: string, isNew = false): Promise<void> {
    if (isNew) this.before.length = this.after.length = 0;
    else if (text !== this.text) {
      this.before.push(this.text);
      if (this.before.length > MOST_STEPS) this.before.shift();
      this.after.length = 0;
    }
    await this.take(text);
  }

  /** Sets a key; null takes it away. */
  set(path: string[], value: Tree): Promise<void> {
    return this.setAll([[path, value]]);
  }

  /** Sets keys in one step. */
  setAll(edits: [path: string[], value: Tree][]): Promise<void> {
    return this.edit(async (text) => {
      for (const [path, value] of edits) text = await this.pool.edit(text, path, value);
      return text;
    });
  }

  /** Another name for a part, and with it `edits`, in one step. */
  rename(path: string[], name: string, edits: [path: string[], value: Tree][]): Promise<void> {
    return this.edit(async (text) => {
      text = await this.pool.rename(text, path, name);
      for (const [key, value] of edits) text = await this.pool.edit(text, key, value);
      return text;
    });
  }

  private async edit(change: (text: string) => Promise<string>) {
    const turn = ++this.turn;
    this.wait();
    let text: string;
    try {
      text = await change(this.text);
    } catch (error) {
      return this.fail(error, turn);
    }
    await this.replace(text);
  }

  async undo() {
    const text = this.before.pop();
    if (text === undefined) return;
    this.after.push(this.text);
    await this.take(text);
  }

  async redo() {
    const text = this.after.pop();
    if (text === undefined) return;
    this.before.push(this.text);
    await this.take(text);
  }

  private async take(text: string) {
    this.text = text;
    const turn = ++this.turn;
    this.wait();
    try {
      const opened = await this.pool.open(text);
      if (turn !== this.turn) return;
      this.isBusy = false;
      this.good = { text, opened };
      this.mistake = "";
      this.tell("opened");
    } catch (error) {
      this.fail(error, turn);
    }
  }

  /** Work that takes long is said to be going on, so that it can be stopped. */
  private wait() {
    this.isBusy = true;
    const { turn } = this;
    setTimeout(() => {
      if (this.isBusy && turn === this.turn) this.tell("waiting");
    }, PATIENCE_MS);
  }

  private fail(error: unknown, turn: number) {
    if (turn !== this.turn) return;
    this.isBusy = false;
    if (error instanceof LabError) this.mistake = error.message;
    else if (error instanceof Stopped) this.mistake = "Stopped: what was changed has not been read.";
    else throw error;
    this.tell("mistaken");
  }

  private tell(change: Parameters<Listener>[0]) {
    for (const listener of this.listeners) listener(change);
  }
}

const MOST_STEPS = 200;
const PATIENCE_MS = 400;

export interface Mistake {
  /** The line of the text that it is in, from 1; 0 if it is in none. */
  line: number;
  /** The key that it is about; empty if it is about none. */
  key: string[];
  sentence: string;
}

/** The mistakes of which the engine tells: one sentence, or a line that counts them and a sentence for each. */
export function mistakesOf(told: string): Mistake[] {
  const lines = told.split("\n");
  return (lines.length > 1 ? lines.slice(1) : lines).map((text) => {
    const [, line, sentence = ""] = /^\s*(?:line ([0-9]+): )?(.*)$/.exec(text) ?? [];
    const key = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(?=:|,| =)/.exec(sentence)?.[0]?.split(".") ?? [];
    return { line: Number(line ?? 0), key, sentence };
  });
}
