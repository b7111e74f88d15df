"""What is compared, and how figures and tables name it."""

QUEUES = ("drop_tail", "codel", "fq_codel", "lifo_codel", "fq_lifo_codel", "codel_literal")
"""The queues of the grid; the first four are the paper's."""
PAPERS_QUEUES = QUEUES[:4]
QUEUE_NAMES = {
    "drop_tail": "DropTail",
    "codel": "CoDel",
    "fq_codel": "FQ-CoDel",
    "lifo_codel": "LIFO-CoDel",
    "fq_lifo_codel": "FQ-LIFO-CoDel",
    "codel_literal": "CoDel as in the prose",
}

COUPLINGS = ("per_path", "linked_increases", "rtt_compensator")
LIA = "linked_increases"
"""What the paper calls LIA: the cited model's, without a cap."""
COUPLING_NAMES = {
    "per_path": "Uncoupled",
    "linked_increases": "LIA",
    "rtt_compensator": "RTT_Compensator",
}

DELAYS = (1, 10, 100)
"""One-way delay of path A in milliseconds."""

PATHS = ("a", "b")
PATH_NAMES = {"a": "A (LTE)", "b": "B (Wi-Fi)"}

UDP_SHARE = 0.25
"""UDP's part of C's rate."""
BUFFER_PACKETS = 50
