"""The loop that has runs computed: failures, names of scalars, what progress says."""

import math
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import anabranch as package
from anabranch import RunError, Study, _engine, stats
from anabranch.errors import AnabranchError
from anabranch.studies import execution, stopping
from anabranch.studies.watch import Watch, usual
from anabranch.support import progress
from conftest import CALL, HANGS_S, SWEEP, Command, one_error, written

LENGTHS = (
    CALL
    + """
[sweep]
replications = 30

[sweep.axes]
duration = { set = "flows.call.app.duration", values = ["2 s", "6 s", "3 s"] }
"""
)
"""A sweep whose second cell has three times as many events as the first."""


def test_a_run_that_fails_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    events = 1_000
    study = Study(LENGTHS, tmp_path / "out", set={"run.max_events": events})
    with pytest.raises(RunError) as error:
        study.run()
    assert re.fullmatch(
        r"30 of 90 runs failed and have no row; the first is cell 1, replication 0"
        rf" \(seed = 3, duration = 6 s\): .*{events}.*",
        str(error.value),
    )
    rows = study.frame()
    assert rows["cell"].to_list() == [0] * 30 + [2] * 30
    whole = Study(LENGTHS)
    whole.run()
    wanted = whole.frame().filter(whole.frame()["cell"] != 1)["call.mos"]
    assert rows["call.mos"].to_list() == wanted.to_list()


def test_a_study_whose_runs_all_fail_is_given_up() -> None:
    study = Study(SWEEP, replications=100_000, set={"run.max_events": 10})
    begun = time.process_time()
    with pytest.raises(RunError, match=r"of 600000 runs failed"):
        study.run()
    assert time.process_time() < begun + 5


def test_a_failure_on_the_command_line_is_one_sentence(anabranch: Command, tmp_path: Path) -> None:
    file = written(tmp_path / "lengths.toml", LENGTHS)
    result = anabranch("sweep", file, "--out", "out", "--set", "run.max_events=1000")
    assert result.returncode == 2
    *_, last = result.stderr.splitlines()
    assert last.startswith("anabranch: error: 30 of 90 runs failed and have no row; ")
    assert "Traceback" not in result.stderr


def test_a_wrong_scalar_is_refused_before_any_run(tmp_path: Path) -> None:
    study = Study(SWEEP, tmp_path / "out", replications=100_000)
    with pytest.raises(AnabranchError, match=r"there is no scalar `call.moss`; did .* `call.mos`"):
        study.run(metrics=["call.moss"])
    with pytest.raises(AnabranchError, match="no run of the study is finished yet"):
        study.frame()


KINDS = (
    CALL.replace('kind = "sctp"', 'kind = "udp"').split("[flows.call.transport]")[0]
    + """
[flows.call.transport]
kind = "udp"

[sweep]
replications = 2

[sweep.axes.transport.cases]
plain = { "flows.call.transport.kind" = "udp" }
reliable = { "flows.call.transport" = { kind = "sctp", policy = { kind = "failover" } } }
"""
)


def test_a_scalar_of_some_cells_only_is_no_mistake() -> None:
    study = Study(KINDS)
    study.run(metrics=["call.sctp.a.heartbeats_sent"])
    assert study.frame().height == 4


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_is_heard_in_a_batch(threads: int) -> None:
    long = CALL.replace('duration = "', 'duration = "10000')
    timer = threading.Timer(1.0, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    begun = time.process_time()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        _engine.run_batch(package.load(long), [(0, 0), (0, 1), (0, 2)], threads)
    assert time.process_time() < begun + 10.0


def test_a_stopping_rule_for_a_wrong_scalar_is_refused_in_a_finished_study(tmp_path: Path) -> None:
    Study(SWEEP, tmp_path, replications=12).run()
    wrong = {**UNTIL, "sweep.until.metric": "call.moss"}
    with pytest.raises(AnabranchError, match=r"there is no scalar `call\.moss`; did you mean"):
        Study(SWEEP, tmp_path, set=wrong).run()


def test_a_stopping_rule_goes_on_where_no_stored_run_has_the_scalar(tmp_path: Path) -> None:
    """As in a study that is not interrupted, there is no interval, so it takes the most runs."""
    rule = '{ metric = "call.sctp.a.heartbeats_sent", half_width = 1e3, least = 5, most = 8 }'
    Study(KINDS.partition("reliable")[0], tmp_path, replications=5).run()
    study = Study(KINDS, tmp_path, set={"sweep.until": rule})
    study.run()
    assert study.frame()["cell"].value_counts()["count"].to_list() == [8, 8]


def test_progress_tells_the_interval_of_the_metric_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(execution, "_NOTE_SECONDS", 0.0)
    study = Study(CALL + "\n[sweep]\nreplications = 50\n")
    heard: list[progress.Status] = []
    study.run(heard.append, metrics=["call.mean_delay_ms"])
    mean, width, n = stats.mean_interval(study.frame()["call.mean_delay_ms"].to_list())
    assert n == 50
    assert heard[-1].note == f"call.mean_delay_ms {mean:.4g} ± {width:.2g}"
    assert str(heard[-1]) == f"50 of 50; {heard[-1].note}"
    # Without being asked, a call's MOS; and what the store knows already counts.
    heard.clear()
    study = Study(study.scenario, replications=60)
    study.run()
    again = Study(study.scenario, replications=61)
    again._memory = study._memory
    again.run(heard.append)
    mean, width, _ = stats.mean_interval(again.frame()["call.mos"].to_list())
    assert heard[-1].note == f"call.mos {mean:.4g} ± {width:.2g}"


@pytest.mark.parametrize("metrics", [[], ["call.mean_delay_ms"]])
def test_the_last_note_is_that_of_the_finished_table(metrics: list[str]) -> None:
    """However short the study is; also of equal cells, whose runs are computed once."""
    sweep = """
[sweep]
replications = 7
[sweep.axes]
a = { set = "flows.call.app.duration", values = ["4 s", "3 s", "4000 ms"] }
"""
    study = Study(CALL + sweep, jobs=2)
    metric = metrics[0] if metrics else "call.mos"
    for _ in range(2):  # the second time nothing is left to do
        heard: list[progress.Status] = []
        study.run(heard.append, metrics=metrics)
        rows = study.frame().partition_by("cell", maintain_order=True)
        assert [each.height for each in rows] == [7, 7, 7]
        means, widths, _ = zip(
            *(stats.mean_interval(each[metric].to_list()) for each in rows), strict=True
        )
        assert heard[-1].note == (
            f"{metric} {min(means):.4g} to {max(means):.4g} in 3 cells,"
            f" ± {statistics.median(widths):.2g} (widest ± {max(widths):.2g})"
        )
        assert [each.note for each in heard[:-1] if each.done == each.total] == []


def test_what_is_watched_where_nothing_is_asked_for() -> None:
    assert usual(["cell", "a.goodput_kbit_per_s", "b.mos"]) == "b.mos"
    assert usual(["cell", "a.loss", "a.goodput_kbit_per_s"]) == "a.goodput_kbit_per_s"
    assert usual(["cell", "a.loss"]) is None


numbers = st.one_of(st.floats(-1e3, 1e3), st.just(math.nan))


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), numbers), max_size=8), max_size=6))
def test_a_watch_knows_what_all_values_together_give(
    batches: list[list[tuple[int, float]]],
) -> None:
    watch = Watch("x.y", 3)
    for batch in batches:
        watch.add([cell for cell, _ in batch], [value for _, value in batch])
    widths = watch.half_widths()
    for cell in range(3):
        values = [value for batch in batches for c, value in batch if c == cell]
        mean, width, n = stats.mean_interval(values)
        assert watch._n[cell] == n
        if n:
            assert watch._mean[cell] == pytest.approx(mean, abs=1e-9)
        known = [value for value in values if not math.isnan(value)]
        if n > 1 and statistics.stdev(known) > 1e-6:
            assert widths[cell] == pytest.approx(width, rel=1e-6)
        elif n < 2:
            assert np.isnan(widths[cell])


def test_many_cells_have_a_range_and_a_widest_interval() -> None:
    wide = Watch("call.mos", 1, level=0.99)
    wide.add([0, 0, 0], [1.0, 2.0, 4.0])
    assert wide.half_widths()[0] == pytest.approx(stats.mean_interval([1, 2, 4], 0.99).half_width)
    watch = Watch("call.mos", 3)
    assert watch.text() == ""
    watch.add([0, 1], [2.0, 4.0])
    assert watch.text() == "call.mos 2 to 4 in 2 cells"
    watch.add([0, 1, 2, 2], [2.0, 4.2, 3.0, 3.0])
    assert watch.text() == "call.mos 2 to 4.1 in 3 cells, ± 0 (widest ± 1.3)"


UNTIL = {"sweep.until": '{ metric = "call.mos", half_width = 0.2, least = 5, most = 60 }'}


def test_a_stopping_rule_gives_the_same_rows_however_the_work_is_split(tmp_path: Path) -> None:
    whole = Study(SWEEP, set=UNTIL, jobs=1)
    heard: list[progress.Status] = []
    whole.run(heard.append)
    frame = whole.frame()
    assert (heard[0].is_estimate, heard[0].total) == (True, 6 * 5)
    assert not heard[-1].is_estimate
    assert heard[-1].done == heard[-1].total == frame.height
    # As many as needed: the interval is as narrow as asked, or there are no more.
    counts, rule = set(), whole.scenario.until
    assert rule is not None
    for values in frame.partition_by("cell"):
        _, width, n = stats.mean_interval(values["call.mos"].to_list())
        assert width <= 0.2 or n == 60
        assert stopping.replications_needed(values["call.mos"].to_list(), rule) == n
        counts.add(n)
    assert len(counts) > 2, "cells differ"

    stopped = Study(SWEEP, tmp_path / "stopped", set=UNTIL, jobs=3)

    def stop(status: progress.Status) -> None:
        if status.done > 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped.run(stop)
    assert 40 < stopped.frame().height < frame.height
    stopped.run()
    assert_frame_equal(stopped.frame(), frame, check_exact=True)

    shares = Study(SWEEP, tmp_path / "shares", set=UNTIL)
    for number in (2, 3, 1):
        shares.run(shard=(number, 3))
    assert_frame_equal(shares.frame(), frame, check_exact=True)
    heard.clear()
    shares.run(heard.append)
    assert [(status.done, status.total) for status in heard] == [(frame.height, frame.height)]


def test_sub_studies_have_replications_and_rules_of_their_own() -> None:
    scenario = package.load(
        CALL,
        sweep={
            "replications": 3,
            "axes": {"pmr": {"set": "flows.call.transport.path_max_retrans", "values": [0, 1]}},
            "studies": {
                "delays": {
                    "replications": 2,
                    "axes": {"delay": {"set": "links.first.delay", "values": ["5 ms"]}},
                },
                "sure": {
                    "until": {"metric": "call.mos", "half_width": 0.3, "least": 4, "most": 8},
                    "axes": {"draws": {"set": "seed", "values": [1, 2]}},
                },
            },
        },
    )
    study = Study(scenario)
    study.run()
    counts = study.frame().group_by("study", "cell").len().sort("cell")
    assert counts["study"].to_list() == ["main", "main", "delays", "sure", "sure"]
    assert counts["len"].to_list()[:3] == [3, 3, 2]
    assert all(4 <= n <= 8 for n in counts["len"].to_list()[3:])


def test_cells_that_stop_short_are_said_to(caplog: pytest.LogCaptureFixture) -> None:
    study = Study(SWEEP, set={**UNTIL, "sweep.until.half_width": 0.01, "sweep.until.most": 6})
    study.run()
    assert study.frame().height == 36
    (message,) = caplog.messages
    assert message.startswith("6 cells reached the most replications of the stopping rule")
    assert message.endswith("the first is cell 0 (rto_max = 1 s, pmr = 0)")


@pytest.mark.parametrize("until", ["call.mos", "=0.1", "call.mos="])
def test_a_stopping_rule_on_the_command_line_has_a_name_and_a_width(
    anabranch: Command, sweep_file: Path, until: str
) -> None:
    error = one_error(anabranch("sweep", sweep_file, "--out", "out", "--until", until))
    assert "until" in error


def test_a_stopping_rule_on_the_command_line_is_that_of_the_file(
    anabranch: Command, sweep_file: Path, tmp_path: Path
) -> None:
    rule = ("--set", "sweep.until.least=5", "--set", "sweep.until.most=60")
    out = tmp_path / "out"
    done = anabranch("sweep", sweep_file, "--out", out, "--until", "call.mos=0.2", *rule)
    assert done.returncode == 0, done.stderr
    assert "small: 0/about 30 runs" in done.stderr
    study = Study(SWEEP, set=UNTIL)
    study.run()
    assert_frame_equal(package.read(out), study.frame(), check_exact=True)
    wrong = anabranch("sweep", sweep_file, "--out", "wrong", "--until", "call.moss=0.2")
    assert wrong.returncode == 2
    assert "there is no scalar `call.moss`; did you mean `call.mos`?" in wrong.stderr


def test_traces_are_kept_on_the_command_line(
    anabranch: Command, sweep_file: Path, tmp_path: Path
) -> None:
    options = ("--trace", "frames", "--trace", "paths", "--replications", "1")
    done = anabranch("sweep", sweep_file, "--out", tmp_path / "out", *options)
    assert done.returncode == 0, done.stderr
    study = Study(tmp_path / "out")
    frames = study.traces("frames").collect()
    assert sorted(frames["cell"].unique()) == [0, 1, 2, 3, 4, 5]
    alone = package.run(sweep_file, cell=4, trace=True).traces["frames"]
    assert_frame_equal(frames.filter(frames["cell"] == 4).drop("cell", "replication"), alone)
    assert "traces" in one_error(
        anabranch("sweep", sweep_file, "--out", "wrong", "--trace", "nonsense")
    )


@pytest.mark.parametrize("usual", [1, 7, 100])
def test_batches_get_smaller_so_that_all_workers_are_busy_until_the_end(usual: int) -> None:
    pace, places, left = execution._Pace(usual, 1.0), 4, 1_000
    sizes = []
    while left > 0:
        sizes.append(pace.batch(left, places))
        left -= sizes[-1]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == usual
    assert sizes[-1] == max(1, usual // 20)


FORKS = """
import os, time
from anabranch._engine import Scenario
from anabranch.errors import AnabranchError
from anabranch.studies.workers import Threads

workers = Threads(Scenario.load("call.toml"), 1)
workers.begin([(0, 0)])
child = os.fork()
if child == 0:
    for _ in range(2):
        try:
            while workers.wait(0.1) is None:
                pass
        except AnabranchError as error:
            print(error, flush=True)
    workers.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
while (batch := workers.wait(0.1)) is None:
    pass
print(len(batch), flush=True)
workers.close()
"""


def test_a_forked_process_does_not_wait_for_threads_of_another_one(tmp_path: Path) -> None:
    (tmp_path / "call.toml").write_text(CALL)
    done = subprocess.run(
        [sys.executable, "-c", FORKS],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_S,
    )
    *told, last = done.stdout.splitlines()
    assert (done.returncode, len(told), last) == (0, 2, "1"), done
    assert all("which this one was forked from" in line for line in told), done
