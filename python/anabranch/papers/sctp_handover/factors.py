"""What is compared. `sheet.toml` has the values of runs, and tables of them."""

from anabranch.papers import runs
from anabranch.papers.sheet import Sheet

SHEET = Sheet(__package__)

EXPERIMENTS = (1, 2)
EXPERIMENT_NAMES = {
    1: "experiment 1: constant bit rate beside it",
    2: "experiment 2: TCP beside it",
}

SENDER_NAMES = SHEET.axes["sender"].names
SENDERS = tuple(SENDER_NAMES)
"""Policies that the paper's tables compare."""

AVAILABLE_MBPS: dict[int, list[tuple[float, float]]] = {
    1: [(8.0, 6.0), (4.0, 6.0), (4.0, 2.0)],
    2: [(15 / 2, 10 / 2), (8 / 2, 10 / 2), (8 / 2, 10 / 3), (8 / 3, 10 / 3)],
}
"""By experiment and phase, what each path has for the transfer by the timetable of the cross
traffic, as the paper computes it: the rest beside the constant bit rate, divided by the number of
flows."""

REVERTED_S = 10.0
"""A handover that is undone within this time is spurious."""


def better_path(experiment: int, phase: int) -> int:
    """0 or 1: the path with more for the transfer in a phase, which counts from 1."""
    first, second = AVAILABLE_MBPS[experiment][phase - 1]
    return 0 if first >= second else 1


class Runs(runs.Runs):
    """Runs of one arena: `policy` or `variant`, `replication`, and values."""

    VALUE = "goodput_mbps"
