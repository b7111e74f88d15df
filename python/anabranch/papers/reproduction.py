"""The steps that every `reproduce` has: check the targets, compute, draw, write, show.

A paper's package has a `PAPER`, which says what is its own.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

from matplotlib.figure import Figure
from rich.console import Console, RenderableType
from rich.text import Text

from anabranch import store
from anabranch._engine import Scenario
from anabranch.errors import AnabranchError, StoreError
from anabranch.figures.pages import cells, drawing
from anabranch.figures.table import Table
from anabranch.support import cores, progress
from anabranch.support.files import check_different, check_file, check_folder, write_atomically

from . import page, tables
from .outcome import PaperOutcome
from .real import Bench, RealStack, Stack

AnyOutcome = TypeVar("AnyOutcome", bound=PaperOutcome)
Effort = TypeVar("Effort")

LONG = {
    "quick": "the quick form computes for minutes; finished runs are kept, Ctrl-C stops it",
    "full": "the whole study may compute for hours; finished runs are kept, Ctrl-C stops it",
}
"""What is said before a mode starts."""

FIRST = "first"
"""The effort whose outcome the quick form shows before it goes on."""

SMOKE = "Smoke run, its numbers mean nothing"
"""What marks everything that the mode `smoke` shows."""


@dataclass(frozen=True)
class Paper(Generic[AnyOutcome, Effort]):
    """What a paper's package gives to the steps that all papers have."""

    name: str
    """What `anabranch reproduce` calls it."""
    package: str
    """The package that holds the page's template."""
    runs: str
    """What its runs are, in the plural."""
    efforts: Mapping[str, Effort]
    """How much is run, by mode.

    `quick` (minutes), `full`, `validate` for the golden record, and `smoke`: one run of each kind,
    so that nothing is decided. `first`, where there is one, is a part of `quick` that is shown
    before the rest of it is computed.
    """
    compute: Callable[[str, Effort, Path, int], AnyOutcome]
    """Mode, effort, folder and threads: runs what is not in the folder already."""
    headline: Callable[[AnyOutcome], str]
    """The finding in one sentence."""
    sentences: Callable[[AnyOutcome], list[str]]
    """The finding in some more; these and the headline lead terminal, page and record alike."""
    tables: Callable[[AnyOutcome, int], Iterable[Table | RenderableType]]
    """What a terminal of this width shows before the claims."""
    figures: Callable[[AnyOutcome], Mapping[str, Callable[[], Figure]]]
    """The figures by file name, each drawn when it is called."""
    context: Callable[[AnyOutcome], page.Context]
    """What the page's template needs beside `outcome`, headline, sentences and claims."""
    sections: Callable[[AnyOutcome], Iterable[Table | list[str]]]
    """The sections of the golden record: tables, and lines."""
    template: str = "page.html.j2"
    """The file of the page's template."""
    real: Callable[[str, Bench], RealStack] | None = None
    """What real stacks do, by mode: those of the main study's cells that they can run."""

    def reproduce(
        self,
        mode: str,
        jobs: int | None,
        out: Path,
        json_file: Path | None,
        console: Console,
        *,
        stack: Stack | None = None,
    ) -> int:
        """Runs what the mode asks for, unless it is in `out` already, and writes and shows it.

        Parameters
        ----------
        mode
            One of `efforts`.
        jobs
            Threads; all cores if not given.
        out
            Where studies, figures and page go.
        json_file
            Also writes cells and claims with their verdicts there.
        console
            For the tables.
        stack
            Also runs what it can of the main study on this real stack, and shows it beside the
            others.

        Returns
        -------
        The exit code: 0 whatever the verdicts are.
        """
        if mode not in self.efforts:
            raise AnabranchError(f"mode is `{mode}`; it is one of {', '.join(self.efforts)}")
        if stack is not None and self.real is None:
            raise AnabranchError(f"{self.name} does not say what of it runs on real stacks")
        threads = cores.threads(jobs)
        index = out / "index.html"
        try:
            check_different(out=out, json=json_file)
            check_folder(out)
            check_file(json_file, made=out)
            out.mkdir(parents=True, exist_ok=True)
            if mode in LONG:
                progress.announce(LONG[mode])
            if mode == "quick" and FIRST in self.efforts and not self._file(out).exists():
                self.show_first(self.compute(mode, self.efforts[FIRST], out, threads), console)
            outcome = self.compute(mode, self.efforts[mode], out, threads)
            real = None if stack is None else self.on_stack(mode, threads, out, stack)
            figures = self.figures(outcome)
            if outcome.is_smoke:
                figures = {name: partial(page.watermarked, make) for name, make in figures.items()}
            drawn = drawing.draw(figures, out / "figures")
            write_atomically(index, self.page(outcome, drawn, real, _studies(out)).encode())
            content = outcome.as_json(self.name)
            if real is not None:
                content["real_stack"] = real.as_json()
            text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
            for path in (self._file(out), json_file):
                if path is not None:
                    write_atomically(path, text.encode())
        except KeyboardInterrupt as interrupt:
            if interrupt.args:
                raise
            message = "finished runs are kept; the same command continues"
            raise type(interrupt)(message) from None
        except OSError as error:
            raise AnabranchError(
                f"cannot write {error.filename or out}: {error.strerror or error}"
            ) from error
        self.show(outcome, console, real)
        console.print()
        written = f"{len(drawn)}, each as PNG, SVG and PDF"
        console.print(
            Text(f"Page: {index}\nFigures: {out / 'figures'} ({written})"), soft_wrap=True
        )
        return 0

    def _file(self, out: Path) -> Path:
        """Where a reproduction in this folder keeps its cells and claims."""
        return out / f"{self.name}.json"

    def show_first(self, outcome: AnyOutcome, console: Console) -> None:
        """The finding and the first table while the rest is computed; nothing is judged yet."""
        console.print()
        console.print(
            Text(f"First look, after {outcome.total_runs:,} {self.runs}:", style="bold"),
            Text(self.headline(outcome)),
        )
        for shown in list(self.tables(outcome, console.width))[:1]:
            console.print(_rich(shown))
        console.print(Text("The other runs refine this; claims are judged with all of them."))

    def on_stack(self, mode: str, jobs: int, out: Path, stack: Stack) -> RealStack:
        """What this real stack does, as far as it is not in `out` already."""
        assert self.real is not None
        return self.real(mode, Bench(stack, out, jobs, self.runs))

    def show(self, outcome: AnyOutcome, console: Console, real: RealStack | None = None) -> None:
        """The finding, the paper's tables, its claims, why some are not reproduced, real stacks."""
        mark = f"{SMOKE}: " if outcome.is_smoke else ""
        console.print()
        console.print(Text(mark + self.headline(outcome), style="bold"))
        for sentence in self.sentences(outcome):
            console.print(Text(f"- {mark}{sentence}"))
        for shown in (*self.tables(outcome, console.width), tables.claims(outcome.claims)):
            console.print()
            if outcome.is_smoke:
                console.print(Text(mark, style="bold"))
            console.print(_rich(shown))
        for finding in outcome.claims:
            if finding.verdict != "reproduced" and finding.profile == outcome.claims[0].profile:
                console.print(Text(f"{finding.id}: {mark}{finding.evidence}"))
        for shown in () if real is None else real.shown():
            console.print()
            if outcome.is_smoke:
                console.print(Text(mark, style="bold"))
            console.print(shown)

    def page(
        self,
        outcome: AnyOutcome,
        drawn: Mapping[str, str],
        real: RealStack | None = None,
        studies: Mapping[Path, Scenario] | None = None,
    ) -> str:
        """The page as text, with the figures of `drawing.draw`.

        `studies`, by their folders, are those whose cells it opens in the lab.
        """
        lead = {
            "headline": self.headline(outcome),
            "in_lab": cells.section(studies or {}),
            "real": real,
            "runs": self.runs,
            "sentences": self.sentences(outcome),
        }
        text = page.render(
            (self.package, self.template), outcome, drawn, lead | self.context(outcome)
        )
        return page.marked(text, SMOKE) if outcome.is_smoke else text

    def record(self, outcome: AnyOutcome) -> str:
        """The golden record of a validation, as Markdown: what the paper says beside ours.

        It is under version control, so that a change of results shows in a diff.
        """
        lines = [
            f"# `{self.name}`: published and measured",
            "",
            f"Written by `make validate` ({outcome.total_runs:,} {self.runs}); do not edit.",
            "",
            f"**{self.headline(outcome)}**",
            "",
            *(f"- {sentence}" for sentence in self.sentences(outcome)),
        ]
        for section in self.sections(outcome):
            lines += ["", *(section.markdown() if isinstance(section, Table) else section)]
        return "\n".join(lines) + "\n"


def _rich(shown: Table | RenderableType) -> RenderableType:
    return shown.rich() if isinstance(shown, Table) else shown


def _studies(out: Path) -> dict[Path, Scenario]:
    """The studies in a folder of results, by their own folders.

    One whose definition cannot be read back has no cells to open; the numbers do not need it.
    """
    studies = {}
    for file in sorted((out / "studies").rglob("scenario.toml")):
        with suppress(StoreError):
            studies[file.parent] = store.read_definition(file.parent)
    return studies


def packaged(
    package: str,
    runs: str,
    efforts: Mapping[str, Effort],
    compute: Callable[[str, Effort, Path, int], AnyOutcome],
) -> Paper[AnyOutcome, Effort]:
    """The paper of a package whose modules have the usual names.

    These are `story` (headline, sentences), `tables` (of, context, sections), `figures` (of) and
    `real` (real), whose functions the fields of `Paper` describe.
    """

    def function(module: str, name: str) -> Any:
        return getattr(import_module(f"{package}.{module}"), name)

    return Paper(
        name=package.rpartition(".")[2].replace("_", "-"),
        package=package,
        runs=runs,
        efforts=efforts,
        compute=compute,
        headline=function("story", "headline"),
        sentences=function("story", "sentences"),
        tables=function("tables", "of"),
        figures=function("figures", "of"),
        context=function("tables", "context"),
        sections=function("tables", "sections"),
        real=function("real", "real"),
    )
