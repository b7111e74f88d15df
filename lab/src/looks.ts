/** Colours and measures of the stage and the plots. */

import { ink } from "./dom";

export const INKS = ["blue", "orange", "green", "pink", "sky", "amber", "grey-3", "grey-2"];

/** The colour of a series, a flow's path or a link, by its number. */
export function colourOf(number: number): string {
  return ink(INKS[number % INKS.length] ?? "blue");
}

export const ROW = 76;
export const TOP = 4;
export const TRACK = 26;
