"""The goals of advice: what runs over the paths, and the scalar by which settings are ranked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from anabranch.errors import AnabranchError
from anabranch.support.transports import can

from . import video
from .paths import Paths, toml

_MOST_BYTES = 30e6
"""Bytes of a bulk transfer at most; it is shorter where the paths would need longer than
`_SECONDS`, so that a run stays short.
"""
_SECONDS = (4.0, 30.0)
_DIES_AFTER_S = 20
_LASTS_S = 100
_MESSAGES_PER_S = 50
_MESSAGES = 1500
_REQUESTS = 100


@dataclass(frozen=True)
class Goal:
    """A goal, and how it is measured."""

    name: str
    what: str
    """What is measured, in words."""
    unit: str
    transports: tuple[str, ...]
    """The transports that advice for this goal can be about."""
    higher_is_better: bool
    relevant: float
    """The smallest difference that matters: in the goal's unit, or as a share of the Linux
    defaults' mean.
    """
    relative: bool
    metric: Callable[[str], str]
    """Transport -> the scalar that is measured, or the name of what is made of several."""
    within: Callable[[str], dict[str, tuple[float, float]]]
    """Transport -> scalars, each with its range; a run with a value outside of it has failed."""
    scale: float
    """What the scalar is multiplied by to be in the goal's unit."""
    flows: Callable[[Paths, str], dict[str, dict[str, Any]]]
    made_of: Callable[[Mapping[str, Any]], pl.Expr] | None = None
    """The flow's application -> what is measured, made of several scalars."""
    explained: str = ""
    """What its unit means, where that is not known."""
    is_beside_bulk: bool = False
    """Whether a bulk transfer fills the first path meanwhile."""

    def beside_bulk(self) -> "Goal":
        """The same, beside a bulk transfer of TCP over the first path, in the call's direction."""
        if self.name not in ("mos", "video"):
            raise AnabranchError(f"--beside-bulk is for --goal mos and video, not for {self.name}")
        return replace(self, what=f"{self.what} beside a bulk transfer", is_beside_bulk=True)

    def transport(self, asked: str | None, paths: Paths) -> str:
        """The transport to advise on: the one asked for, or the goal's first possible one."""
        several = len(paths.names) > 1
        if asked is None:
            return next((t for t in self.transports if several or t != "mptcp"), self.transports[0])
        if asked not in self.transports:
            raise AnabranchError(
                f"transport is {asked}; for the goal {self.name} it must be "
                f"{' or '.join(self.transports)}"
            )
        return asked

    def scenario(self, paths: Paths, transport: str) -> str:
        """The scenario without any settings, as TOML text."""
        if self.name == "failover":
            if len(paths.names) < 2:
                raise AnabranchError(
                    f"the goal failover needs two paths or more: there is one, `{paths.names[0]}`"
                )
            link = paths.own_link(paths.names[0])
            reverse = paths.links[link].get("reverse", {})
            paths = paths.with_link(
                link,
                up={"timetable": [["0 s", True], [f"{_DIES_AFTER_S} s", False]]},
                down="drop",
                reverse={key: value for key, value in reverse.items() if key != "up"},
            )
        shared = {
            "from": paths.hosts[0],
            "to": paths.hosts[1],
            "paths": list(paths.names),
            "transport": {"kind": transport} | self._needed(paths, transport),
        }
        flows = {name: shared | {"app": app} for name, app in self.flows(paths, transport).items()}
        if can(transport).flow_control:
            paths.check_delays()
        if self.is_beside_bulk:
            paths.check_rates()
            flows["load"] = shared | {
                "paths": [paths.names[0]],
                "transport": {"kind": "tcp"},
                "app": {"kind": "bulk", "direction": self._direction(flows)},
            }
        run = {"duration": "300 s"}
        links = {"links": paths.links, "paths": paths.paths}
        return toml({"name": f"advise-{self.name}", "run": run} | links | {"flows": flows})

    def _direction(self, flows: Mapping[str, Any]) -> str:
        direction: str = flows["call"]["app"].get("direction", "a_to_b")
        return direction if self.name == "video" else "a_to_b"

    def _needed(self, paths: Paths, transport: str) -> dict[str, Any]:
        """What QUIC does not do by default: messages, and all paths at the same time."""
        if transport != "quic":
            return {}
        several = {"multipath": True} if len(paths.names) > 1 else {}
        return several | ({"datagrams": True} if self.name == "mos" else {})


def _call(_: Paths, transport: str) -> dict[str, dict[str, Any]]:
    call = {"kind": "voip", "start": {"from": "2 s", "to": "3 s"}, "duration": "60 s"}
    if not can(transport).flow_control:
        # A deeper jitter buffer, a longer packet and a slower codec cost delay from mouth to ear.
        call |= {"emodel": "g107", "delay": "mouth_to_ear"}
    return {"call": call}


def _video(paths: Paths, _: str) -> dict[str, dict[str, Any]]:
    """The video of the scenario, where that has one."""
    own = dict(paths.app) if paths.app.get("kind") == "video" else {}
    if own.get("direction") == "both":
        raise AnabranchError(
            'the video of the scenario has direction = "both", which must be a_to_b or b_to_a: '
            "the goal video is for one direction"
        )
    app = {"kind": "video", "start": {"from": "2 s", "to": "3 s"}, "duration": "60 s"}
    # What the control says first counts, not what the source would begin with.
    return {video.FLOW: app | {"rate": own.get("min_rate", "150 kbit/s")} | own}


def _transfer(paths: Paths, _: str) -> dict[str, dict[str, Any]]:
    paths.check_rates()
    return {"transfer": {"kind": "bulk", "duration": f"{_seconds(paths):g} s"}}


def _messages(_: Paths, transport: str) -> dict[str, dict[str, Any]]:
    """A message every 20 ms.

    The longest wait is measured from the last message before the path fails.
    """
    start = {"from": "1 s", "to": "2 s"}
    if not can(transport).keeps_messages:
        return {
            "messages": {
                "kind": "requests",
                "request_size": "160 B",
                "response_size": "160 B",
                "think_time": "20 ms",
                "count": _MESSAGES,
                "start": start,
            }
        }
    return {
        "messages": {
            "kind": "datagrams",
            "size": "160 B",
            "rate": "64 kbit/s",
            "intervals": {"kind": "cbr"},
            "start": start,
            "duration": f"{_LASTS_S} s",
            "measure": True,
            "gaps_after": f"{_DIES_AFTER_S} s",
        }
    }


def _requests(paths: Paths, _: str) -> dict[str, dict[str, Any]]:
    """Requests, while a bulk transfer fills the same paths in the responses' direction."""
    paths.check_rates()
    return {
        "requests": {
            "kind": "requests",
            "start": {"from": "3 s", "to": "4 s"},
            "count": _REQUESTS,
            "response_size": "10 kB",
            "think_time": {"kind": "exponential", "mean": "50 ms"},
        },
        "load": {"kind": "bulk", "direction": "b_to_a"},
    }


def _seconds(paths: Paths) -> float:
    rate = paths.rate()
    if rate is None:
        return sum(_SECONDS) / 2
    return round(min(max(_MOST_BYTES * 8 / rate, _SECONDS[0]), _SECONDS[1]), 1)


GOALS = {
    goal.name: goal
    for goal in (
        Goal(
            name="mos",
            what="MOS of a G.711 call of 60 s",
            unit="MOS",
            transports=("sctp", "udp", "quic", "rtp"),
            higher_is_better=True,
            relevant=0.1,
            relative=False,
            metric=lambda _: "call.mos",
            within=lambda _: {},
            scale=1.0,
            flows=_call,
        ),
        Goal(
            name="video",
            what="points of a call's video",
            unit="points",
            transports=("rtp",),
            higher_is_better=True,
            relevant=2.0,
            relative=False,
            metric=lambda _: video.METRIC,
            within=lambda _: {},
            scale=1.0,
            flows=_video,
            made_of=video.points,
            explained=video.EXPLAINED,
        ),
        Goal(
            name="goodput",
            what="goodput of a bulk transfer",
            unit="Mbit/s",
            transports=("mptcp", "tcp", "sctp", "quic"),
            higher_is_better=True,
            relevant=0.03,
            relative=True,
            metric=lambda _: "transfer.goodput_kbit_per_s",
            within=lambda _: {},
            scale=1e-3,
            flows=_transfer,
        ),
        Goal(
            name="failover",
            what="longest interruption when the primary path dies",
            unit="ms",
            transports=("sctp", "mptcp", "quic"),
            higher_is_better=False,
            relevant=20.0,
            relative=False,
            metric=lambda transport: (
                "messages.longest_gap_ms"
                if can(transport).keeps_messages
                else "messages.max_completion_ms"
            ),
            # An association that has ended has no further gaps, and one that sends everything
            # twice has none by design: runs of either kind count as failed.
            within=lambda transport: (
                {"messages.completed": (_MESSAGES, _MESSAGES)}
                if not can(transport).keeps_messages
                else {
                    "messages.unsent": (0, 0),
                    "messages.sctp.a.data_chunks_retransmitted": (
                        0,
                        _MESSAGES_PER_S * _LASTS_S / 2,
                    ),
                }
            ),
            scale=1.0,
            flows=_messages,
        ),
        Goal(
            name="latency",
            what="95th percentile of response times beside a bulk transfer",
            unit="ms",
            transports=("mptcp", "tcp", "sctp", "quic"),
            higher_is_better=False,
            relevant=0.05,
            relative=True,
            metric=lambda _: "requests.p95_completion_ms",
            within=lambda _: {"requests.completed": (_REQUESTS, _REQUESTS)},
            scale=1.0,
            flows=_requests,
        ),
    )
}
