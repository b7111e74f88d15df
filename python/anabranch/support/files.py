"""Files that commands write: whole or not at all, and checked before the work starts."""

import errno
import glob
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from anabranch.errors import AnabranchError

if sys.platform != "win32":
    import fcntl

MOST_MEGABYTES = 16
"""The most that is read of a text file; the engine has the same limit for scenarios."""

_TEMPORARY = re.compile(r"\..+\.[0-9]+-[0-9a-f]{8}")


def read_text(path: Path, most_megabytes: int = MOST_MEGABYTES) -> str:
    """The text of a file that a user has named.

    Raises an AnabranchError where reading it may never end or would fill the memory: it is a
    device, or larger than that.
    """
    if path.is_char_device() or path.is_block_device():
        raise AnabranchError(f"cannot read `{path}`: it is a device, not a file")
    limit = most_megabytes * 1_000_000
    with path.open("rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise AnabranchError(
            f"cannot read `{path}`: it has more than {most_megabytes} MB, which is the most that "
            "is read"
        )
    return content.decode("utf-8")


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file so that `path` has either its old or its new content on disk, never a part.

    See `opened_atomically`.
    """
    with opened_atomically(path) as file:
        file.write(content)


@contextmanager
def opened_atomically(path: Path, *, is_long: bool = False) -> Iterator[BinaryIO]:
    """A file to write to, which gets the name `path` once everything is written and on disk.

    A link stays, and the file behind it is replaced. The new file has the old one's rights, and its
    owner and group where the system allows that; a hard link keeps the old content. A read-only
    file is not replaced. What cannot be replaced, such as a device, a pipe or the target of
    standard output, is written directly.

    Parameters
    ----------
    path
        The file.
    is_long
        Whether it takes so long to write that the process may well be killed meanwhile: what such a
        process has left of this file is removed first.
    """
    target = _target(path)
    stream = _stream(path)
    if stream is not None or (path.exists() and not path.is_file()):
        try:
            with path.open("wb") if stream is None else os.fdopen(os.dup(stream), "wb") as file:
                yield file
        except OSError as error:
            raise _named(error, path) from error
        return
    if is_long:
        _remove_left(target)
    with _part(path, target) as (_, file):
        yield file
    if sys.platform != "win32":
        descriptor = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # makes the rename itself durable
        finally:
            os.close(descriptor)


@contextmanager
def path_atomically(path: Path) -> Iterator[Path]:
    """The same for code that opens files itself, and takes long: gives the name to write to."""
    target = _target(path)
    if _stream(path) is not None or (path.exists() and not path.is_file()):
        yield path
        return
    _remove_left(target)
    with _part(path, target) as (temporary, _):
        yield temporary


@contextmanager
def _part(path: Path, target: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A temporary file, open for writing, which becomes `target` in the end or is removed.

    It is locked, so that `_remove_left` of another process can tell it from what is left of one.
    """
    is_there = False
    while not is_there:
        temporary = _temporary(target)
        try:
            with _created(temporary, target) as file:
                # It may have been taken for such a one before it was locked.
                is_there = _is_locked(file)
                if is_there:
                    yield temporary, file
                    file.flush()
                    os.fsync(file.fileno())
                    if sys.platform != "win32":
                        temporary.replace(target)
            if sys.platform == "win32":  # files that are open have to keep their names there
                temporary.replace(target)
        except BaseException as error:
            temporary.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise _named(error, path) from error
            raise


def _is_locked(file: BinaryIO) -> bool:
    """Locks a file until it is closed; gives whether it still has a name after that."""
    if sys.platform == "win32":
        return True
    with suppress(OSError):  # some file systems have no locks
        fcntl.flock(file, fcntl.LOCK_EX)
    return os.fstat(file.fileno()).st_nlink > 0


def _remove_left(target: Path) -> None:
    """Removes what processes that were killed have left of a file, half written.

    A lock ends with its process, also on another machine. What another process writes at this
    moment stays.
    """
    if sys.platform != "win32":
        for left in target.parent.glob(f".{glob.escape(target.name)}.*"):
            if _TEMPORARY.fullmatch(left.name):
                with suppress(OSError), left.open("rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    left.unlink(missing_ok=True)


def check_different(*read: Path, **files: Path | None) -> None:
    """Raises where two options name the same file, or one names a file that is read.

    One would be lost. A device or a pipe may be named twice.
    """
    seen: dict[Path, str] = {}
    kept = {_behind_links(path) for path in read if path.is_file()}
    for option, path in files.items():
        if path is None or _stream(path) is not None or (path.exists() and not path.is_file()):
            continue
        if _behind_links(path) in kept:
            raise AnabranchError(f"--{option} is {path}, which is read: name another file")
        other = seen.setdefault(_behind_links(path), option)
        if other != option:
            raise AnabranchError(f"--{other} and --{option} are both {path}; use two files")


def check_file(path: Path | None, made: Path | None = None) -> None:
    """Raises the OSError that `write_atomically` would raise, as far as that can be known now.

    It leaves nothing behind.

    Parameters
    ----------
    path
        The file; with None there is nothing to check.
    made
        A folder that the command creates before it writes the file; see `check_folder`.
    """
    if path is None:
        return
    target = _target(path)
    if _stream(path) is not None or (path.exists() and not path.is_file()):
        return
    folder = target.parent
    if made is not None:
        made = _behind_links(made)
        if made.is_relative_to(target):
            raise _folder_error(path)
        if made.is_relative_to(folder):
            folder = _nearest(folder)
    _try_to_write(_temporary(folder / target.name), path)


def check_folder(path: Path) -> None:
    """Raises the OSError that creating the folder and writing into it would raise.

    It leaves nothing behind.
    """
    there = _nearest(path)
    if not there.is_dir():
        raise NotADirectoryError(f"{there} is a file, not a folder")
    _try_to_write(_temporary(there / "file"), path)


def remove_temporaries(folder: Path, pattern: str = ".*") -> None:
    """Removes temporary files of processes that were killed while they wrote."""
    for path in folder.glob(pattern):
        if _TEMPORARY.fullmatch(path.name):
            path.unlink(missing_ok=True)


def _target(path: Path) -> Path:
    """The file that a path leads to, behind all links.

    Raises an OSError if it may not be written.
    """
    try:
        path.stat()
    except FileNotFoundError:
        return _behind_links(path)
    except OSError as error:
        raise _named(error, path) from error
    if path.is_dir():
        raise _folder_error(path)
    # A new file could replace a read-only one, but its owner wants to keep it as it is.
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "may not be written", str(path))
    return _behind_links(path)


def _behind_links(path: Path) -> Path:
    # Before Python 3.13, `Path.resolve` raises a RuntimeError for a loop of links.
    return Path(os.path.realpath(path))


def _stream(path: Path) -> int | None:
    """The descriptor of standard output or error that goes to this file, if one does.

    A new file in its place would lose what is printed, and opening it again would overwrite that.
    """
    for stream in (1, 2):
        with suppress(OSError):
            if os.path.samestat(path.stat(), os.fstat(stream)):
                return stream
    return None


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def _folder_error(path: Path) -> OSError:
    return IsADirectoryError(errno.EISDIR, "a folder, not a file", str(path))


def _temporary(path: Path) -> Path:
    # Machines that share a folder may have processes with the same number.
    return path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")


def _created(temporary: Path, target: Path) -> BinaryIO:
    """A new file that at no time can be read by users who may not read the file it replaces."""
    try:
        old = target.stat()
    except FileNotFoundError:
        return temporary.open("xb")
    if sys.platform == "win32":  # on Windows, rights come from the folder
        return temporary.open("xb")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    rights = stat.S_IMODE(old.st_mode) & 0o777
    new = os.fstat(descriptor)
    if old.st_uid != new.st_uid:
        with suppress(OSError):  # only root can give files away
            os.fchown(descriptor, old.st_uid, -1)
    if old.st_gid != new.st_gid:
        try:
            os.fchown(descriptor, -1, old.st_gid)
        except OSError:
            rights &= ~0o070  # the group's rights were meant for another group
    with suppress(OSError):  # some file systems have no rights
        os.fchmod(descriptor, rights)
    return os.fdopen(descriptor, "wb")


def _named(error: OSError, path: Path) -> OSError:
    """The same error with the file name that the user gave."""
    if error.errno is None:  # an error of a library that writes by itself has only text
        return OSError(f"{path}: {error}")
    return OSError(error.errno, error.strerror, str(path))


def _try_to_write(temporary: Path, named: Path) -> None:
    # Only the system knows what it allows, as there are rights, access lists, and read-only or full
    # disks.
    try:
        try:
            temporary.open("xb").close()
        finally:  # a signal may raise here
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
    except OSError as error:
        raise _named(error, named) from error
