"""Checks arguments: a mistake is one sentence that names argument, value and what is allowed."""

from collections.abc import Iterable, Mapping
from typing import NoReturn

from anabranch.errors import AnabranchError, brief


def refuse(name: str, value: object, allowed: str) -> NoReturn:
    """Raises the sentence."""
    raise AnabranchError(f"{name} is {brief(value)}; it must be {allowed}")


def text(name: str, value: object, allowed: str = "a text") -> str:
    """A text."""
    if not isinstance(value, str):
        refuse(name, value, allowed)
    return value


def escaped(value: str) -> str:
    """A text as a message quotes it, without line breaks and control characters."""
    return repr(value)[1:-1]


def texts(name: str, value: object, allowed: str = "a text or a sequence of texts") -> list[str]:
    """Texts, of which one may stand for itself."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Iterable) or isinstance(value, bytes | bytearray | memoryview):
        refuse(name, value, allowed)
    return [text(f"{name}[{place}]", one) for place, one in enumerate(value)]


def octets(name: str, value: object, most: int | None = None) -> bytes:
    """Bytes, at most so many."""
    limit = "" if most is None else f" of at most {most} bytes"
    if isinstance(value, bytes):
        content = value
    else:
        try:
            view = memoryview(value)  # type: ignore[arg-type]
        except TypeError:
            refuse(name, value, f"bytes{limit}")
        if most is not None and view.nbytes > most:
            refuse(name, f"of {view.nbytes} bytes", f"bytes{limit}")
        content = bytes(view)
    if most is not None and len(content) > most:
        refuse(name, content, f"bytes{limit}")
    return content


def flag(name: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        refuse(name, value, "True or False")
    return value


def positive(name: str, value: object) -> float:
    """A number above 0, infinity included."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        refuse(name, value, "a number above 0")
    try:
        return float(value)
    except OverflowError:
        refuse(name, value, "a number above 0 that fits into a float")


def keys(name: str, value: object) -> Mapping[str, object]:
    """Settings by their keys; none for None."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        refuse(name, value, "a mapping from the names of settings to their values")
    return value
