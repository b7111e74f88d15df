"""A drawing of a scenario: hosts as bars, a card for each link between them, and the flows above.

Hosts stand in the order in which paths visit them, so that flows go from left to right. Where an
axis of the sweep changes a value, the drawing has the axis's name in its place.
"""

import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from graphlib import TopologicalSorter
from html import escape
from typing import Any

from anabranch._engine import Scenario

_BAR = 92
_GAP = 246
_CARD = 206
_LINE = 15
_PAD = 8
_MARGIN = 10
_PATH_INKS = ("--blue", "--orange", "--green", "--pink")

_ROOM = 34
"""Characters that fit on a line of a card."""

Table = Mapping[str, Any]

AxesOf = Callable[[str], tuple[list[str], bool]]
"""Gives the axes that change a key of a link (or one within it), and whether one changes all of it.
"""


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of a line; `axis` is set if it names an axis of the sweep."""

    text: str
    axis: bool = False


Line = list[Text]


@dataclass(slots=True)
class _Link:
    name: str
    left: str
    right: str
    paths: list[int]
    lines: list[Line]
    first: int = 0
    """The column of the host at its left."""
    last: int = 0
    y: float = 0.0

    @property
    def height(self) -> float:
        return 2 * _PAD + _LINE * (len(self.lines) + 1)


@dataclass(slots=True)
class _Host:
    column: int
    links: list[_Link] = field(default_factory=list)

    @property
    def top(self) -> float:
        return min((link.y - link.height / 2 for link in self.links), default=0)

    @property
    def bottom(self) -> float:
        return max((link.y + link.height / 2 for link in self.links), default=40)


class Diagram:
    """The drawing of a scenario.

    Parameters
    ----------
    scenario
        Its sweep may vary anything.
    id
        What ids in it begin with, which no other drawing of the page may have.
    """

    def __init__(self, scenario: Scenario, id: str = "network") -> None:  # noqa: A002 - its name
        self._id = id
        definition = tomllib.loads(scenario.to_toml())
        self._name = scenario.name
        self._flows: Table = definition["flows"]
        self._varied = dict(varied(definition.get("sweep", {})))
        paths: Table = definition["paths"]
        links: Table = definition["links"]
        self._path_names = list(paths)
        # As `run_plots.path_colours` has them.
        rank = {name: place for place, name in enumerate(sorted(paths))}
        self._inks = [_PATH_INKS[rank[name] % len(_PATH_INKS)] for name in paths]
        towards = _orientations(links, paths, self._flows)
        self._links = []
        for name, link in links.items():
            users = [i for i, path in enumerate(paths.values()) if name in path["via"]]
            lines = list(_link_lines(link, partial(self._axes_of, f"links.{name}.")))
            self._links.append(_Link(name, *towards[name], users, lines))
        self._place()

    def svg(self) -> str:
        """The drawing as SVG for use within a page, whose colours it takes."""
        columns = 1 + max(host.column for host in self._hosts.values())
        width = columns * _BAR + (columns - 1) * _GAP + 2 * _MARGIN
        flows, above = [], float(_MARGIN)
        for start, end, texts, axes in self._flow_lines():
            drawn, above = self._draw_flow(above, start, end, texts, axes)
            flows.append(drawn)
        above += 2
        top = min(host.top for host in self._hosts.values())
        bottom = max(host.bottom for host in self._hosts.values())
        height = above + bottom - top + 2 * _MARGIN + 6
        shift = above - top + _MARGIN
        parts = flows + [self._draw_link(link, shift) for link in self._links]
        parts += [self._draw_host(name, host, shift) for name, host in self._hosts.items()]
        return (
            f'<svg role="img" class="network" viewBox="0 0 {width:g} {height:g}"'
            f' style="max-width: {width * 1.25:g}px; min-width: {min(width * 0.7, 620):g}px"'
            ' xmlns="http://www.w3.org/2000/svg"'
            f' aria-labelledby="{self._id}-title {self._id}-text">'
            f'<title id="{self._id}-title">Network of {escape(self._name)}</title>'
            f'<desc id="{self._id}-text">{escape(self.words())}</desc>'
            f'<defs><marker id="{self._id}-arrow" viewBox="0 0 8 8" refX="7" refY="4"'
            ' markerWidth="7" markerHeight="7" orient="auto-start-reverse">'
            '<path d="M0 0L8 4L0 8z"/></marker>'
            f"</defs>{''.join(parts)}</svg>"
        )

    def words(self) -> str:
        """A description of the drawing for readers who do not see it."""
        links = [
            f"{link.name} from {link.left} to {link.right} ("
            + "; ".join("".join(piece.text for piece in line) for line in link.lines)
            + ")"
            for link in self._links
        ]
        flows = [f"{': '.join(texts)}" for _, _, texts, _ in self._flow_lines()]
        return f"Links: {', '.join(links)}. Flows: {'. '.join(flows)}."

    def _axes_of(self, table: str, part: str) -> tuple[list[str], bool]:
        """Implements `AxesOf` for one link."""
        key = f"{table}{part}"
        axes, is_whole = [], False
        for axis, keys in self._varied.items():
            around = any(f"{key}.".startswith(f"{k}.") or k == f"{key}.kind" for k in keys)
            if around or any(k.startswith(f"{key}.") for k in keys):
                axes.append(axis)
                is_whole |= around
        return axes, is_whole

    def _place(self) -> None:
        columns = _columns([(link.left, link.right) for link in self._links])
        self._hosts = {name: _Host(column) for name, column in columns.items()}
        for link in self._links:
            link.first, link.last = columns[link.left], columns[link.right]
            self._hosts[link.left].links.append(link)
            self._hosts[link.right].links.append(link)
        # Links of one host stand together, in the order of the paths; a link that passes a column
        # without stopping there goes below all others.
        rank = {link.name: _mean(link.paths, len(self._path_names)) for link in self._links}
        place = {
            name: _mean([rank[link.name] for link in host.links], 0.0)
            for name, host in self._hosts.items()
        }
        lowest: dict[int, float] = defaultdict(float)
        short = [link for link in self._links if link.last - link.first == 1]
        long = [link for link in self._links if link.last - link.first != 1]
        for gap in sorted({link.first for link in short}):
            stack = sorted(
                (link for link in short if link.first == gap),
                key=lambda link: (place[link.left], link.left, place[link.right], rank[link.name]),
            )
            y = 0.0
            for link in stack:
                link.y = y + link.height / 2
                y += link.height + 14
            for link in stack:  # around the middle line
                link.y -= (y - 14) / 2
            lowest[gap] = (y - 14) / 2
        for link in long:
            gaps = range(min(link.first, link.last), max(link.first, link.last))
            y = max((lowest[gap] for gap in gaps), default=0.0) + 22 + link.height / 2
            link.y = y
            for gap in gaps:
                lowest[gap] = y + link.height / 2

    def _flow_lines(self) -> Iterator[tuple[str, str, list[str], list[str]]]:
        """For each flow: first and last host, two lines of text, and the axes that change it."""
        for name, flow in self._flows.items():
            count = f" × {flow['count']}" if flow.get("count", 1) != 1 else ""
            app, transport = flow["app"], flow["transport"]
            what = [app["kind"], *_some(app, "codec", "rate", "size")]
            control = transport.get("cc", {})
            how = [transport["kind"], *_some(transport, "profile")]
            how += [control["kind"]] if isinstance(control, dict) and "kind" in control else []
            for part in ("policy", "load_sharing"):
                inner = transport.get(part)
                if isinstance(inner, dict):
                    how.append(str(inner.get("kind") or inner.get("scheduler") or part))
            varied_by, _ = self._axes_of("flows.", name)
            texts = [
                f"{name}{count}: {' '.join(what)}",
                f"{' '.join(how)} via {', '.join(flow['paths'])}",
            ]
            yield flow["from"], flow["to"], texts, varied_by

    def _draw_flow(
        self, top: float, start: str, end: str, texts: Sequence[str], axes: Sequence[str]
    ) -> tuple[str, float]:
        """Draws a flow; gives the drawing and the height of its lower end."""
        x1, x2 = (self._x(self._hosts[host].column) + _BAR / 2 for host in (start, end))
        left = min(x1, x2) + 4
        room = abs(x2 - x1) / 6.1
        lines = [f'<tspan class="strong">{_cut(texts[0], room)}</tspan>']
        lines.append(f'<tspan class="quiet">{_cut(texts[1], room)}</tspan>')
        length = len(texts[1])
        for axis in axes:
            named = f'<tspan class="axis">{_cut(axis, room)}</tspan>'
            length += 3 + len(axis)
            if length <= room:
                lines[-1] += f" · {named}"
            else:
                lines.append(named)
                length = len(axis)
        written = "".join(
            f'<text x="{left:g}" y="{top + 12 + 13 * i:g}">{line}</text>'
            for i, line in enumerate(lines)
        )
        y = top + 19 + 13 * (len(lines) - 1)
        line = f'<path class="flow" d="M{x1:g} {y:g}H{x2:g}" marker-end="url(#{self._id}-arrow)"/>'
        return f"<g>{written}{line}</g>", y + 8

    def _draw_link(self, link: _Link, shift: float) -> str:
        x1, x2 = self._x(link.first) + _BAR, self._x(link.last)
        y, top = link.y + shift, link.y + shift - link.height / 2
        x = (x1 + x2 - _CARD) / 2
        parts = []
        for k, path in enumerate(link.paths or [-1]):
            ink = self._inks[path] if path >= 0 else "--quiet"
            level = y + 4 * (k - (len(link.paths or [0]) - 1) / 2)
            parts.append(
                f'<path d="M{x1:g} {level:g}H{x2:g}" style="stroke: var({ink})" class="path"/>'
            )
        parts.append(
            f'<rect x="{x:g}" y="{top:g}" width="{_CARD}" height="{link.height:g}" rx="7"'
            ' class="card"/>'
        )
        baseline = top + _PAD + 11
        tags = ", ".join(self._path_names[path] for path in link.paths)
        name_room = 25 - min(len(tags), 14)
        parts.append(
            f'<text x="{x + _PAD:g}" y="{baseline:g}" class="strong">'
            f"{_cut(link.name, name_room)}</text>"
            f'<text x="{x + _CARD - _PAD:g}" y="{baseline:g}" text-anchor="end" class="quiet">'
            f"{_cut(tags, 14)}</text>"
        )
        for k, line in enumerate(link.lines, start=1):
            room: float = _ROOM
            pieces = []
            for piece in line:
                shown = _cut(piece.text, room)
                room -= len(piece.text)
                pieces.append(f'<tspan class="axis">{shown}</tspan>' if piece.axis else shown)
                if room <= 0:
                    break
            parts.append(
                f'<text x="{x + _PAD:g}" y="{baseline + k * _LINE:g}">{"".join(pieces)}</text>'
            )
        return f"<g>{''.join(parts)}</g>"

    def _draw_host(self, name: str, host: _Host, shift: float) -> str:
        x, top, bottom = self._x(host.column), host.top + shift, host.bottom + shift
        return (
            f'<g><rect x="{x:g}" y="{top:g}" width="{_BAR}" height="{bottom - top:g}" rx="9"'
            f' class="host"/><text x="{x + _BAR / 2:g}" y="{(top + bottom) / 2 + 4:g}"'
            f' text-anchor="middle" class="strong">{_cut(name, 11)}</text></g>'
        )

    def _x(self, column: int) -> float:
        return _MARGIN + column * (_BAR + _GAP)


def varied(sweep: Table) -> Iterator[tuple[str, list[str]]]:
    """The axes of a sweep and of its sub-studies, each with the keys that it sets."""
    for name, axis in sweep.get("axes", {}).items():
        keys = [axis["set"]] if isinstance(axis.get("set"), str) else list(axis.get("set", []))
        for case in axis.get("cases", {}).values():
            keys += case
        yield name, list(dict.fromkeys(keys))
    for study in sweep.get("studies", {}).values():
        yield from varied(study)


def _orientations(links: Table, paths: Table, flows: Table) -> dict[str, tuple[str, str]]:
    """Each link's ends in the order in which the first path that uses it goes through them."""
    orientations: dict[str, tuple[str, str]] = {}
    for flow in flows.values():
        for path in flow["paths"]:
            here = flow["from"]
            for name in paths[path]["via"]:
                first, second = links[name]["ends"]
                step = (first, second) if here == first else (second, first)
                orientations.setdefault(name, step)
                here = step[1]
    return {name: orientations.get(name, tuple(link["ends"])) for name, link in links.items()}


def _columns(steps: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Gives each host a column, to the right of all hosts that lead to it, except in a ring."""
    hosts = list(dict.fromkeys(host for step in steps for host in step))
    following: dict[str, list[str]] = {host: [] for host in hosts}
    before: dict[str, list[str]] = {host: [] for host in hosts}
    for first, second in dict.fromkeys(steps):
        if not _reaches(following, second, first):
            following[first].append(second)
            before[second].append(first)
    column = dict.fromkeys(hosts, 0)
    for host in TopologicalSorter(before).static_order():
        column[host] = max((column[first] + 1 for first in before[host]), default=0)
    # A host that nothing leads to stands directly before the first host that it leads to.
    for host in hosts:
        if following[host] and not before[host]:
            column[host] = min(column[after] for after in following[host]) - 1
    return column


def _reaches(following: Mapping[str, Sequence[str]], start: str, goal: str) -> bool:
    """Whether steps lead from one host to another; each host is visited once."""
    seen = {start}
    left = [start]
    while left and goal not in seen:
        new = [host for host in following[left.pop()] if host not in seen]
        seen.update(new)
        left += new
    return goal in seen


def _link_lines(link: Table, axes_of: AxesOf) -> Iterator[Line]:
    """The lines of a card below the link's name: rate and delay, loss, queue, cross traffic."""
    radio = link.get("radio")
    if radio is not None:
        parts = [_Part("radio", " ".join([radio["kind"], *_some(radio, "standard", "profile")]))]
    else:
        parts = [_Part("rate", _value(link["rate"]) if "rate" in link else "no rate limit")]
    parts.append(_Part("delay", _value(link["delay"]), "delay"))
    if _value(link.get("jitter", "0 s")) != "0 s" or axes_of("jitter")[0]:
        parts.append(_Part("jitter", f"+ 0–{_value(link['jitter'])}", "jitter"))
    yield from _lines(parts, axes_of)
    yield from _lines([_Part("loss", _loss(link["loss"]), "loss")], axes_of)
    if "rate" in link or radio is not None:
        queue = link["queue"]
        size = [f"{_value(queue[key])} {key}" for key in ("packets",) if key in queue]
        size += [_value(queue[key]) for key in ("bytes",) if key in queue]
        yield from _lines([_Part("queue", " ".join([queue["kind"], *size]), "queue")], axes_of)
    for i, traffic in enumerate(link.get("cross_traffic", ())):
        text = " ".join(["+", traffic["kind"], *_some(traffic, "rate", "load", "mean_wait")])
        yield from _lines([_Part(f"cross_traffic.{i}", text, "cross traffic")], axes_of)
    if "reverse" in link:
        changed = ", ".join(
            f"{key} {_loss(value) if key == 'loss' else _value(value)}"
            for key, value in link["reverse"].items()
        )
        yield from _lines([_Part("reverse", f"back: {changed}", "back")], axes_of)
    told = {"rate", "radio", "delay", "jitter", "loss", "queue", "cross_traffic", "reverse"}
    others = [axis for key in link if key not in told for axis in axes_of(key)[0]]
    if others:
        yield [Text("also: "), Text(", ".join(dict.fromkeys(others)), axis=True)]


@dataclass(frozen=True, slots=True)
class _Part:
    key: str
    text: str
    what: str = ""
    """Stands before the name of an axis."""


def _lines(parts: Sequence[_Part], axes_of: AxesOf) -> Iterator[Line]:
    """Puts the parts side by side, and on further lines where they do not fit."""
    line: Line = []
    for part in parts:
        axes, is_whole = axes_of(part.key)
        pieces = [Text(part.text)]
        if axes:
            # An axis may vary only a part of a loss or a queue: the rest stands beside its name.
            named = f"{part.what or part.key}: " if is_whole else f"{part.text}, "
            pieces = [Text(named), Text(", ".join(axes), axis=True)]
        before = [Text(" · ")] if line else []
        if _length([*line, *before, *pieces]) <= _ROOM:
            line += [*before, *pieces]
            continue
        if line:
            yield line
        while len(pieces) > 1 and _length(pieces) > _ROOM:
            yield [pieces.pop(0)]
        line = pieces
    yield line


def _length(line: Line) -> int:
    return sum(len(piece.text) for piece in line)


def _loss(loss: Table) -> str:
    kind = loss["kind"]
    if kind == "none":
        return "no loss"
    if kind == "bernoulli":
        return f"{_percent(loss['probability'])} random loss"
    if "mean_loss" in loss:
        burst = f", bad for {_value(loss['mean_bad'])}" if "mean_bad" in loss else ""
        return f"{kind} {_percent(loss['mean_loss'])}{burst}"
    return f"{kind} loss"


def _percent(value: object) -> str:
    try:
        return f"{100 * float(str(value)):g} %"
    except ValueError:
        return _value(value)


def _value(value: object) -> str:
    """A value as scenario files write it; a table by its kind."""
    if isinstance(value, Mapping):
        kind = next((k for k in ("mahimahi", "timetable") if k in value), None)
        return kind or str(value.get("kind", "table"))
    if isinstance(value, str) and value.endswith(" B"):
        return _bytes(value)
    return str(value)


def _bytes(text: str) -> str:
    count = float(text.removesuffix(" B"))
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 10 * size:
            return f"{count / size:g} {unit}"
    return text


def _some(table: Table, *keys: str) -> list[str]:
    return [_value(table[key]) for key in keys if key in table]


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _cut(text: str, room: float) -> str:
    """The text for SVG, cut with an ellipsis if it has more characters than there is room for."""
    most = max(int(room), 2)
    return escape(text if len(text) <= most else text[: most - 1] + "…")
