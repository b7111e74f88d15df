/** A packet in words: what it carries, its headers, which links it met, and which others have carried the same. */

import { h } from "./dom";
import type { Header } from "./messages";
import { shown } from "./quantities";
import type { Trace } from "./trace";

const COLUMNS = ["link", "came", "waited", "left", "arrived", "fate"];

const at = (time: number) => (Number.isFinite(time) ? `${time.toFixed(5)} s` : "–");

/** The headers as the host sent them, the outermost first. */
function sayHeaders(headers: Header[]): HTMLElement[] {
  return headers.map(({ name, bytes, fields }) => {
    const said = fields.flatMap(([field, value], place) => [
      place ? " · " : "",
      h("span", { class: "quiet" }, field),
      ` ${value}`,
    ]);
    return h("div", {}, h("dt", {}, `${name}, ${bytes} B`), h("dd", {}, ...said));
  });
}

export function packetStory(
  trace: Trace,
  number: number,
  headers: Promise<Header[]>,
  onPacket: (other: number) => void,
  onClose: () => void,
): HTMLElement[] {
  const packet = trace.packets[number];
  if (!packet) return [];
  const rows = trace.story(number).map(({ link, isForward, entered, begun, left, ended, fate }) => {
    const waited = Number.isFinite(left) ? `${shown((begun - entered) * 1e3)} ms` : "–";
    const name = `${link}${isForward ? "" : " (reverse)"}`;
    const cells = [name, at(entered), waited, at(left), at(ended), fate.replaceAll("_", " ")];
    return h("tr", {}, ...cells.map((text) => h("td", {}, text)));
  });
  const way = `sent by ${trace.host(packet.flow, packet.side)} on ${trace.pathName(packet.flow, packet.path)}`;
  const about = h(
    "p",
    {},
    h("b", {}, `${packet.kind.replaceAll("_", " ")}${packet.tsn >= 0 ? ` ${packet.tsn}` : ""}`),
    `, ${packet.size} B of ${packet.flow}, ${way} at ${at(packet.sent)}: ${packet.fate.replaceAll("_", " ")}. `,
    h("button", { type: "button", class: "small", onclick: onClose }, "Close"),
  );
  const twins = trace.twins(number).flatMap((other) => {
    const twin = trace.packets[other];
    if (!twin) return [];
    const label = `${at(twin.sent)} on ${trace.pathName(twin.flow, twin.path)}, ${twin.fate.replaceAll("_", " ")}`;
    return [h("button", { type: "button", class: "small", onclick: () => onPacket(other) }, label), " "];
  });
  const table = h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...COLUMNS.map((text) => h("th", {}, text)))),
    h("tbody", {}, ...rows),
  );
  const list = h("dl", { class: "headers" });
  headers.then(
    (all) => list.replaceChildren(...sayHeaders(all)),
    () => list.replaceWith(h("p", {}, "Its headers went with a run that was stopped; the next run has them again.")),
  );
  return [
    about,
    list,
    ...(twins.length ? [h("p", {}, "The same data was sent at ", ...twins)] : []),
    h("div", { class: "scroll" }, table),
  ];
}
