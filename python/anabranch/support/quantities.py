"""Quantities that the command line reads itself; the engine reads those in scenarios."""

import re
from collections.abc import Mapping

from anabranch.errors import AnabranchError

_BIT_PER_S = {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "Tbit/s": 1e12}
_BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
_MS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3, "min": 60e3, "h": 3600e3}


def milliseconds(text: str) -> float:
    """A length of time such as `63ms` or `0.1 s`, in ms."""
    return _quantity(text, _MS, "a length of time such as `63ms`")


def bits_per_second(text: str) -> float:
    """A rate such as `10 Mbit/s`, in bit/s."""
    return _quantity(text, _BIT_PER_S, "a rate such as `10 Mbit/s`")


def octets(text: str) -> float:
    """A size such as `64 KiB`, in bytes."""
    return _quantity(text, _BYTES, "a size such as `64 KiB`")


def share(text: str) -> float:
    """A share such as `2%` or `0.02`, from 0 to 1."""
    number, unit = _split(text)
    value = None if number is None else {"%": number / 100, "": number}.get(unit)
    if value is None or not 0 <= value <= 1:
        raise AnabranchError(f"`{text}` is not a share such as `2%` or `0.02`, from 0 to 1")
    return value


def _quantity(text: str, units: Mapping[str, float], what: str) -> float:
    """A number of at least 0 with one of these units, in the unit whose factor is 1."""
    number, unit = _split(text)
    if number is None or unit not in units or number < 0:
        raise AnabranchError(f"`{text}` is not {what} (units: {', '.join(units)})")
    return number * units[unit]


def _split(text: str) -> tuple[float | None, str]:
    match = re.fullmatch(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s]*)\s*", text)
    return (float(match[1]), match[2]) if match else (None, "")
