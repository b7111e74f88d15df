"""Runs that are measured by their packets: the traces are not kept, what they show is."""

from collections.abc import Sequence

import numpy as np

from anabranch.bench_rtc import measures
from anabranch.bench_rtc.scenarios import MediaScenario
from anabranch.bench_rtc.series import TABLES, packets
from anabranch.studies.plan import Run
from anabranch.studies.workers import Batch, Threads


class Measured(Threads):
    """Threads that add what the packets of each run show to its scalars."""

    def __init__(self, about: MediaScenario, jobs: int) -> None:
        super().__init__(about.scenario, jobs, TABLES)
        self._about = about

    def compute(self, runs: Sequence[Run]) -> Batch:
        """See `Pool`."""
        batch = super().compute(runs)
        about = self._about
        rows = []
        for cell, _, tables in batch.traces:
            what = about.courses[cell // len(about.controls)]
            seen = packets(tables, what, about.rival)
            rows.append(measures.of_packets(seen, what, about))
        shown = {name: np.array([row[name] for row in rows]) for name in (rows[0] if rows else ())}
        return Batch(batch.columns | shown, batch.seconds, (), batch.failures)
