"""A study as an array of jobs: the script runs as SLURM would run it, all tasks at once."""

import os
import subprocess
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

import anabranch as package
from anabranch import Study
from conftest import HANGS_S, SWEEP, Command, one_error, written

TASKS = 3
FOLDER = 'it\'s a "folder" $HOME *\n(new)'
"""Every character that a shell could take for itself."""


def run(script: Path, task: int | None, folder: Path) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if "SLURM" not in name}
    if task is not None:
        environment |= {"SLURM_ARRAY_TASK_ID": str(task), "SLURM_CPUS_PER_TASK": "1"}
    return subprocess.Popen(
        ["bash", str(script)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_all_tasks_together_compute_what_a_plain_sweep_computes(
    anabranch: Command, tmp_path: Path
) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir()
    scenario = written(folder / "my sweep.toml", SWEEP)
    out = folder / "the rows"
    options = ("--set", 'name="a b"', "--replications", "7")
    made = anabranch("sweep", scenario, "--out", out, "--array", str(TASKS), *options)
    assert made.returncode == 0, made.stderr
    assert f"#SBATCH --array=1-{TASKS}\n" in made.stdout
    assert "#SBATCH --job-name=a-b\n" in made.stdout
    script = written(tmp_path / "job.sh", made.stdout)

    tasks = [run(script, task, tmp_path) for task in (1, 3)]
    said = [task.communicate(timeout=HANGS_S)[0] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], said
    whole = Study(SWEEP, replications=7)
    whole.run()
    # Shares 1 and 3 of 3, and so two thirds of the 42 runs.
    assert package.read(out).height == 28
    assert all((cell + replication) % 3 != 1 for cell, replication in runs(out))

    rest = run(script, None, tmp_path)
    said = [rest.communicate(timeout=HANGS_S)[0]]
    assert rest.returncode == 0, said
    assert "42 runs in" in said[0]
    assert_frame_equal(package.read(out), whole.frame(), check_exact=True)


def runs(out: Path) -> list[tuple[int, int]]:
    return list(package.read(out).select("cell", "replication").iter_rows())


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3", f"1/{10**20}"])
def test_a_share_is_one_of_all(anabranch: Command, sweep_file: Path, shard: str) -> None:
    error = one_error(anabranch("sweep", sweep_file, "--out", "out", f"--shard={shard}"))
    assert f"`--shard {shard}` is not I/N" in error


@pytest.mark.parametrize("tasks", ["0", "100001"])
def test_an_array_has_tasks(anabranch: Command, sweep_file: Path, tasks: str) -> None:
    error = one_error(anabranch("sweep", sweep_file, "--out", "out", "--array", tasks))
    assert "from 1 to 100,000" in error


def test_a_script_computes_nothing_itself(anabranch: Command, sweep_file: Path) -> None:
    error = one_error(
        anabranch("sweep", sweep_file, "--out", "out", "--array", "2", "--shard", "1/2")
    )
    assert "--shard does not go with --array" in error
