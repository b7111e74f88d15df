"""The paper's factors. `sheet.toml` says how figures and tables name their values."""

from anabranch.papers import runs
from anabranch.papers.sheet import Sheet, size

__all__ = ["size"]

SHEET = Sheet(__package__)

PROFILE_NAMES = SHEET.axes["profile"].names
PROFILES = tuple(PROFILE_NAMES)
PAPERS_PROFILES = tuple(SHEET.axes["papers_link"].names)
"""The profiles that the paper has results of."""

CONTROL_NAMES = SHEET.axes["control"].names
CONTROLS = tuple(CONTROL_NAMES)

SEGMENTS = tuple(map(int, SHEET.axes["segment"].numbers))
"""Write sizes in bytes, 64 B to 64 KiB."""
BUFFERS = tuple(map(int, SHEET.axes["buffer"].numbers))
"""Socket buffers in bytes, 2 KiB to 512 KiB."""

READING_NAMES = SHEET.axes["reading"].names
READINGS = tuple(READING_NAMES)

CLAIMED_SEGMENT = 4096
CLAIMED_BUFFER = 512 * 1024
"""Where the paper compares the controls."""


class Runs(runs.Runs):
    """Runs under one reading: factors, `replication`, and the values of `sheet.toml`."""

    VALUE = "goodput_mbps"

    def claimed(self, profile: str) -> "Runs":
        """Where the paper compares the controls: writes of 4 KB, buffers of 512 KB."""
        return self.where(profile=profile, segment=CLAIMED_SEGMENT, buffer=CLAIMED_BUFFER)

    def has_grid(self, profile: str) -> bool:
        """Whether every cell of a profile was run, not only the compared ones."""
        cells = self.where(profile=profile).frame.select("control", "segment", "buffer").unique()
        return cells.height == len(CONTROLS) * len(SEGMENTS) * len(BUFFERS)
