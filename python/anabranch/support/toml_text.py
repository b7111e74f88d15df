"""Values as TOML text."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.errors import AnabranchError


def inline(value: Any, key: str = "value") -> str:
    """A value as TOML on one line, as `--set` takes it; `key` is what messages call it.

    Raises
    ------
    AnabranchError
        If TOML has no such type, or the number is not finite.
    """
    value = _plain(value)
    if isinstance(value, Mapping):
        items = ((str(name), item) for name, item in value.items())
        pairs = (f"{inline(name, key)} = {inline(item, f'{key}.{name}')}" for name, item in items)
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, bool | int | str):
        # Text is written as in JSON, except for one character that TOML does not accept.
        try:
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        except ValueError:
            raise AnabranchError(f"{key}: the number has too many digits to be written") from None
    if isinstance(value, float):
        if not math.isfinite(value):
            raise AnabranchError(f"{key}: `{value}` is not possible; use a finite number")
        return repr(value)
    if isinstance(value, Sequence):
        return "[" + ", ".join(inline(item, f"{key}.{i}") for i, item in enumerate(value)) + "]"
    message = f"{key}: {type(value).__name__} is not possible; use text, numbers, lists and dicts"
    raise AnabranchError(message)


def _plain(value: Any) -> Any:
    """Numbers, arrays and series as Python's own; what they come from is slow to import."""
    for name in ("tolist", "to_list"):
        if callable(convert := getattr(value, name, None)):
            return convert()
    return value
