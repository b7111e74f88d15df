/** The scenario that is being worked on: its text, what the engine makes of it, and what can be undone. */

import { LabError } from "./engine";
import type { Opened, Tree } from "./messages";
import type { Pool } from "./pool";

export type Listener = (change: "opened" | "mistaken") => void;

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
  async set(path: string[], value: Tree): Promise<void> {
    try {
      await this.replace(await this.pool.edit(this.text, path, value));
    } catch (error) {
      if (!(error instanceof LabError)) throw error;
      this.mistake = error.message;
      this.tell("mistaken");
    }
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
    try {
      const opened = await this.pool.open(text);
      if (turn !== this.turn) return;
      this.good = { text, opened };
      this.mistake = "";
      this.tell("opened");
    } catch (error) {
      if (!(error instanceof LabError)) throw error;
      if (turn !== this.turn) return;
      this.mistake = error.message;
      this.tell("mistaken");
    }
  }

  private tell(change: "opened" | "mistaken") {
    for (const listener of this.listeners) listener(change);
  }
}

const MOST_STEPS = 200;

/** The dotted key that a sentence of the engine begins with. */
export function keyOf(sentence: string): string[] {
  return /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(?=[:, ])/.exec(sentence)?.[0]?.split(".") ?? [];
}
