"""Says in words how late the packets of an emulation were."""

from collections.abc import Mapping

_LATE_MS = 1.0
"""A 99th percentile above this, in ms, gets a warning."""


def line(scalars: Mapping[str, float]) -> str | None:
    """The distribution of the lateness; None where there was no packet."""
    if "emulation.lateness_p50_ms" not in scalars:
        return None
    p50, p99, most = (scalars[f"emulation.lateness_{name}_ms"] for name in ("p50", "p99", "max"))
    return f"lateness: p50 {p50:.3f} ms, p99 {p99:.3f} ms, max {most:.3f} ms"


def warning(scalars: Mapping[str, float]) -> str | None:
    """A warning where the lateness was too large; None elsewhere."""
    p99 = scalars.get("emulation.lateness_p99_ms", 0.0)
    if p99 <= _LATE_MS:
        return None
    return f"one packet in a hundred was more than {p99:.1f} ms late: this machine is busy"
