"""Round trips by the numbers of their requests, which is what every kind of ping has."""

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from anabranch.errors import AnabranchError

from ..measurement import Delays, LossSequence, Measurement

MOST_PINGS = 10_000_000
"""The most pings, answered or not, that one run may have."""
MOST_LATE = 1_000
"""How many later pings may be answered before a ping's own answer comes."""


@dataclass(slots=True)
class Rounds:
    """One run of a program that asks and waits for answers. 8 bytes a request."""

    file: Path
    first: int | None = None
    """The number of the first request."""
    spacing_s: float | None = None
    """The time between requests, where it is regular."""
    places: int = 9
    """The fewest decimal places, in seconds, that an answer had."""
    answered: int = 0
    _times: "array[float]" = field(default_factory=lambda: array("d"))
    """Of each request from the first on: the round-trip time in seconds, NaN where none is known,
    infinite where the program said that it waited no longer.
    """

    _sent: "array[float]" = field(default_factory=lambda: array("d"))
    """When each of them was sent, as far as stamps say it; NaN or no value where none does."""

    def stamp(self, number: int, sent_s: float) -> None:
        """When a request that is part of the run was sent."""
        place = self._place(number)
        missing = place + 1 - len(self._sent)
        if missing > 0:
            self._sent.extend(array("d", [math.nan]) * missing)
        self._sent[place] = sent_s

    def sent_s(self) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
        """When each request was sent; those without a stamp evenly between others.

        None without two stamps.
        """
        if not self.has_steps():
            return None
        known, stamps = self._stamps()
        usual = float(np.median(np.diff(stamps) / np.diff(known)))
        places = np.arange(len(self))
        sent: np.ndarray[tuple[int], np.dtype[np.float64]] = np.interp(places, known, stamps)
        # In front of the first stamp and behind the last one, at the usual steps.
        sent -= np.maximum(known[0] - places, 0) * usual
        sent += np.maximum(places - known[-1], 0) * usual
        return sent

    def began_s(self) -> float | None:
        """When the first request with a stamp was sent."""
        _, stamps = self._stamps()
        return float(stamps[0]) if len(stamps) else None

    def has_steps(self) -> bool:
        """Whether two requests or more have stamps."""
        return len(self._stamps()[0]) > 1

    def mean_step_s(self) -> float | None:
        """The mean time between two of those that have stamps; None if the clock did not go on."""
        known, stamps = self._stamps()
        return max(float(stamps[-1] - stamps[0]), 0.0) / float(known[-1] - known[0]) or None

    def ask(self, number: int) -> None:
        """Makes a request part of the run, whether or not it is answered."""
        self._place(number)

    def lose(self, number: int) -> None:
        """The program waited no longer for this answer."""
        place = self._place(number)
        if math.isnan(self._times[place]):
            self._times[place] = math.inf

    def answer(self, number: int, seconds: float, places: int = 9) -> None:
        """An answer; only the first of a request counts."""
        place = self._place(number)
        if not math.isfinite(self._times[place]):
            self._times[place] = seconds
            self.places = min(self.places, places)
            self.answered += 1

    def is_settled(self, number: int) -> bool:
        """Whether the request was answered or given up: if it comes again, it is another run's."""
        if self.first is None or not 0 <= number - self.first < len(self._times):
            return False
        return not math.isnan(self._times[number - self.first])

    @property
    def last(self) -> int:
        """The number of the last request."""
        return (self.first or 0) + len(self._times) - 1

    def __len__(self) -> int:
        return len(self._times)

    def times(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """The round-trip times in the order of the requests; where there is none, not finite."""
        return np.array(self._times)

    def _stamps(
        self,
    ) -> tuple[
        np.ndarray[tuple[int], np.dtype[np.intp]], np.ndarray[tuple[int], np.dtype[np.float64]]
    ]:
        """The places of the requests that have stamps, and these."""
        stamps = np.array(self._sent)
        known = np.flatnonzero(np.isfinite(stamps))
        return known, stamps[known]

    def _place(self, number: int) -> int:
        if self.first is None:
            self.first = number
        low, high = min(self.first, number), max(self.last, number)
        if high - low >= MOST_PINGS:
            raise AnabranchError(
                f"{self.file}: sequence numbers from {low} to {high}; allowed are "
                f"{MOST_PINGS:,} pings"
            )
        if number < self.first:
            before = array("d", [math.nan]) * (self.first - number)
            self._times[0:0] = before
            if self._sent:
                self._sent[0:0] = before
            self.first = number
        missing = number - self.first + 1 - len(self._times)
        if missing > 0:
            self._times.extend(array("d", [math.nan]) * missing)
        return number - self.first


def measurement(
    file: Path,
    runs: Sequence[Rounds],
    *,
    what: str = "round-trip times of pings",
    unit: str = "ping",
    notes: Sequence[str] = (),
    began_s: float | None = None,
) -> Measurement:
    """The measurement from one or several runs over the same path."""
    runs = [run for run in runs if len(run)]
    if not any(run.answered for run in runs):
        raise AnabranchError(f"{file}: no {unit} was answered, so there is nothing to estimate")
    times = np.concatenate([run.times() for run in runs])
    lost = ~np.isfinite(times)
    count = len(times)
    sent = [run.sent_s() for run in runs]
    said = list(notes)
    if len(runs) > 1:
        said.append(_said(runs))
    return Measurement(
        title=f"1 {unit}" if count == 1 else f"{count} {unit}s",
        delays=Delays(
            times[~lost],
            legs=2,
            what=what,
            resolution_s=10.0 ** -min(run.places for run in runs if run.answered),
        ),
        losses=LossSequence(
            lost, f"{unit}s without an answer", spacing_s=_spacing(runs), round_trip=True
        ),
        notes=said,
        began_s=began_s,
        sent_s=np.concatenate(known)
        if len(known := [s for s in sent if s is not None]) == len(sent)
        else None,
    )


def _said(runs: Sequence[Rounds]) -> str:
    least = [float(np.nanmin(np.where(np.isfinite(t), t, np.nan))) * 1e3
             for t in (run.times() for run in runs if run.answered)]  # fmt: skip
    text = f"{len(runs)} runs in one file, taken as one path"
    if max(least) > 1.2 * min(least):
        text += (
            f"; their least round-trip times differ, from {min(least):.4g} to {max(least):.4g} ms, "
            "so that the path may have changed: the base delay is that of the fastest run"
        )
    return text


def _spacing(runs: Sequence[Rounds]) -> float | None:
    """The time between requests, if it is the same in all runs."""
    known = [run.spacing_s for run in runs if len(run) > 1]
    values = [value for value in known if value is not None]
    if not values or len(values) < len(known) or max(values) > 1.05 * min(values):
        return None
    return float(np.median(values))
