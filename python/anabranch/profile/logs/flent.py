"""flent's data files (`.flent.gz`): pings under load, and the rates of uploads and downloads.

A file has series by name, sampled at common times (`x_values`, `results`), and the values as they
were measured (`raw_values`), of pings with their numbers (tohojo/flent, resultset.py).
"""

from pathlib import Path
from typing import Any

import numpy as np

from anabranch.errors import AnabranchError
from anabranch.support.reading import MOST_BIT_PER_S, MOST_SECONDS, amount, at, items, tree

from ..intervals import Vector
from ..measurement import Measurement, Rates
from . import transfer
from .rounds import Rounds, measurement

NAME = "flent's data (.flent.gz)"

_MSS = 1448.0
_OF_SEVERAL = ("avg", "sum", "max", "min", "mean", "totals")


def recognises(head: str) -> bool:
    """Whether a text begins like flent's data."""
    return (
        head.lstrip().startswith("{")
        and '"metadata"' in head
        and any(
            f'"{key}"' in head
            for key in (
                "BATCH_NAME",
                "BATCH_UUID",
                "DATA_FILENAME",
                "FLENT_VERSION",
                "raw_values",
                "x_values",
            )
        )
    )


def read(file: Path) -> Measurement:
    """Reads the pings and the transfers of one test."""
    result = tree(file)
    name = str(at(result, "metadata", "NAME") or "test")[:60]
    pings = _pings(file, result)
    rates = {way: _rates(file, result, way) for way in ("upload", "download")}
    if pings is None and not any(value is not None for value in rates.values()):
        raise AnabranchError(f"{file}: neither pings nor transfers of TCP in flent's data")
    notes = [f"flent's test {name}: the pings went beside its transfers, through their queues"]
    packet = transfer.packet_octets(_MSS)
    round_trips = [] if pings is None or pings.delays is None else pings.delays.seconds.tolist()
    found = {}
    for way, measured in rates.items():
        if measured is None:
            continue
        values, times = measured
        scaled = values * packet / _MSS
        full = bool(round_trips) and transfer.is_full(
            round_trips, min(round_trips), packet * 8 / float(np.median(scaled))
        )
        found[way] = Rates(
            scaled, f"{way}s of TCP with their headers", is_bound=not full,
            packet_octets=packet, times_s=times,
        )  # fmt: skip
        if not full:
            notes.append(f"no ping shows a standing queue: the {way} is at least this fast")
    if len(found) == 2 and not found["upload"].is_bound:
        notes.append(
            "both ways were loaded at once: which of the queues the pings met is not known"
        )
    back = found.get("download")
    return Measurement(
        title=f"flent's {name}" + (f" with {pings.title}" if pings is not None else ""),
        delays=None if pings is None else pings.delays,
        losses=None if pings is None else pings.losses,
        rates=found.get("upload"),
        back=None if back is None else Measurement("the way back", rates=back),
        notes=notes,
    )


def _series(result: dict[str, Any]) -> dict[str, Any]:
    series = result.get("results")
    return series if isinstance(series, dict) else {}


def _pings(file: Path, result: dict[str, Any]) -> Measurement | None:
    """The pings by their numbers where the file has them, else the sampled ones."""
    raw = result.get("raw_values")
    raw = raw if isinstance(raw, dict) else {}
    names = [
        name
        for name in (*raw, *_series(result))
        if name.startswith("Ping (ms)") and not name.endswith(_OF_SEVERAL)
    ]
    # ICMP is asked at equal intervals.
    for name in sorted(names, key=lambda name: ("ICMP" not in name, name)):
        rounds = Rounds(file)
        values = items(raw.get(name))
        for each in values:
            where = f"{file}: of `{name[:40]}`"
            value = amount(at(each, "val"), f"{where} a value", MOST_SECONDS * 1e3)
            number = amount(at(each, "seq"), f"{where} `seq`", 1e9)
            if value is not None:
                rounds.answer(len(rounds) if number is None else int(number), value * 1e-3, 5)
        is_numbered = any(at(each, "seq") is not None for each in values)
        if not rounds.answered:
            for value in items(_series(result).get(name)):
                time_ms = amount(value, f"{file}: of `{name[:40]}` a value", MOST_SECONDS * 1e3)
                if time_ms is not None:
                    rounds.answer(len(rounds), time_ms * 1e-3, 5)
        if rounds.answered:
            found = measurement(file, [rounds], what="round-trip times of pings beside the load")
            if is_numbered:
                return found
            return Measurement(found.title, delays=found.delays)
    return None


def _rates(file: Path, result: dict[str, Any], way: str) -> tuple[Vector, Vector | None] | None:
    """The sum of a direction's transfers at each time, in bit/s, and those times."""
    rows = [
        items(values)
        for name, values in _series(result).items()
        if name.startswith(f"TCP {way}") and not name.endswith(_OF_SEVERAL)
    ]
    if not rows:
        return None
    total = np.zeros(max(len(row) for row in rows))
    known = np.zeros(len(total), dtype=bool)
    for row in rows:
        for index, value in enumerate(row):
            rate = amount(value, f"{file}: of `TCP {way}` a value", MOST_BIT_PER_S / 1e6)
            if rate is not None:
                total[index] += rate * 1e6
                known[index] = True
    seen = known & (total > 0)
    if not seen.any():
        return None
    axis = [
        amount(value, f"{file}: of `x_values` a value", 1e9)
        for value in items(result.get("x_values"))
    ]
    times = np.array(axis[: len(total)], dtype=float) if None not in axis else np.array([])
    return total[seen], times[seen] if len(times) == len(total) else None
