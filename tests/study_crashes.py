"""Studies in processes that are killed, each forked from this one, which has the packages loaded.

`python study_crashes.py random FOLDER SWEEP` kills a study at 20 random moments and lets it end.
`python study_crashes.py each FOLDER SWEEP` kills one before each thing that it does to its folder;
`merge` does the same to a merge.

The parent only forks: modules with threads (polars, the engine) are first used in the children.
"""

import json
import os
import random
import re
import shutil
import signal
import sys
import time
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl

from anabranch import Study, store
from anabranch.store import folder as folders
from anabranch.store.shard_files import digest
from anabranch.support.progress import Status

KILLS = 20
REPLICATIONS = 400
FEW = 2
MORE = '"0.2 s", "1 s", "0.05 s"'
"""Other values of the first axis: two of three are old, in another order."""

KILLED = -signal.SIGKILL


def start(work: Callable[[], object]) -> int:
    """A process that does the work, or fails with a traceback."""
    if child := os.fork():
        return child
    try:
        work()
    except BaseException:
        import traceback  # noqa: PLC0415 - only for a failure

        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_at_random(folder: Path, sweep: Path) -> None:
    """Prints how many runs each life found; where they begin anew, a life was long enough."""
    moments = random.Random(20)
    started = time.monotonic()
    expected = _expected(sweep, folder, REPLICATIONS)
    longest = 0.1 + (time.monotonic() - started) / 5
    log = os.open(folder.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def live(jobs: int) -> None:
        first = True

        def hear(status: Status) -> None:
            nonlocal first
            if first:
                os.write(log, f"{status.done}\n".encode())
            first = False

        folders._MANY = 5  # shards are made one in every life
        Study(sweep, folder, replications=REPLICATIONS, jobs=jobs).run(hear)

    kills, found = 0, [""]
    while kills < KILLS:
        child = start(partial(live, 1 + kills % 3))
        time.sleep(moments.uniform(0.0, longest))
        os.kill(child, signal.SIGKILL)
        before, found = found, folder.with_suffix(".log").read_text().split() or [""]
        if (code := ended(child)) == KILLED:
            kills += 1
            # However busy the machine becomes: one that got nowhere makes later ones longer.
            longest *= 1.5 if found[-1] == before[-1] else 1
            continue
        longest /= 1.1
        assert code == 0
        assert ended(start(lambda: check(folder, expected))) == 0
        shutil.rmtree(folder)
    assert ended(start(lambda: live(2))) == 0
    assert ended(start(lambda: check(folder, expected))) == 0
    assert not list(folder.rglob("*.corrupt"))
    found = folder.with_suffix(".log").read_text().split()
    print(json.dumps({"found": [int(runs) for runs in found]}))


def kill_before_each_step(folder: Path, sweep: Path) -> None:
    """Prints how many steps each study has."""
    extended = sweep.with_name("extended.toml")
    extended.write_text(sweep.read_text().replace('"1 s", "0.1 s", "0.05 s"', MORE))
    assert extended.read_text() != sweep.read_text()
    begun = folder.with_name("begun")
    begun.mkdir()
    steps = [_kill_before_each(partial(_live, sweep, folder), sweep, folder, begun)]
    assert ended(start(lambda: _live(sweep, begun))) == 0
    steps.append(_kill_before_each(partial(_live, extended, folder), extended, folder, begun))
    print(json.dumps({"steps": steps}))


def kill_merge_before_each_step(folder: Path, sweep: Path) -> None:
    """Prints how many steps a merge has."""
    halves = [folder.with_name("half-1"), folder.with_name("half-2")]

    def compute(i: int) -> None:
        Study(sweep, halves[i], replications=FEW, jobs=1).run(shard=(i + 1, 2))

    for i in range(2):
        assert ended(start(partial(compute, i))) == 0
    begun = folder.with_name("begun")
    begun.mkdir()
    merge = partial(store.merge, folder, halves)
    print(json.dumps({"steps": [_kill_before_each(merge, sweep, folder, begun)]}))


def _live(sweep: Path, folder: Path) -> None:
    folders._MANY = 1
    Study(sweep, folder, replications=FEW, jobs=1).run()


def _expected(sweep: Path, folder: Path, replications: int) -> Path:
    """A file with the rows of a study that was never killed."""
    path = folder.with_suffix(f".{sweep.stem}.parquet")

    def compute() -> None:
        study = Study(sweep, replications=replications, jobs=2)
        study.run()
        study.frame().write_parquet(path)

    assert ended(start(compute)) == 0
    return path


def _kill_before_each(work: Callable[[], object], sweep: Path, folder: Path, begun: Path) -> int:
    """Kills the work, which begins with a copy of `begun`, before each step; gives their number."""
    expected = _expected(sweep, folder, FEW)

    def resume() -> None:
        check(folder)
        work()
        check(folder, expected)
        assert {path.name for path in folder.rglob(".*")} == {".lock"}

    step = 0
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(begun, folder)
        number = step

        def live_until(number: int = number) -> None:
            _die_before_step(number, folder)
            work()

        if (code := ended(start(live_until))) == 0:
            return step
        assert code == KILLED, code
        assert ended(start(resume)) == 0, f"killed before step {step}"
        step += 1


def _die_before_step(number: int, folder: Path) -> None:
    """Ends this process without warning at a change of the folder, after this many changes."""
    left = number

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        changes = event in ("os.rename", "os.remove", "os.mkdir") or (
            event == "open"
            and isinstance(arguments[2], int)
            and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        )
        if not changes or not str(arguments[0]).startswith(str(folder)):
            return
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    sys.addaudithook(audit)


def check(folder: Path, expected: Path | None = None) -> None:
    """Every file with its final name is whole, and the rows are what they should be."""
    for path in folder.rglob("*"):
        if path.is_dir() or path.name.startswith("."):
            continue
        if path.parent.name == "rows" and not re.fullmatch("[0-9]{4}.parquet", path.name):
            assert path.name == f"{digest(path)}.parquet", path
        elif path.suffix == ".parquet":
            pl.read_parquet(path)
        elif path.suffix == ".toml":
            assert "links" in tomllib.loads(path.read_text())
        else:
            assert path.name == "study.json"
            assert json.loads(path.read_text())["schema_version"] == store.SCHEMA_VERSION
    if expected is not None:
        found, wanted = store.read(folder), pl.read_parquet(expected)
        assert found.equals(wanted)
        assert _bits(found) == _bits(wanted)


def _bits(frame: pl.DataFrame) -> bytes:
    return frame.select(pl.col(pl.Float64)).to_numpy().tobytes()


KINDS = {
    "random": kill_at_random,
    "each": kill_before_each_step,
    "merge": kill_merge_before_each_step,
}

if __name__ == "__main__":
    KINDS[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
