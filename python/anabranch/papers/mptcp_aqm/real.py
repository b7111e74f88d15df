"""A real Linux's Multipath TCP through the router's queues, in the place of the cited model.

Beside it stand that model with LIA, as the paper has it, and the same cells with the simulated
Multipath TCP of Linux 6.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from anabranch.papers.intervals import Interval
from anabranch.papers.real import REAL, Bench, LeftOut, Number, RealStack, number
from anabranch.papers.studies import Settings, Work, efforts
from anabranch.papers.verdicts import Finding

from . import outcome, published
from .claims import CLAIMS, Material
from .factors import COLUMNS, DELAYS, LIA, PAPERS_QUEUES, PATHS, QUEUE_NAMES, SHEET, Runs
from .studies import TRANSPORT, cases, profile, scenario, tidy
from .tables import number_title

MTU = "1472 B"
"""Sockets of Multipath TCP take no segment size in Linux 6.12: the paths' MTU makes it 1400 B,
with 40 B of headers, 12 B of timestamps and 20 B of DSS."""
MODEL, ALIKE = "simulated, cited model", "simulated, Linux 6"
PROFILES = {MODEL: "cited model with LIA", ALIKE: ALIKE, REAL: "real stack"}
"""The claims' profiles here; the numbers of a table have the first two as heads."""
COUNTED = tuple(
    name
    for name in COLUMNS
    if not name.startswith("transfer.mptcp.b.") and "cwnd" not in name and "rtt" not in name
)
"""Scalars that a kernel has, too."""
ABOUT_COUPLING = ("8", "13", "19")
"""Claims that compare couplings."""
SHOWN = (
    "goodput_share",
    "drops",
    "queue_packets",
    "sojourn_ms",
    "p99_ms",
    "rtt_a_ms",
    "rtt_b_ms",
    "cwnd_a_packets",
    "cwnd_b_packets",
)
"""Values that have a table each."""


@dataclass(frozen=True)
class RealEffort:
    """How much is run."""

    cells: int
    """Replications of each queue and delay."""
    bytes: str
    """The size of a transfer."""


EFFORTS = efforts(__package__, RealEffort, "real.toml")
"""The effort of each mode."""


def linux() -> Settings:
    """The transport as a kernel takes it: uncoupled Reno and the paper's windows of 64 kB."""
    return {
        TRANSPORT: {
            "kind": "mptcp",
            "profile": "linux_6",
            "cc": {"kind": "reno"},
            "receive_buffer": "64 kB",
            "tcp": {"profile": "linux_6", "receive_autotuning": False},
        },
        **{f"paths.{path}.mtu": MTU for path in PATHS},
    }


def works(effort: RealEffort) -> dict[str, Work]:
    """The cells of the paper's queues and delays, by who sends."""
    return {
        MODEL: _work("real-model", {}, effort),
        ALIKE: _work("real-linux-6", linux(), effort),
        REAL: _work("real", linux(), effort),
    }


def _work(name: str, transport: Settings, effort: RealEffort) -> Work:
    settings = {
        **{
            path: value
            for path, value in profile().settings.items()
            if not transport or not path.startswith(TRANSPORT)
        },
        **transport,
        "flows.transfer.app.bytes": effort.bytes,
    }
    axes = {
        "queue": cases("queue", PAPERS_QUEUES),
        "delay_ms": cases("delay_ms", list(map(str, DELAYS))),
    }
    traces = ("paths",) if transport else ()
    loaded = scenario(name, settings, axes, traces)
    columns = COUNTED if transport else COLUMNS
    return Work(name, "queues and delays", loaded, lambda _: effort.cells, columns)


def real(mode: str, bench: Bench) -> RealStack:
    """Runs the paper's queues and delays with a kernel's Multipath TCP, and simulates them."""
    wanted = works(EFFORTS[mode])
    own, left_out = bench.real([wanted[REAL]])
    rows = bench.simulated([wanted[MODEL], wanted[ALIKE]])
    by_place = {
        MODEL: _runs(rows["real-model"], MODEL),
        ALIKE: _runs(_traced(bench, wanted[ALIKE], rows["real-linux-6"]), ALIKE),
        REAL: _runs(_traced(bench, wanted[REAL], own["real"], is_real=True), REAL),
    }
    return RealStack(
        title=bench.stack.title,
        total_runs=own["real"].height,
        sentences=[
            "Linux couples no windows: its subflows are two Renos, which stand in LIA's place. Its"
            " receive buffer is the paper's 64 kB, and losses, jitter and the neighbour's"
            " datagrams are those of the simulated run of the same replication.",
            "Windows and round-trip times of Linux, real and simulated, are means over time of"
            " cwnd and of the smoothed round-trip time.",
            *_one_path(by_place),
        ],
        numbers=[*_published(by_place), *_values(by_place)],
        claims=[] if left_out else _claims(by_place),
        profiles=PROFILES,
        left_out=[
            *left_out,
            LeftOut("LIA and RTT_Compensator", "no kernel has a coupled congestion control"),
            LeftOut(f"claims {', '.join(ABOUT_COUPLING)}", "they compare couplings"),
        ],
    )


def _one_path(by_place: Mapping[str, Runs]) -> list[str]:
    """Says in which queues runs never sent on path B; they count for none of its values."""
    said = []
    for kind in PAPERS_QUEUES:
        alone = {
            name: int(runs.where(queue=kind).frame["rtt_b_ms"].is_nan().sum())
            for name, runs in by_place.items()
        }
        total = by_place[REAL].where(queue=kind).frame.height
        if alone[REAL]:
            said.append(
                f"With {QUEUE_NAMES[kind]} {alone[REAL]} of {total} of the real stack's runs and"
                f" {alone[ALIKE]} of the simulated Linux 6's never sent on path B."
            )
    return said


def _runs(rows: pl.DataFrame, name: str) -> Runs:
    """Runs in the place of LIA's, which the claims are about."""
    missing = {column: pl.lit(float("nan")) for column in COLUMNS if column not in rows.columns}
    complete = rows.with_columns(**missing)
    tidied = tidy(complete, profile().settings)
    return Runs(tidied.with_columns(coupling=pl.lit(LIA)), name)


def _traced(bench: Bench, work: Work, rows: pl.DataFrame, *, is_real: bool = False) -> pl.DataFrame:
    """With windows and round-trip times from the trace `paths` where scalars have others."""
    means = window_means(bench.traces(work, "paths", is_real=is_real))
    return rows.join(means, on=_RUN, how="left")


_RUN = ["cell", "replication"]


def window_means(paths: pl.LazyFrame) -> pl.DataFrame:
    """Means over time of the sender's window and smoothed round-trip time, of each run and path.

    By the names of the scalars that a simulated sender measures: cell, replication, and for each
    path mean_cwnd_bytes and mean_rtt_ms.
    """
    # Rows are changes: each holds until the next.
    lasts = pl.col("time_s").shift(-1).over(*_RUN, "path") - pl.col("time_s")
    means = (
        paths.filter(pl.col("side") == "a")
        .sort(*_RUN, "path", "time_s")
        .with_columns(lasts=lasts.fill_null(0.0), srtt_ms=pl.col("srtt_ms").fill_nan(None))
        .group_by(*_RUN, "path")
        .agg(
            mean_cwnd_bytes=(pl.col("cwnd_bytes") * pl.col("lasts")).sum() / pl.col("lasts").sum(),
            mean_rtt_ms=(pl.col("srtt_ms") * pl.col("lasts")).sum()
            / pl.col("lasts").filter(pl.col("srtt_ms").is_not_null()).sum(),
        )
        .collect()
    )
    wide = means.select(_RUN).unique()
    for path in range(len(PATHS)):
        sender = f"transfer.mptcp.a.subflow_{path}"
        named = means.filter(path=path).select(
            *_RUN,
            **{f"{sender}.{name}": pl.col(name) for name in ("mean_cwnd_bytes", "mean_rtt_ms")},
        )
        wide = wide.join(named, on=_RUN, how="left")
    # No value where a run did not use a path.
    return wide.with_columns(pl.exclude(_RUN).fill_null(float("nan")))


def _published(by_place: Mapping[str, Runs]) -> list[Number]:
    """The numbers of the text."""
    numbers = []
    for index, said in enumerate(published.numbers()):
        beside = {name: outcome.measured(runs, said) for name, runs in by_place.items()}
        real_one = beside.pop(REAL)
        base = beside[ALIKE]
        off = Interval(100 * (real_one.mean / base.mean - 1), float("nan"), real_one.n)
        key: dict[str, float | int | str] = {"": number_title(index)}
        verdict = said.judge(real_one)
        numbers.append(
            Number("Numbers of the text", key, said.value, beside, real_one, off, 2, verdict)
        )
    return numbers


def _values(by_place: Mapping[str, Runs]) -> list[Number]:
    """What each queue did at each delay."""
    return [
        number(
            column.head,
            {"queue": QUEUE_NAMES[kind], "A ms": delay_ms},
            value,
            cells,
            digits=column.digits,
        )
        for value in SHOWN
        for column in [SHEET.values[value]]
        for kind in PAPERS_QUEUES
        for delay_ms in DELAYS
        for cells in [
            {name: runs.where(queue=kind, delay_ms=delay_ms) for name, runs in by_place.items()}
        ]
        if not cells[REAL].frame.is_empty()
    ]


def _claims(by_place: Mapping[str, Runs]) -> list[Finding]:
    return [
        claim.judge(Material(runs), name)
        for claim in CLAIMS
        if claim.id not in ABOUT_COUPLING
        for name, runs in by_place.items()
    ]
