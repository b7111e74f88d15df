"""A rate trace as a cellular link might have it; `python tools/cellular_trace.py` writes it.

The model is that of Sprout (K. Winstein, A. Sivaraman, H. Balakrishnan, NSDI 2013, section 3.1):
packets are delivered as a Poisson process whose rate moves in Brownian motion, and outages last
longer than this motion alone would make them. The file is in Mahimahi's format: a line for each
time, in milliseconds, at which 1500 bytes can be sent.
"""

import math
from pathlib import Path
from random import Random

from anabranch import bench_cc

TRACE = Path(bench_cc.__file__).parent / "scenarios" / "cellular.trace"

SECONDS = 20
"""The length of the trace; then it starts again."""

_SEED = 2  # this seed has rates from 0.3 to 11.3 Mbit/s, and a pause of half a second
_TICK = 0.02
# The paper's numbers, in packets of 1500 bytes: start and limit of the rate per second, its motion
# per second and square root of a second, and how often per second an outage ends.
_START, _MOST, _NOISE, _ESCAPE = 500.0, 1000.0, 200.0, 1.0


def trace() -> str:
    """The text of the trace, which is always the same, as the generator has a fixed seed."""
    random = Random(_SEED)
    rate = _START
    times = []
    for tick in range(round(SECONDS / _TICK)):
        at = random.expovariate(rate) if rate > 0 else math.inf
        while at < _TICK:
            times.append(math.ceil((tick * _TICK + at) * 1000))
            at += random.expovariate(rate)
        step = random.gauss(0, _NOISE * math.sqrt(_TICK))
        if rate > 0:
            rate = max(0.0, _MOST - abs(_MOST - rate - step))
        elif random.random() < 1 - math.exp(-_ESCAPE * _TICK):
            rate = abs(step)
    # The last line gives the length of the trace.
    times.append(SECONDS * 1000)
    lines = ["# Made by python tools/cellular_trace.py", *map(str, times)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TRACE.write_text(trace(), encoding="utf-8")
