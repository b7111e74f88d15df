"""The files that describe a paper: `paper.toml` and the published numbers as CSV, checked.

The description says what is run and which values are read. Its claims are rows: a value in some
cells, as it is, minus that in other cells or over it, is above, below, within or about a bound.
"""

import io
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources.abc import Traversable
from typing import Annotated, Any, Literal

import polars as pl
from pydantic import BaseModel, Field, PositiveInt, ValidationError

from anabranch._engine import Scenario
from anabranch.errors import AnabranchError, suggestion
from anabranch.support.toml_text import inline

from .rows import STRICT, ClaimRows
from .runs import Factor, Setting
from .studies import Key, Work, label
from .verdicts import SHARE_TOLERANCE

FILE = "paper.toml"
PUBLISHED = "published.csv"
MAIN = "main"
"""The study that is meant where a row names none."""

Mode = Literal["smoke", "quick", "validate", "full"]
REPLICATIONS: dict[Mode, int] = {"smoke": 1, "quick": 10, "validate": 30, "full": 100}
"""Runs of each cell by mode, where a paper or a study says nothing else."""


class _Model(BaseModel):
    model_config = STRICT


class Value(_Model):
    """What is read of every run."""

    column: str
    """The scalar, as `anabranch run --all` names it."""
    title: str
    unit: str = ""
    scale: float = 1.0
    """The value is the scalar times this."""
    digits: Annotated[int, Field(ge=0, le=9)] = 2


class PaperStudy(_Model):
    """A scenario with its sweep."""

    title: str
    scenario: str = "scenario.toml"
    replications: dict[Mode, PositiveInt] = {}
    """Runs of each cell, instead of the paper's."""


class Reading(_Model):
    """What a paper may have meant where it is silent: settings on top of every scenario."""

    title: str
    set: dict[str, Any] = {}


class Description(_Model):
    """The content of `paper.toml`."""

    title: str
    source: str
    """Authors, title, place and year."""
    runs: str = "runs"
    replications: dict[Mode, PositiveInt] = {}
    """Runs of each cell, instead of `REPLICATIONS`."""
    values: Annotated[dict[str, Value], Field(min_length=1)]
    studies: Annotated[dict[str, PaperStudy], Field(min_length=1)]
    readings: dict[str, Reading] = {"described": Reading(title="as described")}
    claims: list[ClaimRows] = []


@dataclass(frozen=True)
class Published:
    """A row of `published.csv`."""

    table: str
    study: str
    value: str
    cells: dict[str, str]
    """Axis -> value; over the axes that it does not name the cells are averaged."""
    published: float
    tolerance: float
    """The tolerance, as a share of the published value."""


@dataclass(frozen=True)
class Files:
    """What a paper's folder says."""

    folder: Traversable
    description: Description
    published: list[Published]


def read(folder: Traversable) -> Files:
    """The files in a folder, checked.

    Raises
    ------
    AnabranchError
        If a file is not there or says what cannot be: one sentence that names the file and the key.
    """
    description = _described(folder)
    return Files(folder, description, _published(folder, description))


def _described(folder: Traversable) -> Description:
    text = _text(folder, FILE)
    try:
        description = Description.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise AnabranchError(f"{folder / FILE}: {error}") from None
    except ValidationError as error:
        raise AnabranchError(f"{folder / FILE}: {_sentence(error)}") from None
    _check(description, folder / FILE)
    return description


def _sentence(error: ValidationError) -> str:
    """The first mistake: which key, what was found, what is allowed."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"`{key}` is missing"
    if first["type"] == "extra_forbidden":
        return f"`{key}` is not known"
    if first["type"] == "value_error":
        return f"{key}: {first['ctx']['error']}"
    message = first["msg"][:1].lower() + first["msg"][1:]
    shown = str(first["input"])
    return f"{key} = {shown if len(shown) <= 60 else shown[:60] + '…'}: {message}"


def _check(description: Description, file: Traversable) -> None:
    """Checks what one key says of another."""

    def known(key: str, name: str, names: Sequence[str]) -> None:
        if name not in names:
            there = ", ".join(names)
            raise AnabranchError(
                f"{file}: {key} = {name}: it is none of {there}{suggestion(name, names)}"
            )

    ids = [claim.id for claim in description.claims]
    for claim in description.claims:
        if ids.count(claim.id) > 1:
            raise AnabranchError(f"{file}: two claims have the id {claim.id}")
        if not claim.parts:
            raise AnabranchError(f"{file}: claim {claim.id} has no parts")
        for index, row in enumerate(claim.parts):
            key = f"claim {claim.id}, part {index + 1}"
            known(f"{key}: value", row.value, list(description.values))
            known(f"{key}: study", row.study, list(description.studies))
            for value in row.also:
                known(f"{key}: also", value, list(description.values))
            for word in row.words:
                raise AnabranchError(f"{file}: {key}: words = {word}: only Python has words")


def _published(folder: Traversable, description: Description) -> list[Published]:
    """The rows of `published.csv`; none where there is no such file.

    Its columns are `table`, `published`, an axis each, and where there are several of them `study`
    and `value`; `tolerance` is a share of the published value.
    """
    if not (folder / PUBLISHED).is_file():
        return []
    file = folder / PUBLISHED
    try:
        rows = pl.read_csv(
            io.BytesIO(_text(folder, PUBLISHED).encode()),
            comment_prefix="#",
            infer_schema=False,
        )
    except pl.exceptions.PolarsError as error:
        raise AnabranchError(f"{file}: {str(error).splitlines()[0]}") from None
    fixed = {"table", "study", "value", "published", "tolerance"}
    if "published" not in rows.columns:
        raise AnabranchError(f"{file}: there is no column `published`")
    numbers = []
    for line, row in enumerate(rows.iter_rows(named=True), start=1):
        number = Published(
            row.get("table") or "published",
            row.get("study") or MAIN,
            row.get("value") or next(iter(description.values)),
            {name: text.strip() for name, text in row.items() if name not in fixed and text},
            _number(row["published"], f"{file}, row {line}: published"),
            _number(row.get("tolerance") or SHARE_TOLERANCE, f"{file}, row {line}: tolerance"),
        )
        for key, name, names in (
            ("study", number.study, description.studies),
            ("value", number.value, description.values),
        ):
            if name not in names:
                there = ", ".join(names)
                raise AnabranchError(f"{file}, row {line}: {key} = {name}: it is none of {there}")
        numbers.append(number)
    return numbers


def _number(text: str | float | None, key: str) -> float:
    try:
        number = float(text or "")
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise AnabranchError(f"{key} = {text or ''}: it must be a finite number")
    return number


def shown(value: Setting) -> str:
    """The value of an axis as text, as it is spelled."""
    return (
        f"{value:g}"
        if isinstance(value, int | float) and not isinstance(value, bool)
        else str(value)
    )


def same(value: Setting, others: Factor) -> bool:
    """Whether two values of an axis are the same: 0.1, "0.10" and "10 %" are; or one of several."""
    return any(_plain(value) == _plain(other) for other in _several(others))


def _several(values: Factor) -> Sequence[Setting]:
    return values if isinstance(values, list | tuple) else [values]  # type: ignore[list-item]


def _plain(value: Setting) -> str:
    text = label(value)
    try:
        return f"{float(text):g}"
    except ValueError:
        return text


def _text(folder: Traversable, name: str) -> str:
    try:
        return (folder / name).read_text(encoding="utf-8")
    except OSError as error:
        raise AnabranchError(f"cannot read {folder / name}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise AnabranchError(f"cannot read {folder / name}: it is not UTF-8 text") from None


def works(files: "Files", mode: Mode) -> Iterator[tuple[str, Work]]:
    """Every study under every reading, with the reading's name."""
    description = files.description
    columns = tuple(dict.fromkeys(value.column for value in description.values.values()))
    for reading, meant in description.readings.items():
        sets = tuple((path, inline(value)) for path, value in meant.set.items())
        for name, study in description.studies.items():
            scenario = Scenario.parse(_text(files.folder, study.scenario), sets)
            wanted = (REPLICATIONS | description.replications | study.replications)[mode]
            runs = partial(_constant, wanted)
            yield reading, Work(f"{reading}/{name}", study.title, scenario, runs, columns)


def _constant(wanted: int, _key: Key) -> int:
    return wanted


def check_axes(files: "Files", wanted: Mapping[str, Work]) -> None:
    """Raises unless every cell that is named is one of its study."""
    folder, description = files.folder, files.description
    first = next(iter(description.readings))
    asked: list[tuple[str, str, Mapping[str, Any]]] = [
        (f"{folder / PUBLISHED}, row {line}", number.study, number.cells)
        for line, number in enumerate(files.published, start=1)
    ]
    asked += [
        (f"{folder / FILE}: claim {claim.id}, part {index + 1}", row.study, cells)
        for claim in description.claims
        for index, each in enumerate(claim.parts)
        for row in each.parts()
        for cells in (row.where, row.others or {})
    ]
    for place, study, cells in asked:
        scenario = wanted[f"{first}/{study}"].scenario
        keys = [scenario.cell_key(cell) for cell in range(scenario.cell_count)]
        for name, value in cells.items():
            values = list(dict.fromkeys(shown(key[name]) for key in keys if name in key))
            if not values:
                names = list(dict.fromkeys(axis for key in keys for axis in key))
                there = ", ".join(names) or "nothing"
                raise AnabranchError(
                    f"{place}: `{name}` is not an axis of {study}, whose axes are {there}"
                    f"{suggestion(name, names)}"
                )
            for one in _several(value):
                if not any(same(there, one) for there in values):
                    known = ", ".join(values)
                    raise AnabranchError(f"{place}: {name} = {one}: its values are {known}")
