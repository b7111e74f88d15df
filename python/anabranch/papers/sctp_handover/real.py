"""Plain SCTP on real stacks: FreeBSD's in user space (usrsctp), and Linux's.

No stack hands over by measured throughput, so the proposed sender stays simulated.
"""

import tomllib
from collections.abc import Mapping
from functools import partial

import polars as pl

from anabranch._engine import Scenario
from anabranch.papers.real import (
    REAL,
    SCTP_ALIKE,
    SCTP_PROFILES,
    Bench,
    LeftOut,
    Number,
    RealStack,
    farthest,
    number,
)
from anabranch.papers.studies import Effort, Sets, Settings, Work, efforts
from anabranch.support.toml_text import inline

from .claims import CLAIMS, Material
from .factors import EXPERIMENTS, Runs
from .outcome import of_number
from .published import FAILOVER_S, of_experiment
from .story import said
from .studies import experiment

AS_PAPER = "simulated"
ABOUT_FAILOVER = "2"
"""The claim that needs no proposed sender."""

DEATH_S = 5.0
"""When path 1 dies here: by then the transfer fills it."""
LONGEST_FAILOVER_S = 100.0

TCP = {"kind": "tcp", "profile": "linux_6", "cc": {"kind": "reno"}}
"""The cross traffic of experiment 2, which is the kernel's own there."""
ENCAPSULATED: Sets = tuple((f"paths.path{number}.mtu", '"1508 B"') for number in (1, 2))
"""A chunk of 1452 B is one packet with the 8 B of UDP, too (RFC 6951)."""


EFFORTS = efforts(__package__, "real.toml")
"""The effort of each mode."""


def real(mode: str, bench: Bench) -> RealStack:
    """Runs both experiments with plain SCTP, and path 1's death, and simulates them."""
    effort, sctp = EFFORTS[mode], bench.stack.sctp
    alike = SCTP_ALIKE[sctp]
    places = {AS_PAPER: "real-paper", alike: f"real-{SCTP_PROFILES[sctp]}", REAL: "real"}
    wanted = {
        AS_PAPER: works(places[AS_PAPER], effort, {}),
        alike: works(places[alike], effort, linux_tcp() | profile(sctp)),
        REAL: works(places[REAL], effort, linux_tcp() | profile(sctp), mtus(sctp)),
    }
    rows_by_place, left_out = bench.everywhere(wanted)
    runs = {
        name: {one: _runs(rows[_name(places[name], one)], name) for one in EXPERIMENTS}
        for name, rows in rows_by_place.items()
    }
    failovers = {
        name: Runs(
            failover_times(bench.traces(each[-1], "events", is_real=name == REAL)).collect(), name
        )
        for name, each in wanted.items()
    }
    failover = number(
        "Failover of plain SCTP",
        {"quantity": "path 1 inactive after, s"},
        "failover_s",
        failovers,
        published=FAILOVER_S,
        verdict=partial(of_number, FAILOVER_S),
        digits=1,
    )
    numbers = [*_throughputs(runs), failover]
    return RealStack(
        title=bench.stack.title,
        total_runs=sum(rows.height for rows in rows_by_place[REAL].values()),
        sentences=said.several(
            "real",
            sctp=sctp,
            phase_s=effort.of("phase_s"),
            death_s=DEATH_S,
            far=farthest(numbers),
        ),
        numbers=numbers,
        claims=[
            claim.judge(Material({}, {}, death), name)
            for claim in CLAIMS
            if claim.id == ABOUT_FAILOVER
            for name, death in failovers.items()
        ],
        profiles={AS_PAPER: AS_PAPER, alike: alike, REAL: "real stack"},
        left_out=[*left_out, LeftOut("the proposed sender", "no stack has it")],
    )


def linux_tcp() -> Settings:
    """Cross traffic by the kernel's TCP, by flow of experiment 2."""
    flows = [name for name in _loaded(2)["flows"] if name.startswith("cross")]
    return {f"flows.{name}.transport": TCP for name in flows}


def profile(sctp: str) -> Settings:
    """The transfer's defaults, which a real stack has by itself."""
    return {"flows.transfer.transport.profile": SCTP_PROFILES[sctp]}


def mtus(sctp: str) -> Sets:
    """What a stack needs of the paths."""
    return ENCAPSULATED if sctp == "usrsctp" else ()


def works(place: str, effort: Effort, settings: Settings, sets: Sets = ()) -> list[Work]:
    """Both experiments with plain SCTP, followed by path 1's death in the first one.

    Parameters
    ----------
    place
        What the studies' folders begin with.
    effort
        How long and how often.
    settings
        By dotted path, of flows; those of flows that an experiment has not are left out.
    sets
        On top of that.
    """
    made = []
    for one in EXPERIMENTS:
        columns = ["transfer.goodput_kbit_per_s", "transfer.stalled_s"]
        columns += [
            f"run.phase_{phase.number}.transfer.goodput_kbit_per_s" for phase in of_experiment(one)
        ]
        loaded = _scenario(shortened(_loaded(one), effort.of("phase_s")), settings, sets)
        title = f"experiment {one}"
        made.append(
            Work(
                _name(place, one),
                title,
                loaded,
                lambda _: effort.of("replications"),
                tuple(columns),
            )
        )
    death = _loaded(1)
    death["run"] = {"duration": f"{DEATH_S + LONGEST_FAILOVER_S:g} s"}
    death["links"]["path1"] |= {
        "up": {"timetable": [["0 s", True], [f"{DEATH_S:g} s", False]]},
        "down": "drop",
    }
    death["sweep"] = {"traces": ["events"]}
    loaded = _scenario(death, settings, sets)
    name = f"{place}/death"
    made.append(
        Work(name, "path 1 dies", loaded, lambda _: effort.of("failovers"), ("transfer.stalled_s",))
    )
    return made


def shortened(loaded: Settings, phase_s: float) -> Settings:
    """An experiment whose phases have this length, in seconds; 0 leaves them as they are.

    What begins with a phase begins with it then, too. A random start is within a second as before.
    """
    boundaries = [_seconds(text) for text in loaded["run"]["phases"]]
    if not phase_s:
        return loaded
    factor = phase_s / boundaries[0]

    def scaled(text: str) -> str:
        return f"{factor * _seconds(text):g} s"

    run = loaded["run"]
    run["duration"] = scaled(run["duration"])
    run["phases"] = [scaled(text) for text in run["phases"]]
    for link in loaded["links"].values():
        for traffic in link.get("cross_traffic", []):
            traffic |= {key: scaled(traffic[key]) for key in ("start", "stop") if key in traffic}
    for flow in loaded["flows"].values():
        start = flow["app"]["start"]
        spread = _seconds(start["to"]) - _seconds(start["from"])
        begins = factor * _seconds(start["from"])
        flow["app"]["start"] = {"from": f"{begins:g} s", "to": f"{begins + spread:g} s"}
    return loaded


def failover_times(events: pl.LazyFrame) -> pl.LazyFrame:
    """How long path 1 was dead before the sender declared it inactive: replication, failover_s."""
    declared = events.filter(
        pl.col("flow") == "transfer",
        pl.col("side") == "a",
        pl.col("event") == "path_changed",
        pl.col("detail") == "path 0 is inactive",
    )
    times = declared.group_by(pl.col("replication").cast(pl.Int64))
    return times.agg(failover_s=pl.col("time_s").min() - DEATH_S).sort("replication")


def _name(place: str, number: int) -> str:
    return f"{place}/experiment{number}"


def _loaded(number: int) -> Settings:
    return tomllib.loads(experiment(number).text)


def _seconds(text: str) -> float:
    return float(text.removesuffix(" s"))


def _scenario(loaded: Settings, settings: Settings, sets: Sets) -> Scenario:
    text = "".join(f"{key} = {inline(value)}\n" for key, value in loaded.items())
    own = [
        (path, inline(value))
        for path, value in settings.items()
        if path.split(".")[1] in loaded["flows"]
    ]
    return Scenario.parse(text, (*own, *sets))


def _runs(rows: pl.DataFrame, name: str) -> Runs:
    phases = [column for column in rows.columns if column.startswith("run.phase_")]
    values = {
        f"mbps_{index}": pl.col(column) / 1e3 for index, column in enumerate(sorted(phases), 1)
    }
    mean = (pl.col("transfer.goodput_kbit_per_s") / 1e3).alias("goodput_mbps")
    return Runs(rows.select(pl.col("replication").cast(pl.Int64), mean, **values), name)


def _throughputs(runs: Mapping[str, Mapping[int, Runs]]) -> list[Number]:
    """The plain sender's rows of the paper's tables."""
    return [
        number(
            "Plain SCTP, Mbit/s",
            {"experiment": phase.experiment, "phase": phase.key},
            f"mbps_{phase.number}",
            {name: parts[one] for name, parts in runs.items()},
            published=phase.plain_mbps,
            verdict=partial(of_number, phase.plain_mbps),
        )
        for one in EXPERIMENTS
        for phase in of_experiment(one)
    ]
