"""What each link profile does to full-size packets: loss, bursts of loss, coherence time.

A probe sends 1500-byte packets at equal distances of about 12 ms, so few that none waits. Loss and
capacity come from many runs of it; bursts and coherence time from a few that are traced.

A burst is an unbroken run of lost probe packets; its length is that of the time from its first
packet to the first one that arrives again. The coherence time is the lag at which the
autocorrelation of the effective SNR (as a ratio, not in dB) has fallen to one half.
"""

from dataclasses import dataclass
from itertools import groupby, product

import numpy as np
import polars as pl

from anabranch.papers.intervals import Interval, interval
from anabranch.studies.result import run
from anabranch.support import progress

from .factors import PROFILES, Runs
from .studies import probe

STEP_S = 0.02
"""The step of the time series of the SNR."""
LONGEST_LAG_S = 20.0
COHERENT = 0.5

PROBE_LOAD = 1e6
SATURATION = 40e6
"""The values of the probe's axis `load` in bit/s."""


@dataclass(frozen=True)
class Traced:
    """One traced run of the probe."""

    snr: pl.DataFrame
    """time_s, effective_snr_db and modulation of each burst in the downlink."""
    lost_s: list[float]
    """When packets were sent that did not arrive."""
    bursts: list[tuple[int, float]]
    """Packets and seconds of each burst of loss."""


@dataclass(frozen=True)
class Link:
    """One profile's link."""

    profile: str
    snr_db: Interval
    loss_percent: Interval
    bits_per_symbol: Interval
    capacity_mbps: Interval
    """What arrives when more is sent than fits."""
    burst_packets: float
    """Mean length of a burst of loss; NaN without any loss."""
    burst_s: float
    longest_burst_s: float
    coherence_s: float
    traced: Traced
    """The first traced run, for the figure."""


def links(probes: pl.DataFrame, traced: int) -> dict[str, Link]:
    """Every profile's link from the probe's rows and so many traced runs."""
    measured = {}
    traces: dict[str, list[Traced]] = {profile: [] for profile in PROFILES}
    for profile, replication in progress.each(
        "traced probes", list(product(PROFILES, range(traced)))
    ):
        traces[profile].append(trace(profile, replication))
    for profile, runs in traces.items():
        bursts = [burst for run in runs for burst in run.bursts]
        rows = probes.filter(profile=profile)
        light, full = rows.filter(load=PROBE_LOAD), rows.filter(load=SATURATION)
        lengths = [seconds for _, seconds in bursts]
        measured[profile] = Link(
            profile,
            snr_db=interval(light["snr_db"]),
            loss_percent=interval(light["air_lost_percent"]),
            bits_per_symbol=interval(full["bits_per_symbol"]),
            capacity_mbps=interval(full["goodput_mbps"]),
            burst_packets=interval(packets for packets, _ in bursts).mean,
            burst_s=interval(lengths).mean,
            longest_burst_s=max(lengths, default=float("nan")),
            coherence_s=coherence_time_s([run.snr for run in runs]),
            traced=runs[0],
        )
    return measured


def capacity(probes: pl.DataFrame) -> dict[str, dict[int, float]]:
    """By profile and replication, what datagrams reach where more is sent than fits, in Mbit/s."""
    full = Runs(probes, "").where(load=max(probes["load"].to_list()))
    return {profile: full.where(profile=profile).per_replication() for profile in PROFILES}


def trace(profile: str, replication: int) -> Traced:
    """Runs the probe once more with traces."""
    traces = run(probe(profile), replication=replication, trace=True).traces
    packets = traces["packets"].filter(side="a").sort("sent_s")
    radio = traces["radio"].filter(link="air", direction="forward")
    # What was under way at the end is neither.
    packets = packets.filter(pl.col("fate").is_in(["delivered", "lost"]))
    lost = packets["fate"] == "lost"
    return Traced(
        radio.select("time_s", "effective_snr_db", "modulation"),
        packets.filter(lost)["sent_s"].to_list(),
        bursts_of_loss(packets["sent_s"].to_list(), lost.to_list()),
    )


def bursts_of_loss(sent_s: list[float], lost: list[bool]) -> list[tuple[int, float]]:
    """Packets and seconds of each unbroken run of lost packets.

    One that lasts until the end is as long as is known.
    """
    bursts = []
    for is_lost, group in groupby(range(len(lost)), key=lost.__getitem__):
        members = list(group)
        if is_lost:
            after = min(members[-1] + 1, len(sent_s) - 1)
            bursts.append((len(members), sent_s[after] - sent_s[members[0]]))
    return bursts


def coherence_time_s(runs: list[pl.DataFrame]) -> float:
    """The lag at which the autocorrelation of the SNR falls to one half, in a straight line.

    NaN when it does not within LONGEST_LAG_S.
    """
    lags = round(LONGEST_LAG_S / STEP_S)
    total = np.zeros(lags)
    series = [_series(run) for run in runs]
    mean = np.mean([values.mean() for values in series])
    for values in series:
        around = values - mean
        for lag in range(min(lags, len(around) - 1)):
            total[lag] += np.mean(around[: len(around) - lag] * around[lag:])
    if total[0] <= 0:
        return float("nan")
    correlation = total / total[0]
    below = np.flatnonzero(correlation < COHERENT)
    if not len(below):
        return float("nan")
    after = int(below[0])
    high, low = correlation[after - 1], correlation[after]
    return float(STEP_S * (after - 1 + (high - COHERENT) / (high - low)))


def _series(snr: pl.DataFrame) -> np.ndarray:
    """The SNR as a ratio at equal distances, that of the latest burst."""
    times = snr["time_s"].to_numpy()
    grid = np.arange(times[0], times[-1], STEP_S)
    latest = np.searchsorted(times, grid, side="right") - 1
    return np.asarray(10 ** (snr["effective_snr_db"].to_numpy()[latest] / 10))
