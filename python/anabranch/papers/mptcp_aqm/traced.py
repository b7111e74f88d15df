"""Runs that are made once more with traces: windows, round-trip times, queue, delays."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from anabranch.papers.studies import Settings
from anabranch.papers.traces import STEP_S, path_rates
from anabranch.studies.result import run

from .studies import BASE, MOVING, NETWORK, case, profile, single


@dataclass(frozen=True)
class Traced:
    """What a run tells."""

    paths: pl.DataFrame
    """time_s, path, cwnd_bytes, srtt_ms of the phone."""
    waiting: pl.DataFrame
    """time_s and waiting_packets of C."""
    delays_ms: dict[int, list[float]]
    """The sorted delays from the phone to the server of delivered packets with data, by path."""
    rates: pl.DataFrame
    """time_s, path and mbps: data that arrived over each path, in steps of STEP_S."""
    goodput: pl.DataFrame
    """time_s and mbps: what the application reads, in steps of STEP_S."""
    ended_s: float


def base(kind: str, delay_ms: float) -> Traced:
    """The first run of the base with this queue."""
    return trace({**profile(*BASE).settings, **case("queue", kind), **case("delay_ms", delay_ms)})


def handover(transport: str, kind: str) -> Traced:
    """The first run in which the Wi-Fi goes, with this transport and queue."""
    there = case("transport", transport) | case("queue", kind) | case("event", "handover")
    return trace({**NETWORK, **there, **MOVING})


def trace(settings: Settings) -> Traced:
    """One run with these values."""
    traces = run(single(settings), trace=True).traces
    packets = traces["packets"].filter(flow="transfer", side="a", kind="data", fate="delivered")
    delivered = packets.with_columns(delay_ms=1e3 * (pl.col("delivered_s") - pl.col("sent_s")))
    last: Any = delivered["delivered_s"].max() or 0.0
    return Traced(
        traces["paths"]
        .filter(flow="transfer", side="a")
        .select("time_s", "path", "cwnd_bytes", "srtt_ms"),
        traces["queues"].filter(link="c", direction="forward").select("time_s", "waiting_packets"),
        {path: delivered.filter(path=path)["delay_ms"].sort().to_list() for path in (0, 1)},
        path_rates(delivered, int(last / STEP_S) + 1),
        traces["intervals"]
        .filter(flow="transfer")
        .select(
            time_s=(pl.col("start_s") + pl.col("end_s")) / 2,
            mbps=pl.col("bytes") * 8 / (pl.col("end_s") - pl.col("start_s")) / 1e6,
        ),
        last,
    )
