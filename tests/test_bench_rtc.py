"""The bench for congestion controls of media: its test cases, its measures, and the command."""

import json
import math
import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from anabranch import bench_rtc, load, run
from anabranch.bench_cc import checks, figures, reports
from anabranch.bench_cc.measures import Cell
from anabranch.bench_rtc import figures as timelines
from anabranch.bench_rtc import measures, periods, scenarios
from anabranch.bench_rtc.series import Course, Flow, Packets, Steps, packets
from conftest import Command, one_error

FILES = tuple(
    name
    for name, about in tomllib.loads((scenarios.FOLDER.parent / "bench.toml").read_text("utf-8"))[
        "cases"
    ].items()
    if "variant_of" not in about
)


def loaded(name: str) -> scenarios.MediaScenario:
    (found,) = scenarios.load((name,))
    return found


def settled(name: str, case: int = 0) -> Course:
    return loaded(name).courses[case]


def test_the_controls_are_those_of_the_engine() -> None:
    assert {"cbr", "gcc", "nada"} <= set(scenarios.controls())
    assert "python" not in scenarios.controls()


def test_a_section_stands_for_its_scenarios() -> None:
    assert {path.stem for path in scenarios.FOLDER.glob("*.toml")} == set(FILES)
    of = {
        section: [about.name for about in scenarios.load((section,))]
        for section in ("5.1", "6.1", "6.2", "3.1")
    }
    assert of["5.1"] == ["one-flow"]
    assert of["6.1"] == ["priority"]
    assert of["6.2"] == [f"ecn-{name}" for name in FILES[:8]]
    assert of["3.1"] == [name for name in FILES if name.startswith("wifi-")]


@pytest.mark.parametrize("name", FILES)
def test_the_bench_knows_its_scenario(name: str) -> None:
    file = scenarios.FOLDER / f"{name}.toml"
    about = loaded(name)
    assert file.read_text("utf-8").startswith(f"# {about.section}: ")
    plain = load(file)
    assert plain.name == name
    assert plain.description
    flows = tomllib.loads(file.read_text("utf-8"))["flows"]
    assert about.tested == tuple(flow for flow in flows if flow.startswith("video-"))
    for flow in about.tested:
        # RFC 8867 section 4.3.
        app = flows[flow]["app"]
        assert (app["rate"], app["reaction"]) == ("150 kbit/s", "100 ms")
        audio = flows[flow.replace("video", "audio")]
        assert audio["app"]["rate"] == "20 kbit/s"
        assert audio["app"].get("start", "0 s") == app.get("start", "0 s")
        assert audio["app"]["duration"] == app["duration"]
    links = tomllib.loads(file.read_text("utf-8"))["links"]
    exits = [link for key, link in links.items() if key.startswith("exit-")]
    # Section 4.2, and RFC 8868 section 4.5.3.
    assert {(link["jitter"], link["jitter_shape"]) for link in exits} == {
        ("30 ms", "truncated_normal")
    }


_CAPACITIES: dict[str, dict[tuple[str, str], list[tuple[float, float]]]] = {
    "one-flow": {("bottleneck", "forward"): [(0, 1), (40, 2.5), (60, 0.6), (80, 1)]},
    "two-flows": {
        ("bottleneck", "forward"): [(0, 4), (25, 2), (50, 3.5), (75, 1), (100, 2)],
    },
    "congested-feedback": {
        ("bottleneck", "forward"): [(0, 2), (20, 1), (40, 0.5), (60, 2)],
        ("bottleneck", "reverse"): [(0, 2), (35, 0.8), (70, 2)],
    },
    "competing-media": {("bottleneck", "forward"): [(0, 3.5)]},
    "rtt-fairness": {("bottleneck", "forward"): [(0, 4)]},
    "long-tcp": {("bottleneck", "forward"): [(0, 2)]},
    "short-tcp": {("bottleneck", "forward"): [(0, 2)]},
    "pause": {("bottleneck", "forward"): [(0, 3.5)]},
    "two-bottlenecks": {("first", "forward"): [(0, 2)], ("second", "forward"): [(0, 1.5)]},
    "wifi-pair": {
        ("bottleneck", "forward"): [(0, 1)],
        ("bottleneck", "reverse"): [(0, 1)],
    },
}
"""The tables of RFC 8867, in Mbit/s, and RFC 8869 section 3.1.2."""


@pytest.mark.parametrize("name", _CAPACITIES)
def test_capacities_are_those_of_the_rfc(name: str) -> None:
    what = settled(name)
    found = {
        hop: [*zip(steps.times, steps.values, strict=True)]
        for hop, steps in what.capacities.items()
    }
    assert found == _CAPACITIES[name]
    settings = loaded(name).settings(0)
    for (link, direction), steps in what.capacities.items():
        own = settings["links"][link]
        queue = own["reverse"]["queue"] if direction == "reverse" else own["queue"]
        table = queue["bytes"]
        sizes = [table] if isinstance(table, str) else [size for _, size in table["timetable"]]
        # 300 ms of each capacity.
        for value, size in zip(steps.values, sizes, strict=True):
            number, unit = size.split()
            assert float(number) * {"B": 1, "kB": 1e3}[unit] == pytest.approx(value * 37_500)


_TIMES: dict[str, list[tuple[float, float]]] = {
    "one-flow": [(0, 99)],
    "two-flows": [(0, 124), (0, 124)],
    "congested-feedback": [(0, 99), (0, 99)],
    "competing-media": [(0, 119), (20, 119), (40, 119)],
    "rtt-fairness": [(0, 299), (10, 299), (20, 299), (30, 299), (40, 299)],
    "long-tcp": [(5, 119)],
    "short-tcp": [(5, 299), (5, 299)],
    "pause": [(0, 119)] * 3,
    "two-bottlenecks": [(0, 299)] * 3,
    "wifi-one-flow": [(0, 119)],
}
"""When each call starts and ends."""


@pytest.mark.parametrize("name", _TIMES)
def test_timelines_are_those_of_the_rfc(name: str) -> None:
    assert [(flow.start_s, flow.end_s) for flow in settled(name).flows] == _TIMES[name]


def test_round_trips_pauses_and_loads_are_those_of_the_rfc() -> None:
    links = loaded("rtt-fairness").settings(0)["links"]
    delays = [
        int(links[f"exit-{k}"]["delay"].split()[0]) + int(links["bottleneck"]["delay"].split()[0])
        for k in range(1, 6)
    ]
    assert delays == [10, 25, 50, 100, 150]
    pauses = [flow.pauses for flow in settled("pause").flows]
    assert pauses == [[], [(40, 60)], []]
    assert [start for start, _ in settled("pause").periods] == [0, 40, 60]
    assert [start for start, _ in settled("wifi-on-off").periods] == [0, 60]
    assert settled("long-tcp").periods == [(5, 119)]
    one_way = [
        loaded("one-flow").settings(case)["links"]["bottleneck"]["delay"] for case in range(2)
    ]
    assert one_way == ["50 ms", "100 ms"]
    flows = loaded("short-tcp").settings(0)["flows"]
    assert (flows["busy"]["count"], flows["idle"]["count"]) == (2, 8)


def made(flows: dict[str, list[tuple[float, float, int]]]) -> Packets:
    """Packets of these flows over a link without a queue: sent, arrived (NaN: lost), bytes."""
    sent = [(name, *packet) for name, own in flows.items() for packet in own]
    sent.sort(key=lambda packet: packet[1])
    tables = {
        "packets": {
            "flow": [packet[0] for packet in sent],
            "sent_s": [packet[1] for packet in sent],
            "delivered_s": [packet[2] for packet in sent],
            "size_bytes": [packet[3] for packet in sent],
            "side": ["a"] * len(sent),
            "kind": ["datagram"] * len(sent),
        },
        "hops": {
            "packet": [*range(len(sent))],
            "link": ["bottleneck"] * len(sent),
            "direction": ["forward"] * len(sent),
            "entered_s": [packet[1] for packet in sent],
            "begun_s": [packet[1] + 0.02 for packet in sent],
            "left_s": [packet[2] for packet in sent],
        },
    }
    what = synthetic([*flows], 60.0)
    return packets(tables, what, ())


def synthetic(names: list[str], end: float) -> Course:
    hop = ("bottleneck", "forward")
    flows = [Flow(name, 0.0, end, [], [hop]) for name in names]
    return Course(flows, {hop: Steps([0.0], [1.0])}, [(0.0, end)])


def even(mbit_per_s: float, start: float, end: float) -> list[tuple[float, float, int]]:
    """Packets of 1250 B at a constant rate, which arrive after 50 ms."""
    times = np.arange(start, end, 0.01 / mbit_per_s)
    return [(float(time), float(time) + 0.05, 1250) for time in times]


def test_measures_of_packets_that_are_known() -> None:
    about = loaded("two-flows")
    fast = even(0.6, 0, 20) + even(0.3, 20, 60)
    slow = even(0.3, 0, 60)
    lossy = [
        (sent, math.nan if n % 10 == 0 else came, size) for n, (sent, came, size) in enumerate(slow)
    ]
    what = synthetic(["video-1", "video-2"], 60.0)
    found = measures.of_packets(made({"video-1": fast, "video-2": lossy}), what, about)
    values = {name.removeprefix("bench."): value for name, value in found.items()}
    assert set(found) == set(measures.names_of_packets(what))
    assert values["queueing_p50_ms"] == pytest.approx(20)
    assert values["loss_percent"] == pytest.approx(
        100 * len(lossy) / 10 / (len(fast) + len(lossy)), rel=0.02
    )
    # (20 s at 0.6 + 40 s at 0.3 + 60 s at nine tenths of 0.3) / 60 s.
    assert values["utilisation_percent"] == pytest.approx(100 * (12 + 12 + 16.2) / 60, rel=0.01)
    # In the second half both have the same, but for losses.
    assert values["jain"] == pytest.approx((0.3 + 0.27) ** 2 / (2 * (0.09 + 0.0729)), rel=1e-3)
    # One converges when its rate has fallen, the other one at once.
    assert values["convergence_s"] == pytest.approx(20.3 / 2, abs=0.3)
    assert math.isnan(values["share_percent"])


def test_swings_have_a_hysteresis() -> None:
    times = np.arange(0, 60, 0.1)
    waves = 1 + 0.3 * np.sin(2 * np.pi * times / 10)
    # Six waves of 10 s: up, down, up ... are eleven swings.
    assert measures.swings_of(waves) == 11
    assert measures.swings_of(1 + 0.2 * np.sin(2 * np.pi * times / 10)) == 0
    assert measures.swings_of(np.where(times < 30, 1.3, 0.7)) == 1


def test_a_call_that_pauses_sends_nothing_and_the_pause_is_no_freeze() -> None:
    about = loaded("pause")
    sets = {f"flows.{flow}.transport.cc.kind": "nada" for flow in about.tested}
    result = run(scenarios.FOLDER / "pause.toml", set=sets, trace=True)
    sent = result.traces["packets"].filter(flow="video-2", side="a", kind="datagram")["sent_s"]
    # The pacer may take a moment for the last frame.
    assert sent.filter((sent > 40.5) & (sent < 60)).is_empty()
    assert len(sent.filter((sent > 60) & (sent < 61))) > 10
    assert result.summary["video-2.longest_freeze_ms"] < 10_000
    assert result.summary["video-2.key_frames"] >= 2


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> list[Cell]:
    out = tmp_path_factory.mktemp("bench")
    only = ("one-flow", "long-tcp", "competing-media", "priority", "ecn-one-flow")
    return bench_rtc.compare(("cbr", "gcc", "nada"), out, only=only, replications=2, jobs=2)


def test_the_comparison_says_what_is_known(compared: list[Cell]) -> None:
    found = {(cell.case, cell.control): cell.values for cell in compared}
    first = {name: found["5.1 variable capacity 50 ms", name] for name in ("cbr", "gcc", "nada")}
    # 1 Mbit/s of media, and 1.03 with headers, is more than 1 and 0.6 Mbit/s carry.
    assert first["cbr"]["phase_3_utilisation_percent"].mean > 99
    assert first["cbr"]["phase_3_loss_percent"].mean > 30
    assert first["cbr"]["phase_2_loss_percent"].mean == pytest.approx(0, abs=3)
    # Neither GCC nor NADA fills the queue until the capacity falls (docs/media.md).
    for control in ("gcc", "nada"):
        assert first[control]["phase_1_queueing_p95_ms"].mean < 150
        assert first[control]["phase_3_queueing_p95_ms"].mean > 200
    assert math.isnan(first["nada"]["jain"].mean)
    three = {name: found["5.4 three calls", name] for name in ("cbr", "gcc", "nada")}
    assert three["cbr"]["jain"].mean > 0.99
    assert 0 < found["5.6 long TCP 300 ms", "nada"]["share_percent"].mean < 50
    assert found["5.6 long TCP 1000 ms", "cbr"]["share_percent"].mean > 40
    marked = found["6.2 ECN, variable capacity", "nada"]
    assert marked["loss_percent"].mean < first["nada"]["loss_percent"].mean


def test_the_outputs_of_a_comparison(compared: list[Cell]) -> None:
    found = checks.run(compared, None)
    content = reports.as_json(compared, found, "rtp", 2)
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert "phase_4_convergence_s" in content["cells"][0]["metrics"]
    parts = periods.tables(compared)
    heads, lines = parts["5.1 variable capacity 50 ms, by period"]
    assert heads[:2] == ["period", "control"]
    assert [line[:2] for line in lines[:4]] == [
        ["0 to 40 s", "cbr"],
        ["0 to 40 s", "gcc"],
        ["0 to 40 s", "nada"],
        ["40 to 60 s", "cbr"],
    ]
    assert set(figures.of(compared)) == set(bench_rtc.MEDIA.drawn)
    drawn = timelines.of(compared)
    assert "changes-5-1-variable-capacity-50-ms" in drawn
    assert "calls-5-1-variable-capacity-50-ms" not in drawn
    figure = drawn["changes-5-1-variable-capacity-50-ms"].draw()
    # Rate, delay and losses around three changes, with a line for each control.
    assert len(figure.axes) == 9
    spans = [axes.get_xlim() for axes in figure.axes[:3]]
    assert spans == [(30, 80), (50, 99), (70, 99)]
    assert len(figure.axes[3].lines) == 3 + 1
    assert len(drawn["calls-5-4-three-calls"].draw().axes) == 3


def test_the_command(anabranch: Command, tmp_path: Path) -> None:
    out = tmp_path / "bench"
    few = ("--scenario", "5.6", "--replications", 2)
    files = ("--json", tmp_path / "a.json", "--junit", tmp_path / "a.xml")
    first = anabranch("bench-rtc", "nada", *few, "--out", out, *files)
    assert first.returncode in (0, 1), first.stderr
    assert "5.6 long TCP 300 ms" in first.stdout
    page = (out / "index.html").read_text("utf-8")
    assert "RFC 8867 section 5.6" in page
    assert (out / "figures" / "changes-5-6-long-tcp-300-ms.png").exists()
    other = ("--json", tmp_path / "b.json", "--baseline", tmp_path / "a.json", "--jobs", 1)
    second = anabranch("bench-rtc", "nada", *few, "--out", tmp_path / "other", *other)
    assert second.returncode == first.returncode, second.stdout
    contents = [json.loads((tmp_path / name).read_text("utf-8")) for name in ("a.json", "b.json")]
    assert contents[0]["cells"] == contents[1]["cells"]
    assert len(contents[1]["checks"]) > len(contents[0]["checks"])
    root = ET.parse(tmp_path / "a.xml").getroot()
    assert root.attrib["name"] == "anabranch bench-rtc"
    again = anabranch("bench-rtc", "nada", *few, "--out", out)
    assert "4/4 runs" in again.stderr
    assert re.sub(r"wrote .*\.(json|xml)\n", "", first.stdout) == again.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nado",), "there is no congestion control `nado`; there are cbr, gcc"),
        ((), "name a congestion control: cbr,"),
        (("nada", "--scenario", "5.9"), "there is no scenario `5.9`; there are one-flow, "),
        (("nada", "--quick", "--replications", 2), "--quick and --replications exclude each other"),
    ],
)
def test_mistakes_are_one_sentence(
    anabranch: Command, arguments: tuple[str, ...], sentence: str
) -> None:
    assert sentence in one_error(anabranch("bench-rtc", *arguments))
