/** Where hosts and links of a scenario stand: hosts in the columns in which paths visit them, links as lanes. */

import type { Scenario } from "./messages";

export interface Lane {
  link: string;
  left: string;
  right: string;
  /** Whether forward, from the first end to the second, is from left to right. */
  isForwardRight: boolean;
  row: number;
}

export interface Host {
  name: string;
  column: number;
  firstRow: number;
  lastRow: number;
}

export interface Layout {
  hosts: Host[];
  lanes: Lane[];
  columns: number;
  rows: number;
}

export function layout({ links, paths, flows }: Scenario): Layout {
  const column = new Map<string, number>();
  const other = (link: string, node: string) => {
    const [one, two] = links[link]?.ends ?? ["", ""];
    return one === node ? two : one;
  };
  // A host stands behind those before it on every path; circles end with the number of links.
  const walks = Object.values(flows).flatMap(({ from, paths: names }) =>
    names.map((name) => {
      const nodes = [from];
      for (const link of paths[name]?.via ?? []) nodes.push(other(link, nodes.at(-1) ?? ""));
      return nodes;
    }),
  );
  for (let round = 0; round <= Object.keys(links).length; round++) {
    let isDone = true;
    for (const nodes of walks) {
      nodes.forEach((node, place) => {
        const before = nodes[place - 1];
        const least = before === undefined ? 0 : (column.get(before) ?? 0) + 1;
        if ((column.get(node) ?? -1) < least) {
          column.set(node, least);
          isDone = false;
        }
      });
    }
    if (isDone) break;
  }
  for (const { ends } of Object.values(links)) {
    const [one, two] = ends;
    if (!column.has(one)) column.set(one, Math.max(0, (column.get(two) ?? 1) - 1));
    if (!column.has(two)) column.set(two, (column.get(one) ?? 0) + 1);
  }
  const lanes: Lane[] = [];
  for (const [link, { ends }] of Object.entries(links)) {
    const [one, two] = ends;
    const isForwardRight = (column.get(one) ?? 0) <= (column.get(two) ?? 0);
    const [left, right] = isForwardRight ? [one, two] : [two, one];
    lanes.push({ link, left, right, isForwardRight, row: 0 });
  }
  const at = (host: string) => column.get(host) ?? 0;
  lanes.sort((a, b) => at(a.left) - at(b.left));
  const placed: Lane[] = [];
  for (const lane of lanes) {
    const near = placed.filter((one) => one.right === lane.left).map((one) => one.row);
    const liked = near.length ? Math.floor(near.reduce((sum, row) => sum + row, 0) / near.length) : 0;
    const isTaken = (row: number) =>
      row < 0 ||
      placed.some((one) => one.row === row && at(one.left) < at(lane.right) && at(lane.left) < at(one.right));
    let step = 0;
    while (isTaken(liked + step) && (isTaken(liked - step) || step === 0)) step++;
    lane.row = isTaken(liked + step) ? liked - step : liked + step;
    placed.push(lane);
  }
  const hosts = [...column].map(([name, where]) => {
    const rows = lanes.filter(({ left, right }) => left === name || right === name).map(({ row }) => row);
    return { name, column: where, firstRow: Math.min(...rows, Infinity), lastRow: Math.max(...rows, -Infinity) };
  });
  return {
    hosts: hosts.filter(({ firstRow }) => Number.isFinite(firstRow)),
    lanes,
    columns: Math.max(0, ...column.values()) + 1,
    rows: Math.max(0, ...lanes.map(({ row }) => row)) + 1,
  };
}
