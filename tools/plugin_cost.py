"""What a call of a plug-in costs: prints the table of docs/plugins.md.

Runs with a built-in model and with the class that has the same results are timed by the processor
time of their thread; their difference is divided by the number of calls.
"""

import sys
import time

from anabranch import _engine

_NETWORK = """
run.duration = "60 s"
links.a = { ends = ["x", "y"], rate = "50 Mbit/s", delay = "20 ms", queue = QUEUE }
links.b = { ends = ["x", "y"], rate = "50 Mbit/s", delay = "30 ms" }
paths.p.via = ["a"]
paths.q.via = ["b"]
[flows.f]
from = "x"
to = "y"
paths = PATHS
app.kind = "bulk"
transport = TRANSPORT
"""
_PLAIN = {"QUEUE": '{ kind = "codel" }', "PATHS": '["p"]', "TRANSPORT": '{ kind = "tcp" }'}
_SCTP = '{ kind = "sctp", policy = { kind = "%s" } }'
_MPTCP = '{ kind = "mptcp", scheduler = %s }'
_CASES = {
    "Reno": (
        {"TRANSPORT": '{ kind = "tcp", cc = { kind = "reno" } }'},
        {"TRANSPORT": '{ kind = "tcp", cc = { kind = "python", class = "plugin_cost:Reno" } }'},
    ),
    "Codel": ({}, {"QUEUE": '{ kind = "python", class = "plugin_cost:Codel" }'}),
    "DelayCentric": (
        {"PATHS": '["p", "q"]', "TRANSPORT": _SCTP % "delay_centric"},
        {
            "PATHS": '["p", "q"]',
            "TRANSPORT": _SCTP % 'python", class = "plugin_cost:DelayCentric',
        },
    ),
    "MinRtt": (
        {"PATHS": '["p", "q"]', "TRANSPORT": _MPTCP % '"min_rtt"'},
        {
            "PATHS": '["p", "q"]',
            "TRANSPORT": _MPTCP % '{ python = { class = "plugin_cost:MinRtt" } }',
        },
    ),
}
_TIMES = 5


def _scenario(settings: dict[str, str], module: str) -> _engine.Scenario:
    text = _NETWORK
    for name, value in (_PLAIN | settings).items():
        text = text.replace(name, value)
    return _engine.Scenario.parse(text.replace("plugin_cost", module))


def _seconds(scenario: _engine.Scenario) -> float:
    def once() -> float:
        started = time.thread_time()
        _engine.run(scenario)
        return time.thread_time() - started

    return min(once() for _ in range(_TIMES))


def _calls(scenario: _engine.Scenario) -> int:
    """The calls of methods that the engine makes in a run, which it makes directly."""
    calls = 0
    depth = 0

    def count(frame: object, event: str, _: object) -> None:
        nonlocal calls, depth
        del frame
        if event == "call":
            calls += depth == 0
            depth += 1
        elif event == "return":
            depth = max(depth - 1, 0)

    sys.setprofile(count)
    try:
        _engine.run(scenario)
    finally:
        sys.setprofile(None)
    return calls


def main() -> None:
    """Prints the table."""
    print("| class | calls | µs per call | events | run, built in | run, Python |")
    print("|---|---|---|---|---|---|")
    for name, (built_in, plugin) in _CASES.items():
        original = _scenario(built_in, "")
        own = _scenario(plugin, "anabranch.plugins.examples")
        events = int(_engine.run(own)["summary"]["run.events"])
        calls = _calls(own)
        fast, slow = _seconds(original), _seconds(own)
        cost = (slow - fast) / calls * 1e6
        print(
            f"| `{name}` | {calls} | {cost:.2f} | {events} | {fast * 1e3:.0f} ms |"
            f" {slow * 1e3:.0f} ms |"
        )


if __name__ == "__main__":
    main()
