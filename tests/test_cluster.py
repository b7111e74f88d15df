"""Studies on a Dask cluster of processes: rows equal those of threads, whatever dies meanwhile."""

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import anabranch as package
from anabranch import RunError, Study
from anabranch.errors import AnabranchError
from anabranch.studies import cluster
from anabranch.studies.plan import Run
from anabranch.studies.workers import Batch
from anabranch.support.progress import Status
from conftest import COMMAND, HANGS_S, ROOT, SWEEP, Command
from support.processes import below, processor_s, until

distributed = pytest.importorskip("distributed")

REPLICATIONS = 150


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two workers, each a process that its nanny starts again when it dies."""
    with cluster.connected("local", 2) as found:
        yield found


@pytest.fixture(scope="module")
def reference() -> pl.DataFrame:
    study = Study(SWEEP, replications=REPLICATIONS)
    study.run()
    return study.frame()


def pids(client: Any) -> list[int]:
    """The worker processes, without asking them: one may be about to start again."""
    return [nanny.pid for nanny in client.cluster.workers.values() if nanny.pid is not None]


def test_a_cluster_gives_the_rows_of_threads(
    client: Any, reference: pl.DataFrame, tmp_path: Path
) -> None:
    study = Study(SWEEP, tmp_path / "out", replications=REPLICATIONS)
    heard: list[Status] = []
    study.run(heard.append, cluster=client)
    assert_frame_equal(study.frame(), reference, check_exact=True)
    assert (heard[0].done, heard[-1].done, heard[-1].total) == (0, 900, 900)
    assert len({status.done for status in heard}) > 3, "batches come one by one"


def test_a_cluster_keeps_traces_and_obeys_stopping_rules(client: Any) -> None:
    rule = '{ metric = "call.mos", half_width = 0.4, least = 3, most = 12 }'
    sets = {"sweep.until": rule, "sweep.traces": '["frames"]'}
    ours, theirs = Study(SWEEP, set=sets), Study(SWEEP, set=sets)
    ours.run()
    theirs.run(cluster=client)
    assert_frame_equal(theirs.frame(), ours.frame(), check_exact=True)
    frames = [
        study.traces("frames").collect().sort("cell", "replication", maintain_order=True)
        for study in (ours, theirs)
    ]
    assert frames[0].height > 0
    assert_frame_equal(frames[1], frames[0], check_exact=True)


def test_a_killed_worker_loses_nothing(
    client: Any, reference: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.Cluster, "batch_seconds", 0.1)
    study = Study(SWEEP, tmp_path / "out", replications=REPLICATIONS)
    killed: list[int] = []

    def kill(status: Status) -> None:
        if len(killed) < 2 and status.done > 200 * (1 + len(killed)):
            alive = [pid for pid in pids(client) if pid not in killed]
            os.kill(alive[0], signal.SIGKILL)
            killed.append(alive[0])

    study.run(kill, cluster=client)
    assert len(killed) == 2
    assert_frame_equal(study.frame(), reference, check_exact=True)


def test_a_run_that_kills_its_workers_is_named_and_the_others_are_kept(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)
    monkeypatch.setattr(cluster, "_compute", compute_or_die)
    study = Study(SWEEP, tmp_path / "out", replications=1)
    before = set(pids(client))
    with pytest.raises(
        RunError, match=r"1 of 6 runs failed .* cell 5, .* all Dask workers that tried it died"
    ):
        study.run(cluster=client)
    # It was tried on both, of which the last may not have been missed yet.
    until(lambda: not before & set(pids(client)))
    assert study.frame()["cell"].to_list() == [0, 1, 2, 3, 4]


_compute = cluster._compute


def compute_or_die(definition: Any, runs: Sequence[Run]) -> Batch:
    if (5, 0) in runs:
        os.kill(os.getpid(), signal.SIGKILL)
    return _compute(definition, runs)


def test_a_script_that_starts_processes_without_a_guard_is_told(tmp_path: Path) -> None:
    """Each process reads the script once more, and would start others."""
    body = f"""
        from anabranch import Study
        Study({SWEEP!r}, replications=1, jobs=1).run(cluster="local")
        """
    script = tmp_path / "study.py"
    script.write_text(textwrap.dedent(body))
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=HANGS_S, check=False
    )
    assert "AnabranchError: the processes of the local cluster do not start" in done.stderr
    assert "__main__" in done.stderr.splitlines()[-1]


def test_a_worker_of_another_version_is_refused(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("anabranch._engine.ENGINE_VERSION", "0.0.1")
        study = Study(SWEEP)
        with pytest.raises(
            AnabranchError, match=r"a Dask worker has anabranch .*, this is 0\.0\.1"
        ):
            study.run(cluster=client)


def test_an_address_and_a_cluster_object_will_do(client: Any) -> None:
    for where in (client.scheduler.address, client.cluster):
        study = Study(SWEEP)
        study.run(cluster=where)
        assert study.frame().height == 36


def test_the_command_line_takes_a_cluster_of_its_own(
    anabranch: Command, sweep_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result = anabranch("sweep", sweep_file, "--out", out, "--dask", "local", "--jobs", "1")
    assert result.returncode == 0, result.stderr
    assert "36 runs in" in result.stdout
    assert [line for line in result.stderr.splitlines() if "36 runs" not in line] == []
    study = Study(SWEEP)
    study.run()
    assert_frame_equal(package.read(out), study.frame(), check_exact=True)


def test_ctrl_c_keeps_what_is_finished(sweep_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [*COMMAND, "sweep", str(sweep_file), "--out", str(out), "--replications", "100000"]
    sweep = subprocess.Popen(
        [*command, "--dask", "local", "--jobs", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until(lambda: list(out.glob("rows/*.parquet")), sweep)
    cluster = {sweep.pid, *below(sweep.pid)}
    # Like a terminal, which sends the signal to the workers as well.
    os.killpg(sweep.pid, signal.SIGINT)
    _, errors = sweep.communicate(timeout=HANGS_S)
    assert sweep.returncode == 130, errors
    assert not [process for process in cluster if Path(f"/proc/{process}/exe").exists()]
    assert "Traceback" not in errors
    saved = package.read(out)
    assert f"stopped: {saved.height} of 600000 runs are finished" in errors.splitlines()[-1]
    assert saved.height > 0


def test_a_signal_ends_long_runs_on_the_workers(client: Any) -> None:
    hours = {"flows.call.app.duration": "80 h", "run.duration": "90 h"}
    study = Study(SWEEP, set=hours)
    workers = pids(client)

    def worked() -> float:
        """The processor time of the workers, which does not depend on what else there is to do."""
        return sum(map(processor_s, workers))

    begun, sent = worked(), list[float]()

    def stop(_: Status) -> None:
        if not sent and worked() > begun + 1:
            sent.append(worked())
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        study.run(stop, cluster=client)
    # Their threads are free again: 80 hours take much longer than this.
    for address in client.nthreads():
        assert client.submit(os.getpid, pure=False, workers=[address]).result() > 0
    assert worked() < sent[0] + 3
    with pytest.raises(AnabranchError, match="no run of the study is finished"):
        study.frame()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "tcp://nowhere.invalid:80"])
def test_nobody_answers(sweep_file: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 0.5)
    with pytest.raises(AnabranchError, match=f"no Dask scheduler answers at {address}"):
        Study(sweep_file).run(cluster=address)


@pytest.mark.parametrize("address", ["", "nonsense", "tcp://", "localhost", "tcp://a b:1"])
def test_an_address_has_a_host_and_a_port(address: str, sweep_file: Path) -> None:
    with pytest.raises(AnabranchError, match="is not the address of a Dask scheduler"):
        Study(sweep_file).run(cluster=address)


def test_without_dask_it_says_how_to_install_it(
    sweep_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(AnabranchError, match=r"pip install 'anabranch\[dask\]'"):
        Study(sweep_file).run(cluster="local")


def examples() -> list[str]:
    """The Python of docs/clusters.md."""
    text = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def test_the_documented_example_runs(tmp_path: Path) -> None:
    example, _ = examples()
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    script = f"if __name__ == '__main__':\n{textwrap.indent(example, '    ')}"
    result = subprocess.run(
        [sys.executable, "-c", script.replace('"results/rto"', '"rto", replications=2')],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_S,
    )
    assert result.returncode == 0, result.stderr
    assert "18 of 18" in result.stdout
    assert "half_width" in result.stdout


def test_the_documented_slurm_cluster_starts_workers_with_this_python() -> None:
    before = signal.getsignal(signal.SIGINT)
    jobqueue = pytest.importorskip("dask_jobqueue")
    signal.signal(signal.SIGINT, before)  # its import takes Ctrl-C for itself
    _, example = examples()
    line = next(line for line in example.splitlines() if line.startswith("cluster = "))
    made: dict[str, Any] = {"SLURMCluster": jobqueue.SLURMCluster}
    exec(line, made)
    with made["cluster"] as slurm:
        script = slurm.job_script()
    assert "#SBATCH -t 04:00:00" in script
    assert "#SBATCH -p short" in script
    assert "#SBATCH --cpus-per-task=8" in script
    assert f"{sys.executable} -m distributed.cli.dask_worker" in script
    assert "--nthreads 1 " in script
    assert "--nworkers 8 " in script
