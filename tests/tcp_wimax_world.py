"""Synthetic studies for the tests of tcp-wimax: goodput is a given function of the factors."""

from collections.abc import Callable
from itertools import product

import numpy as np
import polars as pl

from anabranch.papers.intervals import Interval
from anabranch.papers.tcp_wimax.claims import Material
from anabranch.papers.tcp_wimax.factors import BUFFERS, CONTROLS, PROFILES, SEGMENTS, Runs
from anabranch.papers.tcp_wimax.link import Link, Traced

Goodput = Callable[[str, str, int, int], float]
"""Mbit/s by profile, control, segment and buffer."""

REPLICATIONS = 12
LIMIT = {"los30": 29.0, "los10": 12.0, "nlos30": 29.0, "nlos10": 6.0}


def as_published(profile: str, control: str, segment: int, buffer: int) -> float:
    """Every claim of the paper, taken at its word."""
    filled = min(1.0, buffer / 131_072)
    if profile != "nlos10":
        return 0.97 * LIMIT[profile] * filled * (1.0 if segment >= 1024 else 0.8)
    lead = {"westwood": 4.0, "bic": 4.1, "vegas": 1.0}.get(control, 1.5)
    at_its_best = 1.0 if (segment, buffer) == (4096, 524_288) else 0.6
    return lead * at_its_best if control in {"westwood", "bic"} else lead


def variation(control: str) -> float:
    """Coefficient of variation: BIC is the calmest."""
    return 0.3 if control == "bic" else 0.6


def runs(goodput: Goodput = as_published, reading: str = "write", noise: float = 0.02) -> Runs:
    """All 1080 cells, every replication with a channel of its own that all cells share."""
    rng = np.random.default_rng(7)
    common = rng.normal(size=REPLICATIONS)
    frames = []
    for profile, control, segment, buffer in product(PROFILES, CONTROLS, SEGMENTS, BUFFERS):
        own = rng.normal(size=REPLICATIONS) / 10
        is_bad = profile.endswith("10")
        frames.append(
            {
                "profile": profile,
                "control": control,
                "segment": segment,
                "buffer": buffer,
                "replication": list(range(REPLICATIONS)),
                "goodput_mbps": (
                    goodput(profile, control, segment, buffer) * (1 + noise * (common + own))
                ).tolist(),
                "cov": (variation(control) * (1 + noise * (common + own))).tolist(),
                "air_lost_percent": [4.0 if is_bad else 0.0] * REPLICATIONS,
                "queue_full_packets": [0.0] * REPLICATIONS,
                "timeouts": [16.0 if is_bad else 0.0] * REPLICATIONS,
                "fast_recoveries": [5.0 if is_bad else 0.0] * REPLICATIONS,
                "bits_per_symbol": [96.0 if is_bad else 800.0] * REPLICATIONS,
            }
        )
    factors = {"profile", "control", "segment", "buffer"}
    rows = pl.DataFrame(frames)
    return Runs(rows.explode(*(name for name in rows.columns if name not in factors)), reading)


def links(loss_percent: float = 12.0) -> dict[str, Link]:
    """Links as the paper has them."""
    found = {}
    for profile in PROFILES:
        is_bad = profile.endswith("10")
        times = np.arange(0, 30, 0.05)
        traced = Traced(
            pl.DataFrame(
                {
                    "time_s": times,
                    "effective_snr_db": 20 + 10 * np.sin(times),
                    "modulation": ["bpsk_1_2"] * len(times),
                }
            ),
            [1.0, 1.1, 1.2] if is_bad else [],
            [(3, 0.3)] if is_bad else [],
        )
        found[profile] = Link(
            profile,
            snr_db=Interval(10.0 if is_bad else 30.0, 0.1, 12),
            loss_percent=Interval(loss_percent if is_bad else 0.0, 1.0 if is_bad else 0.0, 12),
            bits_per_symbol=Interval(100.0 if is_bad else 800.0, 5.0, 12),
            capacity_mbps=Interval(LIMIT[profile], 0.1, 12),
            burst_packets=3.0 if is_bad else float("nan"),
            burst_s=0.3 if is_bad else float("nan"),
            longest_burst_s=0.3 if is_bad else float("nan"),
            coherence_s=0.8,
            traced=traced,
        )
    return found


def distances() -> pl.DataFrame:
    """Fewer bits and less throughput with every kilometre."""
    return pl.DataFrame(
        [
            {
                "profile": profile,
                "distance_km": distance,
                "replication": replication,
                "bits_per_symbol": 864.0 / distance + replication / 10,
                "goodput_mbps": 29.0 / distance + replication / 100,
            }
            for profile in ("los30", "nlos30")
            for distance in (1.0, 2.0, 5.0)
            for replication in range(REPLICATIONS)
        ]
    )


def material(goodput: Goodput = as_published, loss_percent: float = 12.0) -> Material:
    """The values that the claims are judged by."""
    capacity = {
        profile: dict.fromkeys(range(REPLICATIONS), limit) for profile, limit in LIMIT.items()
    }
    return Material(runs(goodput), links(loss_percent), capacity, distances())
