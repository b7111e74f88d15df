/** The workers of the page, which run replications side by side. */

import type { Header, Opened, Reply, Request, Scalars, Sets, Tree } from "./messages";
import type { Pace } from "./cost";
import { LabError, type Table } from "./engine";

export interface Traced {
  scalars: Scalars;
  tables: Record<string, Table>;
  took: number;
}

interface Waiting {
  resolve(answer: unknown): void;
  reject(error: Error): void;
}

/** One worker, started again when it is stopped. */
class Lane {
  private worker: Worker | undefined;
  private readonly waiting = new Map<number, Waiting>();
  onRow: (id: number, replication: number, scalars: Scalars) => void = () => {};

  constructor(private readonly module: WebAssembly.Module) {}

  ask<Answer>(request: Extract<Request, { id: number }>): Promise<Answer> {
    this.worker ??= this.start();
    return new Promise((resolve, reject) => {
      this.waiting.set(request.id, { resolve: resolve as (answer: unknown) => void, reject });
      this.worker?.postMessage(request);
    });
  }

  /** Gives up a batch between two runs. */
  halt() {
    this.worker?.postMessage({ kind: "stop" } satisfies Request);
    this.giveUp();
  }

  /** Ends the worker, whatever it is at. */
  kill() {
    this.worker?.terminate();
    this.worker = undefined;
    this.giveUp();
  }

  private giveUp() {
    for (const { reject } of this.waiting.values()) reject(new Stopped());
    this.waiting.clear();
  }

  private start(): Worker {
    const worker = new Worker(new URL("worker.js", document.baseURI), { type: "module" });
    worker.onmessage = ({ data }: MessageEvent<Reply>) => {
      if (data.kind === "row") return this.onRow(data.id, data.replication, data.scalars);
      const waiting = this.waiting.get(data.id);
      this.waiting.delete(data.id);
      if (data.kind === "error") waiting?.reject(new LabError(data.sentence));
      else if (data.kind === "answer") waiting?.resolve(data.answer);
      else waiting?.resolve(data);
    };
    worker.postMessage({ kind: "start", module: this.module } satisfies Request);
    return worker;
  }
}

/** Work that somebody has stopped, or that newer work has replaced. */
export class Stopped extends Error {}

let latest = 0;

export class Pool {
  /** Simulated seconds of flows that a lane computes in a second of this machine, after the last traced run. */
  private speed = 0;
  /** Reads, edits and runs what is traced. */
  private readonly desk: Lane;
  private readonly player: Lane;
  private readonly lanes: Lane[];

  constructor(module: WebAssembly.Module) {
    this.desk = new Lane(module);
    this.player = new Lane(module);
    const cores = Math.min(Math.max(navigator.hardwareConcurrency || 2, 1), 8);
    this.lanes = Array.from({ length: cores }, () => new Lane(module));
  }

  schema(): Promise<Tree> {
    return this.desk.ask({ kind: "schema", id: ++latest });
  }

  async version(): Promise<string> {
    return (await this.desk.ask<{ version: string }>({ kind: "version", id: ++latest })).version;
  }

  open(text: string): Promise<Opened> {
    return this.desk.ask({ kind: "open", id: ++latest, text, files: {} });
  }

  async edit(text: string, path: string[], value: Tree): Promise<string> {
    const answer = await this.desk.ask<{ text: string }>({ kind: "edit", id: ++latest, text, path, value });
    return answer.text;
  }

  /** The text with another name for the table at this path. */
  async rename(text: string, path: string[], name: string): Promise<string> {
    return (await this.desk.ask<{ text: string }>({ kind: "rename", id: ++latest, text, path, name })).text;
  }

  /** Gives up reading or editing, whatever it is at. */
  stopReading() {
    this.desk.kill();
  }

  /** One run with its traces; an earlier one that goes on is stopped. */
  trace(text: string, replication: number, tables: string[]): Promise<Traced> {
    this.stopTrace();
    return this.player.ask({ kind: "trace", id: ++latest, text, replication, tables });
  }

  /** The headers of a packet of the run that was traced last. */
  async headers(packet: number): Promise<Header[]> {
    return (await this.player.ask<{ headers: Header[] }>({ kind: "headers", id: ++latest, packet })).headers;
  }

  /** Has seen how long so many simulated seconds of flows took, in ms. */
  learn(seconds: number, took: number) {
    if (took > 0) this.speed = (1e3 * seconds) / took;
  }

  /** The same for one lane and for all together; 0 while nothing is known. */
  get pace(): Pace {
    return { one: this.speed, all: this.speed * this.lanes.length };
  }

  stopTrace() {
    this.player.kill();
  }

  stopBatch() {
    for (const lane of this.lanes) lane.kill();
  }

  /** Replications 0 to `count`, shared among the workers; a batch that goes on is given up. */
  async batch(
    text: string,
    sets: Sets,
    count: number,
    scalars: string[] | null,
    onRow: (replication: number, scalars: Scalars) => void,
  ): Promise<void> {
    const id = ++latest;
    const { lanes } = this;
    await Promise.all(
      lanes.map((lane, number) => {
        const replications = [];
        for (let one = number; one < count; one += lanes.length) replications.push(one);
        if (replications.length === 0) return undefined;
        lane.halt();
        lane.onRow = (of, replication, row) => {
          if (of === id) onRow(replication, row);
        };
        return lane.ask({ kind: "batch", id, text, sets, replications, scalars });
      }),
    );
  }
}
