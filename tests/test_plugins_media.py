"""Congestion controls of media as classes of Python: what they are told, what they may answer."""

import doctest
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch._engine import ScenarioError
from anabranch.errors import AnabranchError
from anabranch.plugins import media
from conftest import Command, written

pytestmark = pytest.mark.usefixtures("fresh_sources")

CALL = """
run.duration = "12 s"
[links.wan]
ends = ["a", "b"]
rate = "800 kbit/s"
delay = "20 ms"
queue = { kind = "drop_tail", bytes = "30 kB" }
[paths.only]
via = ["wan"]
[flows.call]
from = "a"
to = "b"
paths = ["only"]
app = { kind = "video", rate = "150 kbit/s", duration = "10 s" }
[flows.call.transport]
kind = "rtp"
cc = CONTROL
"""


def scenario(folder: Path, body: str) -> Path:
    """A call with a class `Mine` that has these methods."""
    folder.mkdir(exist_ok=True)
    lines = ["from anabranch.plugins import MediaControl", "", "", "class Mine(MediaControl):"]
    written(folder / "mine.py", "\n".join([*lines, body, ""]))
    control = '{ kind = "python", class = "mine:Mine" }'
    return written(folder / "call.toml", CALL.replace("CONTROL", control))


def test_a_constant_rate_of_python_is_the_built_in_one(tmp_path: Path) -> None:
    built_in = CALL.replace("CONTROL", '{ kind = "cbr", rate = "700 kbit/s" }')
    body = "    def limits(self):\n        return 700_000"
    plain = anabranch.run(built_in, trace=True)
    own = anabranch.run(scenario(tmp_path, body), trace=True)
    assert repr(own.summary) == repr(plain.summary)
    for table in ("packets", "media", "frames"):
        assert own.traces[table].equals(plain.traces[table], null_equal=True), table


LOGS = """
    def __init__(self, setup, path=""):
        super().__init__(setup)
        self.path, self.ticks, self.sent = path, [], 0

    def on_sent(self, now, size):
        self.sent += size

    def on_feedback(self, feedback):
        for packet in feedback.packets:
            assert packet.sent < feedback.now and packet.size > 40 and not packet.is_marked
            # To 1/1024 s.
            assert packet.arrival is None or packet.arrival > packet.sent + 19_000_000
        assert 40_000_000 <= feedback.rtt < 1_000_000_000
        sent = [packet.sent for packet in feedback.packets]
        assert sent == sorted(sent)
        self.rate = 600_000

    def on_tick(self, now):
        self.ticks.append(now)
        assert now == 250_000_000 * len(self.ticks)
        if now == 8_000_000_000:
            self.rate = 200_000

    def next_tick(self):
        return 250_000_000 * (len(self.ticks) + 1)

    rate = 150_000

    def limits(self):
        return self.rate, 2 * self.rate
"""


def test_a_control_is_told_what_happens(tmp_path: Path) -> None:
    result = anabranch.run(scenario(tmp_path, LOGS), trace=True)
    found = result.traces["media"].filter(side="a")
    assert found["target_bit_per_s"][-1] == 600_000
    assert (found["pacing_bit_per_s"] == 2 * found["target_bit_per_s"]).all()


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("limits(self):\n        return 0", "limits of mine.py:Mine returned 0; allowed is the"),
        ("limits(self):\n        return 'fast'", "returned 'fast'; allowed is the target in bit/s"),
        ("limits(self):\n        return float('nan')", "returned nan; allowed is the target"),
        ("limits(self):\n        return 1e6, None", "returned (1000000.0, None); allowed is"),
        ("limits(self):\n        1 / 0", "limits of mine.py:Mine raised ZeroDivisionError"),
        (
            "limits(self):\n        return 1e6\n\n    def next_tick(self):\n        return 0",
            "next_tick of mine.py:Mine returned 0; allowed is a time in nanoseconds after 0, now",
        ),
        (
            "limits(self):\n        return 1e6\n\n    def on_feedback(self, feedback):\n"
            "        feedback.packets[0].size = 1",
            "on_feedback of mine.py:Mine raised AttributeError",
        ),
    ],
)
def test_mistakes_end_the_run_with_a_sentence(tmp_path: Path, body: str, sentence: str) -> None:
    # `limits` is asked when the scenario is checked.
    with pytest.raises(AnabranchError) as error:
        anabranch.run(scenario(tmp_path, f"    def {body}"))
    assert sentence in str(error.value)


def test_a_hook_that_does_not_return_is_interrupted(tmp_path: Path) -> None:
    body = "    def limits(self):\n        while True:\n            pass"
    file = scenario(tmp_path, body)
    limit: dict[str, Any] = {"flows.call.transport.cc.max_call_time": "200 ms"}
    with pytest.raises(
        AnabranchError, match=r"limits of mine.py:Mine did not return within 200 ms"
    ):
        anabranch.run(anabranch.load(file, limit))


def test_a_class_is_used_for_what_it_is(tmp_path: Path) -> None:
    text = "from anabranch.plugins.examples import Reno as Mine  # noqa: F401\n"
    scenario(tmp_path, "    pass")
    written(tmp_path / "mine.py", text)
    with pytest.raises(ScenarioError, match="is no congestion control of media: it is not derived"):
        anabranch.load(tmp_path / "call.toml")
    with pytest.raises(ScenarioError, match="has no method limits, which a congestion control of"):
        anabranch.load(scenario(tmp_path / "other", "    pass"))


def test_the_example_of_the_docstring_runs() -> None:
    assert doctest.testmod(media).failed == 0
    assert doctest.testmod(media).attempted > 0


def test_a_control_to_start_from_can_be_compared(anabranch: Command, tmp_path: Path) -> None:
    result = anabranch("new", "my_rtc.py", "--template", "media_control")
    said = " ".join(result.stdout.split())
    assert "try it with: anabranch bench-rtc my_rtc.py:MyRtc nada --quick" in said, result.stderr
    few = ("--scenario", "wifi-one-flow", "--replications", 2, "--json", "a.json")
    compared = anabranch("bench-rtc", "my_rtc.py:MyRtc", "nada", *few)
    assert compared.returncode in (0, 1), compared.stderr
    content = (tmp_path / "a.json").read_text("utf-8")
    assert '"control": "my_rtc.py:MyRtc"' in content
    assert "How does my_rtc.py:MyRtc fare beside nada?" in compared.stdout
