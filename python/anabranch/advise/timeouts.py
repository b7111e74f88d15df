"""What a small RTO.Min costs: timeouts, failovers, and packets taken for lost that had arrived.

These are counted in the runs that the advice rests on. A packet that its receiver had already was
retransmitted for nothing; where each packet is sent once, so was one that was given up and arrived.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from anabranch import stats
from anabranch.support.transports import can
from anabranch.support.wording import number

from .numbers import NOTHING, known, size
from .settings import DEFAULT, Candidate, Setting, possible

_SCTP = (
    "timeouts",
    "potential_failures",
    "path_failures",
    "duplicates_received",
    "data_chunks_abandoned",
    "data_chunks_sent",
    "data_chunks_received",
)
_TCP = ("timeouts", "duplicates_received")


def counted(transport: str, flows: Sequence[str]) -> list[str]:
    """The scalars to count; none for MPTCP, as there is no advice on its RTO.Min."""
    names = {"sctp": _SCTP, "tcp": _TCP}.get(transport, ())
    return [
        f"{flow}.{transport}.{side}.{name}" for flow in flows for side in "ab" for name in names
    ]


@dataclass(frozen=True)
class Count:
    """What happens in a run: each value is a mean with half the width of its 95 % interval."""

    limits: str
    """RTO.Min and RTO.Max, in words."""
    timeouts: tuple[float, float]
    failovers: tuple[float, float] | None
    """How often a sender of data left a path; None where there is only one path."""
    packets_in_vain: tuple[float, float]
    """Packets taken for lost that had arrived."""

    def text(self) -> str:
        """The numbers in words."""
        parts = [_of(self.timeouts, "timeout")]
        if self.failovers is not None:
            parts.append(_of(self.failovers, "failover"))
        in_vain = f"{_of(self.packets_in_vain, 'packet')} taken for lost that had arrived"
        return f"{', '.join(parts)} and {in_vain}"


def with_default_minimum(candidate: Candidate) -> Candidate:
    """The candidate with the default RTO.Min, and the default RTO.Max where both conflict."""
    usual = candidate.having("rto_min", DEFAULT)
    return usual if possible(usual) else usual.having("rto_max", DEFAULT)


def count(
    transport: str, limits: str, frame: pl.DataFrame, flows: Sequence[str], *, several: bool
) -> Count:
    """Counts from the scalars of `counted`; the frame has a row for each run."""
    ends = [f"{flow}.{transport}.{side}" for flow in flows for side in "ab"]

    def total(name: str) -> pl.Expr:
        return pl.sum_horizontal(f"{end}.{name}" for end in ends)

    failovers = None
    in_vain = total("duplicates_received")
    if can(transport).numbering == "chunks":
        missing = total("data_chunks_sent") - total("data_chunks_received")
        in_vain += (total("data_chunks_abandoned") - missing).clip(0)
        if several:
            failovers = _mean(frame, pl.sum_horizontal(_left(end) for end in ends))
    timeouts = total("timeouts")
    return Count(limits, _mean(frame, timeouts), failovers, _mean(frame, in_vain))


def _left(end: str) -> pl.Expr:
    """How often a sender of data has left a path after timeouts or unanswered heartbeats."""
    # RFC 7829: a sender leaves a path once it is potentially failed, before it is inactive.
    paths = pl.max_horizontal(f"{end}.potential_failures", f"{end}.path_failures")
    return pl.when(pl.col(f"{end}.data_chunks_sent") > 0).then(paths).otherwise(0.0)


def limits(candidate: Candidate, settings: Mapping[str, Setting]) -> str:
    """The limits of the RTO that a candidate has."""
    labels = [
        f"{word} {settings[name].label(candidate[name], candidate.profile)}"
        for name, word in (("rto_min", "RTO.Min"), ("rto_max", "RTO.Max"))
        if name in settings
    ]
    return " and ".join(labels)


def sentence(own: Count, other: Count) -> str:
    """A sentence that puts both counts side by side."""
    return f"In a run here {own.limits} have {own.text()}; {other.limits} {other.text()}."


def _mean(frame: pl.DataFrame, what: pl.Expr) -> tuple[float, float]:
    values = frame.select(what.alias("value"))["value"].to_list()
    mean, half_width, _ = stats.mean_interval(values)
    return mean, half_width


def _of(value: tuple[float, float], thing: str) -> str:
    """A value with its interval and noun, such as `1 timeout` or `4.6 ± 0.6 timeouts`."""
    mean, half_width = value
    if half_width < NOTHING:
        return f"{number(mean, 4)} {thing}{'' if mean == 1 else 's'}"
    return f"{known(mean, half_width)} ± {size(half_width)} {thing}s"
