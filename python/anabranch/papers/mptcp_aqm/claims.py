"""The paper's claims, each a predicate on intervals (see `papers.verdicts`).

What is compared is compared within each replication. Numbers like "about" are constants here,
chosen before any run; that claim 9's 40 % is judged by `ABOUT` as well, and that claim 1 looks at
path B first, was settled after one.
"""

from collections.abc import Callable
from dataclasses import dataclass

from anabranch.papers.intervals import Interval, difference, interval
from anabranch.papers.verdicts import SHARE_TOLERANCE, Claim, Part, above, below, within

from .factors import DELAYS, LIA, PATH_NAMES, PATHS, QUEUE_NAMES
from .published import numbers, round_trip_times
from .samples import Runs

ABOUT = 0.5
"""A difference in per cent is about what the paper gives within this share of it."""
A_LITTLE_OVER = 0.1
"""So much more is a little over, and slightly better."""
PARITY = 0.1
"""Round-trip times that differ by less are on a par; windows too."""
SHORT_QUEUE_PACKETS = 10.0
"""20 % of 50."""
ABOUT_CWND_PACKETS = 1.0
"""A window of 4 to 6 packets is about 5."""
NINE = 9.0

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


def ratios(first: Runs, second: Runs, value: str) -> dict[int, float]:
    """The first's mean as a multiple of the second's, linearised: what each replication adds.

    The ratio of means, as the paper's, not the mean of ratios, in which few runs of a small second
    would count for most (the ratio estimator: Cochran, Sampling Techniques, section 6.4).
    """
    ours, theirs = first.per_replication(value), second.per_replication(value)
    keys = [key for key in ours if key in theirs]
    mean = sum(theirs[key] for key in keys) / len(keys) if keys else 0.0
    if not mean:
        return {}
    mean_ratio = sum(ours[key] for key in keys) / len(keys) / mean
    return {key: mean_ratio + (ours[key] - mean_ratio * theirs[key]) / mean for key in keys}


def ratio(first: Runs, second: Runs, value: str) -> Interval:
    """Its interval."""
    return interval(ratios(first, second, value).values())


def percent_off(first: Runs, second: Runs, value: str) -> Interval:
    """By how much the first is above the second, in per cent."""
    off = ratio(first, second, value)
    return Interval(100 * (off.mean - 1), 100 * off.half_width, off.n)


def nine_times(material: Material) -> list[Part]:
    """Claim 1."""
    parts = []
    # B first, where the paper's own numbers come nearest.
    for path in reversed(PATHS):
        longer = ratio(
            material.cell("drop_tail", 100), material.cell("codel", 100), f"rtt_{path}_ms"
        )
        paper = _published("drop_tail", 100, f"rtt_{path}_ms") / _published(
            "codel", 100, f"rtt_{path}_ms"
        )
        parts.append(
            Part(
                f"over {PATH_NAMES[path]} it is {longer.text(1)} times as long (the paper's own"
                f" numbers: {paper:.1f})",
                _near(longer, NINE, SHARE_TOLERANCE * NINE),
            )
        )
    return parts


def drop_tail_fills(material: Material) -> list[Part]:
    """Claim 2."""
    return [
        Part(
            f"at {delay} ms {_share(share)} of C",
            _near(share, 0.75, SHARE_TOLERANCE * 0.75),
        )
        for delay in DELAYS
        for share in [material.cell("drop_tail", delay).mean("goodput_share")]
    ]


def codel_gets_half(material: Material) -> list[Part]:
    """Claim 3."""
    return [
        Part(
            f"at {delay} ms {_share(share)} of C",
            _between(share, 0.5, 0.5 + A_LITTLE_OVER),
        )
        for delay in DELAYS
        for share in [material.cell("codel", delay).mean("goodput_share")]
    ]


def codel_keeps_short(material: Material) -> list[Part]:
    """Claim 4."""
    return [
        Part(
            f"at {delay} ms {length.text(1)} packets",
            below(length, SHORT_QUEUE_PACKETS),
        )
        for delay in DELAYS
        for length in [material.cell("codel", delay).mean("queue_packets")]
    ]


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
        delay: ratios(
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


def lifo_drops_less(material: Material) -> list[Part]:
    """Claim 10."""
    return [_less(material, "drops", delay, 0, "drops") for delay in DELAYS]


def lifo_waits_less(material: Material) -> list[Part]:
    """Claim 11."""
    return [
        _less(material, value, delay, 1, unit)
        for value, unit in (("queue_packets", "packets"), ("sojourn_ms", "ms of sojourn"))
        for delay in DELAYS
    ]


def lifo_round_trips(material: Material) -> list[Part]:
    """Claim 12."""
    parts = []
    for delay in DELAYS:
        for path in PATHS:
            off = percent_off(
                material.cell("lifo_codel", delay),
                material.cell("codel", delay),
                f"rtt_{path}_ms",
            )
            parts.append(
                Part(
                    f"at {delay} ms over {path.upper()} {off.text(0, signed=True)} %",
                    within(off, 100 * PARITY),
                )
            )
    return parts


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


def lifo_windows(material: Material) -> list[Part]:
    """Claim 14."""
    share = material.cell("lifo_codel", 100).mean("cwnd_share_a")
    return [
        Part(
            f"A's part of both windows is {share.text()}",
            above(share, 1 / (2 + PARITY)),
        )
    ]


def fq_like_codel(material: Material) -> list[Part]:
    """Claim 15."""
    parts = []
    for delay in DELAYS:
        off = percent_off(
            material.cell("fq_codel", delay), material.cell("codel", delay), "goodput_share"
        )
        parts.append(Part(f"at {delay} ms {off.text(1, signed=True)} %", within(off, 3.0)))
    return parts


def codel_shrinks(material: Material) -> list[Part]:
    """Claim 16."""
    return [
        _change(material, "codel", f"cwnd_{path}_packets", 10, f"{path.upper()}'s window", sign=-1)
        for path in PATHS
    ]


def drop_tail_shifts(material: Material) -> list[Part]:
    """Claim 17."""
    return [
        _change(material, "drop_tail", "cwnd_share_a", 100, "A's part of both windows", sign=-1),
        _change(material, "drop_tail", "cwnd_b_packets", 100, "B's window", sign=1),
    ]


def delay_raises_both(material: Material) -> list[Part]:
    """Claim 18."""
    return [
        _change(
            material, queue, f"rtt_{path}_ms", 100, f"{QUEUE_NAMES[queue]}, {path.upper()}", sign=1
        )
        for queue in ("codel", "drop_tail")
        for path in PATHS
    ]


def compensator_with_lifo(material: Material) -> list[Part]:
    """Claim 19."""
    parts = []
    for delay in DELAYS:
        off = percent_off(
            material.cell("lifo_codel", delay, "rtt_compensator"),
            material.cell("lifo_codel", delay),
            "goodput_share",
        )
        parts.append(Part(f"at {delay} ms {off.text(1, signed=True)} %", within(off, 5.0)))
    return parts


def _claim(number: int, text: str, parts: Callable[[Material], list[Part]]) -> Claim[Material]:
    return Claim(str(number), text, parts, Material.replications)


CLAIMS: list[Claim[Material]] = [
    _claim(
        1,
        "At 100 ms, DropTail's round-trip time is almost 9 times CoDel's.",
        nine_times,
    ),
    _claim(2, "DropTail uses all of the 75 % of C that UDP leaves.", drop_tail_fills),
    _claim(3, "With CoDel the transfer gets a little over 50 % of C.", codel_gets_half),
    _claim(
        4, "CoDel's mean queue stays below 20 % of the buffer of 50 packets.", codel_keeps_short
    ),
    _claim(5, "The windows are about 5 packets with CoDel and LIFO-CoDel.", windows_of_five),
    _claim(
        6,
        "The round-trip time with CoDel is 85 and 67 ms at 1 ms, and 276 and 70 ms at 100 ms.",
        round_trips("codel"),
    ),
    _claim(
        7,
        "The round-trip time with DropTail is 691 and 478 ms at 100 ms.",
        round_trips("drop_tail"),
    ),
    _claim(
        8,
        "RTT_Compensator and Uncoupled differ from LIA by about 5 % and 8 %.",
        couplings_alike,
    ),
    _claim(
        9,
        "LIFO-CoDel has about 40 % more goodput than CoDel at 1 ms, falling with the delay to"
        " slightly more at 100 ms.",
        lifo_gains,
    ),
    _claim(10, "LIFO-CoDel drops fewer packets than CoDel.", lifo_drops_less),
    _claim(11, "LIFO-CoDel has a shorter queue and sojourn than CoDel.", lifo_waits_less),
    _claim(12, "LIFO-CoDel's round-trip times are on a par with CoDel's.", lifo_round_trips),
    _claim(
        13,
        "With LIFO-CoDel, Uncoupled is up to 50 % above LIA in queue and sojourn.",
        uncoupled_waits,
    ),
    _claim(
        14,
        "At 100 ms with LIFO-CoDel the windows do not favour the path with the lower round-trip"
        " time.",
        lifo_windows,
    ),
    _claim(15, "FQ-CoDel's goodput is within 2-3 % of CoDel's.", fq_like_codel),
    _claim(16, "At 10 ms CoDel shrinks both windows (read: against 1 ms).", codel_shrinks),
    _claim(17, "With DropTail the windows shift from A to B as A's delay grows.", drop_tail_shifts),
    _claim(18, "Delay on A raises the round-trip time of both paths.", delay_raises_both),
    _claim(
        19,
        "RTT_Compensator with LIFO-CoDel is within 2-5 % of LIA with it.",
        compensator_with_lifo,
    ),
]


def _published(queue: str, delay_ms: int, quantity: str) -> float:
    return next(
        number.value
        for number in numbers()
        if (number.queue, number.delay_ms, number.quantity) == (queue, delay_ms, quantity)
    )


def _near(value: Interval, target: float, tolerance: float) -> bool | None:
    return _between(value, target - tolerance, target + tolerance)


def _between(value: Interval, low: float, high: float) -> bool | None:
    return within(_shift(value, -(low + high) / 2), (high - low) / 2)


def _shift(value: Interval, by: float) -> Interval:
    return Interval(value.mean + by, value.half_width, value.n)


def _absolute(value: Interval) -> Interval:
    return Interval(abs(value.mean), value.half_width, value.n)


def _share(share: Interval) -> str:
    return f"{Interval(100 * share.mean, 100 * share.half_width, share.n).text(0)} %"


def _less(material: Material, value: str, delay: int, digits: int, unit: str) -> Part:
    lifo, codel = (material.cell(queue, delay) for queue in ("lifo_codel", "codel"))
    return Part(
        f"at {delay} ms {lifo.mean(value).text(digits)} against"
        f" {codel.mean(value).text(digits)} {unit}",
        above(codel.minus(lifo, value)),
    )


def _change(
    material: Material, queue: str, value: str, to_ms: int, name: str, *, sign: int
) -> Part:
    """From 1 ms to another delay the value grows, or falls where the sign is negative."""
    from_ms = DELAYS[0]
    before, after = (material.cell(queue, delay) for delay in (from_ms, to_ms))
    digits = 0 if value.endswith("_ms") else 2
    change = after.minus(before, value) if sign > 0 else before.minus(after, value)
    return Part(
        f"{name}: {before.mean(value).text(digits)} at {from_ms} ms,"
        f" {after.mean(value).text(digits)} at {to_ms} ms",
        above(change),
    )
