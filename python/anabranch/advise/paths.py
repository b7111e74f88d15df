"""The paths that advice is asked for: a file with links and paths as scenarios have them.

It is either a path file with `[links.NAME]` tables and perhaps `[paths.NAME]` (as `anabranch
profile` writes them), or a whole scenario, whose links, paths and the hosts of its first flow are
taken.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from anabranch._engine import Scenario
from anabranch.errors import AnabranchError
from anabranch.studies.result import Value, load
from anabranch.support.files import read_text
from anabranch.support.quantities import bits_per_second

_EXAMPLES = Path(__file__).parent / "examples"
_SECTIONS = ("links", "paths", "name", "description")
_HOSTS = ("here", "there")
"""The ends of links that do not name theirs."""
_BOUND = re.compile(
    r"^# links\.([\w-]+)\.(?:loss at (least|most) ([\d.]+ %): (\{.*\})|"
    r"delay at (most) ([\d.]+ ms))$",
    re.MULTILINE,
)
_REMEDY = re.compile(r"^# To know links\.([\w-]+)\.(loss|delay) better: (.*)$", re.MULTILINE)
"""The line in which `anabranch profile` says what its measurement leaves open."""
IDLE_PINGS = "pings while nothing else uses the path: ping -c 100 HOST"
"""What measures a delay."""
_PROBE = {"transport": {"kind": "udp"}, "app": {"kind": "datagrams"}}
"""What makes paths a flow, so that the engine can check them."""


@dataclass(frozen=True)
class Bound:
    """One end of what a measurement knows of a link, as its profile has it."""

    link: str
    key: str
    """`loss` for its mean loss, or `delay`."""
    end: str
    """`least` or `most`."""
    said: str
    """What it is there, such as `1.4 %`."""
    value: dict[str, Any] | str
    """What the link has there in a scenario."""
    remedy: str
    """What to measure in order to know it better."""


@dataclass(frozen=True)
class Paths:
    """Checked links and paths, every default filled in."""

    links: dict[str, dict[str, Any]]
    paths: dict[str, dict[str, Any]]
    names: tuple[str, ...]
    """The paths between the two hosts; the first is the primary path."""
    hosts: tuple[str, str]
    """The host that opens the connection, and the one that accepts it."""
    bounds: tuple[Bound, ...] = ()
    """What the measurements of these paths leave open."""
    undelayed: frozenset[str] = frozenset()
    """The links of path files that say no delay, nor a bound of it: simulations have none there."""
    app: Mapping[str, Any] = field(default_factory=dict)
    """What the first flow of a scenario runs; nothing for a path file."""

    def via(self, path: str) -> list[str]:
        """The names of a path's links, in order."""
        return list(self.paths[path]["via"])

    def bottlenecks(self) -> list[str]:
        """The slowest link of each path, as far as rates are constant."""
        links: dict[str, None] = {}
        for path in self.names:
            rates = {name: _rate(self.links[name]) for name in self.via(path)}
            known = [rate for rate in rates.values() if rate is not None]
            links.update({n: None for n, rate in rates.items() if known and rate == min(known)})
        return list(links)

    def rate(self) -> float | None:
        """The rate of all paths together in bit/s; None where a rate is not constant."""
        rates = [
            min((r for n in self.via(p) if (r := _rate(self.links[n])) is not None), default=None)
            for p in self.names
        ]
        return None if None in rates else sum(rate for rate in rates if rate is not None)

    def rate_of(self, link: str) -> float:
        """A bottleneck's rate in bit/s."""
        rate = _rate(self.links[link])
        assert rate is not None
        return rate

    def check_rates(self) -> None:
        """Raises an AnabranchError where nothing limits the rate of a path."""
        for path in self.names:
            if not any({"rate", "radio"} & self.links[name].keys() for name in self.via(path)):
                raise AnabranchError(
                    f"not enough known: the path `{path}` has no link with a rate, so nothing "
                    "limits a transfer over it; measure one that fills it, or write its rate"
                )

    def without_delay(self) -> list[str]:
        """The paths of whose delay nothing is known."""
        return [
            path
            for path in self.names
            if all(
                name in self.undelayed and "radio" not in self.links[name]
                for name in self.via(path)
            )
        ]

    def check_delays(self) -> None:
        """Raises an AnabranchError where a round trip over a path would take no time."""
        for path in self.without_delay():
            raise AnabranchError(
                f"not enough known: the path `{path}` has no link with a delay, so an "
                f"acknowledgement over it takes no time; measure it ({IDLE_PINGS}), or write its "
                "delay"
            )

    def own_link(self, path: str) -> str:
        """A link that only this path uses."""
        others = {name for other in self.names if other != path for name in self.via(other)}
        for name in self.via(path):
            if name not in others:
                return name
        raise AnabranchError(f"the path `{path}` has no link of its own that could fail")

    def with_link(self, name: str, **keys: object) -> "Paths":
        """These paths with other settings of one link."""
        return replace(self, links=self.links | {name: self.links[name] | keys})

    def at(self, bound: Bound) -> "Paths":
        """These paths at a bound. A loss is of one direction, as the measured one is."""
        if bound.key == "delay":
            return self.with_link(bound.link, delay=bound.value)
        reverse = self.links[bound.link].get("reverse", {}) | {"loss": {"kind": "none"}}
        return self.with_link(bound.link, loss=bound.value, reverse=reverse)


def examples() -> dict[str, Path]:
    """The path files that come with the package, by name."""
    return {path.stem: path for path in sorted(_EXAMPLES.glob("*.toml"))}


def read(sources: Sequence[str | Path], sets: Mapping[str, Value] | None = None) -> Paths:
    """Reads and checks path files or scenarios whose paths connect the same two hosts.

    Parameters
    ----------
    sources
        Their names, or those of examples.
    sets
        Values to change, by dotted path: `{"links.wifi.delay": "5 ms"}`.

    Raises
    ------
    AnabranchError, ScenarioError
        One sentence: the key, what was found, what is allowed.
    """
    if not sources:
        raise AnabranchError(f"there are no paths: name path files; {_examples()}")
    sections: dict[str, dict[str, Any]] = {"links": {}, "paths": {}}
    flow: dict[str, Any] = {}
    app: dict[str, Any] = {}
    bounds: list[Bound] = []
    undelayed: set[str] = set()
    for source in sources:
        of_file, checked, of_measurement, without_delay = _read_file(source)
        bounds += of_measurement
        undelayed |= without_delay
        if flow and _hosts(flow) != _hosts(of_file):
            raise AnabranchError(
                f"{source} joins {' and '.join(_hosts(of_file))}, not "
                f"{' and '.join(_hosts(flow))}: all paths lead from one host to one other"
            )
        for section, items in sections.items():
            if doubled := items.keys() & checked[section].keys():
                raise AnabranchError(f"{source}: {section}.{min(doubled)} is in another file, too")
            items.update(checked[section])
        names = [*flow.get("paths", []), *of_file["paths"]]
        app = app or of_file.get("app", {})
        flow = of_file | {"paths": names}
    flow = {key: flow[key] for key in ("from", "to", "paths")} | _PROBE
    pairs = [(key, _value(value)) for key, value in (sets or {}).items()]
    text = toml(sections | {"flows": {"probe": flow}})
    checked = tomllib.loads(Scenario.parse(text, pairs).to_toml())
    used = {name: checked["paths"][name] for name in flow["paths"]}
    crossed = {link for path in used.values() for link in path["via"]}
    # What the user sets is known, so its bounds do not matter.
    known = {tuple(key.split(".")[1:3]) for key, _ in pairs if key.startswith("links.")}
    bounds = [
        bound for bound in bounds if bound.link in crossed and (bound.link, bound.key) not in known
    ]
    undelayed -= {link for link, key in known if key == "delay"}
    return Paths(
        checked["links"],
        used,
        tuple(flow["paths"]),
        _hosts(flow),
        tuple(bounds),
        frozenset(undelayed),
        app,
    )


def _read_file(
    source: str | Path,
) -> tuple[dict[str, Any], dict[str, Any], list[Bound], set[str]]:
    """Gives the flow over a file's paths, the checked scenario, and the bounds in a profile.

    Also the links without a delay, of a path file: who writes a whole scenario has its defaults.
    """
    path = Path(source)
    if not path.exists() and str(source) in examples():
        path = examples()[str(source)]
    try:
        text = read_text(path)
        content = tomllib.loads(text)
    except FileNotFoundError:
        raise AnabranchError(f"there is no file {source}; {_examples()}") from None
    except IsADirectoryError:
        raise AnabranchError(f"{path} is a folder, not a path file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise AnabranchError(
            f"{path} is not TOML, as path files are: {error}; of a capture or of pings, "
            "`anabranch profile` makes one"
        ) from None
    except RecursionError:
        message = f"{path} cannot be read: its lists and tables are nested too deeply"
        raise AnabranchError(message) from None
    if "flows" in content:
        scenario = load(path)
        flow = next(iter(content["flows"].values()))
    else:
        flow = _complete(content, path)
        sections = {name: content[name] for name in _SECTIONS if name in content}
        probed = toml(sections | {"flows": {"probe": flow | _PROBE}})
        # Names of trace files are relative to the folder of the path file.
        scenario = Scenario.parse(probed, [], str(path.parent))
    has_delay = {name for name, link in content.get("links", {}).items() if "delay" in link}
    bounds = [
        bound
        for bound in _bounds(text, path)
        # Who has written a delay into a profile without one knows it.
        if bound.key != "delay" or bound.link not in has_delay
    ]
    said = has_delay | {bound.link for bound in bounds if bound.key == "delay"}
    without_delay = set() if "flows" in content else content["links"].keys() - said
    return flow, tomllib.loads(scenario.to_toml()), bounds, without_delay


def _bounds(text: str, path: Path) -> list[Bound]:
    # A profile folds its comments to the width of a terminal.
    text = text.replace("\n#   ", " ")
    remedies = {(link, key): remedy for link, key, remedy in _REMEDY.findall(text)}
    bounds = []
    for link, end, mean, loss, most, delay in _BOUND.findall(text):
        key = "delay" if delay else "loss"
        remedy = remedies.get((link, key), "more packets")
        if delay:
            bounds.append(Bound(link, key, most, delay, delay, remedy))
            continue
        try:
            model = tomllib.loads(f"loss = {loss}")["loss"]
        except tomllib.TOMLDecodeError as error:
            raise AnabranchError(f"{path}: links.{link}.loss at {end} {mean}: {error}") from None
        bounds.append(Bound(link, key, end, mean, model, remedy))
    return bounds


def _examples() -> str:
    return f"examples that need none are {', '.join(examples())}"


def _hosts(flow: Mapping[str, Any]) -> tuple[str, str]:
    return flow["from"], flow["to"]


def _complete(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """Fills in what a path file may leave out; gives the hosts and paths of a flow over it."""
    if unknown := [name for name in content if name not in _SECTIONS]:
        raise AnabranchError(
            f"{path} has an unknown key `{unknown[0]}`; a path file has [links.NAME] and "
            "[paths.NAME] tables, as in a scenario"
        )
    links = content.get("links")
    if not isinstance(links, dict) or not all(isinstance(link, dict) for link in links.values()):
        links = {}
    if not links:
        raise AnabranchError(f"{path} has no links: it needs a [links.NAME] table for each")
    for link in links.values():
        link.setdefault("ends", list(_HOSTS))
    paths = content.setdefault("paths", {name: {"via": [name]} for name in links})
    paths = paths if isinstance(paths, dict) else {}
    # The engine reports paths whose ends cannot be told.
    hosts = {ends for way in paths.values() if (ends := _ends(way, links)) is not None}
    if len(hosts) > 1:
        raise AnabranchError(
            f"{path}: the paths must lead from one host to one other, all the same"
        )
    start, end = next(iter(hosts), _HOSTS)
    return {"from": start, "to": end, "paths": list(paths)}


def _ends(path: object, links: dict[str, Any]) -> tuple[str, str] | None:
    """Where a path begins and ends; None where the engine will report a mistake."""
    via = path.get("via", []) if isinstance(path, dict) else []
    if not isinstance(via, list) or not via or any(name not in links for name in via):
        return None
    if any(not isinstance(e := links[n]["ends"], list) or len(e) != 2 for n in via):
        return None
    here: str | None = None
    for position, name in enumerate(via):
        ends = links[name]["ends"]
        if here is None:
            following = links[via[position + 1]]["ends"] if position + 1 < len(via) else ends[1:]
            here = start = ends[0] if ends[1] in following else ends[1]
        here = ends[1] if here == ends[0] else ends[0]
    return (start, here) if here is not None else None


def _value(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rate(link: Mapping[str, Any]) -> float | None:
    rate = link.get("rate")
    return bits_per_second(rate) if isinstance(rate, str) else None


def toml(content: Mapping[str, Any]) -> str:
    """A table as TOML text; the keys of the first two levels have a line each."""
    lines = []
    for name, value in content.items():
        if isinstance(value, Mapping) and all(isinstance(item, Mapping) for item in value.values()):
            for key, item in value.items():
                lines += [f"[{_key(name)}.{_key(key)}]", *_pairs(item), ""]
        elif isinstance(value, Mapping):
            lines += [f"[{_key(name)}]", *_pairs(value), ""]
        else:
            lines.insert(0, f"{_key(name)} = {_inline(value)}")
    return "\n".join(lines) + "\n"


def _pairs(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(name)} = {_inline(value)}" for name, value in table.items()]


def _inline(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_pairs(value)) + " }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    return _key(value) if isinstance(value, str) else str(value).lower()


def _key(text: str) -> str:
    # JSON and TOML escape the same characters in the same way.
    return json.dumps(text)
