"""The engine's part that speaks QUIC, which engines may be built without."""

from anabranch import _engine
from anabranch.errors import LiveError


def check_engine() -> None:
    """Raises a LiveError if the engine was built without QUIC."""
    if not _engine.QUIC:
        raise LiveError(
            "this engine was built without QUIC; wheels have it, and so has what `make dev` builds"
        )
