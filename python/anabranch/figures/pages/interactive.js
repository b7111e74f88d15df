// @ts-check
/**
 * Makes the figures and tables of a page answer: what a mark says under the pointer or at the arrow
 * keys, two of them compared, their data as a file, cells of studies opened in the lab.
 *
 * `interactive.py` puts this into pages, with what it reads: elements of JSON. It loads nothing, sends
 * nothing and keeps nothing; without it the page is the same with still pictures. `tsc` checks it with
 * the modules of `lab/`. No tag stands in this text: pages are searched for them.
 */

/**
 * A number of a figure or table: which quantity (0 if not said), the texts of its names, value,
 * half-width, runs, published, cell, its value in each replication. `marks.py` has them in full.
 * @typedef {{ q?: number, k: number[], v: number | string | null, h?: number, n?: number, p?: number,
 *   c?: number, s?: (number | null)[] }} Mark
 */
/**
 * The marks of a figure or table. A mark has a text for each of the names, by number; -1: none.
 * @typedef {{ quantities: string[], names: string[], texts: string[], marks: Mark[], section: string,
 *   name: string, label: string }} Data
 */
/** @typedef {{ data: Data, mark: Mark }} Pin */
/** @typedef {{ mark: Mark, x: number, y: number, w: number, h: number }} Place */
/**
 * A study's cells, and the edits that make their scenarios of the first one's. All combinations of the
 * axes' values, the last axis varying fastest: the edits of each value. Or one by one: for each the
 * numbers of its labels (-1: none) and of its edits.
 * @typedef {{ folder: string, name: string, axes: { name: string, labels: string[] }[], base: string,
 *   edits: [at: number, count: number, lines: string[]][], values?: number[][][],
 *   keys?: number[][], changes?: number[][] }} Study
 */

const SVG = "http://www.w3.org/2000/svg";
/** From so many points of a picture off, a pointer means no mark. */
const REACH = 14;

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} name
 * @param {Record<string, string>} attributes
 * @param {(Node | string)[]} children
 */
function h(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/**
 * @param {string} text
 * @param {() => void} act
 * @param {Record<string, string>} attributes
 */
function button(text, act, attributes = {}) {
  const made = h("button", { type: "button", ...attributes }, text);
  made.onclick = act;
  return made;
}

/** @param {Element} element */
const json = (element) => JSON.parse(element.textContent ?? "");

/** What an attribute made of text says. @param {string | null | undefined} text */
const line = (text) => (text ?? "").replace(/\s+/g, " ").trim();

// ---- numbers

/** @type {number[]} Student's quantiles of 95 % intervals, from one degree of freedom on. */
const quantiles = Array.from(document.querySelectorAll("script.quantiles"), json)[0] ?? [];
/** @type {Map<string, Record<string, (number | null)[]>>} Section -> cell -> value in each replication. */
const runs = new Map();
for (const element of document.querySelectorAll("script.samples")) runs.set(element.getAttribute("data-section") ?? "", json(element));

/** A mean with the digits that two of its half-width's have a meaning for. @param {number} value @param {number} [half] */
function shown(value, half) {
  if (half === undefined || !(half > 0)) return [String(Number(value.toPrecision(4))), ""];
  const digits = Math.max(0, 1 - Math.floor(Math.log10(half)));
  if (digits > 5) return [String(Number(value.toPrecision(6))), String(Number(half.toPrecision(2)))];
  return [value.toFixed(digits), half.toFixed(digits)];
}

/** @param {number} value @param {number} [half] @param {boolean} [isSigned] */
function interval(value, half, isSigned = false) {
  const [mean, width] = shown(value, half);
  const sign = isSigned && value > 0 ? "+" : "";
  return sign + mean + (width ? ` ± ${width}` : "");
}

/** @param {Pin} pin */
function quantity({ data, mark }) {
  return data.quantities[mark.q ?? 0] ?? "";
}

/** What tells a mark from the others. @param {Pin} pin */
function names({ data, mark }) {
  return data.names.flatMap((name, index) => {
    const text = data.texts[mark.k[index] ?? -1];
    if (text === undefined) return [];
    return [PLAIN.has(name) ? text : `${name} ${text}`];
  }).join(", ");
}

/** Names that are not said: what they stand before says enough. */
const PLAIN = new Set(["at", "panel", "series"]);

/** What a page says of all its numbers, such as that they are those of a smoke run. */
const WARNING = line(document.querySelector("main > .smoke")?.textContent);

/** What a mark says. @param {Pin} pin */
function said(pin) {
  const { mark } = pin;
  const what = quantity(pin);
  const value = typeof mark.v === "number" ? interval(mark.v, mark.h) : (mark.v ?? "no value");
  const parts = [`${WARNING && `${WARNING} `}${what ? `${what}: ` : ""}${value}`];
  if (mark.p !== undefined) parts.push(`published ${Number(mark.p.toPrecision(4))}`);
  if (mark.n) parts.push(`${mark.n} ${mark.n === 1 ? "run" : "runs"}`);
  return parts.join(", ");
}

/** @param {Pin} pin @returns {(number | null)[] | undefined} */
function samplesOf({ data, mark }) {
  return mark.s ?? (mark.c === undefined ? undefined : runs.get(data.section)?.[String(mark.c)]);
}

/** The second minus the first, in a sentence. @param {Pin} first @param {Pin} second */
function difference(first, second) {
  if (quantity(first) !== quantity(second)) return "Two different quantities have no difference.";
  const [a, b] = [first.mark, second.mark];
  if (typeof a.v !== "number" || typeof b.v !== "number") return "";
  const [one, other] = [samplesOf(first), samplesOf(second)];
  if (one && other && first.data.section === second.data.section) {
    /** @type {number[]} */
    const pairs = [];
    one.forEach((value, run) => {
      const its = other[run];
      if (value !== null && its !== null && its !== undefined) pairs.push(its - value);
    });
    if (pairs.length > 1) {
      const mean = pairs.reduce((sum, value) => sum + value, 0) / pairs.length;
      const variance = pairs.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (pairs.length - 1);
      const t = quantiles[Math.min(pairs.length - 1, quantiles.length) - 1] ?? NaN;
      return `B − A = ${interval(mean, t * Math.sqrt(variance / pairs.length), true)} (95 %), run by run in ${pairs.length} replications with the same random numbers.`;
    }
  }
  if (a.h === undefined || b.h === undefined) return `B − A = ${interval(b.v - a.v, undefined, true)}. The page has no intervals of both, so it does not say whether that is chance.`;
  return `B − A = ${interval(b.v - a.v, Math.hypot(a.h, b.h), true)} (95 %), as if the two were independent, since the page does not have their runs.`;
}

// ---- cells in the lab

/** @type {{ lab: string, studies: Study[] } | undefined} */
const cells = Array.from(document.querySelectorAll("script.cells"), json)[0];

/** The numbers of a cell's labels. @param {Study} study @param {number} cell */
function keyOf({ axes, keys }, cell) {
  if (keys) return keys[cell] ?? [];
  let rest = cell;
  return axes.toReversed().map(({ labels }) => {
    const value = rest % labels.length;
    rest = (rest - value) / labels.length;
    return value;
  }).toReversed();
}

/** How many cells there are. @param {Study} study */
const countOf = ({ axes, keys }) => keys?.length ?? axes.reduce((product, { labels }) => product * labels.length, 1);

/** The cell with these labels; -1 if there is none. @param {Study} study @param {number[]} wanted */
function cellOf({ axes, keys }, wanted) {
  if (keys) return keys.findIndex((key) => key.every((value, axis) => value === wanted[axis]));
  return axes.reduce((cell, { labels }, axis) => cell * labels.length + (wanted[axis] ?? 0), 0);
}

/** The scenario of a cell. @param {Study} study @param {number} cell */
function scenario(study, cell) {
  const numbers = study.changes?.[cell] ?? keyOf(study, cell).flatMap((value, axis) => study.values?.[axis]?.[value] ?? []);
  const edits = [...new Set(numbers)].sort((a, b) => a - b).flatMap((number) => study.edits.slice(number, number + 1));
  const lines = study.base.split("\n");
  for (const [at, count, added] of edits.sort((a, b) => b[0] - a[0])) lines.splice(at, count, ...added);
  return lines.join("\n");
}

/** The address of the lab with a cell in it, as `lab/src/link.ts` reads it. @param {Study} study @param {number} cell */
async function address(study, cell) {
  const stream = new Blob([scenario(study, cell)]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const code = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return `${cells?.lab}#scenario=${code.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}

/** A link to a cell in the lab. @param {Study} study @param {number} cell @param {string} text */
function link(study, cell, text) {
  const made = h("a", { target: "_blank", rel: "noopener noreferrer", "aria-label": `Open cell ${cell} in the lab` }, text);
  void address(study, cell).then((href) => made.setAttribute("href", href));
  return made;
}

/** The one study of a page whose sections are about its cells. */
const study = cells?.studies.length === 1 ? cells.studies[0] : undefined;

/** Choosers of a cell by its axes. */
function choosers() {
  const place = document.querySelector("div.lab");
  if (!cells || !place) return;
  cells.studies.forEach((one, index) => {
    const out = h("p", { class: "chosen", role: "status" });
    const selects = one.axes.map(({ name, labels }, axis) => {
      const used = one.keys && new Set(one.keys.map((key) => key[axis]));
      const options = labels.flatMap((label, number) => (!used || used.has(number) ? [h("option", { value: String(number) }, label)] : []));
      if (used?.has(-1)) options.unshift(h("option", { value: "-1" }, "–"));
      return { name, select: h("select", {}, ...options) };
    });
    const show = () => {
      const cell = cellOf(one, selects.map(({ select }) => Number(select.value)));
      const command = h("code", {}, `anabranch lab ${/^[\w./-]+$/.test(one.folder) ? one.folder : `'${one.folder.replaceAll("'", "'\\''")}'`} --cell ${cell}`);
      if (cell < 0) out.replaceChildren("The study has no such cell.");
      else out.replaceChildren(link(one, cell, `Open cell ${cell} in the lab`), " or ", command);
    };
    for (const { select } of selects) select.onchange = show;
    const fields = h("div", { class: "axes" }, ...selects.map(({ name, select }) => h("label", {}, name, select)));
    if (cells.studies.length === 1) place.append(fields, out);
    else place.append(h("details", {}, h("summary", {}, `${one.folder}, ${countOf(one)} ${countOf(one) === 1 ? "cell" : "cells"}`), fields, out));
    // Links are made when somebody may want them: a page may have many studies.
    if (index === 0 && cells.studies.length === 1) show();
    else fields.closest("details")?.addEventListener("toggle", show, { once: true });
  });
}

// ---- pins

/** @type {(Pin | undefined)[]} A and B. */
const pins = [undefined, undefined];
/** @type {(() => void)[]} What draws again when they change. */
const listeners = [];
const panel = h("aside", { class: "pins", "aria-label": "Pinned", hidden: "" });

/** Whether two marks are the same thing, in whatever figure. @param {Pin} one @param {Pin} other */
function isSame(one, other) {
  return one.mark === other.mark || (one.mark.c !== undefined && one.mark.c === other.mark.c && one.data.section === other.data.section);
}

/** Which pin a mark is: 0, 1, or -1. @param {Pin} pin */
function pinned(pin) {
  return pins.findIndex((each) => each && isSame(each, pin));
}

/** Pins a mark, or takes its pin away. @param {Pin} pin */
function toggle(pin) {
  const at = pinned(pin);
  if (at >= 0) pins[at] = undefined;
  else pins[pins[0] ? 1 : 0] = pin;
  changed();
}

function changed() {
  const [first, second] = pins;
  panel.hidden = !first && !second;
  document.body.classList.toggle("pinning", !panel.hidden);
  const lines = pins.flatMap((pin, index) => {
    if (!pin) return [];
    const letter = "AB".charAt(index);
    const parts = [h("b", { class: "letter" }, letter), ` ${names(pin)}${names(pin) ? " – " : ""}${said(pin)} `];
    if (study && pin.mark.c !== undefined) parts.push(link(study, pin.mark.c, "lab"), " ");
    parts.push(button("×", () => { pins[index] = undefined; changed(); }, { "aria-label": `Take pin ${letter} away` }));
    return [h("p", {}, ...parts)];
  });
  const text = first && second ? difference(first, second) : "Pin another one to compare the two.";
  panel.replaceChildren(...lines, h("p", { class: "difference", role: "status" }, text));
  for (const listen of listeners) listen();
}

// ---- data as files

/** @param {string | number | null | undefined} value */
function field(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  // What begins like a formula would be computed by a spreadsheet.
  const text = /^[=+@\t\r]|^-(?![\d.])/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** @param {string} name @param {(string | number | null | undefined)[][]} rows */
function download(name, rows) {
  if (WARNING) rows = [[WARNING], ...rows];
  const url = URL.createObjectURL(new Blob([rows.map((row) => `${row.map(field).join(",")}\n`).join("")], { type: "text/csv" }));
  h("a", { href: url, download: `${name.replace(/[^\w.-]+/g, "-") || "data"}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** @param {Data} data */
function rowsOf(data) {
  return [
    ["quantity", ...data.names, "value", "half_width", "runs", "published", "cell"],
    ...data.marks.map((mark) => [data.quantities[mark.q ?? 0], ...data.names.map((_, name) => data.texts[mark.k[name] ?? -1]), mark.v, mark.h, mark.n, mark.p, mark.c]),
  ];
}

/** The text of a table, cells that span several rows in each of them. @param {HTMLTableElement} table */
function rowsOfTable(table) {
  /** @type {string[][]} */
  const rows = [];
  Array.from(table.rows).forEach((row, at) => {
    const own = (rows[at] ??= []);
    let column = 0;
    for (const cell of row.cells) {
      while (own[column] !== undefined) column += 1;
      for (let down = 0; down < cell.rowSpan; down += 1)
        for (let across = 0; across < cell.colSpan; across += 1) (rows[at + down] ??= [])[column + across] = line(cell.textContent);
      column += cell.colSpan;
    }
  });
  return rows;
}

/** Puts buttons after what belongs to a figure or a table. @param {Element} after @param {HTMLElement[]} buttons */
function tools(after, ...buttons) {
  after.append(" ", h("span", { class: "tools" }, ...buttons));
}

// ---- what a mark says, beside it

const tip = h("div", { class: "tip", hidden: "" });

/** @param {Pin} pin @param {DOMRect} box Where the mark is in the window. */
function tell(pin, box) {
  tip.replaceChildren(h("span", {}, names(pin)), h("b", {}, said(pin)));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(Math.max(4, box.x + box.width / 2 - width / 2), document.documentElement.clientWidth - width - 4);
  const above = box.y - height - 8;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > 4 ? above : box.bottom + 8}px`;
}

const hush = () => { tip.hidden = true; };

// ---- a picture

/**
 * A picture whose marks answer. It is a slider over its marks for keys and for screen readers: one stop
 * of the Tab key, however many marks there are.
 */
class Picture {
  /** @param {SVGSVGElement} svg @param {Data} data */
  constructor(svg, data) {
    this.svg = svg;
    this.data = data;
    /** @type {Place[]} */
    this.places = (svg.dataset["at"] ?? "").split(" ").flatMap((text) => {
      const [index = NaN, x = 0, y = 0, w = 0, h = 0] = text.split(",").map(Number);
      const mark = data.marks[index];
      return mark ? [{ mark, x, y, w, h }] : [];
    });
    this.at = -1;
    this.rings = document.createElementNS(SVG, "g");
    this.rings.setAttribute("class", "rings");
    svg.append(this.rings);
    const label = svg.getAttribute("aria-label") || data.label;
    const attributes = { role: "slider", tabindex: "0", "aria-label": `${label} Arrow keys go through its numbers, Enter pins one.`, "aria-valuemin": "1", "aria-valuemax": String(this.places.length), "aria-valuenow": "1", "aria-valuetext": this.text(0) };
    for (const [name, value] of Object.entries(attributes)) svg.setAttribute(name, value);
    svg.addEventListener("pointermove", (event) => this.go(this.under(event), true));
    svg.addEventListener("pointerleave", () => { if (document.activeElement !== svg) this.leave(); });
    svg.addEventListener("click", (event) => {
      this.go(this.under(event), true);
      const place = this.places[this.at];
      if (place) toggle(this.pin(place));
    });
    svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) this.go(Math.max(this.at, 0)); });
    svg.addEventListener("blur", () => this.leave());
    svg.addEventListener("keydown", (event) => this.press(event));
    listeners.push(() => this.draw());
  }

  /** @param {Place} place @returns {Pin} */
  pin({ mark }) {
    return { data: this.data, mark };
  }

  /** @param {number} at */
  text(at) {
    const place = this.places[at];
    if (!place) return "";
    const pin = pinned(this.pin(place));
    return `${names(this.pin(place))}: ${said(this.pin(place))}${pin < 0 ? "" : `, pinned as ${"AB".charAt(pin)}`}`;
  }

  leave() {
    this.at = -1;
    this.draw();
    hush();
  }

  /** Which mark a pointer means: the smallest that it is in, or the closest within reach. @param {MouseEvent} event */
  under(event) {
    const matrix = this.svg.getScreenCTM()?.inverse();
    if (!matrix) return -1;
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
    let best = -1;
    let least = Infinity;
    this.places.forEach((place, index) => {
      const away = Math.hypot(Math.max(place.x - x, 0, x - place.x - place.w), Math.max(place.y - y, 0, y - place.y - place.h));
      if (away > REACH) return;
      const cost = away > 0 ? 1e9 + away : Math.hypot(x - place.x - place.w / 2, y - place.y - place.h / 2) * 1e-3 + place.w * place.h;
      if (cost < least) [best, least] = [index, cost];
    });
    return best;
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const place = this.places[this.at];
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Escape") {
      pins.fill(undefined);
      changed();
      hush();
    } else if (event.key === "Home") this.go(0);
    else if (event.key === "End") this.go(this.places.length - 1);
    else if ((event.key === "Enter" || event.key === " ") && place) toggle(this.pin(place));
    else if (way) this.go(this.beside(way[0] ?? 0, way[1] ?? 0));
    else return;
    event.preventDefault();
    if (event.key === "Enter" || event.key === " ") this.go(this.at);
  }

  /** The next mark to one side: the closest, what is aslant counts as farther. @param {number} right @param {number} down */
  beside(right, down) {
    const from = this.places[this.at];
    if (!from) return 0;
    let best = this.at;
    let least = Infinity;
    this.places.forEach((place, index) => {
      const x = place.x + place.w / 2 - from.x - from.w / 2;
      const y = place.y + place.h / 2 - from.y - from.h / 2;
      const ahead = x * right + y * down;
      const cost = ahead + 3 * Math.abs(x * down) + 3 * Math.abs(y * right);
      if (ahead > 0.5 && cost < least) [best, least] = [index, cost];
    });
    return best;
  }

  /** Shows a mark. @param {number} at @param {boolean} [isPointed] */
  go(at, isPointed = false) {
    if (at === this.at && isPointed && !tip.hidden) return;
    this.at = at;
    this.draw();
    const place = this.places[at];
    const ring = this.rings.querySelector(".here");
    if (!place || !ring) return hush();
    this.svg.setAttribute("aria-valuenow", String(at + 1));
    this.svg.setAttribute("aria-valuetext", this.text(at));
    if (!isPointed) ring.scrollIntoView({ block: "nearest", inline: "nearest" });
    tell(this.pin(place), ring.getBoundingClientRect());
  }

  /** Rings around the mark that is meant and those that are pinned. */
  draw() {
    this.rings.replaceChildren();
    this.places.forEach((place, index) => {
      const pin = pinned(this.pin(place));
      if (pin >= 0) this.ring(place, `pin ${"ab".charAt(pin)}`, "AB".charAt(pin));
      if (index === this.at) this.ring(place, "here", "");
    });
  }

  /** @param {Place} place @param {string} name @param {string} letter */
  ring(place, name, letter) {
    const isPoint = place.w === 0 && place.h === 0;
    const pad = isPoint ? 6 : 0.5;
    const box = { x: place.x - pad, y: place.y - pad, width: place.w + 2 * pad, height: place.h + 2 * pad, rx: isPoint ? pad : 2 };
    const ring = document.createElementNS(SVG, "rect");
    for (const [key, value] of Object.entries(box)) ring.setAttribute(key, String(value));
    ring.setAttribute("class", name);
    this.rings.append(ring);
    if (!letter) return;
    const text = document.createElementNS(SVG, "text");
    text.setAttribute("x", String(isPoint ? place.x + pad : place.x + 3));
    text.setAttribute("y", String(isPoint ? Math.max(place.y - pad + 1, 9) : place.y + 10));
    text.textContent = letter;
    this.rings.append(text);
  }
}

// ---- tables

/** A table whose rows are marks: each can be pinned, and its cell opened. @param {HTMLTableElement} table @param {Data} data */
function enliven(table, data) {
  const rows = Array.from(table.tBodies).flatMap((body) => Array.from(body.rows));
  data.marks.forEach((mark, index) => {
    const row = rows[index];
    const place = row?.cells[row.cells.length - 1];
    if (!row || !place) return;
    const pin = { data, mark };
    const pinner = button("pin", () => toggle(pin), { "aria-pressed": "false", "aria-label": `pin ${names(pin)}` });
    const box = h("span", { class: "tools" }, pinner);
    if (study && mark.c !== undefined) box.append(" ", link(study, mark.c, "lab"));
    place.append(" ", box);
    listeners.push(() => {
      const at = pinned(pin);
      const text = at < 0 ? "pin" : "AB".charAt(at);
      pinner.textContent = text;
      pinner.setAttribute("aria-label", `${text} ${names(pin)}`);
      pinner.setAttribute("aria-pressed", String(at >= 0));
      row.classList.toggle("pinned", at >= 0);
    });
  });
}

function start() {
  // As they are before buttons are in them.
  const tables = Array.from(document.querySelectorAll("table"), (table) => ({ table, rows: rowsOfTable(table) }));
  for (const element of document.querySelectorAll("script.marks")) {
    const home = element.parentElement;
    const figure = home?.closest("figure");
    if (!home) continue;
    const caption = figure?.querySelector("figcaption");
    const name = element.getAttribute("data-name") ?? "";
    /** @type {Data} */
    const data = { ...json(element), section: element.getAttribute("data-section") ?? "", name, label: line(caption?.textContent) };
    for (const svg of home.querySelectorAll(/** @type {"svg"} */ ("svg.plot"))) if (svg.dataset["at"]) new Picture(svg, data);
    const table = home.querySelector("table");
    if (table) enliven(table, data);
    else if (figure) tools(caption ?? figure, button("Data (CSV)", () => download(name, rowsOf(data)), { "aria-label": `Data (CSV) of ${name}` }));
  }
  for (const { table, rows } of tables) {
    const home = table.closest(".scroll");
    const title = line(home?.getAttribute("aria-label") ?? table.caption?.textContent);
    const after = h("p", { class: "tools below" }, button("Table (CSV)", () => download(title, rows), { "aria-label": `Table (CSV): ${title}` }));
    if (table.rows.length > 2) (home ?? table).after(after);
  }
  choosers();
  (document.querySelector("main") ?? document.body).append(tip, panel);
  addEventListener("scroll", hush, { passive: true, capture: true });
}

start();
