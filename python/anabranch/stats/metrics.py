"""Whether more of a scalar is better.

The last part of its name tells, such as `mos` in `call.mos`. Counters are not listed: whether many
packets are good depends on the question.
"""

from fnmatch import fnmatchcase

MORE_IS_BETTER = ("completed", "goodput_*", "jain", "mos", "r", "r_factor", "rpm")

NEITHER = (
    "*_per_s",  # rates, other than goodputs
    "first_*_s",  # when something happened
    "loss_probe*",  # counters
    "rto_ms",
    "simulated_s",
)

LESS_IS_BETTER = ("*delay*", "*loss*", "*_ms", "*_s", "block_error_rate", "ie_eff")


def more_is_better(metric: str) -> bool | None:
    """True or False for a scalar of which more or less is better; None if that is not known."""
    name = metric.rpartition(".")[2]
    for names, answer in ((MORE_IS_BETTER, True), (NEITHER, None), (LESS_IS_BETTER, False)):
        if any(fnmatchcase(name, pattern) for pattern in names):
            return answer
    return None
