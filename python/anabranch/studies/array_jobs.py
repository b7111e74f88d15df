"""A study as an array of jobs of a batch system: each task computes its share of the runs."""

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

MOST_TASKS = 100_000
"""The most tasks of an array, far above what batch systems allow (SLURM's MaxArraySize is 1001 by
default).
"""


def script(scenario: Path, out: Path, tasks: int, options: Sequence[str], name: str) -> str:
    """A script for `sbatch`.

    Paths in it are absolute, so that it may be submitted from any folder.

    Parameters
    ----------
    scenario
        The scenario file.
    out
        The study folder, on a file system that all nodes can reach.
    tasks
        The number of shares that the study is split into.
    options
        Options for `anabranch sweep`.
    name
        The study's name.
    """
    sweep = [sys.executable, "-m", "anabranch", "sweep", str(scenario.absolute())]
    command = shlex.join([*sweep, "--out", str(out.absolute()), *options])
    # No shell reads the lines of #SBATCH, so nothing can be quoted there, and the name must be one
    # word.
    job = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)
    return f"""\
#!/bin/bash
#SBATCH --job-name={job}
#SBATCH --array=1-{tasks}
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --output={job}-%A_%a.log
# Time, memory and partition are your cluster's: add the lines for them above.
#
# When all tasks are over, `bash` with this script computes what lost tasks have left out, and
# prints the results.
set -eu
sweep=({command})
if [ -n "${{SLURM_ARRAY_TASK_ID:-}}" ]; then
  sweep+=(--jobs "${{SLURM_CPUS_PER_TASK:-1}}" --shard "$SLURM_ARRAY_TASK_ID/{tasks}")
fi
exec "${{sweep[@]}}"
"""
