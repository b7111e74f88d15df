"""Random scenario files, made from the schema: every section and every kind can come up.

The network is a row of nodes with one to three links between neighbours; paths choose one link of
each. Everything else is drawn from `docs/scenario.schema.json`: values are near the defaults or
within the ranges that descriptions give. Most of what that breaks is repaired: the message that
refuses a scenario names a key, which is removed, as a user would do. Some scenarios stay as they
are, so that refusals are tested as well.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from anabranch.support.toml_text import inline

SCHEMA = Path(__file__).parent.parent / "docs" / "scenario.schema.json"

MOST_REPAIRS = 40
"""A scenario that is refused more often than this stays invalid."""

_REPAIRED = 0.9
"""The share of scenarios that are repaired."""

_UNITS = {
    "Duration": {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0},
    "Bytes": {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9},
    "Rate": {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9},
}
_BASE = {"Duration": "s", "Bytes": "B", "Rate": "bit/s"}
_USUAL = {
    "Duration": (0.0, 1e-6, 1e-3, 0.005, 0.02, 0.1, 0.3337, 0.5, 1.0, 2.0),
    "Bytes": (0.0, 1.0, 40.0, 300.0, 500.0, 1500.0, 4000.0, 20e3, 65e3, 400e3),
    "Rate": (1.0, 8e3, 64e3, 256_001.0, 1e6, 1e6, 2e6, 8e6),
}
"""Values of quantities without a default, in base units."""

_FACTORS = (0.0, 0.1, 0.5, 1.0, 1.0, 1.5, 2.0, 10.0)
"""What a default is multiplied by."""

PLUGINS = "own.py"
"""The file of the plug-ins that scenarios use, beside them."""

_NESTED = ("bands", "child")
"""Keys of a queue discipline with further ones in it."""

_CLASSES = {
    "CongestionControlConfig": ("Gentle", "Refuses", "Reno"),
    "PathPolicyConfig": ("Centric", "DelayCentric"),
    "QueueConfig": ("Codel", "Short"),
    "SchedulerConfig": ("Last", "MinRtt"),
}
"""Definition -> classes of `PLUGINS`, and of the package's examples."""

_PLUGINS_TEXT = """\
from anabranch.plugins import PathPolicy
from anabranch.plugins.examples import Codel, DelayCentric, MinRtt, Reno


class Gentle(Reno):
    def threshold(self, event):
        return max(self.cwnd - self.cwnd // 8, 2)


class Refuses(Reno):
    def on_congestion(self, event):
        raise ValueError("it does not do that")


class Centric(PathPolicy):
    pass


class Short(Codel):
    pass


class Last(MinRtt):
    pass
"""

Tree = dict[str, Any]
Key = tuple[str | int, ...]


@cache
def read_schema() -> Any:
    """The schema of scenario files."""
    return json.loads(SCHEMA.read_text(encoding="utf-8"))


@dataclass
class RandomScenario:
    """A scenario as a tree, and how it is cut into files."""

    tree: Tree
    is_included: bool = False
    """Whether its links and paths are in a second file."""
    is_repaired: bool = True
    writes_traces: bool = True
    """Whether its traces are written to files; otherwise they are only recorded."""
    repairs: int = 0

    def files(self) -> dict[str, str]:
        """The files: `scenario.toml` and those that it needs."""
        tree = dict(self.tree)
        files = {PLUGINS: _PLUGINS_TEXT} if f"{Path(PLUGINS).stem}:" in json.dumps(tree) else {}
        if "loss.trace" in json.dumps(tree):
            files["loss.trace"] = "0\n0\n0\n1\n0\n0\n1\n1\n0\n0\n"
        if "rate.trace" in json.dumps(tree):
            files["rate.trace"] = "".join(f"{time}\n" for time in range(1, 60, 7))
        if self.is_included:
            included: Tree = {n: tree.pop(n) for n in ("links", "paths") if n in tree}
            files["included.toml"] = text_of(included)
            tree = {"include": ["included.toml"]} | tree
        return files | {"scenario.toml": text_of(tree)}

    def write(self, folder: Path) -> Path:
        """Writes the files; gives the path of the scenario."""
        for name, text in self.files().items():
            (folder / name).write_text(text, encoding="utf-8")
        return folder / "scenario.toml"


def text_of(tree: Tree) -> str:
    """A tree as TOML, with a section for each link, path and flow."""
    plain = [f"{key} = {inline(value)}" for key, value in tree.items() if not _is_table(value)]
    sections = []
    for key, value in tree.items():
        if key in ("links", "paths", "flows") and _is_table(value):
            sections += [_section(f"{key}.{inline(name)}", value[name]) for name in value]
        elif _is_table(value):
            sections.append(_section(key, value))
    return "\n".join([*plain, *sections]) + "\n"


def _section(name: str, table: Any) -> str:
    lines = [f"{inline(key)} = {inline(value)}" for key, value in table.items()]
    return "\n".join([f"[{name}]", *lines])


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


@dataclass
class Generator:
    """Draws scenarios.

    Parameters
    ----------
    random
        What draws; equal seeds give equal scenarios.
    wanted
        A kind of the schema, such as `LossConfig.gilbert`, that comes up wherever it can.
    """

    random: Random
    wanted: str = ""
    schema: Mapping[str, Any] = field(default_factory=read_schema)
    _known: dict[str, frozenset[str]] = field(default_factory=dict)

    def scenario(self) -> RandomScenario:
        """A scenario; whether it is valid is not known."""
        draw = self.random
        nodes = [f"n{number}" for number in range(draw.choice((2, 2, 2, 3, 4)))]
        hops = [
            [f"l{hop}{letter}" for letter in "abc"[: draw.choice((1, 1, 2, 2, 3))]]
            for hop in range(len(nodes) - 1)
        ]
        tree: Tree = {
            "name": "found",
            "seed": draw.choice((0, 1, 2**63 - 1, draw.randrange(10**6))),
        }
        tree["run"] = self._run()
        tree["links"] = {
            name: {"ends": [nodes[hop], nodes[hop + 1]], **self._link()}
            for hop, names in enumerate(hops)
            for name in names
        }
        most = max(map(len, hops))
        tree["paths"] = {
            f"p{number}": {
                "via": [names[number % len(names)] for names in hops],
                **self._some("PathConfig", most=1),
            }
            for number in range(draw.randint(1, most))
        }
        tree["flows"] = {
            f"f{number}": self._flow(nodes, list(tree["paths"]))
            for number in range(draw.choice((1, 1, 1, 2, 3)))
        }
        if draw.random() < 0.4 or self._leads(_ref("Sweep")):
            tree["sweep"] = self._sweep(tree)
        return RandomScenario(
            tree,
            is_included=draw.random() < 0.15,
            is_repaired=draw.random() < _REPAIRED,
            writes_traces=draw.random() < 0.3,
        )

    def _run(self) -> Tree:
        draw = self.random
        run: Tree = {
            "duration": draw.choice(("200 ms", "1 s", "1 s", "3 s")),
            "max_events": 60_000,
            "max_wall_time": "20 s",
            "max_memory": "300 MB",
        }
        if draw.random() < 0.2:
            run["warm_up"] = draw.choice(("0 s", "50 ms", "150.0005 ms"))
        if draw.random() < 0.15:
            run["phases"] = draw.choice((["160 ms"], ["170 ms", "190 ms"]))
        if draw.random() < 0.2:
            run["time_accounts"] = True
        return run

    def _link(self) -> Tree:
        draw = self.random
        link: Tree = {}
        how = draw.random()
        if how < 0.7:
            link["rate"] = draw.choice(("37 kbit/s", "256001 bit/s", "1 Mbit/s", "8 Mbit/s"))
        elif how < 0.85:
            link["radio"] = self._value(_ref("RadioConfig"), {})
        if draw.random() < 0.8:
            link["delay"] = draw.choice(("0 s", "1 ms", "10 ms", "10 ms", "33.3337 ms", "0.3 s"))
        if "rate" not in link and self._leads(_ref("RadioConfig")):
            link["radio"] = self._value(_ref("RadioConfig"), {})
        link |= self._some("LinkConfig", leave=("ends", "radio"), most=4)
        return link

    def _flow(self, nodes: list[str], paths: list[str]) -> Tree:
        draw = self.random
        ends = [nodes[0], nodes[-1]]
        flow: Tree = {"from": ends[0], "to": ends[1], "paths": [draw.choice(paths)]}
        kinds = ("mptcp", "quic", "rtp", "sctp", "sctp", "tcp", "tcp", "udp")
        kind = self._kind("TransportConfig", kinds)
        if kind in ("mptcp", "sctp") or (kind == "quic" and draw.random() < 0.5):
            flow["paths"] = paths
        flow["transport"] = self._variant("TransportConfig", "kind", kind)
        apps = {
            "tcp": ("bulk", "bulk", "requests", "web", "responsiveness", "voip"),
            "mptcp": ("bulk", "requests", "web", "responsiveness"),
            "quic": ("bulk", "datagrams", "requests", "responsiveness", "voip", "web"),
            "rtp": ("datagrams", "video", "voip"),
            "udp": ("datagrams", "video", "voip"),
            "sctp": ("bulk", "datagrams", "requests", "video", "voip"),
        }
        app = self._variant("AppConfig", "kind", self._kind("AppConfig", apps[kind]))
        # Most defaults are those of long runs.
        if draw.random() < 0.9:
            app["start"] = draw.choice(("0 s", "1 ms", "20 ms", {"from": "0 s", "to": "100 ms"}))
        flow["app"] = app
        if draw.random() < 0.12:
            flow["count"] = draw.choice((2, 3, 12))
        if draw.random() < (0.3 if kind == "quic" else 0.05):
            changes = ("rebind_port", "rebind_address") if kind == "quic" else ("add", "delete")
            flow["addresses"] = [
                {"at": self._quantity("Duration", None), draw.choice(changes): flow["paths"][-1]}
            ]
        if draw.random() < 0.05:
            flow["transport_to"] = self._variant("TransportConfig", "kind", kind)
        flow |= self._some("FlowConfig", keys=("dscp", "ip", "stagger"), most=1)
        return flow

    def _sweep(self, tree: Tree) -> Tree:
        draw = self.random
        sweep: Tree = self._axes(tree)
        if draw.random() < 0.6:
            sweep["replications"] = draw.randint(1, 2)
        if draw.random() < 0.15:
            sweep["metrics"] = draw.choice((["f0.*"], ["link.*", "run.*"], ["*.forward.*"]))
        if draw.random() < 0.15:
            sweep["traces"] = [draw.choice(("packets", "events", "frames", "queues", "paths"))]
        if draw.random() < 0.1:
            sweep["studies"] = {"sub": self._axes(tree)}
        return sweep

    def _axes(self, tree: Tree) -> Tree:
        draw = self.random
        if self._leads(_ref("Design")):
            ends = {"from": "1 ms", "to": "9 ms"}
            ranges = {
                f"axis{letter}": {
                    "set": f"links.l0a.{key}",
                    draw.choice(("range", "log_range")): ends,
                }
                for letter, key in (("a", "delay"), ("b", "jitter"))
            }
            kind = self._value(_ref("DesignKind"), {})
            return {"axes": ranges, "design": {"kind": kind, "points": draw.choice((1, 2))}}
        leaves = [(key, value) for key, value in _leaves(tree) if _can_vary(key)]
        axes: Tree = {}
        for number in range(draw.choice((0, 1, 1, 2))):
            key, value = draw.choice(leaves)
            name, path = f"axis{number}", ".".join(map(str, key))
            numeric = isinstance(value, int | float) and not isinstance(value, bool)
            if numeric and draw.random() < 0.4:
                ends = {"from": min(value, 10**9), "to": min(value, 10**9) + 2}
                axes[name] = {"set": path, "range": ends | {"count": 2}}
            elif draw.random() < 0.2:
                axes[name] = {"cases": {"as_is": {path: value}, "seeded": {"seed": 5}}}
            elif draw.random() < 0.2:
                axes[name] = {"set": "links.l0a.delay", "log_range": {"from": "1 ms", "to": "9 ms"}}
                if draw.random() < 0.7:
                    axes[name]["log_range"]["count"] = 2
            else:
                axes[name] = {"set": path, "values": [value, self._other(value)]}
        part: Tree = {"axes": axes} if axes else {}
        many = list(axes)
        if len(many) == 2 and draw.random() < 0.2:
            part["zip"] = [many]
        if axes and draw.random() < 0.15:
            part["where"] = [f"{many[0]} == {many[0]}"]
        if axes and draw.random() < 0.15:
            part["design"] = {
                "kind": draw.choice(("latin_hypercube", "sobol", "saltelli")),
                "points": draw.choice((2, 3, 4)),
            }
        if axes and draw.random() < 0.1:
            part["cells"] = [{many[0]: _first(axes[many[0]])}]
        if draw.random() < 0.1:
            part["until"] = {"metric": "run.packets_sent", "half_width": 1, "least": 2, "most": 4}
        return part

    def _other(self, value: Any) -> Any:
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return value + 1 if value < 10**9 else 1
        if isinstance(value, float):
            return value * 0.5
        if isinstance(value, str):
            for definition in _UNITS:
                if _number(definition, value) is not None:
                    return self._quantity(definition, value)
        return value

    def _some(
        self,
        definition: str,
        *,
        keys: tuple[str, ...] = (),
        leave: tuple[str, ...] = (),
        most: int,
    ) -> Tree:
        """Some optional keys of a definition."""
        node = self.schema["$defs"][definition]
        known = [
            key
            for key in node["properties"]
            if key not in leave
            and key not in node.get("required", ())
            and (not keys or key in keys)
        ]
        chosen = self.random.sample(known, min(self.random.randint(0, most), len(known)))
        chosen += [key for key in known if self._leads(node["properties"][key])]
        return {key: self._value(node["properties"][key], node) for key in chosen}

    def _kind(self, definition: str, kinds: tuple[str, ...]) -> str:
        """One of these kinds; one that can have what is wanted, if there is one."""
        leading = [
            kind
            for kind in kinds
            if f"{definition}.{kind}" == self.wanted
            or any(
                _tag(form) == kind and self._leads(form)
                for form in self.schema["$defs"][definition]["oneOf"]
            )
        ]
        return self.random.choice(leading or kinds)

    def _leads(self, node: Any) -> bool:
        """Whether a value of this node can have the kind that is wanted."""
        return bool(self.wanted) and self.wanted.partition(".")[0] in self._below(node)

    def _below(self, node: Any) -> frozenset[str]:
        """The definitions that a node of the schema can lead to."""
        text = json.dumps(node)
        if text not in self._known:
            found: set[str] = set()
            new = set(re.findall(r"#/\$defs/(\w+)", text))
            while new:
                found |= new
                inner = json.dumps([self.schema["$defs"][name] for name in new])
                new = set(re.findall(r"#/\$defs/(\w+)", inner)) - found
            self._known[text] = frozenset(found)
        return self._known[text]

    def _variant(self, definition: str, tag: str, kind: str) -> Tree:
        variants = self.schema["$defs"][definition]["oneOf"]
        (node,) = [v for v in variants if v.get("properties", {}).get(tag, {}).get("const") == kind]
        return self._object(node, definition)  # type: ignore[no-any-return]

    def _value(self, node: Any, within: Any, definition: str = "") -> Any:
        """A value for a node of the schema."""
        draw = self.random
        default, said = node.get("default"), node.get("description", "")
        if "anyOf" in node or "oneOf" in node:
            forms = [f for f in node.get("anyOf", node.get("oneOf")) if f.get("type") != "null"]
            if any("kind" in form.get("properties", {}) for form in forms):
                # A kind alone is not drawn: some kinds need settings that the schema cannot tell.
                forms = [form for form in forms if "properties" in form]
            named = [form for form in forms if f"{definition}.{_tag(form)}" == self.wanted]
            form = draw.choice(named or [f for f in forms if self._leads(f)] or forms)
            return self._value({"default": default, "description": said} | form, within, definition)
        if "$ref" in node:
            name = node["$ref"].rpartition("/")[2]
            if name in _UNITS:
                return self._quantity(name, default)
            if name == "TraceFile":
                return draw.choice(("loss.trace", "rate.trace"))
            inner = self.schema["$defs"][name]
            kept = {key: node[key] for key in ("default",) if key in node}
            return self._value(inner | kept, within, name)
        if constants := node.get("enum", [node["const"]] if "const" in node else None):
            return draw.choice(constants)
        kinds = node.get("type")
        kind = (
            kinds if isinstance(kinds, str) else next(k for k in kinds or ["object"] if k != "null")
        )
        makers: dict[str, Callable[[], Any]] = {
            "array": lambda: self._array(node, within),
            "boolean": lambda: draw.random() < 0.5,
            "integer": lambda: self._integer(default, said),
            "number": lambda: self._float(default, said),
            "object": lambda: self._object(node, definition),
            "string": lambda: self._string(node, definition),
        }
        return makers[kind]()

    def _object(self, node: Any, definition: str) -> Any:
        draw = self.random
        properties = node.get("properties", {})
        if not properties:  # settings of a plug-in
            return {}
        required = list(node.get("required", ()))
        optional = [key for key in properties if key not in required]
        # A key that chooses among models comes up more often than one that says how many.
        weighed = [
            key for key in optional for _ in range(4 if self._chooses(properties[key]) else 1)
        ]
        chosen = draw.sample(weighed, min(draw.choice((0, 0, 1, 2, 3, 4, 6)), len(weighed)))
        chosen += [key for key in optional if self._leads(properties[key]) and key not in _NESTED]
        table: Tree = {}
        for key in dict.fromkeys([*required, *chosen]):
            if key == "class":
                name = draw.choice(_CLASSES.get(definition, ("Reno",)))
                module = draw.choice(("own", "own", "anabranch.plugins.examples"))
                table[key] = f"{module}:{name}"
            elif key == "python":
                name = draw.choice(_CLASSES["SchedulerConfig"])
                table[key] = {"class": f"own:{name}"}
            elif key == "timetable":
                table[key] = self._timetable(properties[key])
            elif key == "child" and draw.random() < 0.3:
                continue
            elif key == "bands":
                table[key] = self._bands()
            else:
                table[key] = self._value(properties[key], node)
        if table.get("kind") == "gilbert":
            self._complete_gilbert(table)
        elif table.get("kind") == "voip" and draw.random() < 0.7:
            # Few codecs have both values in G.113.
            table |= {"ie": draw.choice((0, 11)), "bpl": draw.choice((4.3, 16.1))}
        return table

    def _complete_gilbert(self, loss: Tree) -> None:
        """Its chain is given by two probabilities, or by means."""
        draw = self.random
        for key in ("p", "r", "mean_loss", "mean_bad", "mean_bad_steps"):
            loss.pop(key, None)
        if draw.random() < 0.5:
            loss |= {"p": draw.choice((0.001, "2 %")), "r": draw.choice((0.3, "10 %", 1))}
        elif loss.get("clock") in ("packet", "bit"):
            loss |= {"mean_loss": "1 %", "mean_bad_steps": draw.choice((2, 50))}
        else:
            loss |= {"mean_loss": draw.choice((0.01, "20 %")), "mean_bad": "40 ms"}

    def _chooses(self, node: Any) -> bool:
        forms = [node, *node.get("anyOf", ())]
        names = [form["$ref"].rpartition("/")[2] for form in forms if "$ref" in form]
        return any(len(self.schema["$defs"][name].get("oneOf", ())) > 2 for name in names)

    def _bands(self) -> list[Tree]:
        """Bands of which one has the packets that no other names."""
        draw = self.random
        names, numbers = self.schema["$defs"]["Dscp"]["anyOf"]
        urgent = {"dscp": [*draw.sample(names["enum"], draw.randint(1, 2)), numbers["maximum"]]}
        rest: Tree = {}
        bands: list[Tree] = [[rest], [urgent, rest], [urgent, rest, {"dscp": [2]}]][
            draw.randrange(3)
        ]
        for band in bands:
            if draw.random() < 0.2:
                queue = self.schema["$defs"]["BandConfig"]["properties"]["queue"]
                band["queue"] = self._value(queue, {})
        return bands

    def _timetable(self, node: Any) -> list[Any]:
        value = node["items"]["prefixItems"][1]
        times = sorted(
            {0, *(self.random.randrange(1, 900) for _ in range(self.random.randint(0, 2)))}
        )
        return [[f"{time} ms", self._value(value, {})] for time in times]

    def _array(self, node: Any, within: Any) -> list[Any]:
        if "prefixItems" in node:
            return [self._value(item, within) for item in node["prefixItems"]]
        items = node.get("items", {"type": "integer"})
        return [self._value(items, within) for _ in range(self.random.randint(1, 2))]

    def _quantity(self, definition: str, default: Any) -> str:
        base = _number(definition, default) if isinstance(default, str) else None
        value = (
            self.random.choice(_USUAL[definition])
            if base is None
            else base * self.random.choice(_FACTORS)
        )
        return f"{value:.9g} {_BASE[definition]}"

    def _integer(self, default: Any, said: str) -> int:
        low, high = _range(said)
        choices = [0, 1, 1, 2, 3, 10]
        if isinstance(default, int):
            choices = [default, default, default + 1, default // 2, 2 * default]
        if not math.isnan(low):
            top = int(min(high, low + 20)) if not math.isnan(high) else int(low) + 3
            choices += [int(low), int(low), top, self.random.randint(int(low), max(top, int(low)))]
        return max(0, self.random.choice(choices))

    def _float(self, default: Any, said: str) -> float:
        low, high = _range(said)
        choices = [0.0, 0.01, 0.1, 0.5, 1.0]
        if isinstance(default, int | float):
            choices = [default, default, default * 0.5, default * 1.5]
        if not (math.isnan(low) or math.isnan(high)):
            choices += [low, high, self.random.uniform(low, high)]
        return float(self.random.choice(choices))

    def _string(self, node: Any, definition: str) -> str:
        if definition == "Probability" or "%" in node.get("pattern", ""):
            return self.random.choice(("0 %", "0.1 %", "2 %", "20 %", "100 %"))
        return self.random.choice(("p0", "p1", "one", "n0"))


def repair(scenario: RandomScenario, message: str) -> bool:
    """Removes the key that a message refuses; gives whether there was one."""
    keys = []
    for path in re.findall(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*", message):
        words = path.split(".")
        if words[0] == "flows" and len(words) > 1 and words[1] not in scenario.tree["flows"]:
            words[1] = words[1].rpartition("_")[0]  # a member of a flow with a `count`
        key = _found(scenario.tree, words)
        if key and key[0] in ("run", "links", "paths", "flows", "sweep", "name", "seed"):
            keys.append(key)
    if not keys:
        return False
    key = keys[0]
    scenario.repairs += 1
    if len(key) <= 2 or (len(key) == 3 and key[2] in ("app", "transport", "from", "to", "paths")):
        # The section itself, or what it must have: one that is as simple as can be.
        return _simplify(scenario.tree, key)
    remove(scenario.tree, key)
    return True


def _simplify(tree: Tree, key: Key) -> bool:
    section, name = key[0], key[1] if len(key) > 1 else None
    if section == "sweep" and name != "axes":
        return tree.pop("sweep", None) is not None
    table: Any = tree[str(section)] if name is None else tree[str(section)][name]
    optional = [each for each in table if each not in ("ends", "from", "to", "paths", "via")]
    if section == "flows" and name is not None:
        simple = {"transport": {"kind": "tcp"}, "app": {"kind": "bulk", "bytes": "20 kB"}}
        is_simple = all(table[each] == value for each, value in simple.items())
        table |= simple | {"paths": table["paths"][:1]}
        return not is_simple
    if not optional or name is None:
        return False
    del table[optional[-1]]
    return True


def _found(tree: Any, path: list[str]) -> Key:
    """The longest beginning of a path that the tree has."""
    key: list[str | int] = []
    for word in path:
        step: str | int = int(word) if isinstance(tree, list) and word.isdecimal() else word
        try:
            tree = tree[step]
        except (KeyError, IndexError, TypeError):
            break
        key.append(step)
    return tuple(key)


def remove(tree: Tree, key: Key) -> None:
    """Removes a key of a tree; also of a list."""
    inner: Any = tree
    for step in key[:-1]:
        inner = inner[step]
    del inner[key[-1]]


def keys_of(tree: Any, before: Key = ()) -> Iterator[Key]:
    """All keys of a tree, outer ones first."""
    steps = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for step in steps:
        yield (*before, step)
    for step in steps:
        yield from keys_of(tree[step], (*before, step))


def kinds_of(schema: Any, tree: Any) -> set[str]:
    """The definitions and kinds that a tree has: `LossConfig`, `LossConfig.gilbert`."""
    return set(_kinds(schema, schema, tree, ""))


def all_kinds(schema: Any) -> set[str]:
    """The kinds of the schema: constants among which a key chooses."""
    return {
        f"{name}.{tag}"
        for name, node in schema["$defs"].items()
        for form in node.get("oneOf", node.get("anyOf", ()))
        if (tag := _tag(form))
    }


def _tag(form: Any) -> str:
    """The name of a variant: its constant, the constant of its kind, or its only key."""
    if isinstance(form.get("const"), str):
        return str(form["const"])
    constants = [p["const"] for p in form.get("properties", {}).values() if "const" in p]
    required = form.get("required", ())
    return str(constants[0]) if constants else str(required[0]) if len(required) == 1 else ""


def _kinds(schema: Any, node: Any, tree: Any, name: str) -> Iterator[str]:
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        yield name
        yield from _kinds(schema, schema["$defs"][name], tree, name)
        return
    for form in node.get("oneOf", node.get("anyOf", ())):
        tag = _tag(form)
        if not tag or tree == tag or (_is_table(tree) and (tree.get("kind") == tag or tag in tree)):
            if tag:
                yield f"{name}.{tag}"
            yield from _kinds(schema, form, tree, name)
    if _is_table(tree):
        more = node.get("additionalProperties")
        for key, value in tree.items():
            inner = node.get("properties", {}).get(key, more if _is_table(more) else None)
            if inner is not None:
                yield from _kinds(schema, inner, value, name)
    if isinstance(tree, list) and _is_table(node.get("items")):
        for item in tree:
            yield from _kinds(schema, node["items"], item, name)


def _ref(name: str) -> Tree:
    return {"$ref": f"#/$defs/{name}"}


def _first(axis: Tree) -> Any:
    return axis["values"][0] if "values" in axis else next(iter(axis.get("cases", {"none": 0})))


def _leaves(tree: Any, before: Key = ()) -> Iterator[tuple[Key, Any]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _leaves(value, (*before, key))
    elif not isinstance(tree, list):
        yield before, tree


def _can_vary(key: Key) -> bool:
    return key[0] != "name" and key[-1] not in ("kind", "from", "to", "class")


def _number(definition: str, text: str) -> float | None:
    value, _, unit = text.strip().partition(" ")
    factor = _UNITS[definition].get(unit)
    try:
        return None if factor is None else float(value) * factor
    except ValueError:
        return None


def _range(said: str) -> tuple[float, float]:
    """The range that a description gives, NaN where it gives none."""
    number = r"(-?[0-9]+(?:\.[0-9]+)?)"
    if match := re.search(rf"\bfrom {number} to (?:below )?{number}", said):
        return float(match[1]), float(match[2])
    if match := re.search(rf"\b(?:at least|from|above) {number}", said):
        return float(match[1]), math.nan
    return math.nan, math.nan
