"""What can go wrong outside the engine; every message is one sentence for the user."""

from collections.abc import Iterable


class AnabranchError(Exception):
    """Something that the user can put right: the command line shows it without a traceback."""


class Terminated(KeyboardInterrupt):
    """The system asked the command line to end (SIGTERM): handled as Ctrl-C is."""


class StoreError(AnabranchError):
    """A study folder that cannot be read, or not be continued with this scenario."""


def suggestion(name: str, names: Iterable[str]) -> str:
    """`; did you mean ...?` for a message about a name that is not among these, or nothing."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for a message

    close = get_close_matches(name, names, n=1)
    return f"; did you mean `{close[0]}`?" if close else ""
