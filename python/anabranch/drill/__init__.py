"""Conformance by scripts in packetdrill's language: finds and runs them, and gives the verdicts.

The engine runs a script in virtual time against Anabranch's own endpoints. docs/drill.md says which
part of the language is supported, and how to read the verdicts.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from rich.console import Console

from anabranch import _engine
from anabranch.errors import AnabranchError
from anabranch.support import progress
from anabranch.support.files import check_different, check_file, read_text, write_atomically
from anabranch.support.stdin import shown

from . import reports

__all__ = ["Result", "Script", "find", "run", "run_script"]

SUFFIX = ".pkt"


@dataclass(frozen=True)
class Script:
    """A script and the suite that it belongs to."""

    file: Path
    suite: str
    name: str
    """The file's name, relative to the suite's folder."""

    @property
    def folders(self) -> list[Path]:
        """Where files that the script names are looked for: beside it, then at the suite's root."""
        root = self.file.parents[len(Path(self.name).parts) - 1]
        return list(dict.fromkeys([self.file.parent, root]))


@dataclass(frozen=True)
class Result:
    """The verdict on a script."""

    script: Script
    verdict: Literal["passed", "failed", "not_applicable"]
    line: int | None
    """The line of the statement that decided the verdict."""
    expected: str | None
    """The text of that statement."""
    seen: str | None
    """What happened instead."""
    when_s: float | None
    """When it happened, in seconds of virtual time since the script began."""
    reason: str | None
    largest_deviation_s: float
    """The largest difference between the time when something was expected and when it happened."""
    tolerance_s: float


def find(paths: Sequence[Path], suites: Sequence[Path] = ()) -> list[Script]:
    """Finds the scripts that are meant: files, and every script in a folder.

    Raises an AnabranchError where there is no such file or folder, or no script in it.
    """
    found: list[Script] = []
    for path in (*suites, *paths):
        if path.is_dir():
            files = sorted(file for file in path.rglob(f"*{SUFFIX}") if not file.is_dir())
            if not files:
                raise AnabranchError(f"there is no script (*{SUFFIX}) in {path}")
            suite = path.resolve().name
            found += [Script(file, suite, file.relative_to(path).as_posix()) for file in files]
        elif path in suites:
            raise AnabranchError(f"--suite {path} is not a folder")
        elif path.exists():
            found.append(Script(path, path.resolve().parent.name, path.name))
        else:
            raise AnabranchError(f"there is no script or folder {path}")
    if not found:
        raise AnabranchError("no script was named: give files or folders, or --suite DIR")
    return list({script.file.resolve(): script for script in found}.values())


def run_script(script: Script, profile: str | None = None) -> Result:
    """Runs a script.

    Raises an AnabranchError that names the line where the file is not a script, or the profile if
    there is none of that name.

    Examples
    --------
    >>> from pathlib import Path
    >>> from anabranch.drill import find, run_script
    >>> script = '''
    ... 0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
    ... +0 bind(3, ..., ...) = 0
    ... +0 listen(3, 1) = 0
    ... +0 < S 0:0(0) win 1000 <mss 1000>
    ... +0 > S. 0:0(0) ack 1 <mss 1460>
    ... '''
    >>> file = Path("connect.pkt")
    >>> _ = file.write_text(script)
    >>> run_script(find([file])[0]).verdict
    'passed'
    """
    try:
        text = read_text(script.file)
    except UnicodeDecodeError as error:
        raise AnabranchError(f"{shown(script.file)} is not text in UTF-8: {error.reason}") from None
    try:
        found = _engine.drill(text, profile, [str(folder) for folder in script.folders])
    except AnabranchError as error:
        raise AnabranchError(f"{shown(script.file)}: {error}") from None
    return Result(script, **json.loads(found))


def _judge(script: Script, profile: str | None) -> Result:
    """The verdict on a script, also on a file that is none: that has failed."""
    try:
        return run_script(script, profile)
    except AnabranchError as error:
        reason = str(error)
    except OSError as error:
        reason = f"{shown(script.file)}: {error.strerror or error}"
    line = re.search(r": line (\d+): ", reason)
    return Result(
        script,
        "failed",
        line=int(line[1]) if line else None,
        expected=None,
        seen=None,
        when_s=None,
        reason=reason,
        largest_deviation_s=0.0,
        tolerance_s=0.0,
    )


def _run_all(scripts: Sequence[Script], profile: str | None) -> Iterator[Result]:
    # A mistake in its name is no verdict on the scripts.
    _engine.drill("", profile)
    with progress.shown("drill", "scripts") as show:
        for done, script in enumerate(scripts, 1):
            yield _judge(script, profile)
            show(progress.Status(done, len(scripts)))


def run(
    paths: Sequence[Path],
    console: Console,
    *,
    suites: Sequence[Path] = (),
    profile: str | None = None,
    json_file: Path | None = None,
    junit_file: Path | None = None,
) -> int:
    """Runs scripts, prints a line for each and the totals, and writes what is asked for.

    A file that is no script has failed; the others are run all the same.

    Returns
    -------
    The exit code: 1 if a script failed.
    """
    check_different(json=json_file, junit=junit_file)
    for file in (json_file, junit_file):
        check_file(file)
    scripts = find(paths, suites)
    results = []
    for result in _run_all(scripts, profile):
        results.append(result)
        reports.print_line(console, result)
    reports.print_totals(console, results)
    content = cast("dict[str, object]", reports.as_json(results, profile))
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    for path, data in ((json_file, text.encode()), (junit_file, reports.junit(results))):
        if path is not None:
            write_atomically(path, data)
    return int(any(result.verdict == "failed" for result in results))
