"""What the options of commands that talk to peers share: `sctp` and `quic`."""

import tomllib
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from anabranch.errors import AnabranchError

from .app import pairs

Words = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]

PATIENCE = 30.0
"""Seconds for which the answer of a peer is awaited, by default."""


def check_patience(seconds: float) -> None:
    """Refuses a time that is none."""
    if not seconds > 0:
        raise AnabranchError(f"--patience is {seconds}; it must be more than 0 seconds")


def value(text: str) -> object:
    """Reads a value as TOML; anything that is not TOML is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def transport_settings(profile: str | None, sets: Sequence[str]) -> dict[str, object]:
    """The transport's settings, as a scenario has them, from `--profile` and `--set`."""
    settings: dict[str, object] = {} if profile is None else {"profile": profile}
    for path, text in pairs(sets, "--set KEY=VALUE").items():
        *tables, key = path.split(".")
        place = settings
        for table in tables:
            inner = place.setdefault(table, {})
            if not isinstance(inner, dict):
                raise AnabranchError(f"`--set {path}={text}`: {table} is not a table")
            place = inner
        place[key] = value(text)
    return settings
