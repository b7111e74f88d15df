"""Studies that the lab's page hands over to this computer: one at a time, each in its own folder.

What the page sends is a scenario's text and nothing else: it names no folder and reads no file.
"""

import json
import re
import secrets
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import anabranch._engine as engine
from anabranch.errors import AnabranchError
from anabranch.studies.designs import expanded
from anabranch.studies.study import Study
from anabranch.support.progress import Status

REPORT = "report.html"

Report = Callable[[Path, Path, str], object]
"""Writes the report of a study folder to a file; the text is the address of the lab that has it."""

State = Literal["running", "reporting", "done", "stopped", "failed"]


class BusyError(AnabranchError):
    """A study is under way already."""


@dataclass(slots=True)
class Handed:
    """A study, as the page is told of it."""

    number: int
    name: str
    folder: Path
    state: State
    done: int = 0
    total: int = 0
    note: str = ""
    """The interval of a scalar while it runs, or why it failed."""
    key: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    """Whoever knows it may read the report: a link carries no token."""
    was_cut: bool = False
    """Whether it was under way when the lab ended."""

    @property
    def report(self) -> Path | None:
        """Its report, once it is written."""
        path = self.folder / REPORT
        return path if path.is_file() else None

    def as_json(self) -> dict[str, Any]:
        """For the page."""
        return {
            "id": self.number,
            "name": self.name,
            "folder": str(self.folder),
            "state": self.state,
            "done": self.done,
            "total": self.total,
            "note": self.note,
            "report": f"/results/{self.key}/{REPORT}" if self.report else None,
        }


class Results:
    """The studies in a folder, and the one that is under way.

    Parameters
    ----------
    folder
        Where they go; made with the first of them.
    report
        Writes reports.
    jobs
        Threads; all cores if not given.
    """

    def __init__(self, folder: Path, report: Report, jobs: int | None = None) -> None:
        self.folder = folder
        self.address = ""
        """Of the lab that serves them, which sets it."""
        self._report = report
        self._jobs = jobs
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_stopped = threading.Event()
        self._is_closing = False
        self._studies = {one.number: one for one in _found(folder)}

    def all(self) -> list[Handed]:
        """All studies, the last one first."""
        with self._lock:
            return [self._studies[number] for number in sorted(self._studies, reverse=True)]

    def find(self, number: int) -> Handed | None:
        """The study with this number."""
        with self._lock:
            return self._studies.get(number)

    def report_of(self, key: str) -> Path | None:
        """The report with this key."""
        for one in self.all():
            if secrets.compare_digest(one.key.encode(), key.encode()):
                return one.report
        return None

    @property
    def is_busy(self) -> bool:
        """Whether a study is under way."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, text: str) -> Handed:
        """Starts the sweep of a scenario.

        Raises
        ------
        BusyError
            If another one is under way.
        AnabranchError
            If the text is no scenario, or one that names files.
        """
        try:
            text.encode()
            check_without_files(text)
        except UnicodeEncodeError:
            raise AnabranchError("the scenario is not text") from None
        study = Study(expanded(engine.Scenario.parse(text)), jobs=self._jobs)
        with self._lock:
            if self.is_busy:
                raise BusyError("a study is under way already: stop it, or wait for its end")
            number = max((*self._studies, *_numbers(self.folder)), default=0) + 1
            name = study.scenario.name or "study"
            folder = self.folder / f"{number:03}-{_slug(name)}"
            try:
                folder.mkdir(parents=True)
            except OSError as error:
                raise AnabranchError(f"cannot make {folder}: {error.strerror or error}") from error
            study.out = folder
            one = Handed(number, name, folder, "running", total=study.total)
            self._studies[number] = one
            self._is_stopped.clear()
            self._thread = threading.Thread(target=self._run, args=(study, one), name="study")
            self._thread.start()
        return one

    def stop(self) -> None:
        """Ends the study that is under way; what is finished of it is kept."""
        self._is_stopped.set()

    def close(self) -> None:
        """Ends it as the lab does: waits until what is finished is saved, and writes no report."""
        thread = self._thread
        if thread is None or not thread.is_alive():
            return
        for one in self.all():
            one.was_cut = one.state == "running"
        self._is_closing = True
        self.stop()
        thread.join()

    def _run(self, study: Study, one: Handed) -> None:
        def hear(status: Status) -> None:
            one.done, one.total, one.note = status.done, status.total, status.note
            if self._is_stopped.is_set():
                raise _Stopped

        try:
            try:
                study.run(hear)
                end: State = "done"
            except _Stopped:
                end = "stopped"
            if one.done and not self._is_closing:
                one.state = "reporting"
                self._report(one.folder, one.folder / REPORT, self.address)
            one.state = end
        except AnabranchError as error:
            one.state, one.note = "failed", str(error)
        except OSError as error:
            one.state, one.note = "failed", f"{one.folder}: {error.strerror or error}"
        except Exception as error:
            # The page is told, and the server goes on; the trace is for the terminal.
            one.state, one.note = "failed", f"{type(error).__name__}: {error}"
            raise


class _Stopped(Exception):  # noqa: N818 - no error
    """The person has stopped the study."""


def check_without_files(text: str) -> None:
    """Raises an AnabranchError if a scenario's text names files, which a page may not have read.

    The class of a plug-in would even be run.
    """
    # The engine's reader takes time in proportion to the text, whatever that is, and limits depth.
    content = json.loads(engine.toml_tree(text))
    for path in _paths(content, ()):
        if found := [key for key in path if key in _file_keys()]:
            raise AnabranchError(
                f"{'.'.join(path)}: the lab reads no files for a page, so a scenario that is handed"
                f" over has no `{found[0]}`; `anabranch sweep` takes it"
            )


def _paths(value: object, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The keys of everything in a scenario, and those that an axis of its sweep sets."""
    if isinstance(value, dict):
        for key, inner in value.items():
            # The cases of an axis have dotted keys.
            yield from _paths(inner, (*path, *_parts(key)))
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner, path)
    elif isinstance(value, str) and path[-1:] == ("set",):
        yield (*path, *_parts(value))
    else:
        yield path
    if value in ({}, []):
        yield path


_LONGEST_QUOTED = 200
"""Characters; the engine takes no quotes in the path of a setting, however long it is."""


def _parts(key: str) -> list[str]:
    """The keys of a dotted one, some of which may be in quotes, as TOML has them."""
    # Reading a dotted key takes tomllib the square of its length.
    if len(key) <= _LONGEST_QUOTED and re.search(r"['\"]", key):
        with suppress(tomllib.TOMLDecodeError):
            inner: Any = tomllib.loads(f"{key} = 0")
            parts = []
            while isinstance(inner, dict):
                ((part, inner),) = inner.items()
                parts.append(part)
            return parts
    return [part.strip() for part in key.split(".")]


@cache
def _file_keys() -> frozenset[str]:
    """The keys of a scenario whose values are names of files, by its schema, or of programs."""
    found = {"include", "class"}

    def look(value: object) -> None:
        if isinstance(value, dict):
            for name, each in (value.get("properties") or {}).items():
                if "#/$defs/TraceFile" in json.dumps(each):
                    found.add(name)
            for each in value.values():
                look(each)
        elif isinstance(value, list):
            for each in value:
                look(each)

    look(json.loads(engine.schema()))
    return frozenset(found)


def _slug(name: str) -> str:
    """A name as a part of a folder's: letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower())[:40].strip("-") or "study"


_NAMED = re.compile(r"(\d{3,9})-([a-z0-9-]+)")
"""The folder of a study: its number and its name."""


def _numbers(folder: Path) -> list[int]:
    """The numbers that folders have, also those of studies that came to nothing."""
    places = folder.iterdir() if folder.is_dir() else ()
    return [int(named[1]) for place in places if (named := _NAMED.fullmatch(place.name))]


def _found(folder: Path) -> Iterator[Handed]:
    """The studies that are in a folder from before."""
    for place in sorted(folder.iterdir()) if folder.is_dir() else ():
        named = _NAMED.fullmatch(place.name)
        if named and (place / "study.json").is_file():
            yield Handed(
                int(named[1]), named[2], place, "done" if (place / REPORT).is_file() else "stopped"
            )
