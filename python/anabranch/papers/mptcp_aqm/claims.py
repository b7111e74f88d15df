"""The paper's claims: rows of `claims.toml`, and predicates for those that no row can say.

What is compared is compared within each replication. Numbers like "about" are constants here,
chosen before any run; that claim 9's 40 % is judged by `ABOUT` as well was settled after one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

from anabranch.papers import rows
from anabranch.papers.intervals import Interval, difference, interval
from anabranch.papers.verdicts import Claim, Part, above, within

from .factors import DELAYS, LIA, QUEUE_NAMES
from .published import round_trip_times
from .samples import Runs

ABOUT = 0.5
"""A difference in per cent is about what the paper gives within this share of it."""
A_LITTLE_OVER = 0.1
"""So much more is a little over, and slightly better."""
ABOUT_CWND_PACKETS = 1.0
"""A window of 4 to 6 packets is about 5."""

SHORT = {
    "1": "DropTail's RTT 9 x CoDel's",
    "2": "DropTail fills C",
    "3": "CoDel gets half of C",
    "4": "CoDel's queue is short",
    "5": "windows of 5 packets",
    "6": "CoDel's RTTs",
    "7": "DropTail's RTTs",
    "8": "couplings alike",
    "9": "LIFO: 1.4 x the goodput",
    "10": "LIFO: fewer drops",
    "11": "LIFO: shorter queue",
    "12": "LIFO: same RTTs",
    "13": "LIFO: Uncoupled waits longer",
    "14": "LIFO: B's window not larger",
    "15": "FQ-CoDel as CoDel",
    "16": "10 ms: CoDel shrinks windows",
    "17": "DropTail: from A to B",
    "18": "delay on A raises both RTTs",
    "19": "LIFO: compensator as LIA",
}
"""The claims in a few words, for a figure."""


@dataclass(frozen=True)
class Material:
    """What the claims are judged on: the grid under one profile."""

    runs: Runs

    def cell(self, queue: str, delay_ms: int | None = None, coupling: str = LIA) -> Runs:
        """One queue, at one delay or all."""
        runs = self.runs.where(queue=queue, coupling=coupling)
        return runs if delay_ms is None else runs.where(delay_ms=delay_ms)

    def replications(self) -> int:
        """The fewest of any cell of the paper."""
        return min(
            len(self.cell(queue, delay).per_replication())
            for queue in ("drop_tail", "codel", "fq_codel", "lifo_codel")
            for delay in DELAYS
        )


def ratio(first: Runs, second: Runs, value: str) -> Interval:
    """Its interval."""
    return interval(rows.ratios(first, second, value).values())


def percent_off(first: Runs, second: Runs, value: str) -> Interval:
    """By how much the first is above the second, in per cent."""
    off = ratio(first, second, value)
    return Interval(100 * (off.mean - 1), 100 * off.half_width, off.n)


def windows_of_five(material: Material) -> list[Part]:
    """Claim 5."""
    return [
        Part(
            f"{window.text(1)} packets with {QUEUE_NAMES[queue]} (over time; mean over changes of"
            f" the window: {material.cell(queue).mean('changed_cwnd_packets').text(1)})",
            _near(window, 5.0, ABOUT_CWND_PACKETS),
        )
        for queue in ("codel", "lifo_codel")
        for window in [material.cell(queue).mean("cwnd_packets")]
    ]


def round_trips(queue: str) -> Callable[[Material], list[Part]]:
    """Claims 6 and 7."""

    def parts(material: Material) -> list[Part]:
        each = []
        for number in round_trip_times():
            if number.queue != queue:
                continue
            ours = material.cell(queue, number.delay_ms).mean(number.quantity)
            path = number.quantity.split("_")[1]
            each.append(
                Part.number(
                    f"at {number.delay_ms} ms over {path.upper()} {ours.text(0)} ms (paper:"
                    f" {number.value:g})",
                    number.judge(ours),
                )
            )
        return each

    return parts


def couplings_alike(material: Material) -> list[Part]:
    """Claim 8."""
    parts = []
    for coupling, name, paper in (
        ("rtt_compensator", "RTT_Compensator", 5.0),
        ("per_path", "Uncoupled", 8.0),
    ):
        differences = [
            percent_off(
                material.cell(queue, delay, coupling), material.cell(queue, delay), "goodput_share"
            )
            for queue in ("drop_tail", "codel")
            for delay in DELAYS
        ]
        largest = max(differences, key=lambda one: abs(one.mean))
        parts.append(
            Part(
                f"{name}'s goodput with DropTail and CoDel differs by up to"
                f" {largest.text(1, signed=True)} %",
                _near(_absolute(largest), paper, ABOUT * paper),
            )
        )
    return parts


def lifo_gains(material: Material) -> list[Part]:
    """Claim 9."""
    gains = {
        delay: rows.ratios(
            material.cell("lifo_codel", delay), material.cell("codel", delay), "goodput_share"
        )
        for delay in DELAYS
    }
    first, middle, last = (interval(gains[delay].values()) for delay in DELAYS)
    return [
        Part(
            f"{first.text()} times CoDel's goodput at 1 ms",
            _near(first, 1.4, ABOUT * 0.4),
        ),
        Part(
            f"{middle.text()} times at 10 ms, {last.text()} at 100 ms",
            above(difference(gains[DELAYS[0]], gains[DELAYS[-1]])),
        ),
        Part(f"{last.text()} at 100 ms is slightly better", _between(last, 1.0, 1 + A_LITTLE_OVER)),
    ]


def uncoupled_waits(material: Material) -> list[Part]:
    """Claim 13."""
    parts = []
    for value, name in (("queue_packets", "queue"), ("sojourn_ms", "sojourn")):
        waits = {
            delay: percent_off(
                material.cell("lifo_codel", delay, "per_path"),
                material.cell("lifo_codel", delay),
                value,
            )
            for delay in DELAYS
        }
        delay, largest = max(waits.items(), key=lambda item: item[1].mean)
        parts.append(
            Part(
                f"mean {name} up to {largest.text(0, signed=True)} % (at {delay} ms)",
                _near(largest, 50.0, ABOUT * 50.0),
            )
        )
    return parts


CLAIMS: list[Claim[Material]] = rows.load(
    files(__package__).joinpath("claims.toml").read_text(encoding="utf-8"),
    {
        "5": windows_of_five,
        "6": round_trips("codel"),
        "7": round_trips("drop_tail"),
        "8": couplings_alike,
        "9": lifo_gains,
        "13": uncoupled_waits,
    },
    lambda material: material.runs,
    Material.replications,
)


def _near(value: Interval, target: float, tolerance: float) -> bool | None:
    return _between(value, target - tolerance, target + tolerance)


def _between(value: Interval, low: float, high: float) -> bool | None:
    return within(_shift(value, -(low + high) / 2), (high - low) / 2)


def _shift(value: Interval, by: float) -> Interval:
    return Interval(value.mean + by, value.half_width, value.n)


def _absolute(value: Interval) -> Interval:
    return Interval(abs(value.mean), value.half_width, value.n)
