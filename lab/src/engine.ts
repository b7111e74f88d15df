/** The compiled engine in one worker: questions in, answers out. The crate anabranch-wasm is the other side. */

/** A column of few different words: of each row, which one it is. */
export interface Words {
  rows: Uint32Array;
  words: string[];
}

export type Column = Float64Array | Words;
export type Table = Record<string, Column>;

/** Where a column lies in the engine's memory. */
interface Place {
  kind: "flags" | "integers" | "numbers" | "text";
  pointer: number;
  length: number;
  words?: string[];
}

interface Exports {
  memory: WebAssembly.Memory;
  request(length: number): number;
  answer(): number;
  reply(): number;
}

/** A mistake in a scenario, or a run that was given up: one sentence for the person. */
export class LabError extends Error {}

export class Engine {
  private exports: Exports | undefined;
  private panic = "";

  constructor(private readonly module: WebAssembly.Module) {}

  /** What the engine answers. Throws a `LabError` with its sentence. */
  ask<Answer>(question: object): Answer {
    const exports = (this.exports ??= this.start());
    const text = new TextEncoder().encode(JSON.stringify(question));
    try {
      // Pointers above 2 GiB are negative without the shift. The memory may have moved by then.
      const pointer = exports.request(text.length) >>> 0;
      new Uint8Array(exports.memory.buffer, pointer, text.length).set(text);
      const length = exports.answer() >>> 0;
      const reply = new Uint8Array(exports.memory.buffer, exports.reply() >>> 0, length);
      const answer = JSON.parse(new TextDecoder().decode(reply)) as Answer & { error?: string };
      if (typeof answer.error === "string") throw new LabError(answer.error);
      return answer;
    } catch (error) {
      if (error instanceof LabError) throw error;
      // After a trap the instance is of no more use.
      this.exports = undefined;
      const why = this.panic || String(error);
      this.panic = "";
      throw new LabError(`the engine has failed, which is a mistake of ours: ${why}`);
    }
  }

  /** The columns of a table of the last run, copied out of the engine's memory. */
  table(places: Record<string, Place>): Table {
    const memory = this.exports?.memory.buffer;
    if (!memory) throw new Error("nothing has run");
    const column = ({ kind, pointer, length, words }: Place): Column => {
      const start = pointer >>> 0;
      if (length === 0) return kind === "text" ? { rows: new Uint32Array(), words: [] } : new Float64Array();
      switch (kind) {
        case "flags":
          return Float64Array.from(new Uint8Array(memory, start, length));
        case "integers":
          // Counters and numbers of packets: all below 2^53.
          return Float64Array.from(new BigInt64Array(memory, start, length), Number);
        case "numbers":
          return new Float64Array(memory.slice(start, start + 8 * length));
        case "text":
          return { rows: new Uint32Array(memory.slice(start, start + 4 * length)), words: words ?? [] };
      }
    };
    return Object.fromEntries(Object.entries(places).map(([name, place]) => [name, column(place)]));
  }

  private start(): Exports {
    const hearPanic = (pointer: number, length: number) => {
      const memory = this.exports?.memory.buffer;
      if (memory) this.panic = new TextDecoder().decode(new Uint8Array(memory, pointer >>> 0, length));
    };
    const page = { now_ms: () => performance.now(), hear_panic: hearPanic };
    return new WebAssembly.Instance(this.module, { page }).exports as unknown as Exports;
  }
}

export type Places = Record<string, Record<string, Place>>;
