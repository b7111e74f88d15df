"""Losses of which only the numbers are known, by interval."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import special

from .intervals import Bounds, Vector, block_interval
from .loss import Fit, Goodness, wilson

FEWEST_INTERVALS = 8
"""With fewer intervals, their spread says nothing of bursts."""


class CountedLosses:
    """Numbers of lost packets: a share and its interval, and no bursts.

    Parameters
    ----------
    lost
        The lost packets of each interval.
    packets
        The packets of each interval, lost or not.
    """

    def __init__(self, lost: Vector, packets: Vector) -> None:
        self.by_interval, self.packets = lost, packets

    @property
    def count(self) -> int:
        """The number of lost packets."""
        return int(self.by_interval.sum())

    @property
    def sent(self) -> int:
        """The number of packets."""
        return int(self.packets.sum())

    bursts: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
    """Not known."""

    @cached_property
    def mean_loss(self) -> tuple[float, Bounds]:
        """The share, and an interval that is Wilson's or wider where the intervals differ more."""
        share = self.count / self.sent
        low, high = wilson(self.count, self.sent)
        if len(self.packets) >= FEWEST_INTERVALS:
            beyond = self.by_interval - share * self.packets
            scale = len(self.packets) / self.sent
            least, most = block_interval(beyond)
            low, high = min(low, share + least * scale), max(high, share + most * scale)
        return share, (max(low, 0.0), min(high, 1.0))

    def independence(self) -> tuple[float, float]:
        """Whether losses are independent: not known."""
        return float("nan"), float("nan")

    def fits(self) -> list[Fit]:
        """The model of independent losses: any other needs to know which packets were lost."""
        n, lost = self.sent, self.count
        share, interval = self.mean_loss
        value = {"probability": share}
        nan = float("nan")
        likelihood = float(special.xlogy(lost, share) + special.xlog1py(n - lost, -share))
        return [
            Fit(
                "bernoulli", value, {"probability": interval}, value, likelihood, n,
                Goodness(nan, nan, 0, nan, nan),
            )
        ]  # fmt: skip
