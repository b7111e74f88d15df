"""Whether more of a scalar is better, and how a figure names it, by what the engine declares."""

from anabranch.support import declared


def more_is_better(metric: str) -> bool | None:
    """True or False for a scalar of which more or less is better; None if that is not known."""
    known = declared.scalar(metric)
    return None if known is None else known.more_is_better


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
    "tls": "TLS",
}
"""Words of names that people write differently."""


def titled(metric: str) -> str:
    """A scalar as the label of an axis, with its unit: `mean delay of call (ms)`."""
    owner, _, name = metric.rpartition(".")
    known = declared.scalar(metric)
    words = name.replace("_", " ") if known is None else known.words
    text = " ".join(_WRITTEN.get(word, word) for word in words.split())
    unit = "" if known is None or known.unit == "1" else f" ({known.unit})"
    return f"{text}{f' of {owner}' if owner else ''}{unit}"
