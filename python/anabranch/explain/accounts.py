"""Reads the time accounts of a run: where its time went.

The engine keeps them (`run.time_accounts`). Here they are cut to the time after the warm-up and
combined with what the links of each path carried.
"""

import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from anabranch._engine import Scenario
from anabranch.errors import AnabranchError
from anabranch.studies.result import Result
from anabranch.support import declared
from anabranch.support.quantities import bits_per_second, milliseconds, octets
from anabranch.support.transports import can

LIMITS = declared.limits()
"""What can hold a sender back, in words, in the order of tables."""

SHOWN = {"under_way": "data under way", **LIMITS}
"""The same with what captures show, on which the congestion window cannot be seen."""

CONNECTION = -1
"""The number of the whole connection among the paths."""

REPAIRS = ("in_recovery", "in_timeout")
"""The limits that stand for the repair of losses."""

Tree = Mapping[str, Any]

FLOW_CONTROL = {"max_data": "data_blocked_sent", "max_stream_data": "stream_data_blocked_sent"}
"""QUIC's limits of flow control, and the counters of what a sender says that they hold back."""

_LIMITS = pl.Schema(
    {
        "flow": pl.String,
        "side": pl.String,
        "path": pl.Int64,
        "start_s": pl.Float64,
        "end_s": pl.Float64,
        "limit": pl.String,
        "waits_for": pl.Int64,
    }
)
_HEAD_OF_LINE = pl.Schema(
    {
        "flow": pl.String,
        "side": pl.String,
        "missing_path": pl.Int64,
        "start_s": pl.Float64,
        "end_s": pl.Float64,
        "stream": pl.Int64,
        "sent_again": pl.Boolean,
        "waiting_byte_s": pl.Float64,
    }
)
"""Column types of the traces, which cannot be told from empty columns."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What the narrowest link of a path carried for all flows, and the packets lost on the way."""

    link: str
    rate: float
    """The link's rate in bit/s; NaN where it is not a single rate."""
    carried: float
    """The rate it carried in bit/s, all headers included."""
    lost: int
    """Packets lost in transit on all links of the path."""
    dropped: int
    """Packets that queues dropped on all links of the path."""
    down_s: float = 0.0
    """How long one of its links was down, in seconds: that which was down longest."""

    @property
    def used(self) -> float:
        """The share of the rate that was used; NaN where that is unknown."""
        return self.carried / self.rate


@dataclass(frozen=True, slots=True)
class Account:
    """The time account of one path, or of a whole connection."""

    name: str
    seconds: dict[str, float]
    """Limit -> seconds in which it held the sender back."""
    waits: dict[str, float]
    """Path -> seconds in which a full buffer waited for data that had been sent on that path."""
    recoveries: int
    timeouts: int
    srtt_ms: float = math.nan
    """The mean smoothed RTT in ms; NaN for a connection."""
    carried: Carried | None = None
    repairs_down_s: float = 0.0
    """The part of the time of recoveries and timeouts in which a link of the path was down."""

    @property
    def total(self) -> float:
        """The accounted time in seconds."""
        return sum(self.seconds.values())

    def share(self, *limits: str) -> float:
        """The share of the time in which one of these limits held the sender back.

        NaN without any time.
        """
        return sum(self.seconds.get(limit, 0.0) for limit in limits) / (self.total or math.nan)


@dataclass(frozen=True, slots=True)
class Receiver:
    """Head-of-line blocking at one end: data that waited for earlier data."""

    blocked_share: float
    mean_bytes: float
    missing: dict[str, float]
    """Path -> byte-seconds of data that waited for missing data sent on that path."""
    again: float
    """The part of these byte-seconds that waited for data that had to be sent again."""
    streams: int = 1
    """How many streams waited, where each waits by itself (QUIC)."""


@dataclass(frozen=True, slots=True)
class End:
    """One end of a flow, as the sender of its own data and the receiver of the other end's."""

    side: str
    host: str
    connection: Account
    paths: tuple[Account, ...]
    receiver: Receiver
    rescheduled: int
    """Chunks sent again because everything waited for them, although they were not taken for lost.
    """
    marked: int = 0
    """Packets that the peer has reported to be marked."""
    blocked: dict[str, int] = field(default_factory=dict)
    """How often a limit of QUIC's flow control held data back, by its setting."""


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow of a run with its accounts."""

    name: str
    settings: Tree
    """The flow's settings, as the scenario has them."""
    start_s: float
    end_s: float
    ends: tuple[End, End]
    limits: pl.DataFrame
    """The rows of the trace `limits` after the warm-up."""
    head_of_line: pl.DataFrame

    @property
    def sender(self) -> End:
        """The end that had more to send."""
        idle = [end.connection.share("application_limited") for end in self.ends]
        return self.ends[1] if idle[1] < idle[0] or math.isnan(idle[0]) else self.ends[0]

    @property
    def receiver(self) -> End:
        """The end that receives from `sender`."""
        return self.ends[0] if self.sender is self.ends[1] else self.ends[1]

    def transport(self, side: str) -> Tree:
        """The settings of the transport at this side."""
        settings: Tree = self.settings["transport"]
        return self.settings.get("transport_to", settings) if side == "b" else settings

    def section(self, side: str) -> str:
        """The part of their name in front of the scalars of what a side sends: `call.a_to_b`."""
        if self.settings["app"]["direction"] != "both":
            return self.name
        return f"{self.name}.{'a_to_b' if side == 'a' else 'b_to_a'}"

    def buffer(self, side: str, key: str) -> float:
        """The size of a buffer in bytes; NaN where the scenario leaves it to the profile."""
        transport = self.transport(side)
        size = transport.get(key, transport.get("tcp", {}).get(key))
        return math.nan if size is None else octets(size)


def is_open_loop(settings: Tree) -> bool:
    """Whether a flow's transport is no connection, so that nothing but its pace holds it back."""
    return not can(settings["transport"]["kind"]).flow_control


def choose(tree: Tree, asked: str | None) -> str:
    """The name of the flow to explain: the one asked for, or else the first with several paths."""
    flows = tree["flows"]
    if asked is not None:
        if asked not in members(tree):
            there = ", ".join(members(tree))
            raise AnabranchError(f"there is no flow `{asked}`; there are {there}")
        return asked
    several = (name for name in flows if len(flows[name]["paths"]) > 1)
    first = next(several, next(iter(flows)))
    return next(name for name, of in members(tree).items() if of == first)


def members(tree: Tree) -> dict[str, str]:
    """The flows that run, each with the scenario's flow that it belongs to (`load_2` to `load`)."""
    return {
        name if flow.get("count", 1) == 1 else f"{name}_{i}": name
        for name, flow in tree["flows"].items()
        for i in range(1, flow.get("count", 1) + 1)
    }


def settings_of(scenario: Scenario, cell: int) -> dict[str, Any]:
    """The settings of one cell as a tree."""
    return tomllib.loads(scenario.cell_toml(cell))


def read(result: Result, name: str) -> Flow:
    """Reads the accounts of one flow from a run that kept time accounts."""
    return _Reader(result, name).flow()


class _Reader:
    """Reads one flow of a run."""

    def __init__(self, result: Result, name: str) -> None:
        self.name = name
        self.summary = result.summary
        self.tree = settings_of(result.scenario, result.cell)
        self.settings = self.tree["flows"][members(self.tree)[name]]
        self.names: list[str] = self.settings["paths"]
        self.start = milliseconds(self.tree["run"]["warm_up"]) / 1e3
        self.end = result.summary["run.simulated_s"]
        self.limits, self.head_of_line = (
            _within(
                result.traces[table].cast(types).filter(pl.col("flow") == name),
                self.start,
                self.end,
            )
            for table, types in (("limits", _LIMITS), ("head_of_line", _HEAD_OF_LINE))
        )
        section = f"{name}.{self.settings['transport']['kind']}"
        self.sections = {side: f"{section}.{side}" for side in ("a", "b")}

    def flow(self) -> Flow:
        has_frames = self.settings["app"]["kind"] in {"voip", "video"}
        if self.limits.is_empty() and not (has_frames and is_open_loop(self.settings)):
            raise AnabranchError(
                f"flow `{self.name}`: there is no connection to account for; use one over tcp, "
                "sctp, mptcp or quic that is open while the run lasts, or a call or a video over "
                "udp or rtp"
            )
        return Flow(
            self.name,
            self.settings,
            self.start,
            self.end,
            (self._end("a"), self._end("b")),
            self.limits,
            self.head_of_line,
        )

    def _end(self, side: str) -> End:
        rows = self.limits.filter(pl.col("side") == side)
        section = self.sections[side]
        paths = []
        for number, name in enumerate(self.names):
            own = rows.filter(pl.col("path") == number)
            if not own.is_empty():
                srtt = self.summary[f"{section}.path{number}.mean_srtt_ms"]
                account = _account(name, self.names, own, srtt, self._carried(name, side))
                repairs = own.filter(pl.col("limit").is_in(REPAIRS))
                down_s = self._down_s(self._route(name, side), repairs["start_s"], repairs["end_s"])
                paths.append(replace(account, repairs_down_s=down_s))
        return End(
            side,
            self.settings["from" if side == "a" else "to"],
            _account("connection", self.names, rows.filter(pl.col("path") == CONNECTION)),
            tuple(paths),
            self._receiver(self.head_of_line.filter(pl.col("side") == side)),
            int(self.summary.get(f"{section}.data_chunks_rescheduled", 0)),
            int(self.summary.get(f"{section}.ce_reported", 0)),
            {
                key: int(self.summary[scalar])
                for key, sent in FLOW_CONTROL.items()
                if (scalar := f"{section}.{sent}") in self.summary
            },
        )

    def _receiver(self, rows: pl.DataFrame) -> Receiver:
        seconds = self.end - self.start
        byte_s = pl.col("waiting_byte_s").sum()
        total = rows.select(byte_s).item()
        again = rows.filter("sent_again").select(byte_s).item()
        missing = rows.group_by("missing_path", maintain_order=True).agg(byte_s)
        return Receiver(
            rows.select((pl.col("end_s") - pl.col("start_s")).sum()).item() / seconds,
            total / seconds,
            {self.names[number]: value for number, value in missing.iter_rows()},
            again / total if total else math.nan,
            max(rows["stream"].n_unique(), 1),
        )

    def _carried(self, path: str, side: str) -> Carried:
        links = list(self._route(path, side))
        rates = [_rate(self.tree["links"][link]) for link, _ in links]
        # Where one rate is not known, the narrowest link is not known either.
        is_known = not any(math.isnan(rate) for rate in rates) and min(rates) < math.inf
        narrowest = rates.index(min(rates)) if is_known else len(rates) - 1
        link, direction = links[narrowest]
        delivered = self.summary[f"link.{link}.{direction}.delivered_bytes"]
        return Carried(
            link,
            rates[narrowest] if is_known else math.nan,
            delivered * 8 / (self.end - self.start),
            self._packets(links, "lost"),
            self._packets(links, "queue_full") + self._packets(links, "aqm"),
            self._down_s(links, pl.Series([self.start]), pl.Series([self.end])),
        )

    def _down_s(
        self,
        links: Iterable[tuple[str, str]],
        starts_s: pl.Series,
        ends_s: pl.Series,
    ) -> float:
        """How much of these times, in all, that of the links was down which was down longest."""
        longest = 0.0
        for link, direction in links:
            up = up_of(self.tree["links"][link], direction)
            until = [down_until(up, times.to_numpy()) for times in (starts_s, ends_s)]
            longest = max(longest, float((until[1] - until[0]).sum()))
        return longest

    def _packets(self, links: Sequence[tuple[str, str]], fate: str) -> int:
        """Packets that met this fate on these links."""
        names = (f"link.{link}.{direction}.{fate}_packets" for link, direction in links)
        return int(sum(self.summary.get(name, 0.0) for name in names))

    def _route(self, path: str, side: str) -> Iterator[tuple[str, str]]:
        """The links that this side's packets pass on a path, each with its direction."""
        settings = self.tree["paths"][path]
        via, at = settings["via"], self.settings["from"]
        if side == "b":
            via, at = settings.get("back", via[::-1]), self.settings["to"]
        for link in via:
            first, second = self.tree["links"][link]["ends"]
            is_forward = at == first
            at = second if is_forward else first
            yield link, "forward" if is_forward else "reverse"


def up_of(link: Tree, direction: str) -> object:
    """When a link is up in a direction, as the scenario has it."""
    up: object = link.get("up", True)
    return link.get("reverse", {}).get("up", up) if direction == "reverse" else up


def down_until(up: object, times_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """How long a link was down until each of these times, in seconds, as its `up` says."""
    if not isinstance(up, Mapping):
        return np.zeros(len(times_s)) if up else times_s
    steps = up["timetable"]
    from_s = np.array([milliseconds(start) for start, _ in steps]) / 1e3
    is_down = np.array([not value for _, value in steps])
    # Without `repeat` the last step has no end, and belongs to no time before one.
    repeat_s = milliseconds(up["repeat"]) / 1e3 if "repeat" in up else None
    lasts_s = np.diff(from_s, append=from_s[-1] if repeat_s is None else repeat_s)
    before_s = np.append(0.0, np.cumsum(np.where(is_down, lasts_s, 0.0)))
    cycles = np.zeros(len(times_s)) if repeat_s is None else np.floor(times_s / repeat_s)
    rest_s = times_s - cycles * (repeat_s or 0.0)
    step = np.searchsorted(from_s, rest_s, side="right") - 1
    partly_s = before_s[step] + is_down[step] * (rest_s - from_s[step])
    return np.asarray(cycles * before_s[-1] + partly_s)


def _within(rows: pl.DataFrame, start: float, end: float) -> pl.DataFrame:
    """The rows within this time; amounts of rows that cross its bounds are cut in proportion."""
    # The engine writes no rows without a duration, so there is no division by zero.
    whole = pl.col("end_s") - pl.col("start_s")
    cut = rows.with_columns(
        whole=whole,
        start_s=pl.col("start_s").clip(lower_bound=start),
        end_s=pl.col("end_s").clip(upper_bound=end),
    ).filter(pl.col("start_s") < pl.col("end_s"))
    if "waiting_byte_s" in cut.columns:
        cut = cut.with_columns(waiting_byte_s=pl.col("waiting_byte_s") * whole / pl.col("whole"))
    return cut.drop("whole")


def _account(
    name: str,
    names: Sequence[str],
    rows: pl.DataFrame,
    srtt_ms: float = math.nan,
    carried: Carried | None = None,
) -> Account:
    rows = rows.with_columns(seconds=pl.col("end_s") - pl.col("start_s"))
    seconds = dict.fromkeys(LIMITS, 0.0)
    seconds |= dict(rows.group_by("limit").agg(pl.col("seconds").sum()).iter_rows())
    waits = rows.filter(pl.col("waits_for") >= 0).group_by("waits_for", maintain_order=True)
    return Account(
        name,
        seconds,
        {names[number]: time for number, time in waits.agg(pl.col("seconds").sum()).iter_rows()},
        rows.filter(pl.col("limit") == "in_recovery").height,
        rows.filter(pl.col("limit") == "in_timeout").height,
        srtt_ms,
        carried,
    )


def _rate(link: Tree) -> float:
    """In bit/s; NaN where the link has no single one."""
    rate = link.get("rate")
    if rate is None and link.get("radio") is None:
        return math.inf
    return bits_per_second(rate) if isinstance(rate, str) else math.nan
