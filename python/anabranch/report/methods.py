"""A paragraph that states how a study was made, for the methods of a paper, and what to cite."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from anabranch import store
from anabranch._engine import Scenario
from anabranch.errors import AnabranchError
from anabranch.figures.diagram import varied
from anabranch.studies.study import Study
from anabranch.support.transports import can
from anabranch.support.wording import counted

from .page import axes_of, range_text, stopping

KEY = "anabranch"
"""The name of the entry that is to be cited."""

_MOST = 6
"""Flows and links that are described one by one at most."""

_TEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "µ": r"\textmu{}",
    **{letter: f"\\{letter}" for letter in "{}$&#_%"},
}


def paragraph(folder: Path) -> str:
    """How the runs in a study folder were made: model, versions, seeds, replications, intervals.

    It cites the entry of `bibtex` as `[anabranch]`.

    Raises
    ------
    AnabranchError
        If the folder has no rows.
    StoreError
        If it is not a study folder.
    """
    identity = store.read_identity(folder)
    engine = identity["engine_version"]
    if not re.fullmatch(r"[0-9.]+\+[0-9a-f]+", engine):
        raise AnabranchError(f"the rows are not simulated: {engine} made them")
    study = Study(folder)
    rows = study.frame(columns=[])
    counts = rows.group_by("cell").len().sort("cell")["len"].to_numpy()
    # A run that cells of several sub-studies share was made once.
    runs = rows.select("scenario_hash", "replication").unique().height
    scenario = study.scenario
    tree = tomllib.loads(scenario.to_toml())
    swept = {key for _, keys in varied(tree.get("sweep", {})) for key in keys}
    asked = store.asked_of(folder, identity, scenario.cell_count)
    sentences = [
        f"We simulated with Anabranch {engine.partition('+')[0]} [{KEY}]"
        f" (engine {engine}), a deterministic packet-level simulator.",
        f"In the scenario {scenario.name} (hash {scenario.hash}), {_listed(_flows(tree, swept))};"
        f" {_listed(_links(tree, swept))}.",
        *_sweep(scenario),
        _runs(study, counts, runs, tree),
        *(stopping(scenario) if asked is None else []),
        "Each component of the model draws from a random stream of its own, a hash of the seed"
        f" ({_seeds(study)}), the replication and the component's name; so the cells of a"
        " replication share their random numbers, and the same scenario and seed give the same"
        " result to the bit.",
        "Means have 95 % confidence intervals of Student's t over replications; differences"
        " between cells are paired by replication, and the cells that may be the best are"
        " screened by paired t tests with Bonferroni's correction.",
    ]
    return " ".join(sentences)


def bibtex(folder: Path) -> str:
    """The entry to cite, from the package's CITATION.cff, with the version that made the rows."""
    cited = citation(files("anabranch").joinpath("CITATION.cff").read_text("utf-8"))
    engine = store.read_identity(folder)["engine_version"]
    fields = {
        "author": "{" + cited["author"] + "}",
        "title": cited["title"],
        "version": engine.partition("+")[0],
        "year": cited["date-released"][:4],
        "note": f"Engine {engine}",
    }
    if "url" in cited:
        fields["url"] = cited["url"]
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    return "\n".join([f"@software{{{KEY},", *lines, "}"])


def citation(text: str) -> dict[str, str]:
    """The fields of a CITATION.cff that a reference has: title, author, date-released, perhaps url.

    Its format is YAML; this reads values of one line at the top level, and names of authors.
    """
    fields = {
        name: value.strip().strip('"')
        for name, value in re.findall(r"(?m)^([a-z-]+): *([^>\n].*)$", text)
    }
    authors = re.findall(r'(?m)^  - name: *"?([^"\n]+)"?$', text)
    return fields | {"author": " and ".join(authors)}


def as_latex(text: str) -> str:
    """A paragraph as LaTeX source, which cites the entry."""
    escaped = "".join(_TEX.get(letter, letter) for letter in text)
    return escaped.replace(f" [{KEY}]", rf"~\cite{{{KEY}}}")


def _listed(parts: Iterator[str]) -> str:
    """Descriptions with `;` between them, or how many there are beyond `_MOST`."""
    every = list(parts)
    more = [f"and {len(every) - _MOST} more like these"] if len(every) > _MOST else []
    return "; ".join([*every[:_MOST], *more])


def _flows(tree: Mapping[str, Any], swept: AbstractSet[str]) -> Iterator[str]:
    for name, flow in tree["flows"].items():
        transport, app = flow["transport"], flow["app"]
        count = flow.get("count", 1)
        several = f" ({count} of them)" if count > 1 else ""
        sends = [app["kind"].replace("_", " "), *_settings(app, f"flows.{name}.app", swept)]
        how = list(_settings(transport, f"flows.{name}.transport", swept, zeros=True))
        yield (
            f"the flow {name}{several} ({', '.join(sends)}) goes from"
            f" {flow['from']} to {flow['to']} over {' and '.join(flow['paths'])} by"
            f" {can(transport['kind']).title}" + (f" ({', '.join(how)})" if how else "")
        )


def _links(tree: Mapping[str, Any], swept: AbstractSet[str]) -> Iterator[str]:
    """What links have; those that have the same are described once."""
    alike: dict[str, list[str]] = {}
    for name, link in tree["links"].items():
        alike.setdefault(", ".join(_link(link, f"links.{name}", swept)), []).append(name)
    for facts, names in alike.items():
        several = len(names) > 1
        listed = f"{', '.join(names[:-1])} and {names[-1]}" if several else names[0]
        yield f"the link{'s' * several} {listed} {'have' if several else 'has'} {facts}"


def _link(link: Mapping[str, Any], path: str, swept: AbstractSet[str]) -> Iterator[str]:
    """Rate, delay, queue, losses and whatever else a link does to packets."""
    for key in ("rate", "delay"):
        if f"{path}.{key}" in swept:
            yield f"a varied {key}"
        elif link.get(key, 0) not in _NOTHING:
            known = isinstance(link[key], str)
            yield f"{link[key] if known else f'a {key} by a timetable'}" + (
                " of delay" * known * (key == "delay")
            )
    for key, word in (("queue", "queue"), ("loss", "losses"), ("radio", "radio")):
        own = link.get(key)
        if isinstance(own, dict) and own["kind"] != "none":
            kind = own["kind"].replace("_", "-").replace("gilbert", "Gilbert")
            settings = ", ".join(_settings(own, f"{path}.{key}", swept))
            yield f"{kind} {word}" + (f" ({settings})" if settings else "")
    for traffic in link.get("cross_traffic", []):
        settings = ", ".join(_settings(traffic, f"{path}.cross_traffic", swept))
        yield f"{traffic['kind'].replace('poisson', 'Poisson')} cross traffic ({settings})"
    yield from _settings(link, path, swept, but=_SAID)
    if reverse := link.get("reverse"):
        yield "towards its first end " + ", ".join(_link(reverse, f"{path}.reverse", swept))


_SAID = {"ends", "rate", "delay", "queue", "loss", "radio", "cross_traffic", "reverse"} | {
    "up",
    "down",
}
"""Keys of a link that have words of their own, or say nothing of a link that is up."""

_NOTHING: tuple[Any, ...] = ("0", "0 s", 0, False, {}, [])
"""Values of settings that say that a thing is not there."""


def _settings(
    table: Mapping[str, Any],
    path: str,
    swept: AbstractSet[str],
    *,
    zeros: bool = False,
    but: AbstractSet[str] = frozenset(),
) -> Iterator[str]:
    """The settings of a table, each with its value or `varied`; what is zero only with `zeros`."""
    for key, value in table.items():
        if key in but or key in {"kind", "measure"} or value == "a_to_b":
            continue
        word = " ".join(_WRITTEN.get(part, part) for part in key.split("_"))
        if f"{path}.{key}" in swept:
            yield f"{word} varied"
        elif isinstance(value, dict):
            zeros_of_it = zeros or "kind" not in value
            own = list(_settings(value, f"{path}.{key}", swept, zeros=zeros_of_it))
            kind = str(value.get("kind", "")).replace("_", "-")
            kind = "varied" if f"{path}.{key}.kind" in swept else kind
            if "timetable" in value:
                yield f"{word} by a timetable"
            elif value.keys() == {"from", "to"}:
                yield f"{word} {value['from']} to {value['to']}"
            elif kind or own:
                words = [word, kind, " and ".join(own)]
                yield " ".join(part for part in words if part)
        elif isinstance(value, list):
            yield f"{word} by a list"
        elif value is True:
            yield word
        elif zeros or value not in _NOTHING:
            text = str(value).replace("_", "-") if isinstance(value, str) else str(value)
            yield f"{text} packets" if key == "packets" else f"{word} {text}"


_WRITTEN = {
    "association": "Association",
    "cc": "congestion control",
    "hb": "heartbeat",
    "max": "maximum",
    "min": "minimum",
    "rto": "RTO",
    "sack": "SACK",
}
"""Words of settings as papers write them."""


def _sweep(scenario: Scenario) -> Iterator[str]:
    rows = axes_of(scenario)
    if not rows:
        return
    axes = "; ".join(f"{row['name']} ({row['keys']}): {row['values']}" for row in rows)
    sweep = tomllib.loads(scenario.to_toml()).get("sweep", {})
    axes_of_sweep = len({name for name, _ in varied(sweep)})
    parts = f", in {len(scenario.parts)} sub-studies" if scenario.studies else ""
    what = f"{axes_of_sweep} ax{'is' if axes_of_sweep == 1 else 'es'}"
    yield f"We varied {what} in {counted(scenario.cell_count, 'cell')}{parts}: {axes}."


def _runs(study: Study, counts: np.ndarray, runs: int, tree: Mapping[str, Any]) -> str:
    missing = len(study.cell_table) - len(counts)
    left_out = f" ({counted(missing, 'cell')} not yet run)" if missing else ""
    return (
        f"Each cell{left_out} was run {range_text(counts)} times, each of at most"
        f" {tree['run']['duration']} of simulated time: {counted(runs, 'run')} in all."
    )


def _seeds(study: Study) -> str:
    seeds = study.cell_table["seed"].unique().sort().to_list()
    return ", ".join(map(str, seeds[:5])) + (", …" if len(seeds) > 5 else "")
