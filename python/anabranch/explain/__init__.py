"""`anabranch explain`: where the time of a run went, path by path, and what to change.

What a capture of packets tells of it is `captured`.

A run is repeated with time accounts; each of its flow's paths is also tried alone. What is printed
and drawn are the accounts (`accounts`), what follows from them (`causes`), and how paths compare.
A call is judged by what its quality was lost to (`calls`), a video over RTP or UDP by what it stood
still for (`video`), not by where the sender's time went.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group

from anabranch import _engine
from anabranch._engine import RunError, ScenarioError
from anabranch.errors import whole
from anabranch.explain import accounts, calls, causes, tables
from anabranch.explain import video as videos
from anabranch.explain.accounts import Account, End, Flow
from anabranch.explain.calls import Call
from anabranch.explain.causes import Cause
from anabranch.explain.video import Video
from anabranch.studies import nothing
from anabranch.studies.result import Result, Value, load, run
from anabranch.support import declared, terminal, wording

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

METRICS = ("mos", "a_to_b.mos", "rpm", "goodput_kbit_per_s", "a_to_b.goodput_kbit_per_s")
"""Metrics by which variants of a flow are compared; the first one that the flow has is used."""


@dataclass(frozen=True, slots=True)
class Alone:
    """The result of the flow over one of its paths alone."""

    path: str
    value: float
    """The value of the metric; NaN where the run has none."""
    problem: str = ""
    """Why it could not be run, in one sentence."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A run, explained."""

    result: Result
    flow: Flow
    causes: list[Cause]
    main: Cause
    metric: str
    value: float
    alone: list[Alone]
    call: Call | None = None
    """What cost the call quality; None for other flows."""
    video: Video | None = None
    """What the video stood still for; None for other flows."""

    @property
    def judged(self) -> Call | Video | None:
        """What its user had of it; None for flows of which only the time is accounted for."""
        return self.call or self.video

    def tables(self, width: int) -> "RenderableType":
        """The tables for people, laid out for a terminal of this width."""
        return Group(*self._parts(width))

    def _parts(self, width: int) -> "Iterator[RenderableType]":
        flow = self.flow
        time = f"{wording.number(flow.start_s, 4)} s to {wording.number(flow.end_s, 4)} s"
        for end in (flow.sender, flow.receiver):
            if end.connection.total > 0:
                yield f"{flow.name}, what held {end.host} (side {end.side}) back from {time}:"
                yield tables.shares(end, width)
        if self.judged is not None:
            yield f"{self.judged.section}, {self.judged.heading}:"
            yield self.judged.table(width)
        if self.alone:
            yield f"compared by {self._measured()} ({flow.name}.{self.metric}):"
            yield self._comparison(width)
        yield "\n".join(self.sentences())

    def _comparison(self, width: int) -> "RenderableType":
        rows = [(" + ".join(self.flow.settings["paths"]), self._amount(self.value), "")]
        for one in self.alone:
            ratio = wording.number(self.value / one.value, 3) if one.value else "–"
            rows.append((f"{one.path} alone", self._amount(one.value), ratio))
        heads = ("paths", self._measured(), "all together / alone")
        return terminal.side_by_side(heads, rows, width, 1)

    def _measured(self) -> str:
        """A description of the metric in words."""
        if "goodput" in self.metric:
            return "goodput"
        if self.metric.endswith("frozen_percent"):
            return "time frozen"
        return "round trips per minute" if self.metric == "rpm" else "MOS"

    def _amount(self, value: float) -> str:
        if math.isnan(value):
            return wording.number(value)
        if "goodput" in self.metric:
            return wording.rate(value * 1e3)
        if self.metric.endswith("percent"):
            return f"{value:.2f} %"
        return f"{value:,.0f}" if self.metric == "rpm" else f"{value:.2f}"

    def sentences(self) -> list[str]:
        """The answer: the main cause and what to change, how paths compare, what held each back."""
        where = f", on {self.main.path}" if self.main.path else ""
        kind = "none" if self.main.kind == "nothing" else self.main.kind
        lines = [f"Main cause: {kind}{where}. {self.main.advice}".rstrip(), *self._compared()]
        if self.judged is not None:
            lines += self.judged.sentences()
        lines += [cause.text for cause in self.causes]
        receiver = self.flow.receiver.receiver
        if receiver.mean_bytes > 0:
            lines.append(_head_of_line(self.flow.receiver.host, receiver))
        return lines

    def _compared(self) -> Iterator[str]:
        known = [one for one in self.alone if not math.isnan(one.value)]
        yield from (
            f"{one.path} alone: not run, {one.problem}" for one in self.alone if one.problem
        )
        if not known or math.isnan(self.value):
            return
        scalar = declared.scalar(self.metric)
        sign = -1 if scalar is not None and scalar.more_is_better is False else 1
        best = max(known, key=lambda one: sign * one.value)
        together = " + ".join(self.flow.settings["paths"])
        values = f"{together} reach {self._amount(self.value)}"
        values += "".join(f", {one.path} alone {self._amount(one.value)}" for one in known)
        verdict = "slower" if "goodput" in self.metric else "worse"
        if sign * self.value >= sign * best.value:
            verdict = "faster" if "goodput" in self.metric else "better"
        if abs(self.value - best.value) <= 0.005 * abs(best.value):
            verdict = "as good"
        than = "as" if verdict == "as good" else "than"
        yield f"{values} ({self._measured()}): together {verdict} {than} {best.path} alone."

    def figure(self) -> "Figure":
        """Draws the accounts over time; of a video its frames, of a call over UDP their delays."""
        from anabranch.explain import figure, video_figure  # noqa: PLC0415 - slow to import
        from anabranch.figures import plots, run_plots  # noqa: PLC0415 - slow to import

        scenario = self.result.scenario.name
        if self.video is not None:
            title = f"{scenario}: the frames of {plots.shortened(self.flow.name)}"
            return video_figure.draw(self.video, self.result, title)
        if self.call is not None and not self.flow.sender.paths:
            return run_plots.delays(self.result, self.call.flow, self.call.side)
        sender = self.flow.sender
        host, flow = plots.shortened(sender.host), plots.shortened(self.flow.name)
        title = f"{scenario}: what holds {host} back, flow {flow}"
        return figure.draw(self.flow, title)

    def as_json(self) -> dict[str, Any]:
        """Everything, as a tree for JSON."""
        return {
            "scenario": self.result.scenario.name,
            "scenario_hash": self.result.scenario.hash,
            "version": _engine.__version__,
            "seed": self.result.seed,
            "cell": self.result.cell,
            "replication": self.result.replication,
            "flow": self.flow.name,
            "sender": self.flow.sender.side,
            "start_s": self.flow.start_s,
            "end_s": self.flow.end_s,
            "ends": {end.side: _end_json(end) for end in self.flow.ends},
            "metric": self.metric,
            "value": self.value,
            "alone": {one.path: one.problem or one.value for one in self.alone},
            "causes": [asdict(cause) for cause in self.causes],
            "main_cause": asdict(self.main),
            "call": None if self.call is None else self.call.as_json(),
            "video": None if self.video is None else self.video.as_json(),
            "sentences": self.sentences(),
        }


Steps = AbstractContextManager[Callable[[], None]]
"""Shows progress: the context gives a function to call after each step."""


def _no_steps(_: int) -> Steps:
    return nullcontext(lambda: None)


def explain(
    scenario: str | Path,
    *,
    set: Mapping[str, Value] | None = None,  # noqa: A002 - as `--set`
    flow: str | None = None,
    seed: int | None = None,
    replication: int = 0,
    cell: int = 0,
    metric: str | None = None,
    alone: bool = True,
    steps: Callable[[int], Steps] = _no_steps,
) -> Explanation:
    """Runs a scenario and says where the time of one of its flows went.

    Parameters
    ----------
    scenario
        A path or TOML text.
    set
        Values to change, by dotted path.
    flow
        The flow to explain; the first one with several paths if not given.
    seed, replication, cell
        Which run.
    metric
        What to compare the paths by: a scalar of the flow, without the flow's name.
    alone
        Whether to try each path alone.
    steps
        Called before these runs, with their number; its context gives a function to call after
        each of them.

    Examples
    --------
    >>> from anabranch.explain import explain
    >>> why = explain("scenarios/two-path-call.toml", alone=False)
    >>> print(why.metric, round(why.value, 1))
    mos 4.0
    """
    loaded = load(scenario, set)
    cell = whole("cell", cell, 0)
    text = loaded.cell_toml(cell)
    tree = accounts.settings_of(loaded, cell)
    name = accounts.choose(tree, flow)
    which = {"seed": seed, "replication": replication}
    settings = tree["flows"][accounts.members(tree)[name]]
    scalars = loaded.scalars(cell)
    if metric is not None:
        _metric(scalars, name, metric)
    result = run(
        load(text, {"run.time_accounts": "true"}),
        trace=calls.is_call(settings) or videos.is_video(settings),
        **which,  # type: ignore[arg-type]
    )
    read = accounts.read(result, name)
    call = calls.worst(result, read) if calls.is_call(settings) else None
    video = videos.worst(result, read) if videos.is_video(settings) else None
    judged = call or video
    if metric is None and judged is not None:
        scalar = "mos" if call is not None else "frozen_percent"
        metric = f"{judged.section.removeprefix(name)}.{scalar}".removeprefix(".")
    chosen = _metric(scalars, name, metric)
    tried = []
    paths = read.settings["paths"] if alone else []
    if len(paths) > 1:
        with steps(len(paths)) as step:
            for path in paths:
                sets = _only(tree, name, path)
                try:
                    one = run(load(text, sets), **which)  # type: ignore[arg-type]
                except (ScenarioError, RunError) as error:
                    tried.append(Alone(path, math.nan, str(error)))
                else:
                    tried.append(Alone(path, one.summary.get(f"{name}.{chosen}", math.nan)))
                step()
    value = result.summary.get(f"{name}.{chosen}", math.nan)
    if judged is not None:
        reached = [
            (one.path, one.value)
            for one in tried
            if chosen.endswith(("mos", "frozen_percent")) and not math.isnan(one.value)
        ]
        named = judged.causes(reached)
        return Explanation(result, read, named, named[0], chosen, value, tried, call, video)
    named = causes.of_paths(read)
    rates = {one.path: one.value * 1e3 for one in tried if "kbit_per_s" in chosen}
    main = causes.main(read, named, {path: rate for path, rate in rates.items() if rate > 0})
    ways = ("", ".a_to_b", ".b_to_a")
    reasons = [reason for way in ways if (reason := nothing.why(result.summary, name, way))]
    if reasons and main.kind not in {"handshake", "path_down"}:
        # what held back data that was of no use, such as losses, is not why
        main = Cause("nothing_arrived", "", f"{name}: {reasons[0]}.", "")
        named = [main, *named]
    return Explanation(result, read, named, main, chosen, value, tried)


def _metric(scalars: Collection[str], flow: str, asked: str | None) -> str:
    """The scalar to compare by: the one asked for, or the first of METRICS that the flow has."""
    if asked is not None:
        if f"{flow}.{asked}" not in scalars:
            raise declared.no_scalar(f"{flow}.{asked}", scalars)
        return asked
    metrics = (name for name in METRICS if f"{flow}.{name}" in scalars)
    return next(metrics, METRICS[-2])


def _only(tree: accounts.Tree, name: str, path: str) -> dict[str, Value]:
    """What to set so that the flow has this path only."""
    flow = accounts.members(tree)[name]
    sets: dict[str, Value] = {f"flows.{flow}.paths": f"['{path}']"}
    # A setting that names one of several paths now has to name the only one.
    for transport in ("transport", "transport_to"):
        for key in ("path", "primary_path"):
            if key in tree["flows"][flow].get(transport, {}):
                sets[f"flows.{flow}.{transport}.{key}"] = "0"
    if "addresses" in tree["flows"][flow]:
        sets[f"flows.{flow}.addresses"] = "[]"
    return sets


def _head_of_line(host: str, receiver: accounts.Receiver) -> str:
    total = sum(receiver.missing.values())
    parts = ", ".join(
        f"{100 * value / total:.0f} % of it for data sent on {name}"
        for name, value in receiver.missing.items()
    )
    whose = f" on {receiver.streams} streams, each for its own" if receiver.streams > 1 else ""
    return (
        f"At {host}, data waited for earlier data{whose} {100 * receiver.blocked_share:.0f} % "
        f"of the time, {wording.number(receiver.mean_bytes / 1e3, 3)} kB on average: {parts}; "
        f"{100 * receiver.again:.0f} % for data that had to be retransmitted."
    )


def _end_json(end: End) -> dict[str, Any]:
    return {
        "host": end.host,
        "connection": _account_json(end.connection),
        "paths": {path.name: _account_json(path) for path in end.paths},
        "head_of_line": {
            "blocked_share": end.receiver.blocked_share,
            "mean_bytes": end.receiver.mean_bytes,
            "missing_byte_s": end.receiver.missing,
            "sent_again_share": end.receiver.again,
            "streams": end.receiver.streams,
        },
    }


def _account_json(account: Account) -> dict[str, Any]:
    content: dict[str, Any] = {
        "seconds": account.seconds,
        "waits_for_s": account.waits,
        "recoveries": account.recoveries,
        "timeouts": account.timeouts,
    }
    if account.carried is not None:
        content |= {
            "srtt_ms": account.srtt_ms,
            "link": account.carried.link,
            "rate_bit_per_s": account.carried.rate,
            "carried_bit_per_s": account.carried.carried,
            "lost_packets": account.carried.lost,
            "dropped_packets": account.carried.dropped,
        }
    return content
