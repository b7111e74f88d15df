"""The finding in words: what the texts of `story.toml` show.

The same sentences on the terminal, on the page and in the record.
"""

import math
from dataclasses import dataclass

import polars as pl

from anabranch.papers import choice
from anabranch.papers.choice import Best
from anabranch.papers.intervals import Interval
from anabranch.papers.texts import Texts
from anabranch.papers.verdicts import by_claim

from .claims import Material, ratio
from .factors import DELAYS, PATHS, Runs
from .outcome import MptcpAqmOutcome, best_fit
from .published import numbers
from .studies import networks, profile, profiles, queues, receivers

TITLES = {one.name: one.title for one in profiles()}
REAL = ("rfc", "rfc-olia", "rfc-balia", "rfc-uncoupled", "linux")
"""Transports that are not the cited model: what a router meets."""
RECEIVERS = tuple(one.name for one in receivers())
TIED = 0.05
"""Queues whose goodput is within this share of the best one's are as good."""
UNHARMED = 0.1
"""Queues spare a neighbour alike if it loses less than this more under one than under the other,
in percent of its packets."""
CALL_MS = 150.0
"""A longer delay, one way, disturbs a call (ITU-T G.114)."""


@dataclass(frozen=True)
class Choice:
    """A queue of C with the transports that a router meets, mean over them and the delays."""

    name: str
    title: str
    goodput_share: Interval
    p95_ms: Interval
    longest_ms: Interval
    udp_loss_percent: Interval
    """What the neighbour loses, which stays within a quarter of C."""


@dataclass(frozen=True)
class Recommendation:
    """What the router should run."""

    candidates: list[Choice]
    """The queues that may be it, the most likely first."""
    shortest: Best
    """Which of those that spare the neighbour has the shortest delays."""

    @property
    def is_resolved(self) -> bool:
        """Whether it is one queue."""
        return len(self.candidates) == 1 and math.isfinite(self.shortest.mean.half_width)

    def doubt(self, others: str) -> str:
        """What cannot be told from the first candidate, and how many replications would do."""
        return self.shortest.doubt(others)


said = Texts(__package__)


def headline(outcome: MptcpAqmOutcome) -> str:
    """What the router should run."""
    advised = recommended(outcome)
    best, *others = advised.candidates
    names = " and ".join(one.title for one in others) or "another"
    doubt = "" if advised.is_resolved else f"; {advised.doubt(names)}"
    return said("answer", best=best, share=_percent(best.goodput_share), doubt=doubt)


def _paper(outcome: MptcpAqmOutcome) -> str:
    """One sentence on what LIFO-CoDel brings, and what for."""
    gains = (
        [lifo_gain(outcome.grids[profile(network.name, name).name]).mean for network in networks()]
        for name in RECEIVERS
    )
    sound, defect = ((min(of), max(of)) for of in gains)
    material = Material(outcome.base)
    longest, codel = (
        material.cell(queue, DELAYS[0]).mean("max_ms").mean / 1e3
        for queue in ("lifo_codel", "codel")
    )
    return said("paper", sound=sound, defect=defect, longest=longest, codel=codel)


def lifo_gain(runs: Runs, delay_ms: int = DELAYS[0]) -> Interval:
    """LIFO-CoDel's goodput as a multiple of CoDel's."""
    material = Material(runs)
    lifo, codel = (material.cell(queue, delay_ms) for queue in ("lifo_codel", "codel"))
    return ratio(lifo, codel, "goodput_share")


def sentences(outcome: MptcpAqmOutcome) -> list[str]:
    """Verdicts, causes, the rate of C, the paper's contradictions, and what a router should run."""
    return [
        recommendation(outcome),
        _paper(outcome),
        _verdicts(outcome),
        _defect(outcome),
        _fit(outcome),
        _nine(outcome),
    ]


def choices(outcome: MptcpAqmOutcome) -> list[Choice]:
    """Every queue as a router meets it, the best goodput first."""
    runs = outcome.others["beyond"].where(transport=REAL)
    listed = []
    for queue in queues():
        own = runs.where(queue=queue.name)
        means = (
            own.mean(value) for value in ("goodput_share", "p95_ms", "max_ms", "udp_loss_percent")
        )
        listed.append(Choice(queue.name, queue.title, *means))
    return sorted(listed, key=lambda one: -one.goodput_share.mean)


def recommended(outcome: MptcpAqmOutcome) -> Recommendation:
    """The queue that harms the neighbour least.

    Of those with as good a goodput as the best one's and delays that a call bears; where none bears
    a call, of those with as good a goodput. What the runs leave open stays a candidate.
    """
    runs = outcome.others["beyond"].where(transport=REAL)
    frame = _bounds(runs, "goodput_share", TIED, share=True).join(
        _bounds(runs, "udp_loss_percent", UNHARMED, maximise=False), on="queue"
    )
    calls = runs.by(["queue"], "p95_ms").select(
        "queue",
        p95_low=pl.col("mean") - pl.col("half_width").fill_nan(math.inf),
        p95_high=pl.col("mean") + pl.col("half_width").fill_nan(math.inf),
    )
    frame = frame.join(calls, on="queue").with_columns(
        may_call=~(pl.col("p95_low") >= CALL_MS), calls=pl.col("p95_high") < CALL_MS
    )
    tied = frame.filter("may_goodput_share")
    bears = tied.filter("may_call") if tied["may_call"].any() else tied.with_columns(calls=True)
    here = runs.where(queue=bears["queue"].to_list())
    spared = _bounds(here, "udp_loss_percent", UNHARMED, maximise=False)
    kept = spared.filter("may_udp_loss_percent")["queue"].to_list()
    shortest = choice.best(here.where(queue=kept), ["queue"], "p95_ms", maximise=False)
    sure = bears.filter(
        pl.col("goodput_share")
        & pl.col("calls")
        & pl.col("queue").is_in(spared.filter("udp_loss_percent")["queue"].to_list())
    )["queue"].to_list()
    names = shortest.candidates if set(shortest.candidates) <= set(sure) else kept
    first = shortest.candidates[0]
    by_name = {one.name: one for one in choices(outcome)}
    ordered = [by_name[first], *(by_name[name] for name in names if name != first)]
    return Recommendation(ordered, shortest)


def _bounds(
    runs: Runs, value: str, tolerance: float, *, maximise: bool = True, share: bool = False
) -> pl.DataFrame:
    """Which queues are surely, and which may be, less than a tolerance behind the best mean.

    Columns: queue, the value's name, and `may_` before it. The tolerance may be a share of that
    mean.
    """
    ranking = choice.ranked(runs, ["queue"], value, maximise=maximise)
    most = tolerance * (ranking["mean"][0] if share else 1)
    # One run has no half-width: anything may be.
    width = pl.col("behind_half_width").fill_nan(math.inf)
    return ranking.select(
        "queue",
        (pl.col("behind") + width <= most).alias(value),
        (~(pl.col("behind") - width > most)).alias(f"may_{value}"),
    )


def recommendation(outcome: MptcpAqmOutcome) -> str:
    """Why the router should run that, beside the queues that are known best."""
    by_name = {one.name: one for one in choices(outcome)}
    advised = recommended(outcome)
    best = advised.candidates[0]
    others = (
        by_name[name]
        for name in ("drop_tail", "codel", "fq_codel", "lifo_codel")
        if name != best.name
    )
    tied = ", within 5 % of the best queue" if advised.is_resolved else ""
    listed = "; ".join(said("other", one=one, **_shown(one)) for one in others)
    return said("recommendation", best=best, tied=tied, others=listed, **_shown(best))


def _shown(one: Choice) -> dict[str, str | float]:
    return {"share": _percent(one.goodput_share), "longest": one.longest_ms.mean / 1e3}


def speed(outcome: MptcpAqmOutcome) -> str:
    """How fast it was computed."""
    return said("speed", **vars(outcome.speed))


def _verdicts(outcome: MptcpAqmOutcome) -> str:
    """How many claims hold how widely; which they are stands in the table of claims."""
    groups = dict.fromkeys(("all", "some", "partly", "open", "none"), 0)
    claims = by_claim(outcome.claims)
    for by_profile in claims.values():
        verdicts = [finding.verdict for finding in by_profile.values()]
        if "reproduced" in verdicts:
            groups["all" if set(verdicts) == {"reproduced"} else "some"] += 1
        else:
            groups[
                next(one for one in ("partly", "open", "none") if one in (*verdicts, "none"))
            ] += 1
    words = {
        "all": "reproduced under each",
        "some": "only under some",
        "partly": "partly at best",
        "open": "open at best",
        "none": "not at all",
    }
    parts = [f"{groups[key]} {text}" for key, text in words.items() if groups[key]]
    return said("verdicts", claims=len(claims), profiles=len(TITLES), parts=", ".join(parts))


def _defect(outcome: MptcpAqmOutcome) -> str:
    """What the receiver's defect does in each network."""
    parts = []
    for network in networks():
        grids = [outcome.grids[profile(network.name, name).name] for name in RECEIVERS]
        cells = [Material(runs).cell("codel", DELAYS[0]) for runs in grids]
        gains, last = [lifo_gain(runs) for runs in grids], lifo_gain(grids[1], DELAYS[-1])
        shares = [cell.mean("goodput_share") for cell in cells]
        parts.append(said("defect_in", network=network, shares=shares, gains=gains, last=last))
    return said("defect", networks="; ".join(parts))


def _fit(outcome: MptcpAqmOutcome) -> str:
    best = {name: best_fit(runs) for name, runs in outcome.fits.items()}
    fits = (
        f"{TITLES[name]}: {rate:g} Mbit/s ({misfit.text(0)} % RMS)"
        for name, (rate, misfit) in best.items()
    )
    return said("fit", fits="; ".join(fits))


def _nine(outcome: MptcpAqmOutcome) -> str:
    material = Material(outcome.base)
    cells = [material.cell(queue, 100) for queue in ("drop_tail", "codel")]
    by_key = {(one.queue, one.delay_ms, one.quantity): one.value for one in numbers()}
    values = [f"rtt_{path}_ms" for path in PATHS]
    paper = [by_key["drop_tail", 100, one] / by_key["codel", 100, one] for one in values]
    return said("nine", paper=paper, ours=[ratio(cells[0], cells[1], one) for one in values])


def _percent(share: Interval) -> str:
    return f"{100 * share.mean:.0f} %"
