"""Merges study folders of several machines."""

import errno
import logging
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import polars as pl

from anabranch.errors import StoreError
from anabranch.support import progress
from anabranch.support.files import write_atomically

from . import shard_files
from .definitions import check_same, read_identity
from .locks import hold
from .rows import check_twins, firsts, index_of
from .tables import is_complete

_log = logging.getLogger(__name__)


def merge(into: str | Path, others: Sequence[str | Path]) -> int:
    """Copies rows, traces and definitions that other study folders have and one lacks.

    The other folders stay unchanged. A run that is in several folders counts once. Merging again,
    also after an interruption, copies what is missing.

    Parameters
    ----------
    into
        A study folder; one that does not exist yet gets the definition of the first other.
    others
        Study folders.

    Returns
    -------
    The number of runs that are new.

    Raises
    ------
    StoreError
        If one of them is not a study folder, has rows of another kind or a damaged shard, or if two
        disagree about a run; nothing is copied then.

    Examples
    --------
    >>> for share in (1, 2):
    ...     study = anabranch.Study("scenarios/rto-sweep.toml", f"results/{share}", replications=2)
    ...     study.run(shard=(share, 2))
    >>> anabranch.merge("results/all", ["results/1", "results/2"])
    18
    """
    into, sources = Path(into), [Path(other) for other in others]
    if not sources:
        raise StoreError("name at least one study folder to merge")
    is_new = not (into / "study.json").exists()
    first = sources[0] if is_new else into
    mine = read_identity(first)
    for source in sources:
        if source.resolve() == into.resolve():
            raise StoreError(f"{into} cannot be merged into itself")
        identity = read_identity(source)
        check_same(first, mine, source, identity)
        if identity["scenario_hash"] != mine["scenario_hash"]:
            message = "%s has another definition than %s, which stays the current one"
            _log.warning(message, source, first)
    rows = into / "rows"
    shard_files.check_folder(rows)
    rows.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        held.enter_context(hold(into))
        for source in sources:
            _hold_source(held, source)
        there = shard_files.checked(rows)
        offered = [shard for source in sources for shard in shard_files.checked(source / "rows")]
        shard_files.check_engine([*there, *offered], mine["engine_version"])
        check_twins([*there, *offered])
        if is_new and there:
            raise StoreError(
                f"{into} has rows but no study.json that says what they are: choose another folder"
            )
        new = firsts(index_of([*there, *offered])).filter(pl.col("shard") >= len(there))
        wanted = [offered[number - len(there)] for number in sorted(new["shard"].unique())]
        copies = []
        for source in sources:
            copies += _missing(source, into, "definitions/*.*")
        if is_new:
            # `study.json` makes it a study folder, so that merging and sweeping can continue from
            # here.
            copies += [(first / name, into / name) for name in ("scenario.toml", "study.json")]
        for source in sources:
            copies += _missing(source, into, "traces/*/*.parquet")
        copies += [(shard.path, rows / shard.path.name) for shard in wanted]
        first_of: dict[Path, Path] = {}
        for path, target in copies:
            first_of.setdefault(target, path)
        with progress.steps("merge", len(first_of), "files") as step:
            for target, path in first_of.items():
                target.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(target, path.read_bytes())
                step()
        shard_files.compact(rows, shard_files.checked(rows))
    return new.height


def _missing(source: Path, into: Path, pattern: str) -> list[tuple[Path, Path]]:
    """Files of a folder that another one lacks or has only in part, each with its new place."""
    targets = [(path, into / path.relative_to(source)) for path in sorted(source.glob(pattern))]
    return [
        (path, target)
        for path, target in targets
        if not path.name.startswith(".") and _is_whole(path) and not _is_whole(target)
    ]


def _is_whole(path: Path) -> bool:
    return path.is_file() and (path.suffix != ".parquet" or is_complete(path))


def _hold_source(held: ExitStack, source: Path) -> None:
    """Holds a folder that is copied, so that no process merges its shards meanwhile."""
    try:
        held.enter_context(hold(source, shared=True))
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise  # a read-only copy needs no lock
