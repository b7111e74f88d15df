"""Texts of papers, in which numbers stand in braces.

`{NAME:±1}` is a mean with its interval and one digit, `{NAME:1}` the mean alone; `+` behind says
that the sign stands there in any case, and `{NAME:0/4}` that the mean takes four places. `NAME` may
have keys and attributes, as in `str.format`: `{links[nlos10].loss_percent:±0}`. What is no interval
is written as `str.format` writes it.
"""

import re
from collections.abc import Iterator, Mapping
from string import Formatter

from jinja2 import Environment, StrictUndefined

from anabranch.figures.table import known

from .intervals import Interval
from .runs import Runs
from .studies import file_text

FILE = "story.j2"


class _Filler(Formatter):
    def format_field(self, value: object, format_spec: str = "") -> str:
        if not isinstance(value, Interval):
            return str(super().format_field(value, format_spec))
        match = re.fullmatch(r"(±?)(\d)(?:/(\d+))?(\+?)", format_spec or "±2")
        assert match, format_spec
        digits, signed = int(match[2]), bool(match[4])
        if match[1]:
            shown = value.text(digits, signed=signed)
        else:
            shown = f"{value.mean:+.{digits}f}" if signed else known(value.mean, digits)
        return shown.rjust(int(match[3] or 0))


_FILLER = _Filler()


def fill(text: str, said: Mapping[str, object]) -> str:
    """The text with what is said in the place of its braces."""
    return _FILLER.vformat(text, (), said)


class Means(Mapping[str, Interval]):
    """The means of some runs, by value."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs

    def __getitem__(self, value: str) -> Interval:
        return self.runs.mean(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self.runs.frame.columns)

    def __len__(self) -> int:
        return len(self.runs.frame.columns)


class Texts:
    """The texts of a package's `story.j2`: macros of Jinja, to which Python gives what they name.

    `{{ NAME | text("±1") }}` writes a number as above, and white space is one space. `known` are
    names that every text knows.
    """

    def __init__(self, package: str, **known: object) -> None:
        environment = Environment(undefined=StrictUndefined)
        environment.filters["text"] = _FILLER.format_field
        environment.globals |= known
        self._story = environment.from_string(file_text(package, FILE))

    def __call__(self, name: str, /, **said: object) -> str:
        """The text of this name."""
        return " ".join(re.split(r"[ \n]+", self._macro(name, said).strip()))

    def several(self, name: str, /, **said: object) -> list[str]:
        """The sentences of a text, each of which begins with `- ` on a line."""
        _, *sentences = re.split(r"^- ", self._macro(name, said), flags=re.MULTILINE)
        return [" ".join(re.split(r"[ \n]+", sentence.strip())) for sentence in sentences]

    def _macro(self, name: str, said: Mapping[str, object]) -> str:
        return str(getattr(self._story.make_module(dict(said)), name)())
