/** What a network is made of, and what a change of one part means for those that name it. */

import type { Scenario, Tree } from "./messages";

export const PARTS = ["link", "path", "flow"] as const;
export type Part = (typeof PARTS)[number];
/** A key and its value; null takes the key away. */
export type Edit = [path: string[], value: Tree];

export function isPart(kind: string): kind is Part {
  return PARTS.some((part) => part === kind);
}

const tableOf = (tree: Scenario, part: Part) => ({ link: tree.links, path: tree.paths, flow: tree.flows })[part];

/** A name that no part of this kind has. */
export function freeName(tree: Scenario, part: Part): string {
  let number = 1;
  while (`${part}${number}` in tableOf(tree, part)) number++;
  return `${part}${number}`;
}

/** A part that goes with what there is: beside the first of its kind. */
export function newPart(tree: Scenario, part: Part): Tree {
  const [link] = Object.keys(tree.links);
  const [flow] = Object.values(tree.flows);
  const [path] = Object.keys(tree.paths);
  switch (part) {
    case "link":
      return { ends: Object.values(tree.links)[0]?.ends ?? ["a", "b"], rate: "10 Mbit/s", delay: "20 ms" };
    case "path":
      return { via: link ? [link] : [] };
    case "flow":
      return {
        from: flow?.from ?? "a",
        to: flow?.to ?? "b",
        paths: flow?.paths.slice(0, 1) ?? (path ? [path] : []),
        transport: { kind: "tcp" },
        app: { kind: "bulk" },
      };
  }
}

/** What names a part that gets another name; the part itself is renamed by the engine. */
export function renames(tree: Scenario, part: Part, name: string, other: string): Edit[] {
  const replaced = (names: string[]) => names.map((one) => (one === name ? other : one));
  if (part === "link")
    return Object.entries(tree.paths).flatMap(([path, { via, back }]): Edit[] => [
      ...(via.includes(name) ? [[["paths", path, "via"], replaced(via)] satisfies Edit] : []),
      ...(back?.includes(name) ? [[["paths", path, "back"], replaced(back)] satisfies Edit] : []),
    ]);
  if (part === "path")
    return Object.entries(tree.flows)
      .filter(([, { paths }]) => paths.includes(name))
      .map(([flow, { paths }]): Edit => [["flows", flow, "paths"], replaced(paths)]);
  return [];
}

/** What goes when a part goes: with a link the paths over it, and with its last path a flow. */
export function removals(tree: Scenario, part: Part, name: string): Edit[] {
  const gone: Edit[] = [[[`${part}s`, name], null]];
  if (part === "link") {
    const paths = Object.entries(tree.paths).filter(([, { via, back }]) => via.includes(name) || back?.includes(name));
    return [
      ...withoutPaths(
        tree,
        paths.map(([path]) => path),
      ),
      ...gone,
    ];
  }
  return part === "path" ? withoutPaths(tree, [name]) : gone;
}

function withoutPaths(tree: Scenario, names: string[]): Edit[] {
  const flows = Object.entries(tree.flows).flatMap(([flow, { paths }]): Edit[] => {
    const left = paths.filter((path) => !names.includes(path));
    if (left.length === paths.length) return [];
    return left.length ? [[["flows", flow, "paths"], left]] : [[["flows", flow], null]];
  });
  return [...flows, ...names.map((path): Edit => [["paths", path], null])];
}
