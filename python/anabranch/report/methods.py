"""A paragraph that states how a study was made, for the methods of a paper, and what to cite."""

import re
import tomllib
from collections.abc import Iterator, Mapping
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
    asked = store.asked_of(folder, identity, scenario.cell_count)
    sentences = [
        f"We simulated with Anabranch {engine.partition('+')[0]} [{KEY}]"
        f" (engine {engine}), a deterministic packet-level simulator.",
        f"In the scenario {scenario.name} (hash {scenario.hash}), {_listed(_flows(tree))};"
        f" {_listed(_links(tree))}.",
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


def _flows(tree: Mapping[str, Any]) -> Iterator[str]:
    for name, flow in tree["flows"].items():
        transport, app = flow["transport"], flow["app"]
        parts = [f"profile {transport['profile']}"] if "profile" in transport else []
        parts += [
            str(transport[key]["kind"]).replace("_", "-")
            for key in ("policy", "cc", "coupling", "scheduler")
            if isinstance(transport.get(key), dict)
        ]
        count = flow.get("count", 1)
        several = f" ({count} of them)" if count > 1 else ""
        codec = f", codec {app['codec']}" if "codec" in app else ""
        yield (
            f"the flow {name}{several} ({app['kind'].replace('_', ' ')}{codec}) goes from"
            f" {flow['from']} to {flow['to']} over {' and '.join(flow['paths'])} by"
            f" {can(transport['kind']).title}" + (f" ({', '.join(parts)})" if parts else "")
        )


def _links(tree: Mapping[str, Any]) -> Iterator[str]:
    for name, link in tree["links"].items():
        facts = [str(link[key]) for key in ("rate", "delay") if isinstance(link.get(key), str)]
        for key, word in (("queue", "queue"), ("loss", "losses"), ("radio", "radio")):
            if isinstance(link.get(key), dict) and link[key]["kind"] != "none":
                kind = link[key]["kind"].replace("_", "-").replace("gilbert", "Gilbert")
                facts.append(f"{kind} {word}")
        yield f"the link {name} has {', '.join(facts)}"


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
