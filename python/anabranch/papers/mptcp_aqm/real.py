"""A real Linux's Multipath TCP through the router's queues, in the place of the cited model.

Beside it stand that model with LIA, as the paper has it, and the same cells with the simulated
Multipath TCP of Linux 6.
"""

from collections.abc import Mapping
from itertools import product

import polars as pl

from anabranch.papers.intervals import Interval
from anabranch.papers.real import REAL, Bench, LeftOut, Number, RealStack, numbers
from anabranch.papers.studies import Effort, Settings, Work, efforts
from anabranch.papers.verdicts import Finding

from . import outcome, published
from .claims import CLAIMS, Material
from .factors import COLUMNS, DELAYS, LIA, PAPERS_QUEUES, PATHS, QUEUE_NAMES, SHEET, Runs
from .story import said
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


EFFORTS = efforts(__package__, "real.toml")
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


def works(effort: Effort) -> dict[str, Work]:
    """The cells of the paper's queues and delays, by who sends."""
    return {
        MODEL: _work("real-model", {}, effort),
        ALIKE: _work("real-linux-6", linux(), effort),
        REAL: _work("real", linux(), effort),
    }


def _work(name: str, transport: Settings, effort: Effort) -> Work:
    settings = {
        **{
            path: value
            for path, value in profile().settings.items()
            if not transport or not path.startswith(TRANSPORT)
        },
        **transport,
        "flows.transfer.app.bytes": effort.text("bytes"),
    }
    axes = {
        "queue": cases("queue", PAPERS_QUEUES),
        "delay_ms": cases("delay_ms", list(map(str, DELAYS))),
    }
    traces = ("paths",) if transport else ()
    loaded = scenario(name, settings, axes, traces)
    columns = COUNTED if transport else COLUMNS
    return Work(name, "queues and delays", loaded, lambda _: effort.of("cells"), columns)


def real(mode: str, bench: Bench) -> RealStack:
    """Runs the paper's queues and delays with a kernel's Multipath TCP, and simulates them."""
    wanted = works(EFFORTS[mode])
    rows, left_out = bench.everywhere({place: [work] for place, work in wanted.items()})
    by_place = {}
    for place, work in wanted.items():
        own = rows[place][work.name]
        if place != MODEL:
            # Windows and round-trip times from the trace where scalars have others.
            means = window_means(bench.traces(work, "paths", is_real=place == REAL))
            own = own.join(means, on=_RUN, how="left")
        by_place[place] = _runs(own, place)
    return RealStack(
        title=bench.stack.title,
        total_runs=by_place[REAL].frame.height,
        sentences=said.several("real", on_one_path=_one_path(by_place)),
        numbers=[*_published(by_place), *_values(by_place)],
        claims=[] if left_out else _claims(by_place),
        profiles=PROFILES,
        left_out=[
            *left_out,
            LeftOut("LIA and RTT_Compensator", "no kernel has a coupled congestion control"),
            LeftOut(f"claims {', '.join(ABOUT_COUPLING)}", "they compare couplings"),
        ],
    )


def _one_path(by_place: Mapping[str, Runs]) -> list[dict[str, str | int]]:
    """In how many runs nothing was sent on path B; they count for none of its values."""
    listed: list[dict[str, str | int]] = []
    for queue, title in SHEET.axes["papers_queue"].names.items():
        frames = {name: runs.where(queue=queue).frame for name, runs in by_place.items()}
        real, alike = (int(frames[name]["rtt_b_ms"].is_nan().sum()) for name in (REAL, ALIKE))
        listed.append({"queue": title, "total": frames[REAL].height, "real": real, "alike": alike})
    return listed


def _runs(rows: pl.DataFrame, name: str) -> Runs:
    """Runs in the place of LIA's, which the claims are about."""
    missing = {column: pl.lit(float("nan")) for column in COLUMNS if column not in rows.columns}
    complete = rows.with_columns(**missing)
    tidied = tidy(complete, profile().settings)
    return Runs(tidied.with_columns(coupling=pl.lit(LIA)), name)


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
    listed = []
    for index, one in enumerate(published.numbers()):
        beside = {name: outcome.measured(runs, one) for name, runs in by_place.items()}
        own = beside.pop(REAL)
        off = Interval(100 * (own.mean / beside[ALIKE].mean - 1), float("nan"), own.n)
        key: dict[str, float | int | str] = {"": number_title(index)}
        verdict = one.judge(own)
        listed.append(Number("Numbers of the text", key, one.value, beside, own, off, 2, verdict))
    return listed


def _values(by_place: Mapping[str, Runs]) -> list[Number]:
    """What each queue did at each delay."""
    listed: list[Number] = []
    for value, queue, delay in product(SHOWN, PAPERS_QUEUES, DELAYS):
        column, where = SHEET.values[value], {"queue": queue, "delay_ms": delay}
        cell = ({"queue": QUEUE_NAMES[queue], "A ms": delay}, where)
        listed += numbers(column.head, value, by_place, [cell], column.digits)
    return listed


def _claims(by_place: Mapping[str, Runs]) -> list[Finding]:
    return [
        claim.judge(Material(runs), name)
        for claim in CLAIMS
        if claim.id not in ABOUT_COUPLING
        for name, runs in by_place.items()
    ]
