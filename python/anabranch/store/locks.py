"""Locks: which processes may write to a study folder."""

import errno
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anabranch.errors import StoreError
from anabranch.support.files import remove_temporaries

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}

_log = logging.getLogger(__name__)


@contextmanager
def hold(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Holds a folder for this process; the system releases it however the process ends.

    If no other process holds the folder, files left by processes that were killed while writing are
    removed. A filesystem without locks causes a warning.

    Parameters
    ----------
    folder
        The study folder.
    shared
        Whether other processes that also set this may hold it at the same time.

    Raises
    ------
    StoreError
        When another process holds it.
    """
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _lock(descriptor, folder, shared=shared)
        if not shared:
            for pattern in (".*", "definitions/.*", "rows/.*", "traces/*/.*"):
                remove_temporaries(folder, pattern)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path, *, shared: bool) -> None:
    try:
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415 - exists there only

            if not shared:  # shared locks are not available on Windows
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl  # noqa: PLC0415 - exists elsewhere only

            kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise StoreError(f"another sweep is writing to {folder}") from error
        _log.warning("%s cannot be locked: see that no other sweep writes to it", folder)
