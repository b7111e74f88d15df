/** A worker: one engine, one question after the other. A batch is given up when the next one comes. */

import { Engine, LabError, type Places } from "./engine";
import type { Reply, Request, Scalars } from "./messages";
import { breathe } from "./pieces";

declare const self: DedicatedWorkerGlobalScope;

let engine: Engine;
/** The batch that is wanted: the latest. */
let wanted = 0;

const say = (reply: Reply, handedOver: Transferable[] = []) => self.postMessage(reply, handedOver);

self.onmessage = ({ data }: MessageEvent<Request>) => {
  if (data.kind === "start") engine = new Engine(data.module);
  else if (data.kind === "stop") wanted = 0;
  else
    answer(data).catch((error: unknown) => {
      const sentence = error instanceof LabError ? error.message : `the page has failed: ${String(error)}`;
      say({ kind: "error", id: data.id, sentence });
    });
};

async function answer(request: Exclude<Request, { kind: "start" } | { kind: "stop" }>) {
  const { id } = request;
  const start = performance.now();
  switch (request.kind) {
    case "open":
      return say({ kind: "answer", id, answer: engine.ask({ ask: "open", text: request.text, files: request.files }) });
    case "edit": {
      const { text, path, value } = request;
      return say({ kind: "answer", id, answer: engine.ask({ ask: "edit", text, path, value }) });
    }
    case "rename": {
      const { text, path, name } = request;
      return say({ kind: "answer", id, answer: engine.ask({ ask: "rename", text, path, name }) });
    }
    case "schema":
    case "version":
      return say({ kind: "answer", id, answer: engine.ask({ ask: request.kind }) });
    case "headers":
      return say({ kind: "answer", id, answer: engine.ask({ ask: "headers", packet: request.packet }) });
    case "trace": {
      engine.ask({ ask: "open", text: request.text });
      const { replication, tables } = request;
      const run = engine.ask<{ scalars: Scalars; tables: Places }>({
        ask: "run",
        replication,
        tables,
        packets: true,
      });
      const named = Object.entries(run.tables).map(([name, places]) => [name, engine.table(places)] as const);
      const columns = named.flatMap(([, table]) => Object.values(table));
      const handedOver = columns.map((column) => (column instanceof Float64Array ? column : column.rows).buffer);
      const took = performance.now() - start;
      return say({ kind: "traced", id, scalars: run.scalars, tables: Object.fromEntries(named), took }, handedOver);
    }
    case "batch": {
      wanted = id;
      engine.ask({ ask: "open", text: request.text, sets: request.sets });
      for (const replication of request.replications) {
        if (wanted !== id) return;
        const { scalars } = engine.ask<{ scalars: Scalars }>({
          ask: "run",
          replication,
          scalars: request.scalars,
        });
        say({ kind: "row", id, replication, scalars });
        await breathe();
      }
      return say({ kind: "done", id, took: performance.now() - start });
    }
  }
}
