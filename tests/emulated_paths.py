"""Profiles of emulated paths whose truth is known, and advice from them compared with the truth's.

python tests/emulated_paths.py FILE

The kernel's TCP, echo requests and tcpdump over the link of `emulated_link.py`: what real captures
have and simulated ones lack. Writes the record docs/validation/profile-emulated.md; exit status 1
where it is worse than promised. About ten minutes of real time, root only: where namespaces
cannot be had it says so in a line and leaves the record alone. The times are those of a real
machine, so the numbers are not the same each time.
"""

import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import captures
import emulated_link
import profile_paths
from anabranch.advise import search
from anabranch.advise.goals import GOALS
from anabranch.profile import Estimate, Profile, estimate, measure
from emulated_link import Bridge, Link
from profile_paths import IN_TURN, OWN, Comparison, TruePath

LINKS = {
    "wifi": Link(20e6, 0.008, 0.003, 120, mean_loss=0.0164, in_bad=0.8, mean_bad=0.016),
    "lte": Link(6e6, 0.030, 0.008, 200, mean_loss=0.002, in_bad=0.8, mean_bad=0.016),
}
"""The paths of `profile_paths.OWN`."""

RUNS = 3
TRANSFER_S = 40.0
PINGS = 9000
INTERVAL_S = 0.01

LATE_S = 0.002
"""A run counts if 99 of 100 packets are less late than this."""

EFFORT = search.Effort(screened=12, first=2, last=32)
"""With 8 replications, one advice in six leaves out `sack_frequency = 1`, which is worth 60 ms."""

WAYS = ("capture at the sender", "captures at both ends", "pings")


@dataclass(frozen=True)
class Seen:
    """One run over one path."""

    path: TruePath
    profiles: dict[str, Profile]
    """By how it was measured."""
    realised: float
    """Share of the packets that the emulator's chain lost, of all that were offered."""
    late_s: float

    def covers(self, way: str) -> bool:
        """Whether the interval of the mean loss has the truth in it."""
        return _covers(self.profiles[way].mean_loss, self.path.mean_loss)


def _covers(known: Estimate | None, truth: float) -> bool:
    assert known is not None
    low, high = known.interval
    return low <= truth <= high


def measured(path: TruePath, seed: int, folder: Path) -> Seen:
    """Sends over the path and looks at it in every way."""
    bridge = Bridge(f"{path.name}-{seed}", LINKS[path.name], seed)
    folder.mkdir()
    with bridge.running():
        both = bridge.transfer(TRANSFER_S, folder)
        times = bridge.ping(PINGS, INTERVAL_S)
    pings = captures.ping_text(folder / "pings.txt", times, INTERVAL_S)
    profiles = {
        "capture at the sender": estimate(measure([both[0]])),
        "captures at both ends": estimate(measure(list(both))),
        "pings": estimate(measure([pings])),
    }
    offered = bridge.forward
    return Seen(path, profiles, offered.lost / offered.offered, bridge.late())


def advice(goal: str, folder: Path, of_first: dict[str, dict[str, Profile]]) -> Comparison:
    """Advice from the first run's profiles compared with the truth's, by path and direction."""
    ways = {
        way: partial(_known, found={name: ways[way] for name, ways in of_first.items()})
        for way in WAYS
    }
    (folder / goal).mkdir()
    return profile_paths.compare(goal, OWN, 1, folder / goal, effort=EFFORT, ways=ways)


def _known(path: TruePath, _seed: int, _folder: Path, *, found: dict[str, Profile]) -> Profile:
    return found[path.name]


def report(seen: list[Seen], advised: list[Comparison]) -> tuple[str, bool]:
    """The record, and whether all is as promised."""
    fine = [one for one in seen if one.late_s < LATE_S]
    least = profile_paths.least(len(fine))
    covered = {way: sum(one.covers(way) for one in fine) for way in WAYS}
    judged = [one for each in advised for one in each.judged.values()]
    fair = sum(one.is_fair for one in judged)
    promised = len(judged) * profile_paths.PROMISED // profile_paths.CASES
    counts = "; ".join(f"{way}: {count} of {len(fine)}" for way, count in covered.items())
    text = (
        f"**The interval of the mean loss covers the truth**: {counts}; were the intervals exact, "
        f"fewer than {least} would come once in 200 times. Advice is as good as the truth's, or is "
        f"said to be unsure, in {fair} of {len(judged)} cases (promised: {promised})."
    )
    parts = [_HEAD, text, _runs(seen), _advised(advised)]
    is_good = bool(fine) and min(covered.values()) >= least and fair >= promised
    return "\n\n".join(parts) + "\n", is_good


_HEAD = f"""\
# Profiles of emulated paths

Written by `make validate` (`python tests/emulated_paths.py docs/validation/profile-emulated.md`).
Two paths between network namespaces, of which the truth is known: a link emulator in user space
(`tests/emulated_link.py`), the kernel's TCP with the congestion control of the machine, tcpdump,
and echo requests. Each run is a transfer of {TRANSFER_S:.0f} s and {PINGS} echo requests every
{INTERVAL_S * 1e3:.0f} ms. A run in which one packet in a hundred comes out of the emulator
{LATE_S * 1e3:.0f} ms late or more does not count. The advice has {EFFORT.screened} candidates in
its first round and {EFFORT.last} replications in its last."""


def _runs(seen: list[Seen]) -> str:
    rows = []
    for one in seen:
        link = LINKS[one.path.name]
        row = [one.path.name, f"{100 * one.path.mean_loss:.2g}", f"{100 * one.realised:.2g}"]
        for way in WAYS:
            known = one.profiles[way].mean_loss
            assert known is not None
            row.append(
                profile_paths._interval(known.value, known.interval, 100)
                + ("" if one.covers(way) else " **no**")
            )
        for way in WAYS[:2]:
            found = one.profiles[way]
            rate = None if found.rate_is_bound else found.rate_bit_per_s
            row.append("–" if rate is None else f"{rate.value / link.rate - 1:+.1%}")
        row.append(f"{one.late_s * 1e3:.2f}" + ("" if one.late_s < LATE_S else " **too late**"))
        rows.append(row)
    heads = ["path", "mean loss, %", "lost in this run, %"]
    heads += [f"{way}, %" for way in WAYS]
    heads += ["rate, sender", "rate, both", "late, ms"]
    return "\n\n".join(
        [
            "## Runs",
            "Mean loss over time with its 95 % interval, and how far the rate is from the truth's. "
            "What was lost in a run is of the packets that were offered: TCP offers fewer in bad "
            "times.",
            profile_paths._table(heads, rows),
        ]
    )


def _advised(advised: list[Comparison]) -> str:
    rows = [
        [
            GOALS[each.goal].what,
            f"`{each.true}`",
            *(profile_paths._words(each, way) for way in WAYS),
        ]
        for each in advised
    ]
    heads = ["goal", "from the truth", *(f"from {way}" for way in WAYS)]
    return "\n\n".join(
        ["## Advice from the first run of each path", profile_paths._table(heads, rows)]
    )


def main() -> int:
    """Writes the record."""
    target = Path(sys.argv[1])
    lacks = emulated_link.missing()
    if lacks:
        print(f"left out: emulated paths, since {lacks}")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seen = []
        for run in range(RUNS):
            # Both paths at a time: their processes need a fraction of a core each.
            with ThreadPoolExecutor(len(OWN)) as pool:
                jobs = [
                    pool.submit(measured, path, 10 * run + i, folder / f"{path.name}-{run}")
                    for i, path in enumerate(OWN)
                ]
                seen += [job.result() for job in jobs]
            print(f"run {run + 1} of {RUNS} over each path")
        of_first = {one.path.name: one.profiles for one in seen[: len(OWN)]}
        with ProcessPoolExecutor(2, get_context("spawn")) as processes:
            work = partial(advice, folder=folder, of_first=of_first)
            advised = list(processes.map(work, IN_TURN))
        text, is_good = report(seen, advised)
    target.write_text(text, encoding="utf-8")
    print(f"wrote {target}")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
