"""What can go wrong outside the engine; every message is one sentence for the user."""

import re
from collections.abc import Iterable
from operator import index
from reprlib import repr as short_repr

_LONGEST = 260
"""Characters of quoted text, or of a word, that a message repeats; the engine has as many.

The name of a file may have 255.
"""

_QUOTED_OR_WORD = re.compile(r'`[^`]*`|"[^"]*"|[^\s`"]+')


class AnabranchError(Exception):
    """Something that the user can put right: the command line shows it without a traceback."""

    def __init__(self, sentence: str = "") -> None:
        super().__init__(shortened(sentence))


class Terminated(KeyboardInterrupt):
    """The system asked the command line to end (SIGTERM): handled as Ctrl-C is."""


class ScenarioError(AnabranchError, ValueError):
    """A scenario that cannot be run: the key, what was found and what is allowed."""


class RunError(AnabranchError, RuntimeError):
    """A run that was stopped by one of its guards (events, wall time, memory)."""


class StoreError(AnabranchError):
    """A study folder that cannot be read, or not be continued with this scenario."""


def whole(name: str, value: object, least: int, most: int | None = None) -> int:
    """An argument as an `int`, from NumPy's numbers, too.

    Raises an AnabranchError that names it unless it is a whole number of this range.
    """
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise AnabranchError(f"{name} is {short_repr(value)}; it must be a whole number") from None
    if number < least or (most is not None and number > most):
        allowed = f"at least {least}" if most is None else f"from {least} to {most}"
        raise AnabranchError(f"{name} is {number}; it must be {allowed}")
    return number


def shortened(sentence: object) -> str:
    """A message in which what was found is not repeated at any length: long text has its ends."""
    return _QUOTED_OR_WORD.sub(_ends, str(sentence))


def _ends(found: re.Match[str]) -> str:
    text = found[0]
    quotes = 2 if text[0] in '`"' and len(text) > 1 else 0
    if len(text) - quotes <= _LONGEST:
        return text
    last = _LONGEST // 4 + quotes // 2
    return f"{text[: _LONGEST + quotes - last - 1]}…{text[-last:]}"


def suggestion(name: str, names: Iterable[str]) -> str:
    """`; did you mean ...?` for a message about a name that is not among these, or nothing."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for a message

    close = get_close_matches(name, names, n=1)
    return f"; did you mean `{close[0]}`?" if close else ""
