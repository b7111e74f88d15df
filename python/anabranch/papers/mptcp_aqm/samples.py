"""Rows of the studies in units for people."""

import polars as pl

from anabranch.papers import runs

from .factors import PATHS

LINK = "link.c.forward"
SENDER, RECEIVER = "transfer.mptcp.a", "transfer.mptcp.b"
QUEUE_COLUMNS = (
    "aqm_packets",
    "queue_full_packets",
    "cross_aqm_packets",
    "cross_queue_full_packets",
    "mean_queue_packets",
    "mean_sojourn_ms",
    "p95_sojourn_ms",
    "p99_sojourn_ms",
    "max_sojourn_ms",
)
SUBFLOW_COLUMNS = (
    "mean_cwnd_bytes",
    "mean_rtt_ms",
    "mean_changed_cwnd_bytes",
    "mean_changed_srtt_ms",
    "timeouts",
    "data_segments_retransmitted",
)
PACKETS = (
    f"{LINK}.arrived_packets",
    f"{LINK}.cross_arrived_packets",
    "link.c.reverse.arrived_packets",
)
"""The counters of packets that come to C."""
COLUMNS = (
    *PACKETS,
    "transfer.goodput_kbit_per_s",
    "transfer.stalled_s",
    *(f"{LINK}.{name}" for name in QUEUE_COLUMNS),
    *(f"{SENDER}.subflow_{path}.{name}" for path in (0, 1) for name in SUBFLOW_COLUMNS),
    *(f"{RECEIVER}.subflow_{path}.duplicates_received" for path in (0, 1)),
)
"""The scalars that are kept of each run."""


class Runs(runs.Runs):
    """Runs of one grid: its factors, `replication`, and the values of `tidy`."""

    VALUE = "goodput_share"


def tidy(rows: pl.DataFrame, axes: list[str], rate_mbps: float | pl.Expr, mss: int) -> pl.DataFrame:
    """Rows with short names.

    Columns: the axes, replication, goodput_share (of C), goodput_mbps, longest_gap_s, drops (of all
    packets in the queue of C, UDP too), aqm_drops (those that the discipline decides),
    udp_loss_percent, queue_packets (mean), sojourn_ms (mean), p95_ms, p99_ms and max_ms of it,
    duplicates (that the server had), retransmissions, timeouts; for each path rtt_a_ms (of all
    samples), srtt_a_ms (at changes of the window), cwnd_a_packets (over time) and
    changed_cwnd_a_packets (over its changes); cwnd_packets and changed_cwnd_packets, mean of both
    paths, and cwnd_share_a.
    """
    sender = {path: f"{SENDER}.subflow_{number}" for number, path in enumerate(PATHS)}
    values = {
        "goodput_mbps": pl.col("transfer.goodput_kbit_per_s") / 1e3,
        "goodput_share": pl.col("transfer.goodput_kbit_per_s") / 1e3 / rate_mbps,
        "longest_gap_s": pl.col("transfer.stalled_s"),
        "drops": pl.sum_horizontal(f"{LINK}.{name}" for name in QUEUE_COLUMNS[:4]),
        "aqm_drops": pl.sum_horizontal(
            f"{LINK}.{name}" for name in ("aqm_packets", "cross_aqm_packets")
        ),
        "udp_loss_percent": 100
        * pl.sum_horizontal(f"{LINK}.{name}" for name in QUEUE_COLUMNS[2:4])
        / pl.col(f"{LINK}.cross_arrived_packets"),
        "queue_packets": pl.col(f"{LINK}.mean_queue_packets"),
        "sojourn_ms": pl.col(f"{LINK}.mean_sojourn_ms"),
        "p95_ms": pl.col(f"{LINK}.p95_sojourn_ms"),
        "p99_ms": pl.col(f"{LINK}.p99_sojourn_ms"),
        "max_ms": pl.col(f"{LINK}.max_sojourn_ms"),
        "duplicates": pl.sum_horizontal(
            f"{RECEIVER}.subflow_{path}.duplicates_received" for path in (0, 1)
        ),
        "retransmissions": pl.sum_horizontal(
            f"{sender[path]}.data_segments_retransmitted" for path in PATHS
        ),
        "timeouts": pl.sum_horizontal(f"{sender[path]}.timeouts" for path in PATHS),
    }
    for path in PATHS:
        values |= {
            f"rtt_{path}_ms": pl.col(f"{sender[path]}.mean_rtt_ms"),
            f"srtt_{path}_ms": pl.col(f"{sender[path]}.mean_changed_srtt_ms"),
            f"cwnd_{path}_packets": pl.col(f"{sender[path]}.mean_cwnd_bytes") / mss,
            f"changed_cwnd_{path}_packets": pl.col(f"{sender[path]}.mean_changed_cwnd_bytes") / mss,
        }
    cwnd = [pl.col(f"cwnd_{path}_packets") for path in PATHS]
    tidied = rows.select(*axes, pl.col("replication").cast(pl.Int64), **values)
    if "delay_ms" in axes:
        # The values of an axis of cases are text.
        tidied = tidied.with_columns(pl.col("delay_ms").cast(pl.Int64))
    return tidied.with_columns(
        cwnd_packets=(cwnd[0] + cwnd[1]) / 2,
        changed_cwnd_packets=sum(pl.col(f"changed_cwnd_{path}_packets") for path in PATHS) / 2,
        cwnd_share_a=cwnd[0] / (cwnd[0] + cwnd[1]),
    )
