"""The grid on a real Linux: its own nine controls over the same emulated radio.

A real stack runs under the first reading of "segment size". Beside it stand the paper's own study
(the TCP of Linux 2.6.20) and the same cells with the TCP of Linux 6, which is what really runs.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from anabranch.papers.intervals import Interval
from anabranch.papers.real import REAL, Bench, LeftOut, Number, RealStack, numbers
from anabranch.papers.studies import Effort, Sets, Work, described, efforts
from anabranch.papers.verdicts import Finding

from . import link, studies
from .claims import CLAIMS, Material, westwood_gain
from .factors import (
    CLAIMED_BUFFER,
    CLAIMED_SEGMENT,
    CONTROL_NAMES,
    PROFILES,
    READINGS,
    SHEET,
    Runs,
)
from .outcome import PUBLISHED, verdict_of
from .story import said

LINUX: Sets = (("flows.bulk.transport.receive_autotuning", "false"),)
"""What iperf's -w does to a socket of any Linux."""
ALIKE: Sets = (*LINUX, ("flows.bulk.transport.profile", '"linux_6"'))
"""The simulated TCP that is like the real one."""

GRID_COLUMNS = described(__package__)["grid/{name}"].columns
COLUMNS = tuple(name for name in GRID_COLUMNS if not name.endswith("fast_retransmits"))
"""What a kernel counts, too."""

AS_PAPER, AS_KERNEL = "simulated, 2.6.20", "simulated, Linux 6"
PROFILES_OF_CLAIMS = {AS_PAPER: AS_PAPER, AS_KERNEL: AS_KERNEL, REAL: "real stack"}
"""The claims' profiles here; the numbers of a table have the first two as heads."""
WEAK, STRONG, GRID = "nlos10", "nlos30", "grid"
"""The parts of the study: the compared cells of two links, and all cells."""
NOT_OF_LINUX = (
    LeftOut("the TCP of Linux 2.6.20", "a kernel has one TCP, its own"),
    LeftOut(
        f"the readings {' and '.join(READINGS[1:])}",
        "a kernel could do them, at the cost of the first one each",
    ),
    LeftOut("claim 5", "it is about the radio, which is the same one in the emulation"),
)
"""What of the main study no kernel can do, or what says nothing about one."""
ByPlace = Mapping[str, Mapping[str, Runs]]
"""The runs by where they ran, and by part of the study."""
ABOUT_TCP = ("1", "2", "3", "4")
"""Claims that are about what a TCP does; the fifth is about the radio."""


EFFORTS = efforts(__package__, "real.toml")
"""The effort of each mode."""


def real(mode: str, bench: Bench) -> RealStack:
    """Runs what a kernel can of the grid, and what is simulated beside it."""
    effort = EFFORTS[mode]
    rows, left_out = bench.everywhere(
        {
            AS_PAPER: works("real-2.6.20", LINUX, effort),
            AS_KERNEL: works("real-linux-6", ALIKE, effort),
            REAL: works("real", LINUX, effort),
        }
    )
    by_place = {name: runs_of(own, name) for name, own in rows.items()}
    others = [] if left_out else [_percentage(by_place)]
    return RealStack(
        title=bench.stack.title,
        total_runs=sum(own.height for own in rows[REAL].values()),
        sentences=_sentences(effort, by_place),
        numbers=[*_claimed(by_place), *others, *_grid(by_place)],
        claims=[] if left_out else _claims(mode, bench, by_place),
        profiles=PROFILES_OF_CLAIMS,
        left_out=[*left_out, *NOT_OF_LINUX],
    )


def works(name: str, sets: Sets, effort: Effort) -> list[Work]:
    """The compared cells of the paper's two links, and the grid."""
    return [
        replace(work, columns=COLUMNS)
        for study in described(__package__, "real_studies.toml").values()
        for work in study.works(effort, sets, f"{name}/")
    ]


def runs_of(rows: dict[str, pl.DataFrame], profile: str) -> dict[str, Runs]:
    """The runs by part of the study."""
    unknown = pl.lit(float("nan"))
    return {
        name.rpartition("/")[2]: Runs(
            SHEET.tidy(frame).with_columns(fast_recoveries=unknown), profile
        )
        for name, frame in rows.items()
    }


def _part(by_place: ByPlace, part: str) -> dict[str, Runs]:
    return {name: parts[part] for name, parts in by_place.items()}


def _claimed(by_place: ByPlace) -> list[Number]:
    """The compared cells: goodput and its variation of every control."""
    where = "writes of 4 KB, buffers of 512 KB"
    kinds = (
        ("goodput_mbps", f"Goodput in Mbit/s, {where}", 2),
        ("cov", f"Coefficient of variation of 1 s goodput, {where}", 3),
    )
    return [
        one
        for value, title, digits in kinds
        for profile in (STRONG, WEAK)
        for control, name in CONTROL_NAMES.items()
        for cell in [({"link": profile, "control": name}, {"control": control})]
        for one in numbers(title, value, _part(by_place, profile), [cell], digits)
    ]


def _percentage(by_place: ByPlace) -> Number:
    """The published number that is about what a TCP does."""
    row = PUBLISHED.row(by_predicate=pl.col("bound") == "up to", named=True)
    gains = {name: westwood_gain(parts[WEAK]) for name, parts in by_place.items()}
    own = gains.pop(REAL)
    nothing = Interval(math.nan, math.nan, 0)
    verdict = verdict_of(row["bound"], row["value"], own.mean, own.half_width)
    key: dict[str, float | int | str] = {"link": "nlos10", "quantity": "Westwood+ above worst, %"}
    return Number("Numbers of the text", key, row["value"], gains, own, nothing, 1, verdict)


def _grid(by_place: ByPlace) -> list[Number]:
    """The whole grid: means over all but one or two factors."""
    if GRID not in by_place[REAL]:
        return []
    factors = {"buffer": "buffer", "segment": "write size", "control": "control"}
    cells = (
        (
            {"link": profile, "factor": name, "value": place.title},
            {"profile": profile, factor: place.value},
        )
        for profile in PROFILES
        for factor, name in factors.items()
        for place in SHEET.places(factor)
    )
    title = "Goodput in Mbit/s over the whole grid"
    return list(numbers(title, "goodput_mbps", _part(by_place, GRID), cells))


def _claims(mode: str, bench: Bench, by_place: ByPlace) -> list[Finding]:
    """Every claim about TCP on the same runs, simulated and real; none without the whole grid."""
    if GRID not in by_place[REAL]:
        return []
    (probe,) = described(__package__)["probe"].works(studies.EFFORTS[mode])
    few = replace(probe, replications=lambda _: EFFORTS[mode].of("probes"))
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


def whole(parts: Mapping[str, Runs]) -> Runs:
    """The grid with the compared cells as they are by themselves, longer and more often."""
    is_compared = (
        pl.col("profile").is_in([STRONG, WEAK])
        & (pl.col("segment") == CLAIMED_SEGMENT)
        & (pl.col("buffer") == CLAIMED_BUFFER)
    )
    others = parts[GRID].frame.filter(~is_compared)
    frames = [parts[WEAK].frame, parts[STRONG].frame, others]
    return replace(parts[GRID], frame=pl.concat(frames))


def _sentences(effort: Effort, by_place: ByPlace) -> list[str]:
    parts = {
        WEAK: f"the weak link's compared cells ({effort.text('weak_duration')} each)",
        STRONG: f"the good link's ({effort.text('strong_duration')} each)",
        GRID: f"the grid ({effort.text('grid_duration')} each)",
    }
    there = by_place[REAL]
    agreements = (_agreement(_part(by_place, one), parts[one]) for one in parts if one in there)
    return [said("real"), *agreements]


def _agreement(runs: Mapping[str, Runs], what: str) -> str:
    """How many cells agree with the simulated Linux 6, and the one that does least."""
    names = ["profile", "control", "segment", "buffer"]
    own, other = (runs[name].by(names) for name in (REAL, AS_KERNEL))
    both = own.join(other, on=names, suffix="_simulated").with_columns(
        off=100 * (pl.col("mean") / pl.col("mean_simulated") - 1)
    )
    worst = both.sort(pl.col("off").abs(), *names).row(-1, named=True)
    return said(
        "agreement",
        count=both.height,
        what=what,
        near=both.filter(pl.col("off").abs() <= 10).height,
        median=float(np.median(both["off"].to_numpy())),
        worst=worst,
    )
