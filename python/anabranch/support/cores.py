"""The number of threads to use."""

import os

from anabranch.errors import whole

MOST_JOBS = 1024
"""The most threads of a study: beyond the number of cores, they only cost memory."""


def threads(jobs: int | None) -> int:
    """The number of threads that `jobs` asks for; all cores if it is None."""
    return whole("jobs", (os.cpu_count() or 1) if jobs is None else jobs, 1, MOST_JOBS)
