"""The time to declare a path down: the closed form, ours, and the Linux kernel's."""

import math

import pytest

from oracles import failover

NANOSECOND = 1e-9
ROUND_TRIP_S = 0.0025
TICKS_S = 0.020 + 0.001
"""Linux: a timer starts with the next message, up to 20 ms later, and fires up to 1 ms late."""


def test_the_defaults_take_63_seconds() -> None:
    assert failover.timeouts(6, 1.0, 60.0) == [1, 2, 4, 8, 16, 32]
    assert failover.time_to_inactive(5, 1.0, 60.0) == 63
    assert failover.time_to_inactive(7, 1.0, 60.0) == 63 + 60 + 60
    assert failover.time_to_potentially_failed(0, 5, 1.0, 60.0) == 1
    assert math.isnan(failover.time_to_potentially_failed(5, 5, 1.0, 60.0))


@pytest.mark.parametrize("limits", failover.RTO_LIMITS_S)
@pytest.mark.parametrize("pf_max_retrans", [None, 0, 2])
def test_ours_is_the_closed_form(limits: tuple[float, float], pf_max_retrans: int | None) -> None:
    for path_max_retrans in failover.PATH_MAX_RETRANS:
        row = failover.measure(path_max_retrans, pf_max_retrans, *limits)
        assert row.inactive_s == pytest.approx(row.expected_inactive_s, rel=0, abs=NANOSECOND)
        assert row.potentially_failed_s == pytest.approx(
            row.expected_potentially_failed_s, rel=0, abs=NANOSECOND, nan_ok=True
        )
        # Each timeout delivers: no gap is longer than one of them.
        assert row.longest_gap_s == pytest.approx(row.expected_gap_s, rel=0, abs=ROUND_TRIP_S)


def test_the_kernel_is_near_the_closed_form() -> None:
    rows = failover.kernel_rows()
    assert len(rows) == 21
    assert sum(row.is_spurious for row in rows) == 3
    for row in rows:
        if row.is_spurious:
            continue
        # The timer runs since the last acknowledgement, which may be a round trip and an interval
        # old; the wheel rounds each timeout up by at most an eighth.
        errors = row.path_max_retrans + 1
        earliest = row.expected_inactive_s - 0.061
        latest = row.expected_inactive_s * 9 / 8 + errors * TICKS_S
        assert earliest <= row.inactive_s <= latest, row.name
