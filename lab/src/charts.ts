/** What is drawn of a run over time. */

import { numbers, words } from "./columns";
import type { Table } from "./engine";
import { PIECE, type Work } from "./pieces";
import type { Trace } from "./trace";

export interface Series {
  label: string;
  times: ArrayLike<number>;
  values: ArrayLike<number>;
  /** Values hold until the next; otherwise each is a point. */
  isHeld: boolean;
  /** The number of its flow's path, or of its link: its colour. */
  colour: number;
}

export interface Chart {
  title: string;
  unit: string;
  series: Series[];
}

/** What can be drawn over the time of a run. */
export function* chartsOf(trace: Trace): Work<Chart[]> {
  const { tables } = trace.traced;
  const groups = function* (
    table: Table | undefined,
    time: string,
    value: string,
    scale: number,
    isHeld: boolean,
    byPath: boolean,
  ): Work<Series[]> {
    const known = new Map<
      string,
      { label: string; times: number[]; values: number[]; isHeld: boolean; colour: number }
    >();
    const [times, values, path] = [numbers(table, time), numbers(table, value), numbers(table, "path")];
    const [flow, side] = [words(table, "flow"), words(table, "side")];
    for (let row = 0; row < times.length; row++) {
      if (row % PIECE === 0) yield;
      const number = byPath ? (path[row] ?? 0) : 0;
      const key = `${flow(row)}/${side(row)}/${number}`;
      let series = known.get(key);
      if (!series) {
        const names = [flow(row), byPath && trace.pathName(flow(row), number), trace.host(flow(row), side(row))];
        const colour = trace.colour(flow(row), number) + (byPath || side(row) === "a" ? 0 : 1);
        series = { label: names.filter(Boolean).join(", "), times: [], values: [], isHeld, colour };
        known.set(key, series);
      }
      series.times.push(times[row] ?? 0);
      series.values.push((values[row] ?? NaN) * scale);
    }
    return [...known.values()];
  };
  const senders = new Set<string>();
  for (const [number, { isData, flow, side }] of trace.packets.entries()) {
    if (number % PIECE === 0) yield;
    if (isData) senders.add(`${flow}, ${trace.host(flow, side)}`);
  }
  const isSender = ({ label }: Series) => {
    const parts = label.split(", ");
    return senders.has(`${parts[0]}, ${parts.at(-1)}`);
  };
  const queues: Series[] = trace.queues
    .filter(({ most }) => most > 0)
    .map(({ link, isForward, times, packets }) => ({
      label: `${link}${isForward ? "" : " (back)"}`,
      times,
      values: packets,
      isHeld: true,
      colour: Object.keys(trace.scenario.links).indexOf(link) + (isForward ? 0 : 4),
    }));
  const all: Chart[] = [
    { title: "Call quality", unit: "MOS", series: yield* groups(tables["ratings"], "start_s", "mos", 1, true, false) },
    {
      title: "Delay of frames",
      unit: "ms",
      series: yield* groups(tables["frames"], "created_s", "delay_ms", 1, false, false),
    },
    {
      title: "Goodput",
      unit: "Mbit/s",
      series: yield* groups(tables["intervals"], "start_s", "goodput_kbit_per_s", 1e-3, true, false),
    },
    {
      title: "Target of the control",
      unit: "Mbit/s",
      series: (yield* groups(tables["media"], "time_s", "target_bit_per_s", 1e-6, true, true)).filter(isSender),
    },
    {
      title: "Congestion window",
      unit: "kB",
      series: (yield* groups(tables["paths"], "time_s", "cwnd_bytes", 1e-3, true, true)).filter(isSender),
    },
    {
      title: "Round-trip time",
      unit: "ms",
      series: (yield* groups(tables["paths"], "time_s", "srtt_ms", 1, true, true)).filter(isSender),
    },
    {
      title: "Timeout (RTO)",
      unit: "ms",
      series: (yield* groups(tables["paths"], "time_s", "rto_ms", 1, true, true)).filter(isSender),
    },
    { title: "Queues", unit: "packets", series: queues },
  ];
  const isThere = ({ values }: Series) => Array.prototype.some.call(values, (value: number) => Number.isFinite(value));
  return all
    .map((chart) => ({ ...chart, series: told(chart.series.filter(isThere).slice(0, MOST_SERIES)) }))
    .filter(({ series }) => series.length > 0);
}

/** Series by the shortest names that tell them apart: the flow, the path of a flow with several, and the host if need be. */
function told(series: Series[]): Series[] {
  const parts = series.map(({ label }) => label.split(", "));
  const flows = parts.map(([flow]) => flow);
  const names = [
    parts.map(([flow = "", path = flow]) => (flows.indexOf(flow) === flows.lastIndexOf(flow) ? flow : path)),
    parts.map(([flow = "", path = flow]) => (flows.indexOf(flow) === flows.lastIndexOf(flow) ? flow : `${flow}, ${path}`)),
  ].find((all) => new Set(all).size === all.length);
  return series.map((one, index) => ({ ...one, label: names?.[index] ?? one.label }));
}

/** More lines than colours tell nothing. */
const MOST_SERIES = 8;
