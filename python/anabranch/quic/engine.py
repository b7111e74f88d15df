"""The engine's part that speaks QUIC, which engines may be built without."""

import os
from pathlib import Path

from anabranch import _engine
from anabranch.errors import LiveError


def check_engine() -> None:
    """Raises a LiveError if the engine was built without QUIC."""
    if not _engine.QUIC:
        raise LiveError(
            "this engine was built without QUIC; wheels have it, and so has what `make dev` builds"
        )


def check_secrets_file() -> None:
    """Raises a LiveError if secrets are to go to a file that cannot be written.

    rustls, which writes them, would go on without a word.
    """
    if file := os.environ.get("SSLKEYLOGFILE"):
        try:
            with Path(file).open("ab"):
                pass
        except OSError as error:
            raise LiveError(f"SSLKEYLOGFILE: {file} cannot be written: {error.strerror}") from None
