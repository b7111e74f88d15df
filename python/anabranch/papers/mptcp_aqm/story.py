"""The finding in words, made from the numbers.

The same sentences on the terminal, on the page and in the record.
"""

from dataclasses import dataclass

from anabranch.papers.intervals import Interval
from anabranch.papers.verdicts import by_claim

from .claims import Material, ratio
from .factors import DELAYS, PATHS
from .outcome import Outcome, best_fit
from .published import numbers
from .samples import Runs
from .studies import networks, profile, profiles, queues, receivers

TITLES = {one.name: one.title for one in profiles()}
REAL = ("rfc", "rfc-olia", "rfc-balia", "rfc-uncoupled", "linux")
"""Transports that are not the cited model: what a router meets."""
RECEIVERS = tuple(one.name for one in receivers())
TIED = 0.05
"""Queues whose goodput is within this share of the best one's are as good."""
CALL_MS = 150.0
"""One way, more disturbs a call (ITU-T G.114)."""


@dataclass(frozen=True)
class Choice:
    """A queue of C with the transports that a router meets, mean over them and the delays."""

    name: str
    title: str
    goodput_share: Interval
    p95_ms: Interval
    longest_ms: Interval
    udp_loss_percent: Interval
    """Of the neighbour, which stays within a quarter of C."""


def headline(outcome: Outcome) -> str:
    """One sentence on what LIFO-CoDel brings, and what for."""
    sound, defect = (
        [lifo_gain(outcome.grids[profile(network.name, name).name]).mean for network in networks()]
        for name in RECEIVERS
    )
    material = Material(outcome.base)
    longest, codel = (
        material.cell(queue, DELAYS[0]).mean("max_ms").mean / 1e3
        for queue in ("lifo_codel", "codel")
    )
    return (
        f"LIFO-CoDel's goodput at 1 ms is {min(sound):.2f} to {max(sound):.2f} times CoDel's with a"
        f" sound receiver and {min(defect):.2f} to {max(defect):.2f} times with the defect of the"
        " model that the paper cites (paper: about 1.4); a packet waits up to"
        f" {longest:.1f} s on its stack instead of {codel:.1f} s in CoDel's queue."
    )


def lifo_gain(runs: Runs, delay_ms: int = DELAYS[0]) -> Interval:
    """LIFO-CoDel's goodput as a multiple of CoDel's."""
    material = Material(runs)
    lifo, codel = (material.cell(queue, delay_ms) for queue in ("lifo_codel", "codel"))
    return ratio(lifo, codel, "goodput_share")


def sentences(outcome: Outcome) -> list[str]:
    """Verdicts, causes, the rate of C, the paper's contradictions, and what a router should run."""
    return [
        _verdicts(outcome),
        _counts(outcome),
        _defect(outcome),
        *_causes(outcome),
        _fit(outcome),
        _nine(outcome),
        recommendation(outcome),
    ]


def choices(outcome: Outcome) -> list[Choice]:
    """Every queue as a router meets it, the best goodput first."""
    runs = outcome.beyond.where(transport=REAL)
    found = []
    for queue in queues():
        own = runs.where(queue=queue.name)
        means = (
            own.mean(value) for value in ("goodput_share", "p95_ms", "max_ms", "udp_loss_percent")
        )
        found.append(Choice(queue.name, queue.title, *means))
    return sorted(found, key=lambda one: -one.goodput_share.mean)


def recommended(outcome: Outcome) -> Choice:
    """The queue that harms the neighbour least.

    Of those with as good a goodput as the best one's and delays that a call bears; where none bears
    a call, of those with as good a goodput.
    """
    found = choices(outcome)
    least = (1 - TIED) * found[0].goodput_share.mean
    tied = [one for one in found if one.goodput_share.mean >= least]
    short = [one for one in tied if one.p95_ms.mean < CALL_MS]
    return min(
        short or tied, key=lambda one: (round(one.udp_loss_percent.mean, 1), one.p95_ms.mean)
    )


def recommendation(outcome: Outcome) -> str:
    """What the router should run."""
    by_name = {one.name: one for one in choices(outcome)}
    best = recommended(outcome)
    others = "; ".join(
        f"{by_name[name].title} {_percent(by_name[name].goodput_share)},"
        f" {by_name[name].p95_ms.mean:.0f} ms, longest {by_name[name].longest_ms.mean / 1e3:.1f} s,"
        f" {by_name[name].udp_loss_percent.mean:.1f} % of UDP"
        for name in ("drop_tail", "codel", "fq_codel", "lifo_codel")
        if name != best.name
    )
    return (
        f"What should the router run? {best.title}: beside RFC 8684 and Linux the transfer gets"
        f" {_percent(best.goodput_share)} of C, within 5 % of the best queue, 95 % of its packets"
        f" wait less than {best.p95_ms.mean:.0f} ms (longest {best.longest_ms.mean / 1e3:.1f} s),"
        " and the neighbour within its share loses"
        f" {best.udp_loss_percent.mean:.1f} % of its datagrams. Others: {others}."
    )


def speed(outcome: Outcome) -> str:
    """How fast it was computed."""
    found = outcome.speed
    return (
        f"One core computes a transfer of 4 MB in {found.ms_per_transfer:.1f} ms,"
        f" {found.packets_per_s:,.0f} packets through C per second."
    )


def _verdicts(outcome: Outcome) -> str:
    groups: dict[str, list[str]] = {"all": [], "some": [], "partly": [], "open": [], "none": []}
    for number, by_profile in by_claim(outcome.claims).items():
        verdicts = [found.verdict for found in by_profile.values()]
        count = verdicts.count("reproduced")
        if count == len(verdicts):
            groups["all"].append(number)
        elif count:
            groups["some"].append(f"{number} ({count})")
        else:
            best = next(one for one in ("partly", "open", "none") if one in (*verdicts, "none"))
            groups[best].append(number)
    parts = [
        f"{words}: {', '.join(groups[key])}"
        for key, words in (
            ("all", "reproduced under each"),
            ("some", "only under some (how many)"),
            ("partly", "partly at best"),
            ("open", "open at best"),
            ("none", "not at all"),
        )
        if groups[key]
    ]
    return f"Claims over {len(TITLES)} profiles: {'; '.join(parts)}."


def _counts(outcome: Outcome) -> str:
    counts = {
        name: sum(
            found.verdict == "reproduced" for found in outcome.claims if found.profile == name
        )
        for name in TITLES
    }
    listed = ", ".join(f"{TITLES[name]}: {count}" for name, count in counts.items())
    return f"Of {len(by_claim(outcome.claims))} claims are reproduced under {listed}."


def _defect(outcome: Outcome) -> str:
    """What the receiver's defect does in each network."""
    parts = []
    for network in networks():
        grids = [outcome.grids[profile(network.name, name).name] for name in RECEIVERS]
        shares = [
            Material(runs).cell("codel", DELAYS[0]).mean("goodput_share").text() for runs in grids
        ]
        gains = [lifo_gain(runs).text() for runs in grids]
        last = lifo_gain(grids[1], DELAYS[-1]).text()
        parts.append(
            f"{network.title}: CoDel gets {shares[1]} of C at 1 ms instead of {shares[0]}, and"
            f" LIFO-CoDel {gains[1]} times that instead of {gains[0]} ({last} at 100 ms)"
        )
    return f"What the receiver's defect does: {'; '.join(parts)}."


def _causes(outcome: Outcome) -> list[str]:
    """Claims whose verdict changes with one thing of the base."""
    base = {
        finding.id: finding.verdict
        for finding in outcome.claims
        if finding.profile == outcome.base.profile
    }
    found = []
    for title, findings in outcome.attribution.items():
        gained = [
            one.id
            for one in findings
            if one.verdict == "reproduced" and base[one.id] != "reproduced"
        ]
        lost = [
            one.id
            for one in findings
            if one.verdict != "reproduced" and base[one.id] == "reproduced"
        ]
        if gained or lost:
            parts = []
            if gained:
                parts.append(f"claims {', '.join(gained)} become reproduced")
            if lost:
                parts.append(f"claims {', '.join(lost)} are so no more")
            found.append(f"With one thing of the base changed, {title}: {' and '.join(parts)}.")
    return found


def _fit(outcome: Outcome) -> str:
    parts = []
    for name, runs in outcome.fits.items():
        rate, misfit = best_fit(runs)
        parts.append(f"{TITLES[name]}: {rate:g} Mbit/s ({misfit.text(0)} % RMS)")
    return f"The rate of C at which the six published RTTs fit best: {'; '.join(parts)}."


def _nine(outcome: Outcome) -> str:
    material = Material(outcome.base)
    ours = [
        ratio(material.cell("drop_tail", 100), material.cell("codel", 100), f"rtt_{path}_ms")
        for path in PATHS
    ]
    by_key = {(one.queue, one.delay_ms, one.quantity): one.value for one in numbers()}
    paper = [
        by_key["drop_tail", 100, f"rtt_{path}_ms"] / by_key["codel", 100, f"rtt_{path}_ms"]
        for path in PATHS
    ]
    return (
        "The paper calls DropTail's RTT at 100 ms almost 9 times CoDel's; its own numbers give"
        f" {paper[0]:.1f} (691/276 ms on A) and {paper[1]:.1f} (478/70 ms on B), ours"
        f" {ours[0].text(1)} and {ours[1].text(1)}."
    )


def _percent(found: Interval) -> str:
    return f"{100 * found.mean:.0f} %"
