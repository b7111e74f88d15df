"""The errors that users can see; every message is one sentence for the user."""

import re
import signal
import sys
from collections.abc import Iterable, Mapping
from operator import index
from reprlib import repr as short_repr
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")

_LONGEST = 260
"""The most characters that a message repeats of quoted text, or of a word.

The engine has the same limit. A file's name may have 255 characters.
"""

_QUOTED_OR_WORD = re.compile(r'`[^`]*`|"[^"]*"|[^\s`"]+')


class AnabranchError(Exception):
    """Something that the user can put right: the command line shows it without a traceback.

    All errors of the package are derived from it. The message is one sentence.

    Examples
    --------
    >>> try:
    ...     anabranch.run("scenarios/two-path-call.toml", seed=-1)
    ... except anabranch.AnabranchError as error:
    ...     print(error)
    seed is -1; it must be from 0 to 18446744073709551615
    """

    def __init__(self, sentence: str = "") -> None:
        super().__init__(shortened(sentence))


class Terminated(KeyboardInterrupt):
    """The system asked the command line to end (SIGTERM): handled as Ctrl-C is."""


class HungUp(Terminated):
    """The terminal of the command line was closed (SIGHUP): handled as Ctrl-C is."""


ENDING: dict[type[KeyboardInterrupt], signal.Signals] = {
    KeyboardInterrupt: signal.SIGINT,
    Terminated: signal.SIGTERM,
}
"""The signals that end a command, by the exception that each raises."""
if sys.platform != "win32":
    ENDING[HungUp] = signal.SIGHUP


class ScenarioError(AnabranchError, ValueError):
    """A scenario that cannot be run: the key, what was found and what is allowed.

    Examples
    --------
    >>> anabranch.load("scenarios/two-path-call.toml", {"flows.call.app.codec": "g7"})
    Traceback (most recent call last):
    anabranch.errors.ScenarioError: scenarios/two-path-call.toml: flows.call.app.codec:
    unknown variant `g7`; did you mean `g711`? `anabranch list codec` has all
    """


class TemplateError(AnabranchError):
    """A file that does not exist, but has the name of a template."""

    def __init__(self, file: object, template: str) -> None:
        super().__init__(f"there is no file {file}; `{template}` is a template of the package")
        self.template = template


class MissingError(AnabranchError, KeyError):
    """A name that is not in a mapping."""

    __str__ = Exception.__str__  # a KeyError would quote the sentence


class RunError(AnabranchError, RuntimeError):
    """A run that one of its guards (events, wall time, memory) has stopped.

    Examples
    --------
    >>> anabranch.run("scenarios/two-path-call.toml", set={"run.max_events": 100})
    Traceback (most recent call last):
    anabranch.errors.RunError: the run was stopped at 1.249891087 s after 100 events:
    run.max_events = 100 is reached
    """


class LiveError(AnabranchError, RuntimeError):
    """Sockets or associations that cannot do what was asked."""


class StoreError(AnabranchError):
    """A study folder that cannot be read, or that cannot be continued with this scenario.

    Examples
    --------
    >>> anabranch.read("scenarios")
    Traceback (most recent call last):
    anabranch.errors.StoreError: scenarios is not a study folder: it has no study.json
    """


def whole(name: str, value: object, least: int, most: int | None = None) -> int:
    """Converts an argument, which may be a number of NumPy's, to `int`.

    Raises an AnabranchError that names it unless it is a whole number in this range.
    """
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise AnabranchError(f"{name} is {brief(value)}; it must be a whole number") from None
    if number < least or (most is not None and number > most):
        allowed = f"at least {least}" if most is None else f"from {least} to {most}"
        raise AnabranchError(f"{name} is {brief(number)}; it must be {allowed}")
    return number


def brief(value: object) -> str:
    """A value as a message shows it, shortened where it is long."""
    try:
        return short_repr(value)
    except (ValueError, RecursionError):
        # Python writes no number of more than 4300 digits.
        return f"a value of type {type(value).__name__} that is too long to write"


def shortened(sentence: object) -> str:
    """Shortens long quoted text and words in a message to their beginning and end."""
    return _QUOTED_OR_WORD.sub(_ends, str(sentence))


def _ends(match: re.Match[str]) -> str:
    text = match[0]
    quotes = 2 if text[0] in '`"' and len(text) > 1 else 0
    if len(text) - quotes <= _LONGEST:
        return text
    last = _LONGEST // 4 + quotes // 2
    return f"{text[: _LONGEST + quotes - last - 1]}…{text[-last:]}"


def suggestion(name: str, names: Iterable[str]) -> str:
    """`; did you mean ...?` if one of these names is close to the given one, or an empty text."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for a message

    close = get_close_matches(name, names, n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


class Named(dict[str, Value], Generic[Value]):
    """A dictionary by name; asking for a name that it lacks raises an error with a sentence.

    Parameters
    ----------
    what
        What a value is called, such as `scalar`.
    content
        The names and values.
    empty
        What to say where the dictionary is empty.
    """

    def __init__(self, what: str, content: Mapping[str, Value], empty: str = "") -> None:
        super().__init__(content)
        self._what = what
        self._empty = empty

    def __missing__(self, name: str) -> Value:
        """Raises a MissingError that names what was asked for and what there is."""
        if not self and self._empty:
            raise MissingError(self._empty)
        raise MissingError(f"there is no {self._what} `{name}`{suggestion(str(name), self)}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Lets copies and other processes rebuild it."""
        return Named, (self._what, dict(self), self._empty)
