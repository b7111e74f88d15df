"""Numbers, counts and places on axes as people write them."""

import math
import re
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

MOST_DIGITS = 17
"""As many digits as distinguish any two numbers."""

_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|[num]?s|[kMG]?bit/s|[kMG]?B|[KMG]iB)(?![\w/]))")
"""The space between a number and its unit."""

_GAP = 3
"""Characters between two columns."""


def number(value: float | str | bool | None, digits: int = 6) -> str:  # noqa: FBT001 - a table's cell
    """A number as people write it: no trailing zeros, an exponent only if needed; NaN is a dash."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool | str):
        return str(value)
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def counted(count: int, thing: str) -> str:
    """A number of things in words: `1 row`, `2,000 rows`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def some(names: Iterable[str], most: int = 10) -> str:
    """Names for a sentence, of many the first ones and how many more there are; or `none`."""
    listed = list(names)
    more = len(listed) - most
    said = ", ".join(listed[:most]) or "none"
    return f"{said} and {more:,} more" if more > 0 else said


def rounded(mean: float | None, half_width: float | None) -> tuple[str, str]:
    """A mean and its half-width, with digits up to the half-width's second one."""
    if (
        mean is None
        or half_width is None
        or math.isnan(mean)
        or not half_width > 0
        or abs(mean) >= 1e15
    ):
        return number(mean, 4), number(half_width, 2)
    digits = max(0, 1 - math.floor(math.log10(half_width)))
    if digits > 5:
        return number(mean, 6), number(half_width, 2)
    return f"{round(mean, digits) + 0.0:.{digits}f}", f"{half_width:.{digits}f}"


def with_interval(row: Mapping[str, Any]) -> str:
    """The `mean` of a row with its `half_width`, such as `3.61 ± 0.12`."""
    mean, half_width = rounded(row["mean"], row["half_width"])
    return mean if math.isnan(row["half_width"]) else f"{mean} ± {half_width}"


def harmless(text: str) -> str:
    """A text of others, such as that of a file, as it may be printed or written.

    Control characters, with which it could steer a terminal, and those that turn the direction of
    writing are replaced. Ends of lines and tabs stay.
    """
    if text.isprintable():
        return text
    return "".join(letter if _is_plain(letter) else "\N{REPLACEMENT CHARACTER}" for letter in text)


def _is_plain(letter: str) -> bool:
    return letter in "\n\t" or letter.isprintable() or unicodedata.category(letter) == "Zs"


def size(count: float) -> str:
    """A number of bytes to four digits in a suitable unit, such as `1.5 MB`."""
    return _in_unit(count, "B", 4)


def ms(value: float) -> str:
    """A time in ms, to four digits and hundredths."""
    return f"{number(round(value, 2), 4)} ms"


def rate(bit_per_s: float) -> str:
    """A rate to three digits in a suitable unit, such as `4.29 Mbit/s`."""
    return _in_unit(bit_per_s, "bit/s", 3)


def _in_unit(value: float, unit: str, digits: int) -> str:
    """With the greatest prefix below it, and that many digits; whole below a thousand."""
    for prefix, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= factor:
            return f"{number(value / factor, digits)} {prefix}{unit}"
    return f"{value:.0f} {unit}"


def unbroken(text: str) -> str:
    """The text with spaces between numbers and units at which no line ends."""
    return _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text)


def filled(text: str, width: int) -> str:
    """The text in lines of this width, none of which ends between a number and its unit."""
    return textwrap.fill(unbroken(text), width).replace("\N{NO-BREAK SPACE}", " ")


def told_apart(
    values: Iterable[Any], digits: int = 6, write: Callable[[Any, int], str] = number
) -> list[str]:
    """Values as `number` writes them, with more digits where different ones would look alike."""
    values = list(values)
    alike, texts = list(dict.fromkeys(values)), dict[Any, str]()
    for more in range(digits, MOST_DIGITS + 1):
        texts |= (written := {value: write(value, more) for value in alike})
        counts = Counter(written.values())
        alike = [value for value in alike if counts[written[value]] > 1 and not _is_nan(value)]
        if not alike:
            break
    return [texts[value] for value in values]


def _is_nan(value: object) -> bool:
    return value is None or value != value  # noqa: PLR0124 - NaN differs from itself


def groups(
    heads: Sequence[str], rows: Iterable[Sequence[str]], width: int, keys: int
) -> list[list[int]]:
    """The columns of each table if one with all of them would be too wide; none is cut off.

    Each begins with the first `keys` columns; if there are no others, these are the only table.
    """
    widths = _widths(heads, rows)
    left = width + 1 - sum(widths[:keys])
    runs: list[list[int]] = []
    for i in range(keys, len(heads)):
        if not runs or sum(widths[j] for j in (*runs[-1], i)) > left:
            runs.append([])
        runs[-1].append(i)
    return [[*range(keys), *group] for group in runs or [[]]]


def fit(heads: Sequence[str], rows: Iterable[Sequence[str]], width: int, keys: int) -> bool:
    """Whether the first `keys` columns and any other one fit side by side."""
    widths = _widths(heads, rows)
    return sum(widths[:keys]) + max(widths[keys:], default=0) <= width + 1


def _widths(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[int]:
    """The characters of each column, with the gap to the next one."""
    return [max(map(len, column)) + _GAP for column in zip(heads, *rows, strict=True)]
