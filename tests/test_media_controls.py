"""Our congestion controls of media beside their references, over RFC 8867 section 5.1."""

import numpy as np
import pytest

from oracles import media_controls

# By reference: how far what arrives may be from the reference's, as a share, and the 95th
# percentile of the wait in ms, in each phase; docs/media.md has the causes of the larger ones.
BOUNDS: dict[str, list[tuple[float | None, float | None]]] = {
    "scream_even.csv": [(0.1, 15), (0.1, 5), (0.15, 180), (None, None)],
    "scream_draft_even.csv": [(0.1, 10), (0.1, 5), (0.1, 10), (0.1, 10)],
    "scream_draft_l4s.csv": [(0.1, 8), (0.1, 5), (0.15, 20), (0.1, 8)],
    "str0m_even.csv": [(0.1, 10), (0.15, 5), (0.1, 30), (0.2, 30)],
}


@pytest.mark.parametrize("comparison", media_controls.COMPARISONS, ids=lambda one: one.rows)
def test_each_phase_is_near_the_references(comparison: media_controls.Comparison) -> None:
    own = media_controls.phases(media_controls.ours(comparison))
    theirs = media_controls.phases(media_controls.reference(comparison.rows))
    for one, other, (share, wait) in zip(own, theirs, BOUNDS[comparison.rows], strict=True):
        if share is not None:
            assert one.delivered == pytest.approx(other.delivered, rel=share), (one, other)
        if wait is not None:
            assert one.queue_p95_ms == pytest.approx(other.queue_p95_ms, abs=wait), (one, other)


def test_rows_of_references_are_whole() -> None:
    for comparison in media_controls.COMPARISONS:
        rows = media_controls.reference(comparison.rows)
        assert rows.shape == (1000, 4)
        assert np.allclose(np.diff(rows[:, 0]), 0.1)
        assert (rows[:, 1] >= 149e3).all()
        assert (rows[:, 1] <= 1.501e6).all()


def test_phases_are_means_and_percentiles_of_their_rows() -> None:
    ends = 0.1 * np.arange(1, 981)
    wait = np.where(ends > 60, 30.0, 10.0)
    rows = np.column_stack([ends, np.full(980, 1e6), np.full(980, 8e5), wait])
    phases = list(media_controls.phases(rows))
    assert [phase.delivered for phase in phases] == pytest.approx([8e5] * 4)
    assert [phase.queue_mean_ms for phase in phases] == pytest.approx([10, 10, 30, 30])
    assert media_controls.near(rows, rows) == 1
    assert media_controls.near(rows, rows * [1, 1.2, 1, 1]) == 0
