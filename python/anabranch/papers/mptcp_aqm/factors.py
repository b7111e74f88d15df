"""What is compared. `sheet.toml` says how figures and tables name it."""

from anabranch.papers import runs
from anabranch.papers.sheet import Sheet

SHEET = Sheet(__package__)

QUEUE_NAMES = SHEET.axes["queue"].names
QUEUES = tuple(QUEUE_NAMES)
"""The queues of the grid; the first four are the paper's."""
PAPERS_QUEUES = tuple(SHEET.axes["papers_queue"].names)
COUPLINGS = tuple(SHEET.axes["coupling"].names)
LIA = "linked_increases"
"""What the paper calls LIA: the cited model's, without a cap."""
DELAYS = (1, 10, 100)
"""One-way delay of path A in milliseconds."""

PATHS = ("a", "b")
PATH_NAMES = {"a": "A (LTE)", "b": "B (Wi-Fi)"}

PACKETS = (
    "link.c.forward.arrived_packets",
    "link.c.forward.cross_arrived_packets",
    "link.c.reverse.arrived_packets",
)
"""The counters of packets that come to C."""
COLUMNS = tuple(dict.fromkeys((*PACKETS, *SHEET.scalars)))
"""The scalars that are kept of each run."""


class Runs(runs.Runs):
    """Runs of one grid: its factors, `replication`, and the values of `sheet.toml`."""

    VALUE = "goodput_share"
