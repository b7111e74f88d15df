"""What a study folder says about itself: `study.json`, and the definitions that it has had."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from anabranch._engine import ENGINE_VERSION, Scenario, ScenarioError, __version__
from anabranch.errors import StoreError
from anabranch.support.files import write_atomically

from .rows import SCHEMA_VERSION, cells_of
from .tables import parquet, read_table

Identity = dict[str, Any]

_KEYS: dict[str, Callable[[Any], bool]] = {
    "engine_version": lambda value: isinstance(value, str),
    "metrics": lambda value: isinstance(value, list) and all(isinstance(m, str) for m in value),
    "name": lambda value: isinstance(value, str),
    "scenario_hash": lambda value: bool(re.fullmatch("[0-9a-f]{16}", str(value))),
}
"""The keys that `study.json` must have, each with a check of its value."""

Asked = int | Sequence[int] | None
"""Runs of each cell, or of every cell in turn; None means those of the definition."""


def identity_of(scenario: Scenario, asked: Asked = None, engine: str = ENGINE_VERSION) -> Identity:
    """The content of `study.json` for this definition and the engine that makes the rows."""
    identity = {
        "schema_version": SCHEMA_VERSION,
        "engine_version": engine,
        "metrics": scenario.metrics,
        "scenario_hash": scenario.hash,
        "name": scenario.name,
    }
    if asked is not None:
        counts = np.array(asked, dtype=np.int64, ndmin=1).tolist()
        identity["replications"] = counts[0] if len(set(counts)) == 1 else counts
    return identity


def asked_of(folder: Path, identity: Identity, cells: int) -> list[int] | None:
    """The runs of each cell that were last asked for; None if they are those of the definition.

    Raises
    ------
    StoreError
        When `study.json` is damaged in this respect.
    """
    asked = identity.get("replications")
    counts = [asked] * cells if isinstance(asked, int) else asked
    if counts is None:
        return None
    if not (isinstance(counts, list) and len(counts) == cells and all(map(_is_count, counts))):
        raise StoreError(
            f"{folder / 'study.json'} is damaged (its `replications` is {asked!r:.40}): the same"
            " sweep writes it again"
        )
    return counts


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def write_definition(folder: Path, scenario: Scenario, identity: Identity) -> None:
    """Makes this definition the current one.

    `study.json` is written last, as it names the others.
    """
    toml = scenario.to_toml().encode()
    definitions = folder / "definitions"
    definitions.mkdir(exist_ok=True)
    of_hash = definitions / scenario.hash
    _write_changed(of_hash.with_suffix(".toml"), toml)
    _write_changed(of_hash.with_suffix(".parquet"), parquet(cells_of(scenario)))
    _write_changed(folder / "scenario.toml", toml)
    write_identity(folder, identity)


def write_identity(folder: Path, identity: Identity) -> None:
    """Writes `study.json`."""
    _write_changed(folder / "study.json", (json.dumps(identity, indent=2) + "\n").encode())


def has_definition(folder: Path, scenario: Scenario) -> bool:
    """Whether the folder has, or once had, this definition with these metrics."""
    path = folder / "definitions" / f"{scenario.hash}.toml"
    try:
        known = Scenario.parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, ScenarioError):
        return False
    return known.metrics == scenario.metrics


def read_definition(folder: str | Path) -> Scenario:
    """The current definition of a study folder.

    It is the one that `study.json` names. `scenario.toml` is for people; if a sweep was killed
    between writing the two, it is already the next definition.

    Raises
    ------
    StoreError
        When it is not a study folder, or the definition is missing or damaged.
    """
    folder = Path(folder)
    path = folder / "definitions" / f"{read_identity(folder)['scenario_hash']}.toml"
    try:
        # Parsed as text, as names of files in it are relative to where the sweep was started.
        return Scenario.parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(f"{path} is missing: the same sweep writes it again") from None
    except (UnicodeError, ScenarioError) as error:
        message = f"{path} is damaged ({error}): the same sweep writes it again"
        raise StoreError(message) from error


def cells_in(folder: Path, identity: Identity) -> pl.DataFrame:
    """The cells of the current definition, as `cells_of` gives them.

    They are read rather than derived from `scenario.toml`, as another engine could give them other
    hashes.
    """
    path = folder / "definitions" / f"{identity['scenario_hash']}.parquet"
    try:
        cells = read_table(path)
        if missing := {"cell", "seed", "scenario_hash"} - set(cells.columns):
            raise ValueError(f"no column {min(missing)}")
    except FileNotFoundError:
        raise StoreError(f"{path} is missing: the same sweep writes it again") from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError) as error:
        message = f"{path} is damaged: the same sweep writes it again"
        raise StoreError(message) from error
    return cells


def check_comparable(
    folder: Path, other: Identity, scenario: Scenario, engine: str = ENGINE_VERSION
) -> None:
    """Raises StoreError if rows of this scenario cannot be combined with those of the folder."""
    mine = {"engine_version": engine, "metrics": scenario.metrics}
    if difference := _difference(other, mine):
        raise StoreError(f"{folder} holds rows {difference}: choose another output folder")


def check_same(folder: Path, identity: Identity, other: Path, theirs: Identity) -> None:
    """Raises StoreError if the rows of two folders cannot be combined."""
    if difference := _difference(theirs, identity):
        raise StoreError(f"{other} cannot be merged with {folder}: it holds rows {difference}")


def _difference(other: Identity, mine: Identity) -> str | None:
    """What distinguishes the rows of `other`; None if they can be combined with mine."""
    if other["engine_version"] != mine["engine_version"]:
        return f"of anabranch {other['engine_version']}, not {mine['engine_version']}"
    if other["metrics"] != mine["metrics"]:
        return f"with {_listed(other['metrics'])}, not {_listed(mine['metrics'])}"
    return None


def read_identity(folder: Path) -> Identity:
    """Reads `study.json`.

    Raises
    ------
    StoreError
        If it does not exist, is damaged or has a schema version that cannot be read.
    """
    identity = read_any_identity(folder)
    version = identity["schema_version"]
    if version == SCHEMA_VERSION:
        for key, is_sound in _KEYS.items():
            if key not in identity or not is_sound(identity[key]):
                what = f"its `{key}` is {identity[key]!r:.40}" if key in identity else f"no `{key}`"
                raise StoreError(
                    f"{folder / 'study.json'} is damaged ({what}): remove it, and the folder's"
                    " sweep writes it again"
                )
        return identity
    advice = "compute it anew in another folder" if version < SCHEMA_VERSION else "update it"
    raise StoreError(
        f"{folder} is a study folder of schema version {version}; this anabranch, {__version__},"
        f" reads version {SCHEMA_VERSION}: {advice}"
    )


def read_any_identity(folder: Path) -> Identity:
    """Reads `study.json` of any schema version."""
    path = folder / "study.json"
    try:
        identity = json.loads(path.read_text(encoding="utf-8"))
        version = identity["schema_version"]
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"{folder} is not a study folder: it has no study.json") from None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        message = f"{path} is damaged: remove it, and the folder's sweep writes it again"
        raise StoreError(message) from error
    if type(version) is not int or version < 1:
        raise StoreError(f"{path} is damaged: its schema_version is `{version}`")
    return identity  # type: ignore[no-any-return]


def _listed(metrics: list[str]) -> str:
    return f"metrics {', '.join(metrics)}" if metrics else "all metrics"


def _write_changed(path: Path, content: bytes) -> None:
    if not path.is_file() or path.read_bytes() != content:
        write_atomically(path, content)
