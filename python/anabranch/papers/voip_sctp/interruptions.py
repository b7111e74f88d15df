"""What a call's interruptions come from: the association's state during each, from traces.

An interruption is a time in which no frame reaches the callee for more than 200 ms (twice the
jitter buffer's depth; the measure of the kernel runs in the oracles too). Within it, time is
`dormant` while all paths are inactive, `backed_off` while the current primary's RTO is at least
twice the one that its latest measurement gave, and neither else.
"""

import numpy as np
import polars as pl

INTERRUPTION_S = 0.2
BACK_OFF = 2.0
SENDER = "a"

SCHEMA = {
    "start_s": pl.Float64,
    "length_s": pl.Float64,
    "dormant_s": pl.Float64,
    "backed_off_s": pl.Float64,
}


def interruptions(frames: pl.DataFrame, paths: pl.DataFrame, sender: str = SENDER) -> pl.DataFrame:
    """One row per interruption of a traced call: start_s, length_s, dormant_s, backed_off_s.

    `frames` and `paths` are the engine's traces; `paths` has a row whenever something about a path
    changes.
    """
    arrivals = frames["arrived_s"].drop_nans().drop_nulls().sort().to_numpy()
    gaps = np.diff(arrivals)
    rows = []
    states = _states(paths.filter(pl.col("side") == sender)) if len(gaps) else None
    for index in np.flatnonzero(gaps > INTERRUPTION_S):
        start, end = float(arrivals[index]), float(arrivals[index + 1])
        assert states is not None
        dormant, backed_off = _attribute(states, start, end)
        rows.append((start, end - start, dormant, backed_off))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _states(paths: pl.DataFrame) -> pl.DataFrame:
    """time_s, dormant and backed_off after every change, of all paths together."""
    names = paths["path"].unique().sort().to_list()
    # A new SRTT is a new measurement, and the RTO beside it the one that follows from it.
    measured = pl.col("srtt_ms").ne_missing(pl.col("srtt_ms").shift(1)).over("path")
    measured_rto = pl.when(measured).then(pl.col("rto_ms")).forward_fill().over("path")
    ordered = paths.sort("time_s", maintain_order=True).select(
        "time_s",
        "path",
        inactive=pl.col("state").cast(pl.String) == "inactive",
        primary=pl.col("is_primary").cast(pl.Boolean),
        backed_off=pl.col("rto_ms") >= BACK_OFF * measured_rto,
    )
    fields = ("inactive", "primary", "backed_off")
    latest = [
        pl.when(pl.col("path") == name).then(pl.col(field)).forward_fill().alias(f"{field}/{index}")
        for index, name in enumerate(names)
        for field in fields
    ]
    known = ordered.select("time_s", *latest).fill_null(value=False)
    every = range(len(names))
    dormant = pl.all_horizontal(pl.col(f"inactive/{index}") for index in every)
    backed_off = pl.any_horizontal(
        pl.col(f"primary/{index}") & pl.col(f"backed_off/{index}") for index in every
    )
    return known.select("time_s", dormant=dormant, backed_off=backed_off & ~dormant)


def _attribute(states: pl.DataFrame, start: float, end: float) -> tuple[float, float]:
    """Seconds from start to end that are dormant and that are backed off."""
    times = states["time_s"].to_numpy()
    first = max(int(np.searchsorted(times, start, side="right")) - 1, 0)
    last = int(np.searchsorted(times, end, side="left"))
    piece = states.slice(first, max(last - first, 0))
    edges = np.append(np.clip(piece["time_s"].to_numpy(), start, end), end)
    durations = np.diff(edges)
    dormant, backed_off = (piece[name].to_numpy() for name in ("dormant", "backed_off"))
    return float(durations[dormant].sum()), float(durations[backed_off].sum())


def shares(causes: pl.DataFrame) -> dict[str, float]:
    """What a call's interrupted time consists of.

    Its length in seconds and the shares dormant and backed off (NaN without any).
    """
    total = float(causes["length_s"].sum())
    return {
        "interrupted_s": total,
        "dormant": float(causes["dormant_s"].sum()) / total if total else float("nan"),
        "backed_off": float(causes["backed_off_s"].sum()) / total if total else float("nan"),
    }
