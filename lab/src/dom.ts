/** Elements without a library: `h("p", { class: "note" }, "text")`. */

type Child = Node | string | null | undefined | false;
type Properties = Record<string, string | number | boolean | null | undefined | ((event: never) => void)>;

function make<E extends Element>(element: E, properties: Properties, children: Child[]): E {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child): child is Node | string => !!child || child === ""));
  return element;
}

export function h<K extends keyof HTMLElementTagNameMap>(
  name: K,
  properties: Properties = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return make(document.createElement(name), properties, children);
}

export function svg<K extends keyof SVGElementTagNameMap>(
  name: K,
  properties: Properties = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return make(document.createElementNS("http://www.w3.org/2000/svg", name), properties, children);
}

export function byId<E extends HTMLElement>(id: string): E {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no #${id}`);
  return element as E;
}

const inks = new Map<string, string>();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => inks.clear());

/** What a CSS variable says now, in the light or in the dark. */
export function ink(name: string): string {
  let value = inks.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    // Before the style is there, nothing is said that would last.
    if (value) inks.set(name, value);
  }
  return value;
}

/** A canvas as large as it is shown, in the pixels of the screen; returns its context and its size in CSS pixels. */
export function sized(canvas: HTMLCanvasElement): { context: CanvasRenderingContext2D; width: number; height: number } {
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
  const context = canvas.getContext("2d");
  if (!context) throw new Error("the browser draws on no canvas");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

const measure = document.createElement("canvas").getContext("2d");

/** How wide a text is in this font, in CSS pixels. */
export function wideOf(text: string, font: string): number {
  if (!measure) return 0;
  measure.font = font;
  return measure.measureText(text).width;
}

/** A text, or as much of it as there is room for. */
export function shortened(text: string, wide: number, font: string): string {
  if (wideOf(text, font) <= wide) return text;
  let length = Math.min(text.length, 200);
  while (length > 0 && wideOf(`${text.slice(0, length)}…`, font) > wide) length--;
  return length > 0 ? `${text.slice(0, length).trimEnd()}…` : "";
}

/** Downloads a text under this name. */
export function save(name: string, text: string) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
