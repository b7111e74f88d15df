"""Shards: files of rows, named by a digest of their bytes, that never change."""

import hashlib
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import polars as pl

from anabranch.errors import StoreError
from anabranch.support import declared
from anabranch.support.files import write_atomically

from .rows import ADDRESS, each_once
from .tables import parquet, read_table

MOST_ROWS = 200_000
MOST_BYTES = 32 << 20
"""The largest size of a merged shard, as it is held in memory while it is written."""

_NAME = re.compile(r"[0-9a-f]{16}\.parquet")
_log = logging.getLogger(__name__)


class FileShard:
    """A shard of a study folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        """The shard's file name, for messages."""
        return str(self.path)

    @cached_property
    def height(self) -> int:
        """The number of rows."""
        with _damage(self.path):
            return int(self._scan().select(pl.len()).collect().item())

    @cached_property
    def _names(self) -> dict[str, str]:
        """The names of the columns, each with the one that it has in the file."""
        with _damage(self.path):
            stored = self._scan().collect_schema().names()
        return {declared.present_name(name): name for name in stored}

    def names(self) -> Sequence[str]:
        """The names of the columns; scalars have the names of today."""
        return list(self._names)

    def read(self, columns: Sequence[str]) -> pl.DataFrame:
        """These columns of all rows."""
        stored = {self._names[name]: name for name in columns}
        with _damage(self.path):
            return read_table(self.path, list(stored)).rename(stored)

    def check(self) -> None:
        """Raises StoreError unless the bytes match the name and are rows."""
        if digest(self.path) != self.path.stem:
            raise _damaged(self.path, "its bytes do not give its name")
        for name in ADDRESS:
            if name not in self._names:
                raise _damaged(self.path, f"it has no column `{name}`")

    def _scan(self) -> pl.LazyFrame:
        return pl.scan_parquet(self.path, glob=False, hive_partitioning=False)


def digest(path: Path) -> str:
    """A digest of a file's bytes: 16 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, _hash).hexdigest()


def write(folder: Path, rows: pl.DataFrame) -> FileShard:
    """Writes a shard; it is on disk when this returns."""
    content = parquet(rows, statistics=False)
    path = folder / f"{_hash(content).hexdigest()}.parquet"
    write_atomically(path, content)
    return FileShard(path)


def files(folder: Path) -> list[Path]:
    """The files that are shards by name; folders, pipes and dangling links are not.

    Raises
    ------
    StoreError
        If the path is a file; a folder that does not exist has no shards.
    """
    check_folder(folder)
    return sorted(
        path for path in folder.glob("*.parquet") if path.name[0] != "." and path.is_file()
    )


def check_folder(folder: Path) -> None:
    """Raises StoreError if the path of a folder within a study folder is something else.

    Polars reads no file whose path is not valid UTF-8.
    """
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise StoreError(f"{str(folder.parent)!a} is not valid UTF-8; use another name") from None
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is damaged: it is a file, not a folder; move it away")


def checked(folder: Path) -> list[FileShard]:
    """All shards of a folder.

    Raises
    ------
    StoreError
        If one is damaged; the message names it and says what to do.
    """
    shards = []
    for shard, error in _checks(files(folder)):
        if isinstance(error, StoreError):
            hint = "the same sweep sets it aside and computes its runs again"
            raise StoreError(f"{error}; {hint}") from error
        if error is not None:
            raise error
        shards.append(shard)
    return shards


def check_engine(shards: Iterable[FileShard], engine_version: str) -> None:
    """Raises StoreError, which names the shard, if another engine has made one of them."""
    for shard in shards:
        engines = shard.read(["engine_version"]).to_series().unique()
        if others := sorted(set(engines) - {engine_version}):
            raise StoreError(
                f"{shard.path} holds rows of anabranch {others[0]}, not {engine_version}: move it"
                " to a folder of its own"
            )


def set_aside_damaged(folder: Path) -> list[FileShard]:
    """The intact shards of a folder; damaged ones are renamed, so that their runs are missing."""
    shards = []
    for shard, error in _checks(files(folder)):
        if isinstance(error, StoreError):
            aside = shard.path.with_name(shard.path.name + ".corrupt")
            try:
                shard.path.replace(aside)
            except FileNotFoundError:
                continue  # another task of the same array was faster
            _log.warning("%s; set aside as %s, its runs are computed again", error, aside.name)
        elif error is None:
            shards.append(shard)
    return shards


def compact(folder: Path, shards: Iterable[FileShard]) -> int:
    """Merges many small shards into few; gives the number of shards that remain.

    New shards are written before the old ones are removed. If the process is killed in between,
    some rows exist twice, and count once.
    """
    small, count = [], 0
    for shard in shards:
        count += 1
        if shard.height < MOST_ROWS // 2 and shard.path.stat().st_size < MOST_BYTES // 2:
            small.append(shard)
    for group in _groups(small):
        new = write(folder, each_once(group))
        for shard in group:
            if shard.path != new.path:
                shard.path.unlink()
        count -= len(group) - 1
    return count


def _groups(shards: Iterable[FileShard]) -> Iterator[list[FileShard]]:
    """Groups of at least two shards that are merged into one."""
    group: list[FileShard] = []
    rows = size = 0
    for shard in shards:
        height, bytes_ = shard.height, shard.path.stat().st_size
        if rows + height > MOST_ROWS or size + bytes_ > MOST_BYTES:
            if len(group) > 1:
                yield group
            group, rows, size = [], 0, 0
        group.append(shard)
        rows += height
        size += bytes_
    if len(group) > 1:
        yield group


def _checks(paths: Sequence[Path]) -> list[tuple[FileShard, Exception | None]]:
    def check(path: Path) -> tuple[FileShard, Exception | None]:
        shard = FileShard(path)
        try:
            shard.check()
        except (StoreError, FileNotFoundError) as error:
            return shard, error
        return shard, None

    # Computing digests does not hold the interpreter's lock.
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(check, paths))


def _hash(content: bytes = b"") -> "hashlib.blake2b":
    return hashlib.blake2b(content, digest_size=8)


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError) as error:
        raise _damaged(path, "it is not a complete Parquet file") from error


def _damaged(path: Path, why: str) -> StoreError:
    return StoreError(f"{path} is damaged: {why}")
