"""What a class of Python does wrong: each run ends with a sentence."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch import _engine
from anabranch._engine import RunError, Scenario, ScenarioError
from anabranch.plugins import reload
from conftest import HANGS_S, limited
from support.plugin_scenarios import (
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

pytestmark = pytest.mark.usefixtures("fresh_sources")


SELECT = "select(self, event, paths, selection):\n        "


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (SELECT + "1 / 0", "select of mine.py:Mine raised ZeroDivisionError: "),
        (SELECT + "return 1", "select of mine.py:Mine returned 1; allowed is None: a policy acts"),
        (
            SELECT + "selection.switch(2)",
            "select of mine.py:Mine raised ValueError: there is no path 2; allowed are the numbers",
        ),
        (SELECT + "selection.primary = True", "select of mine.py:Mine raised ValueError: there is"),
        (
            SELECT + "super().select(event, paths[:1], selection)",
            "select of mine.py:Mine raised ValueError: failover needs all paths that the hook was",
        ),
        (
            "retransmission_path(self, loss, paths, selection):\n        return float('nan')",
            "retransmission_path of mine.py:Mine returned nan; allowed are the numbers of paths",
        ),
        (
            "next_tick(self):\n        return 5_000_000_000",
            "next_tick of mine.py:Mine returned 5000000000; allowed is a time in nanoseconds after",
        ),
        (
            "next_tick(self):\n        return -1",
            "next_tick of mine.py:Mine returned -1; allowed is",
        ),
        (
            "next_request(self):\n        return Probe(7, 1000)",
            "next_request of mine.py:Mine returned Probe(path=7, bytes=1000, is_burst=False); ",
        ),
        (
            "next_request(self):\n        return Probe(0, 1000)",
            "next_request of mine.py:Mine returned Probe(path=0, bytes=1000, is_burst=False); "
            "allowed is None after 1000 requests",
        ),
    ],
)
def test_what_a_policy_does_wrong_ends_the_run_with_a_sentence(
    tmp_path: Path, body: str, sentence: str
) -> None:
    assert_stopped(own_policy(tmp_path, f"    def {body}\n"), sentence)


def test_a_policy_that_does_not_return_is_interrupted(tmp_path: Path) -> None:
    endless = own_policy(
        tmp_path, f"    def {SELECT}while True:\n            pass\n", ', max_call_time = "500 ms"'
    )
    with pytest.raises(
        RunError, match=r"hook select of mine\.py:Mine did not return within 500 ms"
    ):
        _engine.run(endless)


def test_a_policy_that_cannot_be_asked_is_a_mistake_in_the_scenario(tmp_path: Path) -> None:
    with pytest.raises(
        ScenarioError, match=r"measures of mine\.py:Mine returned 2; allowed is True"
    ):
        own_policy(tmp_path, "    def measures(self):\n        return 2\n")
    with pytest.raises(
        ScenarioError, match=r"policy\.class = .* is no path policy: it is not derived"
    ):
        two_paths(RENO)


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ("7", "7"),
        ("-1", "-1"),
        ("True", "True"),
        ("0.5", "0.5"),
        ("'0'", "'0'"),
        ("[0, 0]", "[0, 0]"),
        ("float('nan')", "nan"),
    ],
)
def test_what_a_scheduler_does_wrong_ends_the_run_with_a_sentence(
    tmp_path: Path, answer: str, shown: str
) -> None:
    (tmp_path / "mine.py").write_text(
        "from anabranch.plugins import Scheduler\n\nclass Mine(Scheduler):\n"
        f"    def schedule(self, data, paths):\n        return {answer}\n"
    )
    transport = '{ kind = "mptcp", scheduler = { python = { class = "mine:Mine" } } }'
    sentence = f"schedule of mine.py:Mine returned {shown}; allowed is the number of a path with"
    assert_stopped(scenario(flow(transport, '["p", "q"]'), tmp_path), sentence)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (ON_ACK + "raise ValueError('no\\nmore')", "on_ack of mine.py:Mine raised ValueError: no"),
        (ON_ACK + "event.x", "on_ack of mine.py:Mine raised AttributeError: "),
        (ON_ACK + "import sys; sys.exit(3)", "on_ack of mine.py:Mine raised SystemExit: 3"),
        (
            "    def limits(self):\n        return float('nan')",
            "limits of mine.py:Mine returned nan; allowed is a window in bytes, a whole number",
        ),
        ("    def limits(self):\n        return -5", "limits of mine.py:Mine returned -5; "),
        ("    def limits(self):\n        return 1", "limits of mine.py:Mine returned 1; "),
        ("    def limits(self):\n        return True", "limits of mine.py:Mine returned True; "),
        ("    def limits(self):\n        return 'x'", "limits of mine.py:Mine returned 'x'; "),
        (
            "    def limits(self):\n        return (20000, float('nan'))",
            "limits of mine.py:Mine returned (20000, nan); ",
        ),
        (
            WINDOW + "    def owns_recovery(self):\n        return 1.5",
            "owns_recovery of mine.py:Mine returned 1.5; allowed is True or False",
        ),
        (
            WINDOW + "    def least_burst(self):\n        return 0",
            "least_burst of mine.py:Mine returned 0; allowed is a whole number of segments",
        ),
        (
            WINDOW + "    def state(self):\n        return (1, -1, 'x')",
            "state of mine.py:Mine returned (1, -1, 'x'); allowed are",
        ),
    ],
)
def test_what_a_control_does_wrong_ends_the_run_with_a_sentence(
    tmp_path: Path, body: str, sentence: str
) -> None:
    assert_stopped(own(tmp_path, f"{body}\n"), sentence)
    # What failed before is forgotten.
    reload()
    _engine.run(own(tmp_path, WINDOW))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            "enqueue(self, now, packet, drops):\n        1 / 0",
            "enqueue of mine.py:Mine raised Zero",
        ),
        (
            "enqueue(self, now, packet, drops):\n        drops.early(packet); drops.early(packet)",
            "enqueue of mine.py:Mine raised ValueError: the packet does not wait in this queue",
        ),
        (
            "dequeue(self, now, drops):\n        return 5",
            "dequeue of mine.py:Mine returned 5; allowed is a packet that waits in the queue",
        ),
        (
            "dequeue(self, now, drops):\n        return self.queue[0] if self.queue else None",
            "dequeue of mine.py:Mine returned Packet(",
        ),
        (
            "dequeue(self, now, drops):\n        return None",
            "not_before of mine.py:Mine returned None; while packets wait (1 here)",
        ),
        (
            "dequeue(self, now, drops):\n        return None\n"
            "    def not_before(self):\n        return float('nan')",
            "not_before of mine.py:Mine returned nan; while packets wait",
        ),
        (
            "dequeue(self, now, drops):\n        return None\n"
            "    def not_before(self):\n        return 0",
            "not_before of mine.py:Mine returned 0; while packets wait",
        ),
    ],
)
def test_what_a_queue_does_wrong_ends_the_run_with_a_sentence(
    tmp_path: Path, body: str, sentence: str
) -> None:
    assert_stopped(own_queue(tmp_path, f"    def {body}\n"), sentence)


def assert_stopped(broken: Scenario, sentence: str) -> None:
    with pytest.raises(RunError) as caught:
        _engine.run(broken)
    text = str(caught.value)
    assert text.startswith("the run was stopped at ")
    assert f"the hook {sentence}" in text
    assert "\n" not in text
    with pytest.raises(RunError, match="the hook"):
        _engine.run_batch(broken, [(0, 0), (0, 1)], 2)


@pytest.mark.parametrize(
    "loop",
    [
        "while True:\n            pass\n",
        "while True:\n            try:\n                sum(range(1000))\n"
        "            except Exception:\n                pass\n",
        "try:\n            while True:\n                pass\n"
        "        except BaseException:\n            pass\n",
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_hook_that_does_not_return_is_interrupted(
    tmp_path: Path, loop: str, threads: int
) -> None:
    endless = own(tmp_path, ON_ACK + loop, ', max_call_time = "500 ms"')
    sentence = "the hook on_ack of mine.py:Mine did not return within 500 ms"
    with pytest.raises(RunError, match=sentence):
        _engine.run(endless)
    with pytest.raises(RunError, match=sentence):
        _engine.run_batch(endless, [(0, 0), (0, 1)], threads)
    # Nothing is raised later in this thread.
    assert sum(range(1_000_000)) > 0


LOOP = "while True:\n    pass\n"
ENDLESS = {
    "module": (LOOP, 'class = "mine.py:Mine" cannot be used: reading it did not end within 500 ms'),
    "metaclass": (
        "class Meta(type):\n    def __getattribute__(cls, name):\n"
        "        while True:\n            pass\n"
        + CONTROL.replace("(CongestionControl)", "(CongestionControl, metaclass=Meta)")
        + WINDOW,
        'class = "mine.py:Mine" cannot be used: reading it did not end within 500 ms',
    ),
    "__init__": (
        CONTROL
        + WINDOW
        + "    def __init__(self, setup):\n        while True:\n            pass\n",
        "the hook __init__ of mine.py:Mine did not return within 500 ms",
    ),
    "__new__": (
        CONTROL + WINDOW + "    def __new__(cls, *_):\n        while True:\n            pass\n",
        "the hook __init__ of mine.py:Mine did not return within 500 ms",
    ),
    "attribute": (
        CONTROL
        + WINDOW
        + "    def __getattribute__(self, name):\n        while True:\n            pass\n",
        "the hook __init__ of mine.py:Mine did not return within 500 ms",
    ),
}
"""Code that does not return before the first hook is called, and what is said of it."""


@pytest.mark.parametrize("where", ENDLESS)
@pytest.mark.parametrize("command", ["validate", "run", "sweep", "gym"])
def test_code_before_the_first_hook_is_under_the_limit(
    tmp_path: Path, where: str, command: str
) -> None:
    # In a process of its own: in this one, the watchdog may be at work already.
    source, sentence = ENDLESS[where]
    (tmp_path / "mine.py").write_text(source)
    limit = ', max_call_time = "500 ms"'
    text = NETWORK + flow(f'{{ kind = "tcp", cc = {python("mine:Mine", limit)} }}')
    (tmp_path / "net.toml").write_text("sweep.replications = 2\n" + text)
    words = {
        "validate": ["-m", "anabranch", "validate", "net.toml"],
        "run": ["-m", "anabranch", "run", "net.toml"],
        "sweep": ["-m", "anabranch", "sweep", "net.toml", "--out", "rows"],
        "gym": [
            "-c",
            "import sys\nfrom anabranch._engine import Scenario, SteppedRun\n"
            "from anabranch.errors import AnabranchError\n"
            "try:\n    SteppedRun(Scenario.load('net.toml'))\n"
            "except AnabranchError as error:\n    print(error, file=sys.stderr)\n    sys.exit(2)\n",
        ],
    }[command]
    done = subprocess.run(
        limited([sys.executable, *words]),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_S,
    )
    assert sentence in done.stderr, done
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "class Mine:\n    pass\n",
            "is no congestion control: it is not derived from anabranch.plugins.CongestionControl",
        ),
        ("", "does not exist: the module has no class Mine"),
        ("def\n", "cannot be imported: SyntaxError: invalid syntax"),
        (CONTROL + "    pass\n", "has no method limits, which a congestion control needs"),
        ("raise SystemExit(2)\n", "cannot be imported: SystemExit: 2"),
        (
            CONTROL + WINDOW + "    async def on_ack(self, event):\n        pass\n",
            "has a method on_ack that is async or a generator; a call runs neither",
        ),
        (
            "class Meta(type):\n    def __getattribute__(cls, name):\n        1 / 0\n"
            + CONTROL.replace("(CongestionControl)", "(CongestionControl, metaclass=Meta)")
            + WINDOW,
            "cannot be used: ZeroDivisionError: division by zero",
        ),
    ],
)
def test_a_class_that_cannot_be_used_is_refused_before_the_run(
    tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(ScenarioError) as caught:
        scenario(flow(f'{{ kind = "tcp", cc = {python("mine:Mine")} }}'), tmp_path)
    expected = f'flows.f.transport.cc.class = "mine.py:Mine" {sentence}'
    assert re.match(rf"line \d+: {re.escape(expected)}", str(caught.value))


@pytest.mark.parametrize(
    ("init", "sentence"),
    [
        ("self, setup", "raised ZeroDivisionError: division by zero"),
        ("self", "raised TypeError: "),
    ],
)
def test_an_object_that_cannot_be_made_is_a_mistake_in_the_scenario(
    tmp_path: Path, init: str, sentence: str
) -> None:
    with pytest.raises(ScenarioError, match=f"the hook __init__ of mine.py:Mine {sentence}"):
        own(tmp_path, f"    def __init__({init}):\n        1 / 0\n{WINDOW}")


@pytest.mark.parametrize("name", ["Mine", "no_such_module:Mine", "mine.py:Mine", ":Mine", "a:b c"])
def test_a_name_that_is_no_class_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ScenarioError, match=r"^line \d+: flows\.f\.transport\.cc\.class = "):
        scenario(flow(f'{{ kind = "tcp", cc = {python(name)} }}'), tmp_path)
    with pytest.raises(ScenarioError, match=r"^line \d+: links\.a\.queue\.class = "):
        scenario(f"links.a.queue = {python(name)}\n" + flow('{ kind = "tcp" }'), tmp_path)
