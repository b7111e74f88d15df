"""The paper's claims, each a predicate on intervals (see `papers.verdicts`).

The paper describes one run of each experiment. What it saw holds here when most runs show it: when
the interval of their share is above one half. Numbers like "about" are constants here, chosen
before any run.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from anabranch.papers.intervals import Interval, difference, interval
from anabranch.papers.verdicts import SHARE_TOLERANCE, Claim, Part, above, below, verdict

from .factors import EXPERIMENTS, REVERTED_S
from .published import Phase, of_experiment
from .samples import Runs
from .traced import Handover, Traced

PROFILE = "as inferred"
"""There is one reading of the paper."""
MOST = 0.5
"""Share of runs from which on most show something."""
FALLS_PERCENT = 40.0
"""Plain SCTP's throughput falls clearly when it falls by more than this."""
ABOUT_S = 5.0
"""Two times that far apart are about the same."""
ALIKE_MBPS = 0.3
"""Two senders are alike when they differ by less than this."""
FAILOVER_S = 63.0
"""1 + 2 + 4 + 8 + 16 + 32 s: Path.Max.Retrans 5, RTO from 1 s to 60 s."""


@dataclass(frozen=True)
class Material:
    """What the claims are judged on."""

    runs: dict[int, Runs]
    """The two senders in each experiment, as `samples.tidy` gives them."""
    traced: dict[int, list[Traced]]
    """Runs of the proposed sender in each experiment."""
    failover_s: dict[int, float]
    """By replication, how long plain SCTP took to declare path 1 inactive after it had died."""

    def value(self, experiment: int, sender: str, name: str) -> dict[int, float]:
        """One value of a sender, by replication."""
        return self.runs[experiment].where(policy=sender).per_replication(name)

    def replications(self) -> int:
        """Of the senders of the tables."""
        return min(
            len(self.value(experiment, "proposed", "goodput_mbps")) for experiment in EXPERIMENTS
        )

    def traced_replications(self) -> int:
        """Of the runs with traces."""
        return min(map(len, self.traced.values()))


def plain_stays(material: Material) -> list[Part]:
    """Claim 1."""
    values = [
        interval(material.value(experiment, "plain", name).values())
        for experiment in EXPERIMENTS
        for name in ("switches", "failures")
    ]
    before, after = (material.value(1, "plain", f"mbps_{phase}") for phase in (1, 2))
    fall = interval([100 * (1 - after[key] / before[key]) for key in before])
    return [
        Part(
            "plain SCTP changes its primary path"
            f" {values[0].mean:g} times in experiment 1 and {values[2].mean:g} times in"
            f" experiment 2, and declares {values[1].mean + values[3].mean:g} paths inactive",
            all(value.mean == 0 for value in values),
        ),
        Part(
            f"in experiment 1 its throughput falls by {fall.text(0)} % from the first 100 s to the"
            " next, while path 2 has 6 Mbit/s",
            above(fall, FALLS_PERCENT),
        ),
    ]


def failover_takes_a_minute(material: Material) -> list[Part]:
    """Claim 2."""
    times = interval(material.failover_s.values())
    return [
        _number(f"path 1 is declared inactive {times.text(1)} s after it died", FAILOVER_S, times)
    ]


def first_checkpoint_stays(material: Material) -> list[Part]:
    """Claim 3."""
    runs = material.traced[1]
    first = [run.checkpoints[0] for run in runs if run.checkpoints]
    times = interval([checkpoint.time_s for checkpoint in first])
    off = Interval(abs(times.mean - 10.0), times.half_width, times.n)
    lossy = interval([float(checkpoint.lost > 0) for checkpoint in first])
    stayed = interval([float(not run.within(0, 100)) for run in runs])
    return [
        Part(
            f"the first checkpoint begins after {times.text(1)} s ({len(first)} of {len(runs)} runs"
            " have one)",
            below(off, ABOUT_S),
        ),
        Part(f"its data meets a loss in {_percent(lossy)} of the runs", above(lossy, MOST)),
        Part(
            f"the sender stays on path 1 for the first 100 s in {_percent(stayed)} of the runs",
            above(stayed, MOST),
        ),
    ]


def hands_over_with_the_load(material: Material) -> list[Part]:
    """Claim 4."""
    runs = material.traced[1]
    return [
        _share(
            runs,
            lambda run: _is_at(run.within(90, 200), 100.0, to=1),
            "the first handover after 90 s is to path 2 and within 5 s of 100 s",
        ),
        _share(
            runs,
            lambda run: _is_at(run.within(190, 300), 200.0, to=0),
            "the first one after 190 s is to path 1 and within 5 s of 200 s",
        ),
        _share(
            runs,
            lambda run: len(run.handovers) == 2,
            "there are two handovers in all",
        ),
    ]


def measures_what_is_there(material: Material) -> list[Part]:
    """Claim 5."""
    parts = []
    for from_s, to, new, old in ((95.0, 1, 6.0, 3.6), (195.0, 0, 3.0, 2.6)):
        handovers = [
            handover
            for run in material.traced[1]
            for handover in run.within(from_s, from_s + 100)[:1]
            if handover.to == to
        ]
        for name, paper, values in (
            ("new", new, [handover.new_mbps for handover in handovers]),
            ("old", old, [handover.old_mbps for handover in handovers]),
        ):
            ours = interval(values)
            parts.append(
                _number(
                    f"at {from_s + 5:g} s the {name} path has a measured T of {ours.text(1)} Mbit/s"
                    f" (paper: {paper:g})",
                    paper,
                    ours,
                )
            )
    return parts


def gains_under_constant_load(material: Material) -> list[Part]:
    """Claim 6."""
    return [
        _gain(material, phase, gains=phase.number == 2)
        for phase in sorted(of_experiment(1), key=lambda phase: phase.number != 2)
    ]


def gains_beside_tcp(material: Material) -> list[Part]:
    """Claim 7."""
    return [_gain(material, phase, gains=True) for phase in of_experiment(2)[1::2]]


def follows_tcp(material: Material) -> list[Part]:
    """Claim 8."""
    runs = material.traced[2]
    return [
        _share(
            runs,
            lambda run: _is_at(run.within(45, 100), 50.0, to=1),
            "the first handover after 45 s is to path 2 and within 5 s of 50 s",
        ),
        _share(
            runs,
            lambda run: _is_at(run.within(100, 150), 106.0, to=0),
            "the first one after 100 s is to path 1 and within 5 s of 106 s",
        ),
    ]


def timeouts_mislead(material: Material) -> list[Part]:
    """Claim 9."""
    runs = material.traced[2]
    spurious = interval([float(len(run.reverted())) for run in runs])
    after_timeout = interval(
        [float(run.follows_timeout(handover)) for run in runs for handover in run.reverted()]
    )
    waits = [
        after.time_s - before.time_s
        for run in runs
        for before, after in pairwise(run.handovers)
        if after.time_s - before.time_s <= REVERTED_S + ABOUT_S and run.follows_timeout(before)
    ]
    periodic = interval([float(abs(wait - 10.0) < 1.0) for wait in waits])
    return [
        _share(
            runs,
            lambda run: any(run.follows_timeout(handover) for handover in run.handovers),
            "a handover follows a retransmission timeout within 10 s",
        ),
        Part(
            f"a run has {spurious.text(1)} handovers that are undone within {REVERTED_S:g} s, of"
            f" which {_percent(after_timeout)} follow a timeout",
            above(spurious),
        ),
        Part(
            f"of the handovers after a timeout that are undone within {REVERTED_S + ABOUT_S:g} s,"
            f" {_percent(periodic)} are undone by the periodic checkpoint 10 s later",
            above(periodic, MOST),
        ),
    ]


def _traced(material: Material) -> int:
    return material.traced_replications()


CLAIMS: list[Claim[Material]] = [
    Claim(
        "1",
        "Plain SCTP stays on its first primary path while that still delivers anything, whatever"
        " another path has.",
        plain_stays,
        Material.replications,
    ),
    Claim(
        "2",
        "With the standard's values a path that has died is left only after 63 s.",
        failover_takes_a_minute,
        lambda material: len(material.failover_s),
    ),
    Claim(
        "3",
        "Experiment 1: the first checkpoint, after about 10 s, meets a loss on the alternate path,"
        " and the sender stays.",
        first_checkpoint_stays,
        _traced,
    ),
    Claim(
        "4",
        "Experiment 1: the sender hands over to path 2 at 100 s, when path 1 gets more load, and"
        " back at 200 s, when path 2 does.",
        hands_over_with_the_load,
        _traced,
    ),
    Claim(
        "5",
        "Experiment 1: at 100 s T is about 6 Mbit/s on path 2 against 3.6 on path 1; at 200 s it is"
        " 3 on path 1 against 2.6 on path 2.",
        measures_what_is_there,
        _traced,
    ),
    Claim(
        "6",
        "Experiment 1: the proposal brings 2 Mbit/s more from 100 s to 200 s and costs nothing"
        " before and after.",
        gains_under_constant_load,
        Material.replications,
    ),
    Claim(
        "7",
        "Experiment 2: the proposal has more than plain SCTP's share from 50 s to 100 s and from"
        " 150 s to 200 s.",
        gains_beside_tcp,
        Material.replications,
    ),
    Claim(
        "8",
        "Experiment 2: the sender hands over to path 2 at 50 s and back at 106 s.",
        follows_tcp,
        _traced,
    ),
    Claim(
        "9",
        "Experiment 2: a retransmission timeout pushes T below 2 Mbit/s and causes a handover that"
        " the periodic checkpoint undoes 10 s later.",
        timeouts_mislead,
        _traced,
    ),
]


def gain(material: Material, phase: Phase) -> Interval:
    """The proposed sender's throughput above the plain one's, in Mbit/s."""
    proposed, plain = (
        material.value(phase.experiment, sender, f"mbps_{phase.number}")
        for sender in ("proposed", "plain")
    )
    return difference(proposed, plain)


def _gain(material: Material, phase: Phase, *, gains: bool) -> Part:
    difference = gain(material, phase)
    paper = phase.proposed_mbps - phase.plain_mbps
    text = f"{phase.key}: {difference.text(1, signed=True)} Mbit/s (paper: {paper:+.1f})"
    return Part(text, above(difference) if gains else above(difference, -ALIKE_MBPS))


def _share(runs: Iterable[Traced], holds: Callable[[Traced], bool], text: str) -> Part:
    share = interval([float(holds(run)) for run in runs])
    return Part(f"{text} in {_percent(share)} of the runs", above(share, MOST))


def _number(text: str, paper: float, ours: Interval) -> Part:
    return Part.number(text, verdict(paper, ours.mean, ours.half_width, SHARE_TOLERANCE * paper))


def _is_at(handovers: list[Handover], time_s: float, to: int) -> bool:
    return (
        bool(handovers) and handovers[0].to == to and abs(handovers[0].time_s - time_s) <= ABOUT_S
    )


def _percent(share: Interval) -> str:
    return f"{100 * share.mean:.0f} %" if share.n else "none"
