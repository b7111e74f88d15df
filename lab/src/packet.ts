/** A packet in words: what it carries, which links it met, and which other packets have carried the same. */

import { h } from "./dom";
import { shown } from "./quantities";
import type { Trace } from "./trace";

const COLUMNS = ["link", "came", "waited", "left", "arrived", "fate"];

const at = (time: number) => (Number.isFinite(time) ? `${time.toFixed(5)} s` : "–");

export function packetStory(
  trace: Trace,
  number: number,
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
  return [
    about,
    ...(twins.length ? [h("p", {}, "The same data was sent at ", ...twins)] : []),
    h("div", { class: "scroll" }, table),
  ];
}
