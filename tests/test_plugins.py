"""Plug-ins from Python: equal to built-in models, and what happens to those that go wrong."""

import doctest
import logging
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from anabranch import _engine
from anabranch._engine import RunError, Scenario, ScenarioError
from anabranch.plugins import control, examples, policy, queue, reload, scheduler, watchdog
from anabranch.studies import workers
from conftest import HANGS_S, ROOT
from support.plugin_scenarios import (
    BULK,
    CONTROL,
    NETWORK,
    ON_ACK,
    RENO,
    WINDOW,
    flow,
    own,
    own_policy,
    own_queue,
    python,
    scenario,
    two_paths,
)
from support.processes import until

pytestmark = pytest.mark.usefixtures("fresh_sources")


def assert_same(built_in: Scenario, plugin: Scenario) -> dict[str, list[float]]:
    """Equal rows of three runs, on one thread and on two, and equal traces; gives the rows."""
    jobs = [(0, replication) for replication in range(3)]
    rows = _engine.run_batch(built_in, jobs, 1)
    for threads in (1, 2):
        others = _engine.run_batch(plugin, jobs, threads)
        assert list(rows) == list(others)
        for name in rows:
            np.testing.assert_array_equal(rows[name], others[name], err_msg=name)
    traces = [_engine.run(each, trace=True)["traces"] for each in (built_in, plugin)]
    assert traces[0].keys() == traces[1].keys()
    for table, columns in traces[0].items():
        for name, values in columns.items():
            np.testing.assert_array_equal(values, traces[1][table][name], err_msg=f"{table}.{name}")
    return rows


IDLE = '{ kind = "requests", response_size = "200 kB", think_time = "2 s" }'


@pytest.mark.parametrize(
    ("transport", "paths", "app"),
    [
        ('{ kind = "tcp", cc = CC }', '["p"]', BULK),
        ('{ kind = "tcp", profile = "rfc", cc = CC }', '["p"]', BULK),
        ('{ kind = "tcp", cc = CC }', '["p"]', IDLE),
        ('{ kind = "tcp", profile = "rfc", cc = CC }', '["p"]', IDLE),
        ('{ kind = "mptcp", coupling = { kind = "per_path" }, cc = CC }', '["p", "q"]', BULK),
    ],
)
def test_reno_of_python_gives_the_rows_of_the_built_in_one(
    transport: str, paths: str, app: str
) -> None:
    built_in, plugin = (
        scenario(flow(transport.replace("CC", cc), paths, app))
        for cc in ('{ kind = "reno" }', RENO)
    )
    rows = assert_same(built_in, plugin)
    assert min(rows["link.a.forward.lost_packets"]) > 0


@pytest.mark.parametrize("ecn", ["false", "true"])
def test_codel_of_python_gives_the_rows_of_the_built_in_one(ecn: str) -> None:
    more = """
links.a.up = { timetable = [["0 s", true], ["8 s", false], ["9 s", true]] }
links.a.down = "drop"
links.a.cross_traffic = [{ kind = "cbr", rate = "6 Mbit/s", packet = "700 B" }]
"""
    transport = f'{{ kind = "tcp", ecn = "{"rfc3168" if ecn == "true" else "off"}" }}'
    built_in, plugin = (
        scenario(f"links.a.queue = {queue}{more}{flow(transport)}")
        for queue in (
            f'{{ kind = "codel", ecn = {ecn} }}',
            python("anabranch.plugins.examples:Codel", f", settings = {{ ecn = {ecn} }}"),
        )
    )
    rows = assert_same(built_in, plugin)
    what = "link.a.forward." + ("marked_packets" if ecn == "true" else "aqm_packets")
    assert min(rows[what]) > 10


@pytest.mark.parametrize(
    ("transport", "goodput"),
    [
        ('{ kind = "mptcp", scheduler = WHICH }', 3000),
        ('{ kind = "sctp", load_sharing = { scheduler = WHICH } }', 3000),
    ],
)
def test_min_rtt_of_python_gives_the_rows_of_the_built_in_one(
    transport: str, goodput: float
) -> None:
    plugin = '{ python = { class = "anabranch.plugins.examples:MinRtt" } }'
    both = [
        scenario(flow(transport.replace("WHICH", which), '["p", "q"]'))
        for which in ('"min_rtt"', plugin)
    ]
    rows = assert_same(*both)
    assert min(rows["f.goodput_kbit_per_s"]) > goodput


def test_a_scheduler_of_python_sends_on_several_paths(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from anabranch.plugins import Scheduler\n\nclass Mine(Scheduler):\n"
        "    def schedule(self, data, paths):\n"
        "        return [path.path for path in paths if path.has_room and path.is_usable]\n"
    )
    both = [
        scenario(flow(f'{{ kind = "mptcp", scheduler = {which} }}', '["p", "q"]'), tmp_path)
        for which in ('"redundant"', '{ python = { class = "mine:Mine" } }')
    ]
    assert_same(*both)


@pytest.mark.parametrize("profile", ["rfc9260", "linux", "ns2"])
@pytest.mark.parametrize(
    ("built_in", "settings"),
    [
        ('{ kind = "delay_centric" }', ""),
        (
            '{ kind = "delay_centric", margin = "5 ms", dwell = "300 ms" }',
            ", settings = { margin_ms = 5, dwell_ms = 300 }",
        ),
    ],
)
def test_delay_centric_of_python_gives_the_rows_of_the_built_in_one(
    profile: str, built_in: str, settings: str
) -> None:
    plugin = python("anabranch.plugins.examples:DelayCentric", settings)
    rows = assert_same(two_paths(built_in, profile), two_paths(plugin, profile))
    assert max(rows["f.sctp.a.primary_changes"]) > 3
    assert max(rows["f.sctp.a.path_failures"]) > 0


SUPER = """\
    def select(self, event, paths, selection):
        super().select(event, paths, selection)
    def retransmission_path(self, loss, paths, selection):
        return super().retransmission_path(loss, paths, selection)
"""


@pytest.mark.parametrize("profile", ["rfc9260", "linux", "ns2"])
@pytest.mark.parametrize("body", ["    pass\n", SUPER])
def test_a_policy_that_leaves_everything_to_the_standard_is_failover(
    tmp_path: Path, profile: str, body: str
) -> None:
    rows = assert_same(
        two_paths('{ kind = "failover" }', profile, BULK),
        own_policy(tmp_path, body, profile=profile),
    )
    assert min(rows["f.sctp.a.data_chunks_retransmitted"]) > 20


def test_a_policy_has_ticks_and_requests(tmp_path: Path) -> None:
    body = """\
    def __init__(self, setup):
        super().__init__(setup)
        self.at, self.asked, self.heard = None, [], set()
    def select(self, event, paths, selection):
        super().select(event, paths, selection)
        self.heard.add(event.kind)
        if event.kind == "opened":
            self.at = event.now + 3_000_000_000
        elif event.kind == "tick":
            assert event.now == self.at and event.path is None
            self.at = None
            self.asked = [HeartbeatPair(1, 600), Probe(path=1, bytes=1000)]
        elif event.kind == "pair_measured":
            assert event.path == 1 and event.rtt > 0 and event.bytes == 600
            selection.switch(1)
        elif event.kind == "probe_done":
            assert event.bytes >= 1000
        if event.now > 15_000_000_000 and paths[0].sent_bytes > 0:
            assert {"tick", "pair_measured", "probe_done"} <= self.heard, self.heard
            assert paths[1].cwnd > 0 and paths[1].rto > 0 and paths[1].mtu == 1500
    def next_tick(self):
        return self.at
    def next_request(self):
        return self.asked.pop(0) if self.asked else None
"""
    summary = _engine.run(own_policy(tmp_path, body))["summary"]
    assert summary["f.sctp.a.checkpoints"] == 1
    assert summary["f.sctp.a.probe_bytes"] > 2000


def test_a_control_over_sctp_gets_settings_and_random_numbers_of_the_run(tmp_path: Path) -> None:
    body = """\
    def __init__(self, setup, segments, spread=0.0):
        super().__init__(setup)
        self.window = setup.mss * (segments + int(spread * setup.random.random()))
    def limits(self):
        return self.window
"""
    (tmp_path / "mine.py").write_text(CONTROL + body)

    def goodputs(settings: str) -> list[float]:
        cc = python("mine:Mine", f", settings = {{ {settings} }}")
        rows = _engine.run_batch(
            scenario(flow(f'{{ kind = "sctp", cc = {cc} }}'), tmp_path), [(0, 0), (0, 1), (0, 0)], 1
        )
        return list(rows["f.goodput_kbit_per_s"])

    small, large = goodputs("segments = 4"), goodputs("segments = 12")
    assert large[0] > 2 * small[0]
    drawn = goodputs("segments = 4, spread = 50.0")
    assert drawn[0] == drawn[2] != drawn[1]


def test_a_queue_can_hold_packets_back_and_draw_random_numbers(tmp_path: Path) -> None:
    body = """\
    def dequeue(self, now, drops):
        self.wake = None
        if self.queue and now - self.queue[0].arrived < 20_000_000:
            self.wake = self.queue[0].arrived + 20_000_000
            return None
        while self.queue and self.setup.random.random() < 0.01:
            drops.early(self.queue.popleft())
        return super().dequeue(now, drops)
    def not_before(self):
        return self.wake
"""
    jobs = [(0, 0), (0, 0), (0, 1)]
    rows = _engine.run_batch(own_queue(tmp_path, body), jobs, 1)
    assert rows["link.a.forward.aqm_packets"][0] > 10
    assert rows["f.goodput_kbit_per_s"][0] == rows["f.goodput_kbit_per_s"][1]
    assert rows["f.goodput_kbit_per_s"][0] != rows["f.goodput_kbit_per_s"][2]


def test_a_class_is_used_for_what_it_is() -> None:
    queue = f"links.a.queue = {RENO}\n"
    with pytest.raises(ScenarioError, match="is no queue discipline: it is not derived from"):
        scenario(queue + flow('{ kind = "tcp" }'))


def test_the_hash_of_a_scenario_is_that_of_its_sources(tmp_path: Path) -> None:
    def hashes(folder: Path, body: str) -> tuple[str, list[str]]:
        reload()
        loaded = own(folder, body)
        return loaded.hash, loaded.cell_hashes()

    first = hashes(tmp_path, WINDOW)
    assert hashes(tmp_path, WINDOW) == first
    # A text of the same length, within the same second.
    assert hashes(tmp_path, WINDOW.replace("20", "21")) != first
    (tmp_path / "elsewhere").mkdir()
    assert hashes(tmp_path / "elsewhere", WINDOW) == first
    # Another process reads the same scenario from its text.
    text = own(tmp_path / "elsewhere", WINDOW).to_toml()
    reload()
    assert Scenario.parse(text).hash == first[0]


def test_a_sweep_over_settings_and_classes(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        CONTROL + "    def __init__(self, setup, segments=20):\n        super().__init__(setup)\n"
        "        self.window = segments * setup.mss\n"
        "    def limits(self):\n        return self.window\n"
    )
    control = flow(f'{{ kind = "tcp", cc = {python("mine:Mine")} }}')
    over_settings = """
[sweep.axes.segments]
set = "flows.f.transport.cc.settings.segments"
values = [5, 10, 20]
"""
    jobs = [(0, 0), (1, 0), (2, 0)]
    rows = _engine.run_batch(scenario(control + over_settings, tmp_path), jobs, 2)
    goodput = rows["f.goodput_kbit_per_s"]
    assert goodput[0] < goodput[1] < goodput[2]
    over_kinds = f"""
[sweep.axes.cc.cases]
own = {{ "flows.f.transport.cc" = {python("mine:Mine")} }}
reno = {{ "flows.f.transport.cc" = {{ kind = "reno" }} }}
"""
    rows = _engine.run_batch(scenario(control + over_kinds, tmp_path), jobs[:2], 2)
    assert rows["f.goodput_kbit_per_s"][0] == goodput[2]


def test_the_command_line_says_a_sentence_and_the_log_has_the_traceback(tmp_path: Path) -> None:
    own(tmp_path, ON_ACK + "return 1 / 0\n")
    file = tmp_path / "own.toml"
    file.write_text(NETWORK + flow(f'{{ kind = "tcp", cc = {python("mine:Mine")} }}'))

    def command(*words: str) -> "subprocess.CompletedProcess[str]":
        program = [sys.executable, "-m", "anabranch", *words]
        return subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)

    sentence = "the hook on_ack of mine.py:Mine raised ZeroDivisionError: division by zero"
    done = command("run", str(file))
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    detailed = command("--log-level", "debug", "run", str(file))
    assert "Traceback" in detailed.stderr
    assert "return 1 / 0" in detailed.stderr
    swept = command("sweep", str(file), "--jobs", "2", "--out", str(tmp_path / "out"))
    assert swept.returncode == 2
    assert sentence in swept.stderr


def test_events_show_what_they_say(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "anabranch.plugins"), pytest.raises(RunError):
        _engine.run(own(tmp_path, ON_ACK + "raise RuntimeError(repr(event))\n"))
    assert "AckEvent(now=" in caplog.text
    assert "in_recovery=False" in caplog.text


@pytest.mark.parametrize("module", [control, examples, policy, queue, scheduler])
def test_the_examples_of_docstrings_run(module: object) -> None:
    failed, tried = doctest.testmod(module)  # type: ignore[arg-type]
    assert tried > 0
    assert failed == 0


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "plugins.md").read_text("utf-8")
    source, text = (
        re.search(f"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("python", "toml")
    )
    assert source is not None
    assert text is not None
    (tmp_path / "polite.py").write_text(source[1])
    (tmp_path / "polite.toml").write_text(text[1])
    summary = _engine.run(Scenario.load(str(tmp_path / "polite.toml")))["summary"]
    assert summary["upload.goodput_kbit_per_s"] > 8000
    sets = [("flows.upload.transport.cc.settings.patience_ms", "40")]
    patient = _engine.run(Scenario.load(str(tmp_path / "polite.toml"), sets))["summary"]
    assert patient["upload.goodput_kbit_per_s"] >= summary["upload.goodput_kbit_per_s"]


@pytest.mark.parametrize("place", ["module", "__init__"])
def test_ctrl_c_while_an_object_is_made_is_python_s_own(tmp_path: Path, place: str) -> None:
    in_init = place == "__init__"
    init = "    def __init__(self, setup):\n        raise KeyboardInterrupt\n" if in_init else ""
    top = "" if in_init else "raise KeyboardInterrupt\n"
    (tmp_path / "mine.py").write_text(CONTROL + init + WINDOW + top)
    with pytest.raises(KeyboardInterrupt):
        scenario(flow(f'{{ kind = "tcp", cc = {python("mine:Mine")} }}'), tmp_path)
    # It is not taken for what comes after it.
    with pytest.raises(ScenarioError, match="no_such_module"):
        scenario(flow(f'{{ kind = "tcp", cc = {python("no_such_module:Mine")} }}'), tmp_path)


def test_a_setting_is_a_number_a_text_or_a_flag(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="a setting is a number, a text, true or false"):
        own(tmp_path, WINDOW, ", settings = { a = [1] }")


def test_the_watchdog_is_at_work_after_fork(tmp_path: Path) -> None:
    # In a process of its own: fork copies the threads of none but its caller.
    hangs = ON_ACK + "while os.environ.get('HANG'):\n            pass\n"
    (tmp_path / "mine.py").write_text("import os\n" + CONTROL + hangs)
    limit = ', max_call_time = "2 s"'
    text = NETWORK + flow(f'{{ kind = "tcp", cc = {python("mine:Mine", limit)} }}')
    (tmp_path / "net.toml").write_text(text)
    code = """
import os
from anabranch._engine import RunError, Scenario, SteppedRun
run = SteppedRun(Scenario.load("net.toml"))
run.advance(100_000_000)
if os.fork() == 0:
    os.environ["HANG"] = "1"
    try:
        run.advance(200_000_000)
    except RunError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=HANGS_S,
    )
    assert done.stdout.endswith("mine.py:Mine did not return within 2 s\n"), done


def test_ctrl_c_ends_a_sweep_whose_hook_does_not_return(tmp_path: Path) -> None:
    hangs = ON_ACK + "open('hangs', 'w').close()\n        while True:\n            pass\n"
    (tmp_path / "mine.py").write_text(CONTROL + hangs)
    limit = ', max_call_time = "1 h"'
    text = NETWORK + flow(f'{{ kind = "tcp", cc = {python("mine:Mine", limit)} }}')
    (tmp_path / "net.toml").write_text("sweep.replications = 2\n" + text)
    command = [sys.executable, "-m", "anabranch", "sweep", "net.toml", "--out", "rows"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        until((tmp_path / "hangs").exists, process)
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=HANGS_S)
        finally:
            process.kill()
    assert process.returncode == 130, said
    assert "stopped: 0 of 2 runs are finished" in said


@pytest.mark.parametrize("ending", ["wait", "close"])
def test_a_hook_that_begins_while_a_sweep_ends_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    hangs = f"{ON_ACK}import os\n        os.mkdir('hangs')\n        while True:\n            pass\n"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(CONTROL + hangs)
    limit = ', max_call_time = "1 h"'
    text = NETWORK + flow(f'{{ kind = "tcp", cc = {python("mine.py:Mine", limit)} }}')
    (tmp_path / "net.toml").write_text(text)
    threads = workers.Threads(Scenario.load(str(tmp_path / "net.toml")), 1)
    threads.begin([(0, 0)])
    until(Path("hangs").exists)
    with monkeypatch.context() as patch:  # as if the hook began only after this
        patch.setattr(watchdog, "interrupt", lambda _: None)
        threads.cancel()
    try:
        if ending == "wait":
            batches: list[workers.Batch | None] = []
            until(lambda: batches.append(threads.wait(0.1)) or batches[-1] is not None)  # type: ignore[func-returns-value]
            assert batches[-1] is not None
            assert len(batches[-1]) == 0
    finally:
        threads.close()
