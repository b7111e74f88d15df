"""A few of the accidents of `log_mutations.py`, the same in every run."""

from pathlib import Path

import pytest

from log_mutations import tried
from test_profile_logs import SAMPLES


@pytest.mark.parametrize("name", SAMPLES)
def test_a_log_after_accidents_is_read_or_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    for seed in range(5):
        tried(name, seed, tmp_path / "log")
