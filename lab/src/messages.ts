/** What the page and its workers say to each other. */

import type { Table } from "./engine";

export type Scalars = Record<string, number | null>;
export type Sets = [path: string, value: string][];

/** What the engine says of a scenario that it has opened. */
export interface Opened {
  name: string;
  /** The whole scenario with its defaults. */
  scenario: Scenario;
  toml: string;
  cells: number;
  axes: { name: string; labels: string[] }[];
  replications: number;
  metrics: string[];
  /** The part `sweep` as it is written, with its defaults. */
  sweep: Tree;
}

export type Tree = string | number | boolean | null | Tree[] | { [key: string]: Tree };

export interface Link {
  ends: [string, string];
  rate?: Tree;
  delay: Tree;
  loss: { kind: string; [key: string]: Tree };
  queue: { kind: string; [key: string]: Tree };
  radio?: Tree;
  reverse?: { [key: string]: Tree } | null;
  [key: string]: Tree | undefined;
}

export interface Flow {
  from: string;
  to: string;
  paths: string[];
  transport: { kind: string; [key: string]: Tree };
  app: { kind: string; [key: string]: Tree };
  count?: number;
}

export interface Scenario {
  name: string;
  description: string;
  seed: number;
  run: { duration: string; [key: string]: Tree };
  links: Record<string, Link>;
  paths: Record<string, { via: string[]; back?: string[] | null }>;
  flows: Record<string, Flow>;
}

/** A header of a packet, or a chunk, with its length and its fields. */
export interface Header {
  name: string;
  bytes: number;
  fields: [name: string, value: string][];
}

export type Request =
  | { kind: "start"; module: WebAssembly.Module }
  | { kind: "open"; id: number; text: string; files: Record<string, string> }
  | { kind: "edit"; id: number; text: string; path: string[]; value: Tree }
  | { kind: "rename"; id: number; text: string; path: string[]; name: string }
  | { kind: "schema" | "version"; id: number }
  | { kind: "headers"; id: number; packet: number }
  | { kind: "trace"; id: number; text: string; replication: number; tables: string[] }
  | { kind: "batch"; id: number; text: string; sets: Sets; replications: number[]; scalars: string[] | null }
  | { kind: "stop" };

export type Reply =
  | { kind: "answer"; id: number; answer: unknown }
  | { kind: "traced"; id: number; scalars: Scalars; tables: Record<string, Table>; took: number }
  | { kind: "row"; id: number; replication: number; scalars: Scalars }
  | { kind: "done"; id: number; took: number }
  | { kind: "error"; id: number; sentence: string };
