"""Whether more of a scalar is better, and how a figure names it.

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


_UNITS = {
    "_bits_per_symbol": "bit/symbol",
    "_kbit_per_s": "kbit/s",
    "_per_minute": "1/min",
    "_bytes": "B",
    "_percent": "%",
    "_db": "dB",
    "_ms": "ms",
    "_s": "s",
}
"""The ends of names that are units; a count has none."""

_WRITTEN = {
    "arq": "ARQ",
    "cov": "coefficient of variation",
    "jain": "Jain's index",
    "mos": "MOS",
    "r": "R",
    "rpm": "RPM",
    "rto": "RTO",
    "rtt": "RTT",
    "snr": "SNR",
    "srtt": "SRTT",
    "t3": "T3",
    "tls": "TLS",
}
"""Words of names that people write differently."""


def titled(metric: str) -> str:
    """A scalar as the label of an axis, with its unit: `mean delay of call (ms)`."""
    owner, _, name = metric.rpartition(".")
    end = next((end for end in _UNITS if name.endswith(end) and name != end[1:]), "")
    words = name.removesuffix(end).split("_")
    text = " ".join(_WRITTEN.get(word, word) for word in words)
    unit = f" ({_UNITS[end]})" if end else ""
    return f"{text}{f' of {owner}' if owner else ''}{unit}"
