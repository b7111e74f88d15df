"""The link emulator by itself, and one short run over it where there is root."""

import itertools
import random

import pytest

import emulated_link
from emulated_link import Bridge, Direction, Link

LINK = Link(8e6, 0.010, 0.002, 20, mean_loss=0.02, in_bad=0.8, mean_bad=0.020)


def direction(*, is_lossy: bool = False) -> Direction:
    return Direction(LINK, is_lossy=is_lossy, rng=random.Random(1))


def test_packets_leave_at_the_rate_and_keep_their_order() -> None:
    way = direction()
    # 1000 B take 1 ms: 20 find room at once, the others do not.
    times = [way.carry(1.0, 1000) for _ in range(25)]
    out = [time for time in times if time is not None]
    assert len(out) == 20
    assert way.overflowed == 5
    assert out == sorted(out)
    for n, time in enumerate(out, 1):
        assert 1.0 + n * 0.001 + 0.010 <= time <= 1.0 + n * 0.001 + 0.012 + 0.002
    # All have left: there is room again, and the link is idle.
    later = way.carry(2.0, 1000)
    assert later is not None
    assert 2.011 <= later <= 2.013


def test_losses_are_those_of_the_chain() -> None:
    way = direction(is_lossy=True)
    count = 400_000
    fates = [way.carry(n * 0.005, 100) is None for n in range(count)]
    assert sum(fates) / count == pytest.approx(LINK.mean_loss, rel=0.08)
    # A loss is followed by another one in the next slot if the state stays bad, and by its share.
    pairs = sum(a and b for a, b in itertools.pairwise(fates)) / sum(fates)
    assert pairs == pytest.approx((1 - LINK.slot / LINK.mean_bad) * LINK.in_bad, abs=0.03)
    assert way.lost == sum(fates)
    assert direction().carry(0.0, 100) is not None


def test_programs_send_over_it() -> None:
    lacks = emulated_link.missing()
    if lacks:
        pytest.skip(f"left out: emulated paths, since {lacks}")
    clean = Link(50e6, 0.020, 0.0, 100, mean_loss=0.0, in_bad=1.0, mean_bad=0.02)
    bridge = Bridge("test", clean, 1)
    with bridge.running():
        times = bridge.ping(50, 0.01)
    got = [time for time in times if time is not None]
    assert len(got) >= 45
    assert min(got) >= 0.040
