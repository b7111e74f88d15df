"""Quantities on the command line, which the engine reads as it does those in scenarios."""

import re
from contextlib import suppress

from anabranch import _engine
from anabranch.errors import AnabranchError


def milliseconds(text: str) -> float:
    """A length of time such as `63ms` or `0.1 s`, in ms."""
    return _engine.quantity("duration", text) / 1e6


def bits_per_second(text: str) -> float:
    """A rate such as `10 Mbit/s`, in bit/s."""
    return _engine.quantity("rate", text)


def octets(text: str) -> float:
    """A size such as `64 KiB`, in bytes."""
    return _engine.quantity("size", text)


def ratio(unit: str, other: str) -> float | None:
    """How much of another unit a unit is: 1000 for `s` and `ms`; None if they measure other things.

    Units are those of scenarios: of durations, rates and sizes.
    """
    if unit == other:
        return 1.0
    for kind in ("duration", "rate", "size"):
        with suppress(ValueError):
            return _engine.quantity(kind, f"1 {unit}") / _engine.quantity(kind, f"1 {other}")
    return None


_INCHES = {"mm": 1 / 25.4, "cm": 1 / 2.54, "in": 1.0, "pt": 1 / 72}


def inches(name: str, text: str) -> float:
    """A width or height such as `84mm`, in inches; `name` is what it is one of."""
    number, unit = _split(text)
    if number is None or unit not in _INCHES or not 0.5 <= number * _INCHES[unit] <= 60:
        raise AnabranchError(
            f"{name}: `{text}` is not a length such as `84mm` or `3.3in`, from 13 mm to 1.5 m"
        )
    return number * _INCHES[unit]


def share(text: str) -> float:
    """A share such as `2%` or `0.02`, from 0 to 1."""
    number, unit = _split(text)
    value = None if number is None else {"%": number / 100, "": number}.get(unit)
    if value is None or not 0 <= value <= 1:
        raise AnabranchError(f"`{text}` is not a share such as `2%` or `0.02`, from 0 to 1")
    return value


def _split(text: str) -> tuple[float | None, str]:
    match = re.fullmatch(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s]*)\s*", text)
    return (float(match[1]), match[2]) if match else (None, "")
