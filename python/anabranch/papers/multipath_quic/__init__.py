"""De Coninck and Bonaventure, "Multipath QUIC: Design and Evaluation" (CoNEXT 2017).

Designed experiments over two paths: 253 points in both orders, with low and high products of rate
and delay, without and with losses; TCP and QUIC over the first path, MPTCP and Multipath QUIC over
both. What its scripts set is known (`designs.csv`, `readings.toml`), its numbers are not.
"""

from pathlib import Path

import polars as pl

from anabranch import _engine
from anabranch.figures.table import Table
from anabranch.papers.page import Context
from anabranch.papers.reproduction import Paper
from anabranch.papers.runs import Runs
from anabranch.papers.studies import Effort, compute_all
from anabranch.papers.tables import recorded
from anabranch.papers.texts import Means, Texts
from anabranch.papers.verdicts import counted

from . import figures, handover, studies
from .claims import CLAIMS
from .outcome import TITLES, Material, MultipathQuicOutcome, compared, study_of
from .studies import EFFORTS

__all__ = ["PAPER"]

said = Texts(__package__)

HANDOVERS = 10
"""Runs of each transport for each run of a topology."""


def compute(mode: str, effort: Effort, out: Path, jobs: int) -> MultipathQuicOutcome:
    """Runs the designs under each reading, and compares the transports over each topology."""
    works = studies.works(effort)
    handed = handover.work(1 if mode == "smoke" else HANDOVERS * effort.of("runs"))
    rows = compute_all([*works.values(), handed], out, jobs, PAPER.runs)
    materials: dict[str, Material] = {}
    for reading in studies.readings():
        own = {
            study_of(design, size): Runs(compared(rows[work.name]), reading.title)
            for (name, design, size), work in works.items()
            if name == reading.name
        }
        materials[reading.name] = Material(own)
    return MultipathQuicOutcome(
        mode=mode,
        version=_engine.__version__,
        total_runs=sum(work.total for work in works.values()) + handed.total,
        cells=[],
        claims=[
            claim.judge(material, name) for name, material in materials.items() for claim in CLAIMS
        ],
        compared=materials,
        handovers=handover.rows(rows[handed.name]),
    )


def _headline(outcome: MultipathQuicOutcome) -> str:
    own = [one for one in outcome.claims if one.profile == outcome.claims[0].profile]
    return said("headline", claims=len(own), verdicts=counted(own))


def _sentences(outcome: MultipathQuicOutcome) -> list[str]:
    runs = outcome.base.runs
    means = {name: Means(runs[name]) for name in ("low", "high", "short")}
    titles = {name: _capital(TITLES[name]) for name in means}
    shares = {name: _share(runs[name], "multi") for name in means}
    return said.several("sentences", runs=means, titles=titles, shares=shares)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _share(runs: Runs, value: str) -> str:
    """The share of the topologies over which QUIC is sooner."""
    frame = runs.frame
    sooner = frame.filter(pl.col(value) > 0).height
    return f"{100 * sooner / frame.height:.0f} %" if frame.height else "none"


def tables(outcome: MultipathQuicOutcome) -> list[Table]:
    """The comparison under each reading, and the handover.

    How much sooner QUIC is than TCP, and MP-QUIC than MPTCP, with the share of the topologies where
    it is; and what the second path brings (`outcome.benefit`).
    """
    made = []
    heads = ["points", "QUIC, %", "MP-QUIC, %", "MPTCP's 2nd path", "MP-QUIC's"]
    for reading in studies.readings():
        rows = []
        for study, runs in outcome.compared[reading.name].runs.items():
            sooner = [
                f"{runs.mean(value).text(1, signed=True)} ({_share(runs, value)})"
                for value in ("single", "multi")
            ]
            benefits = [runs.mean(value).text(2) for value in ("benefit_tcp", "benefit_quic")]
            points = str(runs.frame["replication"].n_unique())
            rows.append([TITLES[study], points, *sooner, *benefits])
        made.append(Table(_capital(reading.title), ["", *heads], rows, keys=1))
    return [*made, handover.table(outcome.handovers)]


def _context(outcome: MultipathQuicOutcome) -> Context:
    return {
        "readings": studies.readings(),
        "profiles": _titles(),
        "tables": tables(outcome),
        "counts": {name: _counts(outcome) for name in ("ratios", "benefits")},
    }


def _titles() -> dict[str, str]:
    return {reading.name: reading.title for reading in studies.readings()}


def _counts(outcome: MultipathQuicOutcome) -> str:
    sizes = outcome.base.runs
    most = max(sizes[design].frame.height for design in studies.DESIGNS)
    return f"{most} topologies of each design, medians of their runs"


def _sections(outcome: MultipathQuicOutcome) -> list[Table | list[str]]:
    return [*tables(outcome), recorded(outcome.claims, _titles())]


PAPER: Paper[MultipathQuicOutcome, Effort] = Paper(
    name="multipath-quic",
    package=__package__,
    runs="downloads",
    efforts=EFFORTS,
    compute=compute,
    headline=_headline,
    sentences=_sentences,
    tables=lambda outcome, _width: tables(outcome),
    figures=figures.of,
    context=_context,
    sections=_sections,
)
