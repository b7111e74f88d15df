"""The settings of a transport on the command line, for commands that talk to peers."""

import tomllib
from collections.abc import Sequence

from anabranch.errors import AnabranchError

from .app import pairs


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
