"""The table of what held the paths of one end back."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from anabranch.explain.accounts import SHOWN, Account, End
from anabranch.support import terminal, wording

if TYPE_CHECKING:
    from rich.console import RenderableType


def shares(end: End, width: int) -> "RenderableType":
    """A row for the connection and each path, and a column for each limit that there was."""
    rows = [end.connection, *end.paths]
    seen = [limit for limit in SHOWN if any(row.share(limit) > 0 for row in rows)]
    heads = ["path", *seen, "recoveries", "timeouts", "srtt ms", "Mbit/s carried", "of"]
    lines = [_line(row, seen, is_path=row is not end.connection) for row in rows]
    return terminal.side_by_side(heads, lines, width, 1)


def _line(row: Account, seen: Sequence[str], *, is_path: bool) -> list[str]:
    shares = [f"{100 * row.share(limit):.1f} %" for limit in seen]
    if not is_path:
        return [row.name, *shares, "", "", "", "", ""]
    carried = row.carried
    rate, used = (carried.rate, carried.carried) if carried else (math.nan, math.nan)
    return [
        row.name,
        *shares,
        str(row.recoveries),
        str(row.timeouts),
        wording.number(row.srtt_ms, 4),
        wording.number(used / 1e6, 4),
        wording.number(rate / 1e6, 4),
    ]
