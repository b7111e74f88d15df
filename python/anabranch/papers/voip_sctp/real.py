"""Calls over real SCTP: the cells of Table 2 that have plain failover.

No stack changes its primary path by delay, so the other half of the table stays simulated.
"""

from collections.abc import Mapping

import polars as pl

from anabranch.papers.intervals import Interval
from anabranch.papers.real import (
    REAL,
    SCTP_ALIKE,
    SCTP_PROFILES,
    Bench,
    LeftOut,
    Number,
    RealStack,
    farthest,
    number,
)
from anabranch.papers.studies import (
    Effort,
    Settings,
    Work,
    as_sets,
    efforts,
    file_text,
    with_sweep,
)
from anabranch.papers.verdicts import Verdict, verdict
from anabranch.support.toml_text import inline

from .factors import PMR, SHEET, WAITS_MS, Runs
from .published import MOS_TOLERANCE, table2
from .story import said
from .studies import CLOCK_SETS, COLUMNS, TEN_PERCENT

AS_PAPER = "simulated, ns-2"
LEAST_PMR = {"usrsctp": 0, "kernel": 1}

CLOCK = "on_arrival"
"""The loss clock that reproduces the table."""


EFFORTS = efforts(__package__, "real.toml")
"""The effort of each mode."""


def real(mode: str, bench: Bench) -> RealStack:
    """Runs the cells with plain failover, and simulates them."""
    effort, sctp = EFFORTS[mode], bench.stack.sctp
    wanted = {
        AS_PAPER: _work("real-paper", effort, sctp, {}),
        SCTP_ALIKE[sctp]: _work(f"real-{SCTP_PROFILES[sctp]}", effort, sctp, transport(sctp)),
        REAL: _work("real", effort, sctp, transport(sctp)),
    }
    rows, left_out = bench.everywhere({place: [work] for place, work in wanted.items()})
    runs = {
        place: Runs(SHEET.tidy(rows[place][work.name]), place) for place, work in wanted.items()
    }
    numbers = _table2(effort, runs)
    return RealStack(
        title=bench.stack.title,
        total_runs=runs[REAL].frame.height,
        sentences=_sentences(effort, sctp, numbers),
        numbers=numbers,
        claims=[],
        profiles={},
        left_out=[
            *left_out,
            LeftOut("delay-centric on", "no stack chooses its primary path by delay"),
            *(
                LeftOut(f"PMR {pmr}", "Linux has at least 1")
                for pmr in PMR
                if pmr < LEAST_PMR[sctp]
            ),
        ],
    )


def transport(sctp: str) -> Settings:
    """The call's transport as a stack takes it: no SACK is delayed, the rest as the paper says."""
    return {
        "flows.call.transport": {
            "kind": "sctp",
            "profile": SCTP_PROFILES[sctp],
            "rto_min": "20 ms",
            "association_max_retrans": "off",
            "hb_interval": "100 ms",
            "sack_frequency": 1,
            "nagle": False,
        }
    }


def _work(name: str, effort: Effort, sctp: str, settings: Settings) -> Work:
    waits = [f"{wait} ms" for wait in effort.numbers("waits_ms")]
    axes: dict[str, tuple[str, list[int] | list[str]]] = {
        "wait0": ("links.p0-middle.cross_traffic.0.mean_wait", waits),
        "wait1": ("links.p1-middle.cross_traffic.0.mean_wait", waits),
        "pmr": (
            "flows.call.transport.path_max_retrans",
            [pmr for pmr in PMR if pmr >= LEAST_PMR[sctp]],
        ),
        "rto_max": (
            "flows.call.transport.rto_max",
            [f"{limit:g} s" for limit in effort.numbers("rto_max_s")],
        ),
    }
    sweep = f"[sweep]\nmetrics = {inline(COLUMNS)}\n" + "".join(
        f"axes.{axis} = {{ set = {inline(path)}, values = {inline(values)} }}\n"
        for axis, (path, values) in axes.items()
    )
    sets = (*TEN_PERCENT, *CLOCK_SETS[CLOCK], *as_sets(settings))
    loaded = with_sweep(file_text(__package__, "scenario.toml"), sweep, sets)
    title = "Table 2 with plain failover"
    return Work(name, title, loaded, lambda _: effort.of("replications"), COLUMNS)


def _table2(effort: Effort, by_place: Mapping[str, Runs]) -> list[Number]:
    published = table2().filter(pl.col("delay_centric") == "off")
    listed = []
    for row in published.sort("rto_max_s", "pmr", descending=[True, False]).iter_rows(named=True):
        where = {"rto_max_s": row["rto_max_s"], "pmr": row["pmr"]}
        runs = {name: one.where(**where) for name, one in by_place.items()}
        if runs[REAL].frame.is_empty():
            continue

        def judged(real: Interval, paper: float = row["mos"]) -> Verdict:
            return verdict(paper, real.mean, real.half_width, MOS_TOLERANCE)

        # Only with all nine pairs of delays it is the paper's own number.
        is_papers = len(effort.numbers("waits_ms")) == len(WAITS_MS)
        listed.append(
            number(
                "Table 2, plain failover, 10 % loss: MOS",
                {"RTO.Max, s": row["rto_max_s"], "PMR": row["pmr"]},
                "mos",
                runs,
                published=row["mos"],
                verdict=judged if is_papers else None,
            )
        )
    return listed


def _sentences(effort: Effort, sctp: str, numbers: list[Number]) -> list[str]:
    far = farthest(numbers)
    return said.several(
        "real",
        sctp=sctp,
        waits=effort.numbers("waits_ms"),
        all_waits=len(WAITS_MS),
        off=far.real.mean - list(far.simulated.values())[-1].mean,
        where=", ".join(f"{name} {value}" for name, value in far.key.items()),
    )
