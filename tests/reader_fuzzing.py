"""Feeds `profile` and `explain` with damaged captures and logs, each kind for a while.

python tests/reader_fuzzing.py [--minutes M] [--kind NAME...] [--seed N] [--findings FOLDER]

Each input has to give a result or a sentence, in bounded time and memory; a profile has to be one
that a scenario takes. What is not so is a finding: its input is kept in the folder, its traceback
printed, and the search goes on. It ends with 1 if there were any.
"""

import argparse
import faulthandler
import io
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

import anabranch
from anabranch.errors import AnabranchError
from anabranch.explain import captured, qlogs
from anabranch.profile import Profile, estimate, figures, measure, output

sys.path.append(str(Path(__file__).parent.parent / "tools"))

import capture_mutations
import log_mutations

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST_S = 10.0
"""Of CPU, for one command with an input of at most 1 MiB."""
STUCK_S = 120.0
"""Of CPU, after which the process ends with a traceback."""
DRAWN = 40
"""Of so many inputs, one is drawn, too; that takes longer than all else."""
MOST_BYTES = 3 << 30
"""Of address space, in the process that tries them."""

_SCENARIO = """
[run]
duration = "1 s"
[flows.flow]
from = "a"
to = "b"
paths = ["x"]
transport = { kind = "udp" }
app = { kind = "voip" }
"""


def kinds() -> list[str]:
    """Every kind of input."""
    return [*capture_mutations.kinds(), *log_mutations.kinds()]


def tried(kind: str, seed: int, number: int, folder: Path) -> tuple[bool, bool]:
    """Whether a changed input of this kind is profiled, and explained; else each has a sentence."""
    rng = random.Random(f"{kind} {seed} {number}")
    module = capture_mutations if kind in capture_mutations.kinds() else log_mutations
    files = module.written(kind, rng, folder)
    draws = number % DRAWN == DRAWN - 1
    return _is_done(_profiled, files, draws=draws), _is_done(_explained, files, draws=draws)


def _is_done(command: Callable[..., None], files: list[Path], *, draws: bool) -> bool:
    began, said = time.process_time(), ""
    try:
        command(files, draws=draws)
    except AnabranchError as error:
        said = str(error)
    assert "\n" not in said, f"{said!r} is more than a sentence"
    assert len(said) < 1_000, f"{said!r} is long"
    took_s = time.process_time() - began
    assert took_s < LONGEST_S, f"{command.__name__} took {took_s:.1f} s of CPU"
    return not said


def _profiled(files: list[Path], *, draws: bool) -> None:
    """As `anabranch profile` does; its scenario is read, too."""
    found = estimate(measure(files))
    for each in (found, found.back):
        if each is not None:
            check_values(each)
    text = output.toml(found, "x", ("a", "b"))
    output.netem(found)
    output.rows(found)
    output.missing(found)
    output.model_rows(found)
    output.as_json(found, "x")
    anabranch.load(text + _SCENARIO)
    if draws:
        _draw(list(figures.of_profile(found).values()))


def check_values(found: Profile) -> None:
    """Each value is within its interval, and one that a link can have."""
    for value in (found.delay_s, found.jitter_s, found.rate_bit_per_s, found.mean_loss):
        if value is not None:
            assert np.isfinite([value.value, *value.interval]).all(), value
            assert 0 <= value.interval[0] <= value.interval[1], value


def _explained(files: list[Path], *, draws: bool) -> None:
    """As `anabranch explain` does with what is no scenario."""
    for file in files:
        if captured.is_capture(file):
            found = captured.explain(file)
            drawn = (
                draw for one in found.flows for draw in (one.figure, partial(one.sequence, file))
            )
            _print(found)
        elif qlogs.is_qlog(file):
            of_qlog = qlogs.explain(file)
            drawn = (one.figure for one in of_qlog.connections)
            _print(of_qlog)
        else:
            raise AnabranchError("a log, which `profile` reads")
        if draws:
            _draw([draw() for draw in drawn])


def _print(explanation: captured.Capture | qlogs.Qlog) -> None:
    Console(file=io.StringIO(), width=80).print(explanation.tables(80))
    explanation.as_json()


def _draw(drawn: "Sequence[Figure | None]") -> None:
    """Where there is something to draw, it can be laid out."""
    for figure in drawn:
        if figure is not None:
            figure.canvas.draw()


def search(kind: str, minutes: float, seed: int, findings: Path) -> int:
    """Tries one kind for so long, prints what came of it, and gives the number of findings."""
    counts: Counter[str] = Counter()
    places: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        end, number = time.process_time() + 60 * minutes, 0
        while time.process_time() < end:
            signal.setitimer(signal.ITIMER_PROF, STUCK_S)
            try:
                is_profiled, is_explained = tried(kind, seed, number, folder)
                counts["profiled"] += is_profiled
                counts["explained"] += is_explained
            except Exception as error:
                place = (
                    "".join(traceback.format_tb(error.__traceback__)[-1:]) + type(error).__name__
                )
                places[place] += 1
                if places[place] <= 3:
                    kept = findings / f"{kind}-{seed}-{number}"
                    shutil.copytree(folder, kept, dirs_exist_ok=True)
                    print(f"finding {kept}:\n{''.join(traceback.format_exception(error))[-2_000:]}")
            number += 1
        signal.setitimer(signal.ITIMER_PROF, 0)
    said = ", ".join(f"{counts[what]} {what}" for what in ("profiled", "explained"))
    took = f"{minutes:g} minutes, {number} inputs"
    print(f"{kind}: {took}, {said}, {places.total()} findings", flush=True)
    return places.total()


def main() -> int:
    """Tries each kind for a while."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of CPU, for each kind")
    parser.add_argument("--kind", nargs="+", choices=kinds(), default=kinds(), metavar="NAME")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", type=Path, default=Path("target/reader-findings"))
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    warnings.simplefilter("error")
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)
    return int(
        sum(search(kind, options.minutes, options.seed, options.findings) for kind in options.kind)
        > 0
    )


if __name__ == "__main__":
    sys.exit(main())
