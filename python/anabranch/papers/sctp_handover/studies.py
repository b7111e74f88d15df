"""The paper's experiments, ablations of them, and the arenas of the tournament.

A scenario is `network.toml` and an experiment's own file, or one of the call scenarios that
Anabranch has; every one is swept over policies, which `policies.toml` lists.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial

from pydantic import BaseModel

from anabranch._engine import Scenario
from anabranch.papers.studies import Effort, Key, Sets, Settings, Work, as_sets, efforts, file_text
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

_ARENAS = tomllib.loads(_text("arenas.toml"))

DEATH_S = 50.0
"""When path 1 dies in the study of plain failover."""


EFFORTS = efforts(__package__)
"""The effort of each mode."""


class Policy(BaseModel):
    """A path policy with its settings, which are below the flow's transport."""

    name: str
    title: str
    set: Settings
    transfer: Settings = {}
    """On top of that where the flow is a transfer."""
    call: Settings = {}
    """The same where it is a call."""


class Variant(BaseModel):
    """One thing changed in the experiments."""

    title: str
    experiment: int | None = None
    """The only one that has what it changes; none: both have."""
    set: Settings | None = None
    """The settings of both senders."""
    plain: Settings | None = None
    proposed: Settings | None = None

    @property
    def sets(self) -> dict[str, Settings]:
        """The settings by sender; a sender without any is not run."""
        own = {"plain": self.plain, "proposed": self.proposed}
        return {
            sender: (self.set or {}) | (settings or {})
            for sender, settings in own.items()
            if self.set is not None or settings is not None
        }


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
    def phases(self) -> int:
        """Phases that are reported one by one."""
        return 0 if self.experiment is None else len(of_experiment(self.experiment))

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

    def scenario(self, axis: str, cases: Mapping[str, Settings], sets: Sets) -> Scenario:
        """The arena's scenario with one axis, with `sets` on top of its own settings."""
        sweep = f"metrics = {inline(self.columns)}\naxes.{axis}.cases = {inline(cases)}\n"
        return Scenario.parse(f"{self.text}\n[sweep]\n{sweep}", (*self.sets, *sets))

    def case(self, policy: Policy) -> Settings:
        """The settings of a policy here."""
        own = policy.set | (policy.call if self.is_call else policy.transfer)
        return {f"flows.{self.flow}.transport.{path}": value for path, value in own.items()}

    def only(self, name: str) -> Scenario:
        """The arena's scenario with one policy, without a sweep."""
        policy = next(policy for policy in policies() if policy.name == name)
        sets = as_sets(self.case(policy))
        return Scenario.parse(self.text, (*self.sets, *sets))

    def tournament(self, effort: Effort) -> Work:
        """Every policy in it."""

        def replications(key: Key) -> int:
            if self.is_call:
                return effort.of("calls")
            return effort.of("tables") if key["policy"] in SENDERS else effort.of("others")

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
            lambda _: effort.of("ablations"),
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
    places = [experiment(number) for number in EXPERIMENTS]
    for row in _ARENAS["arena"]:
        name, sets = row["name"], as_sets(row.get("set", {}))
        if "paper" in row:
            text = file_text(f"anabranch.papers.{row['paper']}", "scenario.toml")
        else:
            text = library.scenarios()[name].read_text("utf-8")
        title = row.get("title") or tomllib.loads(text)["description"]
        network = text.partition("\n[sweep]\n")[0]
        places.append(Arena(name, title, network, "call", is_call=True, sets=sets))
    return places


def death(effort: Effort) -> Work:
    """Plain SCTP when path 1 dies in experiment 1."""
    arena = experiment(1)
    return Work(
        "death",
        "path 1 dies",
        Scenario.parse(arena.text, (*arena.sets, *as_sets(_ARENAS["death"]))),
        lambda _: effort.of("tables"),
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
    rows = tomllib.loads(_text("policies.toml"))["policy"]
    return tuple(map(Policy.model_validate, rows))


@cache
def variants() -> tuple[Variant, ...]:
    """The ablations; the first changes nothing."""
    rows = tomllib.loads(_text("ablations.toml"))["variant"]
    return tuple(map(Variant.model_validate, rows))


def variants_of(experiment: int | None) -> list[Variant]:
    """The ablations that an experiment has."""
    return [variant for variant in variants() if variant.experiment in {None, experiment}]
