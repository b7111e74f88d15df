"""The paper's experiments, ablations of them, and the arenas of the tournament.

A scenario is `network.toml` and an experiment's own file, or one of the call scenarios that
Anabranch has; every one is swept over policies, which `policies.toml` lists.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from anabranch._engine import Scenario
from anabranch.papers.studies import Key, Sets, Work, as_sets, efforts, file_text
from anabranch.studies import library
from anabranch.support.toml_text import inline

from .factors import EXPERIMENT_NAMES, EXPERIMENTS, SENDERS
from .published import of_experiment

_text = partial(file_text, __package__)

ENDPOINT_COLUMNS = (
    "primary_changes",
    "switches_reverted",
    "checkpoints",
    "probe_bytes",
    "timeouts",
    "heartbeats_sent",
    "path_failures",
)
"""Scalars of the sending endpoint."""
CALL_COLUMNS = ("mos", "loss_percent", "longest_gap_ms")
TRANSFER_COLUMNS = ("goodput_kbit_per_s", "stalled_s")
PHASE_COLUMNS = ("goodput_kbit_per_s", "sctp.a.primary_changes", "sctp.a.timeouts")

DEATH_S = 50.0
"""When path 1 dies in the study of plain failover."""
DEATH: Sets = (
    ("links.path1.up", f'{{ timetable = [["0 s", true], ["{DEATH_S:g} s", false]] }}'),
    ("links.path1.down", "drop"),
    ("run.duration", "150 s"),
    ("run.phases", "[]"),
)

VOIP_PATHS: dict[str, tuple[str, dict[str, Any]]] = {
    "voip-alike": ("the voip-sctp study's paths: 2 % loss on both", {}),
    "voip-unlike": (
        "the voip-sctp study's paths: 10 % and 0.5 % loss",
        {
            "links.p0-last.loss.mean_loss": "10 %",
            "links.p0-last.loss.loss_in_bad": 0.85,
            "links.p0-last.loss.mean_bad": "133.3 ms",
            "links.p1-last.loss.mean_loss": "0.5 %",
            "links.p1-last.loss.mean_bad": "40 ms",
        },
    ),
}
"""Title and settings on top of that study's scenario."""
SLOT_CLOCK = {f"links.p{path}-last.loss.clock": "slot" for path in (0, 1)}
"""Losses drawn every 5 ms, as that study's paper says it: a channel that does not wait for
packets."""

MOBILITY = (
    "wifi-to-lte",
    "mobility-fade",
    "mobility-outage",
    "mobility-return",
    "mobility-make-before-break",
    "mobility-break-before-make",
)
"""Scenarios that come with the package, each a call."""


@dataclass(frozen=True)
class Effort:
    """Replications of each kind of cell."""

    tables: int
    """The paper's two senders."""
    others: int
    """Every other policy in the experiments."""
    calls: int
    """Every policy in the arenas that are calls."""
    ablations: int
    traced: int
    """Traced runs of the proposed sender in each experiment."""


EFFORTS = efforts(__package__, Effort)
"""The effort of each mode."""


@dataclass(frozen=True)
class Policy:
    """A path policy with its settings, which are below the flow's transport."""

    name: str
    title: str
    transfer: dict[str, Any]
    call: dict[str, Any]


@dataclass(frozen=True)
class Variant:
    """One thing changed in the experiments."""

    title: str
    experiment: int | None
    """The only one that has what it changes; none: both have."""
    sets: dict[str, dict[str, Any]]
    """The settings by sender; a sender without any is not run."""


@dataclass(frozen=True)
class Arena:
    """A place where policies are compared: one flow of a scenario."""

    name: str
    title: str
    text: str
    """The scenario, without a sweep."""
    flow: str
    is_call: bool
    sets: Sets = ()
    experiment: int | None = None
    """The number of the paper's experiment that it is; None where it is none."""

    @property
    def short(self) -> str:
        """A title for the head of a column."""
        if self.experiment is not None:
            return f"experiment {self.experiment}"
        return self.name.removeprefix("mobility-").removeprefix("voip-").replace("-", " ")

    @property
    def phases(self) -> int:
        """Phases that are reported one by one."""
        return 0 if self.experiment is None else len(of_experiment(self.experiment))

    @property
    def prefix(self) -> str:
        """The dotted path below which the flow's policies are set."""
        return f"flows.{self.flow}.transport"

    @property
    def application(self) -> str:
        """What the names of its application's scalars begin with.

        Of a call in both directions the one whose sender is the flow's first end: a phone that
        moves.
        """
        app = tomllib.loads(self.text)["flows"][self.flow]["app"]
        return f"{self.flow}.a_to_b" if app.get("direction") == "both" else self.flow

    @property
    def columns(self) -> list[str]:
        """The scalars that are kept of each run."""
        own = CALL_COLUMNS if self.is_call else TRANSFER_COLUMNS
        parts = [f"{self.application}.{name}" for name in own]
        parts += [f"{self.flow}.sctp.a.{name}" for name in ENDPOINT_COLUMNS]
        for phase in range(1, self.phases + 1):
            parts += [f"run.phase_{phase}.{self.flow}.{name}" for name in PHASE_COLUMNS]
        return parts

    def scenario(self, axis: str, cases: Mapping[str, Mapping[str, Any]], sets: Sets) -> Scenario:
        """The arena's scenario with one axis, with `sets` on top of its own settings."""
        sweep = f"metrics = {inline(self.columns)}\naxes.{axis}.cases = {inline(cases)}\n"
        return Scenario.parse(f"{self.text}\n[sweep]\n{sweep}", (*self.sets, *sets))

    def case(self, policy: Policy) -> dict[str, Any]:
        """The settings of a policy here."""
        own = policy.call if self.is_call else policy.transfer
        return {f"{self.prefix}.{path}": value for path, value in own.items()}

    def only(self, name: str) -> Scenario:
        """The arena's scenario with one policy, without a sweep."""
        policy = next(policy for policy in policies() if policy.name == name)
        sets = as_sets(self.case(policy))
        return Scenario.parse(self.text, (*self.sets, *sets))

    def tournament(self, effort: Effort) -> Work:
        """Every policy in it."""

        def replications(key: Key) -> int:
            if self.is_call:
                return effort.calls
            return effort.tables if key["policy"] in SENDERS else effort.others

        cases = {policy.name: self.case(policy) for policy in policies()}
        scenario = self.scenario("policy", cases, ())
        return Work(
            f"tournament/{self.name}", self.title, scenario, replications, tuple(self.columns)
        )

    def ablations(self, sender: str, effort: Effort) -> Work:
        """One sender of the tables with one thing changed at a time."""
        policy = next(policy for policy in policies() if policy.name == sender)
        cases = {
            variant.title: variant.sets[sender]
            for variant in variants_of(self.experiment)
            if sender in variant.sets
        }
        sets = as_sets(self.case(policy))
        return Work(
            f"ablations/{self.name}-{sender}",
            f"{self.title}, {policy.title}",
            self.scenario("variant", cases, sets),
            lambda _: effort.ablations,
            tuple(self.columns),
        )


def experiment(number: int) -> Arena:
    """The arena of one of the paper's experiments."""
    return Arena(
        f"experiment{number}",
        EXPERIMENT_NAMES[number],
        _text("network.toml") + _text(f"experiment{number}.toml"),
        "transfer",
        is_call=False,
        sets=(("name", f"sctp-handover-{number}"),),
        experiment=number,
    )


def arenas() -> list[Arena]:
    """Every arena of the tournament."""
    study = file_text("anabranch.papers.voip_sctp", "scenario.toml")
    places = [experiment(number) for number in EXPERIMENTS]
    for name, (title, settings) in VOIP_PATHS.items():
        sets = as_sets(SLOT_CLOCK | settings)
        places.append(Arena(name, title, _network(study), "call", is_call=True, sets=sets))
    for name in MOBILITY:
        text = library.scenarios()[name].read_text("utf-8")
        title = tomllib.loads(text)["description"]
        places.append(Arena(name, title, _network(text), "call", is_call=True))
    return places


def death(effort: Effort) -> Work:
    """Plain SCTP when path 1 dies in experiment 1."""
    arena = experiment(1)
    return Work(
        "death",
        "path 1 dies",
        Scenario.parse(arena.text, (*arena.sets, *DEATH)),
        lambda _: effort.tables,
        ("transfer.sctp.a.path0.first_inactive_s", "transfer.stalled_s"),
    )


def all_studies(effort: Effort) -> Iterator[Work]:
    """Every study of a mode."""
    for arena in arenas():
        yield arena.tournament(effort)
    for number in EXPERIMENTS:
        for sender in SENDERS:
            yield experiment(number).ablations(sender, effort)
    yield death(effort)


@cache
def policies() -> tuple[Policy, ...]:
    """Every policy of the tournament."""
    return tuple(
        Policy(
            row["name"],
            row["title"],
            row["set"] | row.get("transfer", {}),
            row["set"] | row.get("call", {}),
        )
        for row in tomllib.loads(_text("policies.toml"))["policy"]
    )


@cache
def variants() -> tuple[Variant, ...]:
    """The ablations; the first changes nothing."""
    rows = tomllib.loads(_text("ablations.toml"))["variant"]
    return tuple(
        Variant(
            row["title"],
            row.get("experiment"),
            {
                sender: row.get("set", {}) | row.get(sender, {})
                for sender in SENDERS
                if "set" in row or sender in row
            },
        )
        for row in rows
    )


def variants_of(experiment: int | None) -> list[Variant]:
    """The ablations that an experiment has."""
    return [variant for variant in variants() if variant.experiment in {None, experiment}]


def _network(text: str) -> str:
    """A scenario's text without its sweep."""
    return text.partition("\n[sweep]\n")[0]
