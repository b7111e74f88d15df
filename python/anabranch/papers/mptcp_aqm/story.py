"""What the texts of `story.j2` show: the same on the terminal, on the page and in the record."""

import math
from dataclasses import dataclass

import polars as pl

from anabranch.papers import choice
from anabranch.papers.choice import Best
from anabranch.papers.intervals import Interval
from anabranch.papers.studies import Reading
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
    return said("headline", advised=recommended(outcome))


def recommendation(outcome: MptcpAqmOutcome) -> str:
    """Why the router should run that, beside the queues that are known best."""
    return said("recommendation", **_advice(outcome))


def _advice(outcome: MptcpAqmOutcome) -> dict[str, object]:
    by_name = {one.name: one for one in choices(outcome)}
    return {
        "advised": recommended(outcome),
        "known": [by_name[name] for name in ("drop_tail", "codel", "fq_codel", "lifo_codel")],
    }


def lifo_gain(runs: Runs, delay_ms: int = DELAYS[0]) -> Interval:
    """LIFO-CoDel's goodput as a multiple of CoDel's."""
    material = Material(runs)
    lifo, codel = (material.cell(queue, delay_ms) for queue in ("lifo_codel", "codel"))
    return ratio(lifo, codel, "goodput_share")


def sentences(outcome: MptcpAqmOutcome) -> list[str]:
    """Verdicts, causes, the rate of C, the paper's contradictions, and what a router should run."""
    gains = {
        receiver: [
            lifo_gain(outcome.grids[profile(network.name, receiver).name]).mean
            for network in networks()
        ]
        for receiver in RECEIVERS
    }
    sound, defect = gains.values()
    material, first = Material(outcome.base), DELAYS[0]
    at_100 = [material.cell(queue, 100) for queue in ("drop_tail", "codel")]
    by_key = {(one.queue, one.delay_ms, one.quantity): one.value for one in numbers()}
    rtts = [f"rtt_{path}_ms" for path in PATHS]
    return said.several(
        "sentences",
        **_advice(outcome),
        sound=sound,
        defect=defect,
        lifo_codel=material.cell("lifo_codel", first).mean("max_ms"),
        codel=material.cell("codel", first).mean("max_ms"),
        claims=len(by_claim(outcome.claims)),
        profiles=len(TITLES),
        groups=_groups(outcome),
        networks=[_defect(outcome, network) for network in networks()],
        fits={TITLES[name]: best_fit(runs) for name, runs in outcome.fits.items()},
        paper=[by_key["drop_tail", 100, one] / by_key["codel", 100, one] for one in rtts],
        ours=[ratio(at_100[0], at_100[1], one) for one in rtts],
    )


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


def speed(outcome: MptcpAqmOutcome) -> str:
    """How fast it was computed."""
    return said("speed", **vars(outcome.speed))


def _groups(outcome: MptcpAqmOutcome) -> dict[str, int]:
    """How many claims hold how widely; which they are stands in the table of claims."""
    words = {"partly": "partly at best", "open": "open at best", "not_reproduced": "not at all"}
    every, some = "reproduced under each", "only under some"
    groups = dict.fromkeys((every, some, *words.values()), 0)
    for by_profile in by_claim(outcome.claims).values():
        verdicts = {finding.verdict for finding in by_profile.values()}
        if "reproduced" in verdicts:
            groups[every if len(verdicts) == 1 else some] += 1
        else:
            groups[next(text for verdict, text in words.items() if verdict in verdicts)] += 1
    return groups


def _defect(outcome: MptcpAqmOutcome, network: Reading) -> dict[str, object]:
    """What the receiver's defect does in a network."""
    grids = [outcome.grids[profile(network.name, name).name] for name in RECEIVERS]
    cells = [Material(runs).cell("codel", DELAYS[0]) for runs in grids]
    return {
        "title": network.title,
        "shares": [cell.mean("goodput_share") for cell in cells],
        "gains": list(map(lifo_gain, grids)),
        "last": lifo_gain(grids[1], DELAYS[-1]),
    }
