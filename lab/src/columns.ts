/** Columns of traced tables, and places in them. */

import type { Column, Table } from "./engine";

export const numbers = (table: Table | undefined, name: string): Float64Array =>
  table && table[name] instanceof Float64Array ? table[name] : new Float64Array();

/** The word of each row; the empty one where there is none. */
export function words(table: Table | undefined, name: string): (row: number) => string {
  const column: Column | undefined = table?.[name];
  if (!column || column instanceof Float64Array) return () => "";
  const { rows, words } = column;
  return (row) => words[rows[row] ?? -1] ?? "";
}

/** The first place in ascending numbers that is above this one. */
export function above(values: ArrayLike<number>, value: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] ?? Infinity) > value) high = middle;
    else low = middle + 1;
  }
  return low;
}
