"""The steps that every `reproduce` has: check the targets, compute, draw, write, show."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from matplotlib.figure import Figure
from rich.console import Console
from rich.text import Text

from anabranch import plots, study
from anabranch.errors import AnabranchError
from anabranch.files import check_file, check_folder, write_atomically


class Outcome(Protocol):
    """What a reproduction found."""

    def as_json(self) -> dict[str, Any]:
        """What `--json` writes."""


Found = TypeVar("Found", bound=Outcome)
Effort = TypeVar("Effort")


def reproduce(
    mode: str,
    jobs: int | None,
    out: Path,
    json_file: Path | None,
    console: Console,
    *,
    paper: str,
    efforts: Mapping[str, Effort],
    compute: Callable[[str, Effort, Path, int], Found],
    figures: Callable[[Found], Mapping[str, Callable[[], Figure]]],
    render: Callable[[Found, Mapping[str, Figure]], str],
    show: Callable[[Found, Console], None],
) -> int:
    """Runs what the mode asks for, unless it is in `out` already, and writes and shows it.

    Returns
    -------
    The exit code: 0 whatever the verdicts are.
    """
    if mode not in efforts:
        raise AnabranchError(f"mode is `{mode}`; it is one of {', '.join(efforts)}")
    threads = study.threads(jobs)
    index = out / "index.html"
    try:
        check_folder(out)
        check_file(json_file, made=out)
        out.mkdir(parents=True, exist_ok=True)
        found = compute(mode, efforts[mode], out, threads)
        drawn = {name: draw() for name, draw in figures(found).items()}
        for name, figure in drawn.items():
            plots.save(figure, out / "figures" / name)
        index.write_text(render(found, drawn), encoding="utf-8")
        text = json.dumps(found.as_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        for path in (out / f"{paper}.json", json_file):
            if path is not None:
                write_atomically(path, text.encode())
    except OSError as error:
        raise AnabranchError(
            f"cannot write {error.filename or out}: {error.strerror or error}"
        ) from error
    show(found, console)
    console.print()
    console.print(
        Text(f"Page: {index}\nFigures: {out / 'figures'} ({len(drawn)}, each as PNG, SVG and PDF)"),
        soft_wrap=True,
    )
    return 0
