"""How long SCTP takes to declare a path down: the closed form, our result and the Linux kernel's.

Every retransmission timeout on a black path is an error and doubles RTO (RFC 9260 sections 6.3.3 E2
and 8.2), so more than Path.Max.Retrans errors take the sum of Path.Max.Retrans + 1 doubling
timeouts, each at most RTO.Max: 63 s for RTO 1 s and the defaults. More than PFMR errors make the
path potentially failed (RFC 7829 section 5), which takes the same sum with PFMR. Delivery resumes
long before: each timeout sends again over the alternate path, and the longest gap is the last
timeout alone.

The sum counts from the first lost message, provided that nothing sent earlier is outstanding then
and that there is a message to send at every timeout. `failover.toml` meets both conditions: our
result is the sum to the nanosecond. The kernel's timer starts with the last acknowledgement before,
at most a round trip and a message interval earlier; its timer wheel rounds each timeout up by at
most an eighth, and the message that starts the next one comes up to 20 ms later.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from anabranch import _engine
from anabranch._engine import Scenario
from anabranch.figures import plots
from anabranch.studies.result import load
from oracles import linux_sctp_rows

FIRST_LOST_S = 5.1
"""When the first message after the blackout is sent, in seconds."""
INTERVAL_S = 0.1
"""Seconds between messages; every RTO of the sweep is a multiple of it."""

KERNEL_SACK_DELAY_S = 0.2

PATH_MAX_RETRANS = tuple(range(11))
RTO_LIMITS_S = ((0.1, 0.1), (0.1, 1.0), (0.1, 60.0), (1.0, 1.0), (1.0, 10.0), (1.0, 60.0))
"""The pairs of RTO.Min and RTO.Max in the sweep."""
HEADS = (
    "RTO.Min, s",
    "RTO.Max, s",
    "PMR",
    "PFMR",
    "down, s: closed form",
    "down, s: ours",
    "PF, s: closed form",
    "PF, s: ours",
    "longest gap, s: closed form",
    "longest gap, s: ours",
)
"""The heads of `cells`."""


def timeouts(errors: int, rto_s: float, rto_max_s: float) -> list[float]:
    """The successive timeouts in seconds until so many errors are counted.

    Parameters
    ----------
    errors
        The number of errors.
    rto_s
        RTO in seconds when the path turns black: RTO.Min where round-trip times are short.
    rto_max_s
        RTO.Max in seconds.
    """
    return [min(rto_s * 2**k, rto_max_s) for k in range(errors)]


def time_to_inactive(path_max_retrans: int, rto_s: float, rto_max_s: float) -> float:
    """Seconds from the first lost message to the path being declared inactive."""
    return math.fsum(timeouts(path_max_retrans + 1, rto_s, rto_max_s))


def time_to_potentially_failed(
    pf_max_retrans: int, path_max_retrans: int, rto_s: float, rto_max_s: float
) -> float:
    """Seconds from the first lost message to potentially failed; NaN if that state is skipped."""
    if pf_max_retrans >= path_max_retrans:
        return math.nan
    return time_to_inactive(pf_max_retrans, rto_s, rto_max_s)


@dataclass(frozen=True)
class Row:
    """One setting of the sweep with our result.

    Times are in seconds from the first lost message.
    """

    rto_min_s: float
    rto_max_s: float
    path_max_retrans: int
    pf_max_retrans: int | None
    inactive_s: float
    potentially_failed_s: float
    longest_gap_s: float

    @property
    def expected_inactive_s(self) -> float:
        """The time to inactive by the closed form."""
        return time_to_inactive(self.path_max_retrans, self.rto_min_s, self.rto_max_s)

    @property
    def expected_potentially_failed_s(self) -> float:
        """The time to potentially failed by the closed form; NaN if it never happens."""
        if self.pf_max_retrans is None:
            return math.nan
        return time_to_potentially_failed(
            self.pf_max_retrans, self.path_max_retrans, self.rto_min_s, self.rto_max_s
        )

    @property
    def expected_gap_s(self) -> float:
        """The longest interval without a delivery: the last timeout, or the first and a message.

        Once the path is potentially failed, data is sent elsewhere.
        """
        errors = self.path_max_retrans
        if self.pf_max_retrans is not None:
            errors = min(errors, self.pf_max_retrans)
        first, *others = timeouts(errors + 1, self.rto_min_s, self.rto_max_s)
        return max([first + INTERVAL_S, *others])


def scenario(
    path_max_retrans: int, pf_max_retrans: int | None, rto_min_s: float, rto_max_s: float
) -> Scenario:
    """The scenario with one setting."""
    transport = "flows.call.transport"
    settings: dict[str, str | float | bool] = {
        f"{transport}.path_max_retrans": path_max_retrans,
        f"{transport}.pf_max_retrans": "off" if pf_max_retrans is None else pf_max_retrans,
        f"{transport}.rto_initial": f"{rto_min_s:g} s",
        f"{transport}.rto_min": f"{rto_min_s:g} s",
        f"{transport}.rto_max": f"{rto_max_s:g} s",
    }
    text = (files(__package__) / "failover.toml").read_text("utf-8")
    return load(text, settings)


def sweep() -> Iterator[Row]:
    """Our result for every setting, without and with the potentially failed state (PFMR 0)."""
    for rto_min_s, rto_max_s in RTO_LIMITS_S:
        for path_max_retrans in PATH_MAX_RETRANS:
            for pf_max_retrans in (None, 0):
                yield measure(path_max_retrans, pf_max_retrans, rto_min_s, rto_max_s)


def measure(
    path_max_retrans: int, pf_max_retrans: int | None, rto_min_s: float, rto_max_s: float
) -> Row:
    """Our result for one setting; nothing in the set-up is random, so one run is enough."""
    one = scenario(path_max_retrans, pf_max_retrans, rto_min_s, rto_max_s)
    columns = _engine.run_batch(one, [(0, 0)], 1)
    path = "call.sctp.a.path0"
    return Row(
        rto_min_s=rto_min_s,
        rto_max_s=rto_max_s,
        path_max_retrans=path_max_retrans,
        pf_max_retrans=pf_max_retrans,
        inactive_s=columns[f"{path}.first_inactive_s"][0] - FIRST_LOST_S,
        potentially_failed_s=columns[f"{path}.first_pf_s"][0] - FIRST_LOST_S,
        longest_gap_s=columns["call.longest_gap_ms"][0] / 1000,
    )


def cells(row: Row) -> list[str]:
    """A row as text."""
    return [
        f"{row.rto_min_s:g}",
        f"{row.rto_max_s:g}",
        str(row.path_max_retrans),
        "off" if row.pf_max_retrans is None else str(row.pf_max_retrans),
        _seconds(row.expected_inactive_s),
        _seconds(row.inactive_s),
        _seconds(row.expected_potentially_failed_s),
        _seconds(row.potentially_failed_s),
        _seconds(row.expected_gap_s),
        _seconds(row.longest_gap_s),
    ]


def _seconds(value: float) -> str:
    return "never" if math.isnan(value) else f"{value:.3f}"


@dataclass(frozen=True)
class KernelRow:
    """A row of the kernel without the potentially failed state.

    Times are in seconds from the blackout.
    """

    name: str
    path_max_retrans: int
    rto_initial_s: float
    rto_min_s: float
    rto_max_s: float
    inactive_s: float
    gap_s: float

    @property
    def is_spurious(self) -> bool:
        """Whether the healthy path's timer expires before its delayed SACK arrives.

        Retransmissions then move to the black path (docs/linux-sctp.md).
        """
        return self.rto_initial_s < KERNEL_SACK_DELAY_S

    @property
    def expected_inactive_s(self) -> float:
        """The closed form with RTO.Min as RTO, as the round-trip time of 41 ms is below it."""
        return time_to_inactive(self.path_max_retrans, self.rto_min_s, self.rto_max_s)


def kernel_rows() -> list[KernelRow]:
    """The kernel's rows in which only timeouts decide."""
    return [
        KernelRow(
            name=",".join(row[name] for name in linux_sctp_rows.SETTINGS),
            path_max_retrans=int(row["pmr"]),
            rto_initial_s=float(row["rto_initial_ms"]) / 1000,
            rto_min_s=float(row["rto_min_ms"]) / 1000,
            rto_max_s=float(row["rto_max_ms"]) / 1000,
            inactive_s=float(row["first_unreachable_s"]) - linux_sctp_rows.BLACKOUT_S,
            gap_s=float(row["gap_ms"]) / 1000,
        )
        for row in linux_sctp_rows.kernel_rows()
        if row["setup"] == "black" and row["pf"] == "off"
    ]


def figures() -> dict[str, Figure]:
    """Time to declare a path down, and the longest gap in deliveries, against Path.Max.Retrans."""
    rows = [row for row in sweep() if row.pf_max_retrans is None]
    with plots.style():
        figure = plots.blank(9, 4.2)
        down, gap = figure.subplots(1, 2, sharex=True, sharey=True)
        for colour, limits in zip(plots.COLOURS, RTO_LIMITS_S, strict=False):
            ours = [row for row in rows if (row.rto_min_s, row.rto_max_s) == limits]
            expected = [row.expected_inactive_s for row in ours]
            _draw(down, colour, expected, [row.inactive_s for row in ours])
            longest = [row.expected_gap_s for row in ours]
            _draw(gap, colour, longest, [row.longest_gap_s for row in ours])
        plots.logarithmic(down.yaxis)
        down.set_ylabel("time (s)")
        down.set_title("Until the path is declared down")
        gap.set_title("Longest gap in deliveries")
        for axes in (down, gap):
            axes.set_xlabel("Path.Max.Retrans")
        plots.legend(figure, _keys())
    return {"failover-closed-form": figure}


def _draw(axes: Axes, colour: str, closed_form: list[float], ours: list[float]) -> None:
    axes.plot(PATH_MAX_RETRANS, closed_form, color=colour, linewidth=1.2)
    axes.plot(PATH_MAX_RETRANS, ours, color=colour, marker="o", markersize=4, linestyle="none")


def _keys() -> list[Line2D]:
    limits = [
        Line2D([], [], color=colour, label=f"RTO.Min {low:g} s, RTO.Max {high:g} s")
        for colour, (low, high) in zip(plots.COLOURS, RTO_LIMITS_S, strict=False)
    ]
    grey = plots.QUIET
    return [
        *limits,
        Line2D([], [], color=grey, label="closed form"),
        Line2D([], [], color=grey, marker="o", linestyle="none", label="ours"),
    ]
