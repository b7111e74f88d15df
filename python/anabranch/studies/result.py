"""Reading a scenario, running it once, and the result."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import _engine
from anabranch._engine import Scenario, ScenarioError
from anabranch.errors import AnabranchError, Named, TemplateError, whole
from anabranch.studies import designs, headline, library
from anabranch.support.columns import OWN_COLUMNS
from anabranch.support.files import opened_atomically
from anabranch.support.toml_text import inline
from anabranch.support.views import views

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure


Value = str | float | bool | Mapping[str, object] | Sequence[object]
"""A value for `set`; text is written as in the scenario file, without quotes."""

MOST_NUMBER = 2**64 - 1
"""The largest seed, and the largest number of a replication."""

_TAKEN = {
    *OWN_COLUMNS,
    *("mean", "half_width", "n", "value", "low", "high", "p"),
    *("rank", "best", "behind", "behind_half_width", "resolved_by"),
}
"""Columns of frames, `stats` and `comparison` that stand beside the axes, so no axis may have their
names.
"""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one run.

    Examples
    --------
    >>> result = anabranch.run("scenarios/two-path-call.toml", trace=True)
    >>> result
    two-path-call: 31.98 s simulated (seed 1, replication 0)
    call, sctp from caller to callee over p0 + p1: MOS 3.99; 59 of 1,500 frames not played;
    mean delay 46.8 ms
    bottlenecks: first to callee: 71 of 1,567 packets lost (4.5 %); ...
    >>> round(result.summary["call.mos"], 1)
    4.0
    >>> result.traces["ratings"].columns
    ['flow', 'side', 'start_s', 'end_s', 'delay_ms', 'loss_percent', 'r', 'mos']
    >>> result.plot("call-mos").axes[0].get_ylabel()
    'MOS'
    """

    scenario: Scenario
    """What ran."""
    seed: int
    """The seed of its random numbers, from 0 to 2^64 - 1."""
    cell: int
    """The cell of the scenario's sweep, from 0."""
    replication: int
    """The number of the independent repetition, from 0."""
    summary: dict[str, float]
    """Every scalar by name, `call.mos`; the unit is last in the name, NaN is "no value"."""
    traces: "dict[str, pl.DataFrame]" = field(default_factory=dict)
    """The tables `events`, `exchanges`, `frames`, `head_of_line`, `hops`, `intervals`, `limits`,
    `loss_states`, `packets`, `paths`, `queues`, `radio` and `ratings`; empty unless traces were
    asked for.
    """

    def __repr__(self) -> str:
        """What ran, the results, and what held it back."""
        return "\n".join(headline.lines(self))

    def _repr_html_(self) -> str:
        """The same lines for a notebook, with all scalars in a part that unfolds."""
        return views().of_result(self)

    def plot(self, name: str | None = None) -> "Figure":
        """One of the run's figures; it needs traces.

        Parameters
        ----------
        name
            The figure's name, such as `call-delay` for the delay of each frame; the first if not
            given.
        """
        return views().figure(self, name)


def load(
    source: str | Path,
    set: Mapping[str, Value] | None = None,  # noqa: A002 - as `--set`
    *,
    sweep: Mapping[str, Any] | None = None,
) -> Scenario:
    """Reads a scenario from a file or from TOML text (text has more than one line, a path has one).

    Parameters
    ----------
    source
        Path or text.
    set
        Values to change, by dotted path: `{"flows.call.transport.rto_max": "0.1 s"}`. A table may
        be a mapping: `{"links.access.queue": {"kind": "codel"}}`.
    sweep
        The sweep, with the keys of the scenario file, instead of the one in it:
        `{"replications": 20, "axes": {"pmr": {"set": "flows.call.transport.path_max_retrans",
        "values": [0, 1, 5]}}}`. `set` still changes it.

    A design gets its points here.

    Raises
    ------
    AnabranchError, ScenarioError
        One sentence: the key, what was found, what is allowed.

    Examples
    --------
    >>> changes = {"flows.call.transport.rto_max": "0.1 s"}
    >>> anabranch.load("scenarios/two-path-call.toml", changes).name
    'two-path-call'
    >>> axis = {"set": "flows.call.transport.path_max_retrans", "values": [0, 1, 5]}
    >>> anabranch.load("scenarios/two-path-call.toml", sweep={"axes": {"pmr": axis}}).cell_count
    3
    """
    sets = [(path, _as_text(value, path)) for path, value in (set or {}).items()]
    if sweep is not None:
        sets.insert(0, ("sweep", inline(sweep, "sweep")))
    if isinstance(source, str) and "\n" in source:
        return _expanded(_read(Scenario.parse, source, sets))
    name = Path(source).stem
    if name in library.scenarios() and not Path(source).exists():
        raise TemplateError(source, name)
    return _expanded(_read(Scenario.load, str(source), sets))


def _read(
    reader: Callable[[str, Sequence[tuple[str, str]]], Scenario],
    source: str,
    sets: Sequence[tuple[str, str]],
) -> Scenario:
    try:
        scenario = reader(source, sets)
    except UnicodeEncodeError:
        # It has half of a surrogate pair.
        sentence = "the scenario, a path or a value is not valid UTF-8"
        raise AnabranchError(sentence) from None
    scenario.check_reached(sets)
    return scenario


def _expanded(scenario: Scenario) -> Scenario:
    _check_axes(scenario)
    return designs.expanded(scenario)


def _check_axes(scenario: Scenario) -> None:
    """Raises unless each axis can be a column, in SQL (which ignores case) and in statistics."""
    seen: dict[str, str] = {}
    for axis in scenario.axes:
        name = axis["name"]
        if name.lower() in _TAKEN:
            raise ScenarioError(
                f"sweep.axes.{name}: `{name.lower()}` is another column of the results;"
                " use another name"
            )
        if (other := seen.setdefault(name.lower(), name)) != name:
            raise ScenarioError(
                f"sweep.axes.{name}: SQL does not tell it from `{other}`; use another name"
            )


def run(
    scenario: Scenario | str | Path,
    *,
    seed: int | None = None,
    replication: int = 0,
    set: Mapping[str, Value] | None = None,  # noqa: A002 - as `--set`
    cell: int = 0,
    trace: bool = False,
    pcap: Path | None = None,
    pcap_at: str | None = None,
) -> Result:
    """Runs a scenario once.

    Parameters
    ----------
    scenario
        A loaded scenario, a path or TOML text.
    seed
        Replaces the scenario's seed, or that of the cell if an axis sets it.
    replication
        Which of the independent repetitions.
    set
        Values to change, by dotted path; only with a path or text.
    cell
        Which cell of the scenario's sweep.
    trace
        Whether to record traces; never changes the summary.
    pcap
        Where to write the packets as a capture (pcapng) for Wireshark and other programs; never
        changes the summary either.
    pcap_at
        The node whose packets are in it: what it sends and receives; by default the one that the
        first flow comes from. `all`: both ends of each link, where most packets are seen twice.

    Raises
    ------
    AnabranchError, ScenarioError, RunError
        One sentence: an argument or a key that is wrong, or the guard that has stopped the run.

    Examples
    --------
    >>> first = anabranch.run("scenarios/two-path-call.toml", seed=7)
    >>> again = anabranch.run("scenarios/two-path-call.toml", seed=7, trace=True)
    >>> first.summary["call.mos"] == again.summary["call.mos"]
    True
    >>> sorted(again.traces)
    ['events', 'exchanges', 'frames', 'head_of_line', 'hops', 'intervals', 'limits',
     'loss_states', 'packets', 'paths', 'queues', 'ratings']
    """
    scenario, cell, seed, replication = checked(scenario, set, cell, seed, replication)
    if pcap is None:
        if pcap_at is not None:
            raise AnabranchError(f"pcap_at = {pcap_at} goes with pcap, which is not given")
        found = _engine.run(scenario, cell, seed, replication, trace)
    else:
        with opened_atomically(Path(pcap), is_long=True) as file:
            node = capture_node(scenario, cell, pcap_at)
            found = _engine.run(scenario, cell, seed, replication, trace, file, node)
    return result_of(found, scenario, cell, seed, replication)


def capture_node(scenario: Scenario, cell: int, pcap_at: str | None) -> str | None:
    """The node at which packets are captured; None for both ends of each link."""
    if pcap_at is not None:
        return None if pcap_at == "all" else pcap_at
    flows = tomllib.loads(scenario.cell_toml(cell))["flows"].values()
    first = next(iter(flows), None)  # the engine says it where there is none
    return None if first is None else str(first["from"])


def checked(
    scenario: Scenario | str | Path,
    sets: Mapping[str, Value] | None,
    cell: int,
    seed: int | None,
    replication: int,
) -> tuple[Scenario, int, int, int]:
    """The scenario, cell, seed and replication of the run that is meant.

    Raises
    ------
    AnabranchError
        When there is no such run.
    """
    scenario = loaded(scenario, sets)
    cell = whole("cell", cell, 0)
    seed = seed_of(scenario, cell) if seed is None else whole("seed", seed, 0, MOST_NUMBER)
    return scenario, cell, seed, whole("replication", replication, 0, MOST_NUMBER)


def seed_of(scenario: Scenario, cell: int) -> int:
    """The seed of a cell, which an axis may set."""
    if not scenario.axes:
        return scenario.seed
    seed: int = tomllib.loads(scenario.cell_toml(cell))["seed"]
    return seed


def result_of(
    found: Mapping[str, Any], scenario: Scenario, cell: int, seed: int, replication: int
) -> Result:
    """Converts the engine's result of a run to a `Result`."""
    traces: dict[str, pl.DataFrame] = {}
    if found["traces"]:
        import polars  # noqa: PLC0415 - slow to import

        traces = {name: polars.DataFrame(columns) for name, columns in found["traces"].items()}
    return Result(
        scenario=scenario,
        seed=seed,
        cell=cell,
        replication=replication,
        summary=Named("scalar", found["summary"]),
        traces=Named(
            "trace",
            traces,
            "the run kept no traces: run it with `trace=True`",
        ),
    )


def loaded(scenario: Scenario | str | Path, sets: Mapping[str, Value] | None) -> Scenario:
    """The given scenario, or the one in the given path or text."""
    if not isinstance(scenario, Scenario):
        return load(scenario, sets)
    if sets:
        raise AnabranchError("`set` needs a path or TOML text: this scenario is already loaded")
    return scenario


def _as_text(value: Value, path: str) -> str:
    """A value as `--set` takes it; text is taken as it is."""
    try:
        return value if isinstance(value, str) else inline(value, path)
    except RecursionError:
        raise AnabranchError(f"{path}: the value is nested too deeply") from None
