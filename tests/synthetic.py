"""Study folders whose rows are drawn from a known model instead of simulated: as large as asked."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import polars as pl

import anabranch as package
from anabranch import Scenario
from anabranch._engine import ENGINE_VERSION
from anabranch.store import SCHEMA_VERSION, FolderStore, cells_of
from anabranch.support.columns import axes_of
from conftest import CALL

SHARD = 50_000
"""Rows of a shard."""


def scenario(sizes: dict[str, int], replications: int) -> Scenario:
    """A call whose sweep has axes with this many values: `delay`, `loss`, `rto_max`, `pmr`,
    `depth`.
    """
    kinds = {
        "delay": ("links.first.delay", "{} ms"),
        "loss": ("links.first.loss.mean_loss", "{} %"),
        "rto_max": ("flows.call.transport.rto_max", "{} s"),
        "pmr": ("flows.call.transport.path_max_retrans", "{}"),
        "depth": ("flows.call.app.jitter_buffer.depth", "{}0 ms"),
    }
    text = CALL + f"\n[sweep]\nreplications = {replications}\n[sweep.axes]\n"
    for name, size in sizes.items():
        key, form = kinds[name]
        quote = "" if form == "{}" else '"'
        values = ", ".join(f"{quote}{form.format(i + 1)}{quote}" for i in range(size))
        text += f'{name} = {{ set = "{key}", values = [{values}] }}\n'
    return package.load(text)


def write_study(folder: Path, sizes: dict[str, int], replications: int, scalars: int = 3) -> None:
    """Writes a study of `scalars` scalars: `call.mos`, `call.loss_percent`, `call.s2`, ...

    With a and b the first two axes' positions from 0 to 1, MOS is 3 + a - 0.5 b + a b, and the loss
    2 + 3 b, each plus normal noise (0.2) that the cells of a replication share a half of; every
    seventh run has no loss (NaN). The other scalars are noise.
    """
    definition = scenario(sizes, replications)
    cells = cells_of(definition)
    axes = axes_of(cells)
    positions = [(cells[name].rank("dense") - 1).to_numpy() for name in axes]
    a, b = (p / max(p.max(), 1) for p in (*positions, np.zeros(cells.height))[:2])
    random = np.random.default_rng(1)
    common = random.normal(0, 0.1, replications)
    with FolderStore(folder, definition) as store:
        total = cells.height * replications
        for start in range(0, total, SHARD):
            run = np.arange(start, min(start + SHARD, total))
            cell, replication = run % cells.height, run // cells.height
            noise = common[replication] + random.normal(0, 0.17, (scalars, len(run)))
            values = {f"call.s{i}": noise[i] for i in range(2, scalars)}
            x, y = a[cell], b[cell]
            values["call.mos"] = 3 + x - 0.5 * y + x * y + noise[0]
            values["call.loss_percent"] = np.where(run % 7 == 0, np.nan, 2 + 3 * y + noise[1])
            store.append(_rows(cells[cell], replication, values))


def write_model(
    folder: Path, definition: Scenario, model: Callable[[pl.DataFrame], np.ndarray]
) -> None:
    """Writes a study whose `call.mos` is a function of the cells, with one run each.

    Cells for which it is NaN have none.
    """
    cells = cells_of(definition)
    mos = np.asarray(model(cells), dtype=np.float64)
    has = ~np.isnan(mos)
    with FolderStore(folder, definition) as store:
        store.append(
            _rows(cells.filter(has), np.zeros(has.sum(), dtype=int), {"call.mos": mos[has]})
        )


def _rows(
    about: pl.DataFrame, replication: np.ndarray, values: Mapping[str, np.ndarray]
) -> pl.DataFrame:
    """Rows as they are stored, of these cells."""
    return pl.DataFrame(
        [
            about["scenario_hash"],
            pl.Series("replication", replication, dtype=pl.UInt32),
            about["seed"],
            *(about[name] for name in axes_of(about)),
            *(pl.Series(name, column) for name, column in values.items()),
        ]
    ).with_columns(
        pl.lit(ENGINE_VERSION).alias("engine_version"),
        pl.lit(SCHEMA_VERSION, pl.UInt32).alias("schema_version"),
    )


def ishigami(x: np.ndarray) -> np.ndarray:
    """Ishigami and Homma's function (a = 7, b = 0.1) of three columns from -pi to pi."""
    return np.asarray(np.sin(x[:, 0]) * (1 + 0.1 * x[:, 2] ** 4) + 7 * np.sin(x[:, 1]) ** 2)


ISHIGAMI = {"first": (0.3139, 0.4424, 0.0), "total": (0.5576, 0.4424, 0.2437)}
"""The function's Sobol indices (Saltelli et al., Global Sensitivity Analysis, 2008, section 4)."""
