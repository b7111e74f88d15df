"""Searches for scenarios that the command line handles wrongly.

python tools/scenario_search.py COUNT [SEED] [--out FOLDER] [--jobs N]

It draws scenario files (`random_scenarios.py`) and gives each to `anabranch validate`, `run` and
`sweep`, in this process. What must hold of each:

- exit code 0, or 2 with one sentence on standard error; no traceback, no panic;
- what `validate` accepts, `run` refuses only for a guard (`run.max_events`) or a plug-in's error;
- a run has the same scalars twice, to the bit, and with traces and a capture;
- of the packets that came to a link, each was delivered, dropped or is in it;
- the rows of a sweep are those of single runs, and the same sweep again changes nothing;
- nothing is left behind but what was asked for.

The report says what share was valid and which kinds of the schema never came up. A scenario that
fails is made as small as the failure allows and kept in the folder. The exit code is 1 if there is
one.
"""

import argparse
import collections
import contextlib
import io
import json
import math
import os
import re
import shutil
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import anabranch
from anabranch import cli
from anabranch.errors import AnabranchError
from anabranch.support.columns import is_scalar
from complaints import is_complaint
from random_scenarios import (
    MOST_REPAIRS,
    Generator,
    RandomScenario,
    all_kinds,
    keys_of,
    kinds_of,
    read_schema,
    remove,
    repair,
)

GUARDS = ("run.max_events", "run.max_wall_time", "run.max_memory", "own.py:", "examples.py:")
"""What a refusal by `run` of a valid scenario may be about: a guard, or an error of a plug-in."""

MOST_RUNS = 12
"""Sweeps of more runs are left out."""

MOST_SHRINKS = 200
"""How often a scenario that fails is tried with less in it."""

KEPT = ((), *((name,) for name in ("duration", "max_events", "max_memory", "max_wall_time")))
"""What stays of `run`: without it a run could take hours."""

_PART = 200
"""Scenarios that a process tries before it reports."""

_PROGRESS = re.compile(r"\S+: ([0-9,]+/[0-9,]+ runs|finding the runs)")

SLOW_S = 60.0
"""From these seconds of CPU on a scenario fails, although all runs have guards."""

Summary = Mapping[str, float | None]


@dataclass(frozen=True)
class Failure:
    """What must hold and does not."""

    what: str
    """The kind of failure: making a scenario smaller keeps it."""
    details: str


@dataclass
class Report:
    """What a search has found."""

    valid: int = 0
    invalid: int = 0
    guarded: int = 0
    """Valid scenarios whose run a guard or a plug-in has ended."""
    swept: int = 0
    included: int = 0
    plugged: int = 0
    kinds: collections.Counter[str] = field(default_factory=collections.Counter)
    missing: set[str] = field(default_factory=set)
    """The kinds of the schema that no valid scenario had."""
    failures: dict[str, tuple[Failure, Path]] = field(default_factory=dict)
    """The first failure of each kind, with its smallest file."""
    seconds: float = 0.0

    def add(self, other: "Report") -> None:
        """Adds what another search has found, of as many seconds."""
        for name in ("valid", "invalid", "guarded", "swept", "included", "plugged", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.kinds += other.kinds
        self.missing = other.missing - self.kinds.keys()
        self.failures = other.failures | self.failures

    @property
    def share(self) -> float:
        """The share of valid scenarios."""
        return self.valid / max(1, self.valid + self.invalid)

    def text(self) -> str:
        """The report in words."""
        total = self.valid + self.invalid
        lines = [
            f"{total:,} scenarios, {self.seconds:.0f} s of work: {self.valid:,} valid"
            f" ({100 * self.share:.0f} %), {self.invalid:,} refused in a sentence;"
            f" a guard or a plug-in ended {self.guarded:,}, {self.swept:,} were swept,"
            f" {self.included:,} had a second file, {self.plugged:,} a plug-in",
            f"{len(self.kinds):,} definitions and kinds of the schema came up; {len(self.missing)}"
            f" kinds did not: {', '.join(sorted(self.missing)) or 'none'}",
        ]
        for failure, path in self.failures.values():
            lines.append(f"FAILED {path}: {failure.what}: {failure.details}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Completed:
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str


Command = Callable[..., Completed]
"""Runs the command line with these words in the current folder."""


def in_process(*words: str) -> Completed:
    """Runs the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main(list(words))
        except KeyboardInterrupt:
            raise
        except BaseException:  # a panic of the engine is no Exception
            traceback.print_exc()
            code = -1
    return Completed(code, out.getvalue(), err.getvalue())


def search(seeds: range, out: Path, command: Command = in_process) -> Report:
    """Tries a scenario for each seed.

    Parameters
    ----------
    seeds
        One for each scenario.
    out
        Where scenarios that fail are kept.
    command
        What runs the command line.
    """
    report = Report()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="anabranch-search-") as folder:
        kinds = sorted(all_kinds(read_schema()))
        for seed in seeds:
            # Each kind in turn is in every scenario in which it can be.
            wanted = kinds[seed % len(kinds)]
            scenario = Generator(Random(str(seed)), wanted).scenario()
            failure = repaired_and_checked(scenario, Path(folder), command, report)
            if failure is not None and failure.what not in report.failures:
                smallest, failure = smaller(scenario, failure, Path(folder), command)
                kept = out / f"seed-{seed}"
                kept.mkdir(parents=True, exist_ok=True)
                report.failures[failure.what] = failure, smallest.write(kept)
        report.missing = set(kinds) - report.kinds.keys()
    report.seconds = time.monotonic() - begun
    return report


def repaired_and_checked(
    scenario: RandomScenario, folder: Path, command: Command, report: Report
) -> Failure | None:
    """Repairs a scenario, if it is one that is repaired, and checks it."""
    with fresh(folder) as inside:
        scenario.write(inside)
        refused = command("validate", "scenario.toml")
        failure = wrong_end("validate", refused)
        message = refused.stderr
        while refused.code and scenario.is_repaired and scenario.repairs < MOST_REPAIRS:
            if not repair(scenario, message.partition("scenario.toml: ")[2] or message):
                break
            scenario.write(inside)
            try:
                anabranch.load("scenario.toml")
            except AnabranchError as error:
                message = str(error)
            else:
                refused = command("validate", "scenario.toml")
    if failure is not None:
        return failure
    if refused.code:
        report.invalid += 1
        return None
    report.valid += 1
    report.included += scenario.is_included
    report.plugged += "own.py" in scenario.files()
    report.kinds.update(kinds_of(read_schema(), scenario.tree))
    return check(scenario, folder, command, report)


def check(
    scenario: RandomScenario, folder: Path, command: Command, report: Report | None = None
) -> Failure | None:
    """The first thing that must hold for a scenario and does not."""
    report = Report() if report is None else report
    begun = _cpu_seconds()
    with fresh(folder) as inside:
        scenario.write(inside)
        given = {path.name for path in inside.iterdir()}
        failures = _checks(scenario, inside, command, report)
        failure = next(failures, None) or left_behind(inside, given)
    if failure is None and (seconds := _cpu_seconds() - begun) > SLOW_S:
        return Failure("slow", f"{seconds:.0f} s")
    return failure


def _checks(
    scenario: RandomScenario, inside: Path, command: Command, report: Report
) -> Iterator[Failure]:
    valid = command("validate", "scenario.toml")
    if failure := wrong_end("validate", valid):
        yield failure
    if valid.code:
        return
    first = command("run", "scenario.toml", "--json", "first.json")
    if failure := wrong_end("run", first):
        yield failure
    if first.code:
        if not any(guard in first.stderr for guard in GUARDS):
            yield Failure("run refuses what validate accepts", first.stderr.strip())
        report.guarded += 1
        return
    summary = _summary(inside / "first.json")
    yield from _broken_counts(summary, scenario.tree)
    # In this process without the command line's own time.
    again = _in_time()
    if again is not None and (different := _different(summary, again)):
        yield Failure("a run differs twice", different)
    yield from _broken_traces(scenario, inside, command, summary)
    yield from _broken_sweep(inside, command, report)


def _broken_traces(
    scenario: RandomScenario, inside: Path, command: Command, summary: Summary
) -> Iterator[Failure]:
    if scenario.writes_traces:
        words = ("--json", "traced.json", "--trace", "traces", "--pcap", "packets.pcapng")
        ended = command("run", "scenario.toml", *words)
        if failure := wrong_end("a traced run", ended):
            yield failure
        said = ended.stderr.strip()
        traced = _summary(inside / "traced.json") if ended.code == 0 else None
    else:
        try:
            pcap = inside / "packets.pcapng"
            traced = anabranch.run("scenario.toml", trace=True, pcap=pcap).summary
        except AnabranchError as error:
            traced, said = None, str(error)
    if traced is None:
        # Traces take some memory, and a busy machine takes its time.
        if not any(guard in said for guard in ("run.max_memory", "run.max_wall_time")):
            yield Failure("a run fails with traces", said)
    elif different := _different(summary, traced):
        yield Failure("a run differs with traces", different)


def _broken_sweep(inside: Path, command: Command, report: Report) -> Iterator[Failure]:
    loaded = anabranch.load(inside / "scenario.toml")
    if "sweep" not in (inside / "scenario.toml").read_text(encoding="utf-8"):
        return
    if anabranch.Study(loaded).total > MOST_RUNS:
        return
    words = ("sweep", "scenario.toml", "--out", "study", "--jobs", "1")
    done = command(*words)
    if failure := wrong_end("sweep", done):
        yield failure
    if done.code:
        if not any(guard in done.stderr for guard in GUARDS):
            yield Failure("sweep refuses what validate accepts", done.stderr.strip())
        return
    report.swept += 1
    rows = anabranch.read(inside / "study")
    again = command(*words)
    if again.code or not rows.equals(anabranch.read(inside / "study")):
        yield Failure("the same sweep again differs", again.stderr.strip())
    first = rows.filter(cell=0, replication=0)
    if first.is_empty():
        yield Failure("the first cell of a sweep is missing", f"{rows.height} rows")
        return
    of_run = _in_time()
    if of_run is None:
        return
    row = {name: value for name, value in first.row(0, named=True).items() if is_scalar(name)}
    kept = {name: of_run.get(name) for name in row}
    if different := _different(kept, row):
        yield Failure("a row differs from its run", different)
    counted = command("query", "study", "SELECT count(*) AS n FROM rows", "--json", "count.json")
    found = json.loads((inside / "count.json").read_text()) if counted.code == 0 else []
    if found != [{"n": rows.height}]:
        yield Failure("a query counts other rows", f"{found}, {rows.height} rows {counted.stderr}")


def _in_time() -> Summary | None:
    """The scalars of a run; None if a busy machine has ended it."""
    try:
        return anabranch.run("scenario.toml").summary
    except AnabranchError as error:
        if "run.max_wall_time" in str(error):
            return None
        raise


def wrong_end(words: str, done: Completed) -> Failure | None:
    """Whether a command has ended otherwise than with 0, or 2 and a sentence."""
    said = [line for line in done.stderr.splitlines() if "WARNING" not in line]
    said = [line for line in said if not _PROGRESS.match(line)]
    text = done.stderr + done.stdout
    if "Traceback" in text or "panicked" in text or done.code not in (0, 2):
        last = said[-1] if said else ""
        return Failure(f"{words} ends with code {done.code}", last)
    is_sentence = is_complaint(said)
    if done.code == 2 and not is_sentence:
        return Failure(f"{words} refuses with {len(said)} lines", done.stderr.strip())
    if done.code == 0 and any("error" in line.split(":")[1:2] for line in said):
        return Failure(f"{words} says an error and ends with 0", done.stderr.strip())
    return None


def _cpu_seconds() -> float:
    """What this process and those that it has waited for have computed."""
    return sum(os.times()[:4])


def left_behind(inside: Path, given: set[str]) -> Failure | None:
    """Files that a command has left and nobody asked for."""
    asked = {"first.json", "traced.json", "count.json", "traces"}
    asked |= {"packets.pcapng", "study", "__pycache__"} | given
    left = [path.name for path in inside.iterdir() if path.name not in asked]
    hidden = [path.relative_to(inside) for path in inside.rglob(".*") if path.is_file()]
    left += [str(path) for path in hidden if path != Path("study", ".lock")]
    return Failure("files are left behind", ", ".join(sorted(left))) if left else None


def _broken_counts(summary: Summary, tree: Mapping[str, Any]) -> Iterator[Failure]:
    """Links whose counters do not add up."""
    if "warm_up" in tree.get("run", {}):
        return  # what was in a link then is counted as delivered, and not as arrived
    for name in tree.get("links", {}):
        for way in ("forward", "reverse"):

            def value(key: str, of: str = f"link.{name}.{way}") -> float:
                return summary.get(f"{of}.{key}") or 0.0

            came = value("arrived_packets") + value("duplicated_packets")
            causes = ("aqm", "corrupted", "down", "lost", "queue_full")
            dropped = sum(value(f"{cause}_packets") for cause in causes)
            gone = value("delivered_packets") + dropped + value("in_link_packets")
            if came != gone:
                yield Failure("packets of a link do not add up", f"{name}.{way}: {came} and {gone}")


def smaller(
    scenario: RandomScenario, failure: Failure, folder: Path, command: Command
) -> tuple[RandomScenario, Failure]:
    """The scenario with everything removed without which it fails in the same way."""
    tries, begun = 0, time.monotonic()
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for key in list(keys_of(scenario.tree)):
            if key[0] == "run" and key[1:] in KEPT:
                continue
            less = deepcopy(scenario)
            less.is_included = False
            try:
                remove(less.tree, key)
            except (KeyError, IndexError):
                continue  # it went with what it was in
            if tries >= MOST_SHRINKS or time.monotonic() - begun > SLOW_S:
                return scenario, failure
            tries += 1
            found = check(less, folder, command)
            if found is not None and found.what == failure.what:
                scenario, failure, is_smaller = less, found, True
    return scenario, failure


@contextlib.contextmanager
def fresh(folder: Path) -> Iterator[Path]:
    """An empty folder, which is the current one meanwhile."""
    inside = folder / "inside"
    inside.mkdir()
    try:
        with contextlib.chdir(inside):
            yield inside
    finally:
        shutil.rmtree(inside)


def _summary(path: Path) -> Summary:
    return json.loads(path.read_text(encoding="utf-8"))["summary"]  # type: ignore[no-any-return]


def _different(one: Summary, other: Summary) -> str:
    """The first scalar in which two runs differ; empty if there is none."""
    for name in sorted(one.keys() | other.keys()):
        if _bits(one.get(name)) != _bits(other.get(name)):
            return f"{name}: {one.get(name)} and {other.get(name)}"
    return ""


def _bits(value: float | None) -> bytes:
    """The bits of a value; those of NaN where there is none."""
    return struct.pack("<d", math.nan if value is None or math.isnan(value) else value)


def main() -> int:
    """Searches as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("count", type=int, help="how many scenarios")
    parser.add_argument("seed", type=int, nargs="?", default=1, help="the first seed")
    parser.add_argument("--out", type=Path, default=Path("target/scenario-search"))
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    given = parser.parse_args()
    last = given.seed + given.count
    parts = [range(at, min(at + _PART, last)) for at in range(given.seed, last, _PART)]
    report = Report()
    with ProcessPoolExecutor(given.jobs) as pool:
        for part in pool.map(partial(search, out=given.out.absolute()), parts):
            report.add(part)
            if len(parts) > 1:
                done = report.valid + report.invalid
                print(f"{done:,} scenarios, {len(report.failures)} failures", file=sys.stderr)
    print(report.text())
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
