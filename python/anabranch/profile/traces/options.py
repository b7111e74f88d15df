"""What a user says about a log that its text does not say."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.errors import AnabranchError

TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Unit -> seconds."""
RATE_UNITS = {
    "bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9,
    "B/s": 8.0, "kB/s": 8e3, "MB/s": 8e6,
}  # fmt: skip
"""Unit -> bit/s."""
LOSS_UNITS = {"%": 0.01, "share": 1.0}
TAKEN = ("rate", "delay", "loss")
"""What a trace can have."""
QUANTITIES = (
    "time", "rate", "rate_back", "rtt", "delay", "delay_back", "loss", "sequence", "arrived",
    "lost",
)  # fmt: skip
"""What a column of a table can be."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a log is to be read; what is None is told by the log, or not needed."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """Quantity -> heading, or the number of the column where the table has no headings."""
    where: Mapping[str, str] = field(default_factory=dict)
    """Heading -> the value of the rows that count."""
    time_unit: str | None = None
    rate_unit: str | None = None
    delay_unit: str | None = None
    loss_unit: str | None = None
    interval_s: float | None = None
    """The time between measurements, where a log has no times."""
    window_s: float | None = None
    """Over which values are averaged."""
    take: tuple[str, ...] = ()
    """Which of `TAKEN`; nothing stands for all that go together."""

    def __post_init__(self) -> None:
        for name in self.columns:
            if name not in QUANTITIES:
                raise AnabranchError(
                    f"--column: `{name}` is no quantity; there are {', '.join(QUANTITIES)}"
                )
        for option, value, units in (
            ("time-unit", self.time_unit, TIME_UNITS),
            ("rate-unit", self.rate_unit, RATE_UNITS),
            ("delay-unit", self.delay_unit, TIME_UNITS),
            ("loss-unit", self.loss_unit, LOSS_UNITS),
        ):
            if value is not None and value not in units:
                raise AnabranchError(
                    f"--{option}: `{value}` is no unit; there are {', '.join(units)}"
                )
        for name in self.take:
            if name not in TAKEN:
                raise AnabranchError(f"--take: `{name}` is unknown; there are {', '.join(TAKEN)}")
        for option, seconds in (("interval", self.interval_s), ("window", self.window_s)):
            if seconds is not None and not 1e-6 <= seconds <= 1e6:
                raise AnabranchError(f"--{option}: {seconds:g} s; allowed is 1 us to 1e6 s")

    def takes(self, what: str) -> bool:
        """Whether this is to be in the trace."""
        return not self.take or what in self.take
