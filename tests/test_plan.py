"""Which runs a study needs: each once, cell by cell, and no more than a stopping rule asks for."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import stats
from anabranch.studies import stopping
from anabranch.studies.plan import Plan, Run, ask_once

CELLS, REPLICATIONS = 5, 7


def taken(plan: Plan, size: int = 3) -> list[Run]:
    return list(itertools.chain.from_iterable(iter(lambda: plan.take(size), [])))


matrices = st.lists(st.booleans(), min_size=CELLS * REPLICATIONS, max_size=CELLS * REPLICATIONS)
counts = st.lists(st.integers(0, REPLICATIONS), min_size=CELLS, max_size=CELLS)


@given(counts, matrices, st.integers(1, 4), st.integers(1, 9))
def test_shares_together_are_what_is_missing(
    wanted: list[int], known: list[bool], shares: int, size: int
) -> None:
    finished = np.array(known).reshape(CELLS, REPLICATIONS)
    missing = [
        (cell, replication)
        for replication in range(REPLICATIONS)
        for cell in range(CELLS)
        if replication < wanted[cell] and not finished[cell, replication]
    ]
    whole = Plan(np.array(wanted), finished)
    assert whole.total == sum(wanted)
    assert whole.done == sum(wanted) - len(missing)
    assert taken(whole, size) == missing
    parts = [Plan(np.array(wanted), finished, (i + 1, shares)) for i in range(shares)]
    found = [taken(part, size) for part in parts]
    assert sorted(itertools.chain.from_iterable(found)) == sorted(missing)
    assert sum(part.total for part in parts) == whole.total
    assert sum(part.done for part in parts) == whole.done
    # Nearly equal, in every replication.
    totals = [part.total for part in parts]
    assert max(totals) - min(totals) <= max(wanted)


UNTIL = {"metric": "call.mos", "half_width": 0.5, "least": 5, "most": 60}


def value(cell: int, replication: int) -> float:
    """Cells differ in their spread, and so in the replications that they need."""
    return float(np.random.default_rng((cell, replication)).normal(3, 0.2 + cell / 2))


def needed(cell: int, until: dict[str, Any]) -> int:
    values = [value(cell, replication) for replication in range(60)]
    found = stopping.replications_needed(values, until)
    assert found is not None
    return found


def sequential(finished: np.ndarray, shard: tuple[int, int] | None = None) -> Plan:
    wanted = np.ones(CELLS, dtype=int)
    plan = Plan(wanted, finished, shard, dict.fromkeys(range(CELLS), UNTIL))
    known = [(int(c), int(r), value(c, r)) for c, r in np.argwhere(finished)]
    plan.learn("call.mos", known)
    return plan


def played(plan: Plan, size: int, order: np.random.Generator, under_way: int = 4) -> set[Run]:
    """Batches come back in any order."""
    batches: list[list[Run]] = []
    computed: list[Run] = []
    while True:
        while len(batches) < under_way and (runs := plan.take(size)):
            batches.append(runs)
        if not batches:
            return set(computed)
        runs = batches.pop(order.integers(len(batches)))
        computed += runs
        assert len(set(computed)) == len(computed), "no run is computed twice"
        plan.done += len(runs)
        plan.learn("call.mos", [(c, r, value(c, r)) for c, r in runs])


@pytest.mark.parametrize("seed", range(20))
def test_stopping_never_depends_on_how_the_work_is_split(seed: int) -> None:
    order = np.random.default_rng(seed)
    finished = np.zeros((CELLS, 60), dtype=bool)
    expected = {(c, r) for c in range(CELLS) for r in range(needed(c, UNTIL))}
    assert len({needed(cell, UNTIL) for cell in range(CELLS)}) > 2, "cells differ"
    # The study is stopped at some point, and resumed with the runs computed by then.
    for cell, replication in expected:
        finished[cell, replication] = order.random() < seed / 20
    known = {(int(c), int(r)) for c, r in np.argwhere(finished)}
    plan = sequential(finished)
    assert played(plan, int(order.integers(1, 30)), order) | known == expected
    assert not plan.is_estimate
    assert plan.total == plan.done == len(expected)
    values = [[value(cell, replication) for replication in range(60)] for cell in range(CELLS)]
    wide = [cell for cell in range(CELLS) if stats.mean_interval(values[cell])[1] > 0.5]
    assert plan.short == [4] == wide


def test_shares_of_a_stopping_study_are_cells() -> None:
    order = np.random.default_rng(1)
    nothing = np.zeros((CELLS, 60), dtype=bool)
    found = [played(sequential(nothing, (i + 1, 2)), 7, order) for i in range(2)]
    assert {cell for cell, _ in found[0]} == {0, 2, 4}
    assert found[0] | found[1] == {(c, r) for c in range(CELLS) for r in range(needed(c, UNTIL))}


def test_the_total_is_an_estimate_until_the_last_cell_has_decided() -> None:
    plan = sequential(np.zeros((CELLS, 60), dtype=bool))
    assert (plan.is_estimate, plan.total) == (True, 5 * CELLS)
    runs = plan.take(5 * CELLS)
    plan.learn("call.mos", [(c, r, value(c, r)) for c, r in runs])
    # Where five runs do not suffice, their variance says how many may.
    assert plan.is_estimate
    assert 5 * CELLS < plan.total <= 60 * CELLS


def test_a_hundred_million_runs_are_a_matrix_of_bytes() -> None:
    plan = Plan(np.full(1_000_000, 2), np.zeros((1_000_000, 2), dtype=bool))
    assert plan.total == 2_000_000
    assert plan.take(3) == [(0, 0), (1, 0), (2, 0)]
    assert len(plan.take(1_500_000)) == 1_500_000
    assert plan.take(2) == [(500_003, 1), (500_004, 1)]
    assert plan.left == 2_000_000 - 1_500_005


def test_equal_cells_are_asked_for_once() -> None:
    rule = {"metric": "call.mos", "half_width": 0.1}
    rules = {2: rule, 3: rule, 4: rule | {"half_width": 0.2}}
    wanted, kept = ask_once(["a", "b", "a", "a", "a", "b"], np.array([2, 3, 0, 0, 0, 5]), rules)
    assert wanted.tolist() == [2, 5, 0, 0, 0, 0]
    assert kept == {2: rule, 4: rules[4]}
