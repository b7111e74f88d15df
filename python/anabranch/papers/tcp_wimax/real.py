"""The grid on a real Linux: its own nine controls over the same emulated radio.

A real stack runs under the first reading of "segment size". Beside it stand the paper's own study
(the TCP of Linux 2.6.20) and the same cells with the TCP of Linux 6, which is what really runs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from anabranch.papers.intervals import Interval
from anabranch.papers.real import REAL, Bench, LeftOut, Number, RealStack, number
from anabranch.papers.runs import Setting
from anabranch.papers.studies import Key, Sets, Work, efforts
from anabranch.papers.verdicts import Finding

from . import link, published, studies
from .claims import CLAIMS, Material, westwood_gain
from .factors import (
    CLAIMED_BUFFER,
    CLAIMED_SEGMENT,
    CONTROL_NAMES,
    CONTROLS,
    PAPERS_PROFILES,
    PROFILES,
    READINGS,
    SHEET,
    Runs,
    size,
)

LINUX: Sets = (("flows.bulk.transport.receive_autotuning", "false"),)
"""What iperf's -w does to a socket of any Linux."""
ALIKE: Sets = (*LINUX, ("flows.bulk.transport.profile", '"linux_6"'))
"""The simulated TCP that is like the real one."""

COLUMNS = tuple(name for name in studies.GRID_COLUMNS if not name.endswith("fast_retransmits"))
"""What a kernel counts, too."""

AS_PAPER, AS_KERNEL = "simulated, 2.6.20", "simulated, Linux 6"
PROFILES_OF_CLAIMS = {AS_PAPER: AS_PAPER, AS_KERNEL: AS_KERNEL, REAL: "real stack"}
"""The claims' profiles here; the numbers of a table have the first two as heads."""
WEAK, STRONG, GRID = "nlos10", "nlos30", "grid"
"""The parts of the study: the compared cells of two links, and all cells."""
ABOUT_TCP = ("1", "2", "3", "4")
"""Claims that are about what a TCP does; the fifth is about the radio."""


@dataclass(frozen=True)
class RealEffort:
    """Replications of each kind of cell, and how long their runs are."""

    weak: int
    """Writes of 4 KB and buffers of 512 KB without line of sight at 10 dB, where claims 2 to 4 are
    judged."""
    strong: int
    """Those cells at 30 dB."""
    grid: int
    """All 540 cells without line of sight."""
    los_grid: int
    """The other 540."""
    probes: int
    """Runs of the simulated probe, which says what the links lose and carry."""
    weak_duration: str
    strong_duration: str
    grid_duration: str


EFFORTS = efforts(__package__, RealEffort, "real.toml")
"""The effort of each mode."""


def real(mode: str, bench: Bench) -> RealStack:
    """Runs what a kernel can of the grid, and what is simulated beside it."""
    effort = EFFORTS[mode]
    own, left_out = bench.real(works("real", LINUX, effort))
    beside = {
        AS_PAPER: bench.simulated(works("real-2.6.20", LINUX, effort)),
        AS_KERNEL: bench.simulated(works("real-linux-6", ALIKE, effort)),
    }
    by_place = {name: runs_of(rows, name) for name, rows in (*beside.items(), (REAL, own))}
    return RealStack(
        title=bench.stack.title,
        total_runs=sum(rows.height for rows in own.values()),
        sentences=_sentences(effort, by_place),
        numbers=[
            *_claimed(by_place),
            *([] if left_out else _percentages(by_place)),
            *_grid(by_place),
        ],
        claims=[] if left_out else _claims(mode, bench, by_place),
        profiles=PROFILES_OF_CLAIMS,
        left_out=[*left_out, *_not_of_linux()],
    )


def works(name: str, sets: Sets, effort: RealEffort) -> list[Work]:
    """The compared cells of the paper's two links, and the grid."""

    def compared(profile: str, replications: int) -> Callable[[Key], int]:
        where = (profile, CLAIMED_SEGMENT, CLAIMED_BUFFER)
        return lambda key: (
            replications if (key["profile"], key["segment"], key["buffer"]) == where else 0
        )

    def grid(key: Key) -> int:
        return effort.grid if key["profile"] in PAPERS_PROFILES else effort.los_grid

    parts = (
        (WEAK, "the weak link", effort.weak_duration, compared(WEAK, effort.weak)),
        (STRONG, "the good link", effort.strong_duration, compared(STRONG, effort.strong)),
        (GRID, "the grid", effort.grid_duration, grid),
    )
    return [
        Work(
            f"{name}/{part}",
            title,
            studies.network((*sets, ("run.duration", duration))),
            replications,
            COLUMNS,
        )
        for part, title, duration, replications in parts
        if part != GRID or effort.grid
    ]


def runs_of(rows: dict[str, pl.DataFrame], profile: str) -> dict[str, Runs]:
    """The runs by part of the study."""
    return {
        name.rpartition("/")[2]: Runs(
            SHEET.tidy(frame).with_columns(fast_recoveries=pl.lit(float("nan"))), profile
        )
        for name, frame in rows.items()
    }


def _claimed(by_place: dict[str, dict[str, Runs]]) -> list[Number]:
    """The compared cells: goodput and its variation of every control."""
    kinds = (
        ("goodput_mbps", "Goodput in Mbit/s, writes of 4 KB, buffers of 512 KB", 2),
        ("cov", "Coefficient of variation of 1 s goodput, writes of 4 KB, buffers of 512 KB", 3),
    )
    return [
        number(
            title,
            {"link": profile, "control": CONTROL_NAMES[control]},
            value,
            cells,
            digits=digits,
        )
        for value, title, digits in kinds
        for profile in (STRONG, WEAK)
        for control in CONTROLS
        for cells in [_cells(by_place, profile, control=control)]
        if cells is not None
    ]


def _percentages(by_place: dict[str, dict[str, Runs]]) -> list[Number]:
    """The published number that is about what a TCP does."""
    claimed = published.value("nlos10", "westwood_above_worst_percent")
    gains = {name: westwood_gain(parts[WEAK]) for name, parts in by_place.items()}
    own = gains.pop(REAL)
    nothing = Interval(math.nan, math.nan, 0)
    verdict = published.verdict_of("up to", claimed, own.mean, own.half_width)
    key: dict[str, float | int | str] = {"link": "nlos10", "quantity": "Westwood+ above worst, %"}
    return [Number("Numbers of the text", key, claimed, gains, own, nothing, 1, verdict)]


def _grid(by_place: dict[str, dict[str, Runs]]) -> list[Number]:
    """The whole grid: means over all but one or two factors."""
    title = "Goodput in Mbit/s over the whole grid"
    factors = {"buffer": "buffer", "segment": "write size", "control": "control"}
    return [
        number(
            title, {"link": profile, "factor": name, "value": place.title}, "goodput_mbps", cells
        )
        for profile in PROFILES
        for factor, name in factors.items()
        for place in SHEET.places(factor)
        for where in [{factor: place.value}]
        for cells in [_cells(by_place, GRID, profile=profile, **where)]
        if cells is not None
    ]


def _cells(
    by_place: dict[str, dict[str, Runs]], part: str, **where: Setting
) -> dict[str, Runs] | None:
    """These cells' runs, by where they ran; None where there are none."""
    if part not in by_place[REAL]:
        return None
    runs = {name: parts[part].where(**where) for name, parts in by_place.items()}
    return None if runs[REAL].frame.is_empty() else runs


def _claims(mode: str, bench: Bench, by_place: dict[str, dict[str, Runs]]) -> list[Finding]:
    """Every claim about TCP on the same runs, simulated and real; none without the whole grid."""
    if GRID not in by_place[REAL]:
        return []
    works = studies.all_studies(studies.EFFORTS[mode])
    (probe,) = (work for work in works if work.name == "probe")
    few = replace(probe, replications=lambda _: EFFORTS[mode].probes)
    probes = SHEET.tidy(bench.simulated([few])["probe"])
    # Bursts and coherence, which traces tell, are no part of these claims.
    links = link.links(probes, traced=1)
    capacity, distance = link.capacity(probes), pl.DataFrame()
    return [
        claim.judge(Material(whole(parts), links, capacity, distance), name)
        for claim in CLAIMS
        if claim.id in ABOUT_TCP
        for name, parts in by_place.items()
    ]


def whole(parts: dict[str, Runs]) -> Runs:
    """The grid with the compared cells as they are by themselves, longer and more often."""
    is_compared = (
        pl.col("profile").is_in([STRONG, WEAK])
        & (pl.col("segment") == CLAIMED_SEGMENT)
        & (pl.col("buffer") == CLAIMED_BUFFER)
    )
    others = parts[GRID].frame.filter(~is_compared)
    frames = [parts[WEAK].frame, parts[STRONG].frame, others]
    return replace(parts[GRID], frame=pl.concat(frames))


def _sentences(effort: RealEffort, by_place: dict[str, dict[str, Runs]]) -> list[str]:
    said = [
        "A kernel has one TCP, its own: the paper's was that of Linux 2.6.20. Each run is over the"
        " very channel that the simulated one of its replication has.",
        _agreement(WEAK, by_place, f"the weak link's compared cells ({effort.weak_duration} each)"),
        _agreement(STRONG, by_place, f"the good link's ({effort.strong_duration} each)"),
    ]
    if GRID in by_place[REAL]:
        said.append(_agreement(GRID, by_place, f"the grid ({effort.grid_duration} each)"))
    return said


def _agreement(part: str, by_place: dict[str, dict[str, Runs]], what: str) -> str:
    """How many cells agree with the simulated Linux 6, and the one that does least."""
    names = ["profile", "control", "segment", "buffer"]
    own, other = (by_place[name][part].by(names) for name in (REAL, AS_KERNEL))
    both = own.join(other, on=names, suffix="_simulated").with_columns(
        off=100 * (pl.col("mean") / pl.col("mean_simulated") - 1)
    )
    near = both.filter(pl.col("off").abs() <= 10).height
    worst = both.sort(pl.col("off").abs(), *names).row(-1, named=True)
    where = (
        f"{worst['profile']}, {CONTROL_NAMES[worst['control']]}, {size(worst['segment'])},"
        f" {size(worst['buffer'])}"
    )
    median = float(np.median(both["off"].to_numpy()))
    return (
        f"Of {both.height} of {what} {near} are within 10 % of the simulated Linux 6 in goodput;"
        f" median {median:+.1f} %, the farthest {worst['off']:+.0f} % ({where})."
    )


def _not_of_linux() -> list[LeftOut]:
    """What of the main study no kernel can do, or what says nothing about one."""
    return [
        LeftOut("the TCP of Linux 2.6.20", "a kernel has one TCP, its own"),
        LeftOut(
            f"the readings {' and '.join(READINGS[1:])}",
            "a kernel could do them, at the cost of the first one each",
        ),
        LeftOut("claim 5", "it is about the radio, which is the same one in the emulation"),
    ]
