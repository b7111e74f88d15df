"""`anabranch trace import`: links whose rate, delay and losses follow a log over time."""

import gzip
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

import anabranch as package
import public_sets as sets
from anabranch.errors import AnabranchError
from anabranch.profile import measure
from anabranch.profile.traces import Options, Trace, import_trace, text, write
from conftest import Command, one_error, written
from log_mutations import changed
from test_profile_logs import FPING, MACOS, MM_LINK, MTR_RAW, SAMPLES, flent, iperf3, ss

SKY = sets.sky()
RATES = sets.rates()
MEAN_RATE = sum(RATES) / len(RATES)


ROAD = [(0, 5, "Zürich"), (1, 9, "Genf"), (2, 7, "Zürich")]


def imported(folder: Path, log: str, name: str = "log.csv", **options: Any) -> Trace:
    return import_trace(written(folder / name, log), Options(**options))


def linked(trace: Trace, name: str = "road") -> dict[str, Any]:
    """The link as a scenario has it."""
    found: dict[str, Any] = tomllib.loads(text(trace, name))["links"][name]
    return found


def runs(file: Path, count: int = 1) -> list[Mapping[str, float]]:
    scenario = package.load(str(file))
    return [package.run(scenario, replication=n).summary for n in range(count)]


def probed(file: Path, count: int = 60) -> tuple[float, float]:
    """The mean round trip in seconds and the loss that the first scenario's probes find.

    A probe there and one back that leave at the same time are a ping.
    """
    scenario = package.load(str(file))
    trips: list[float] = []
    sent = 0
    for n in range(count):
        packets = package.run(scenario, replication=n, trace=True).traces["packets"]
        ways = [
            packets.filter(pl.col("flow") == way)
            .sort("sent_s")
            .select((pl.col("delivered_s") - pl.col("sent_s")).fill_nan(None).alias(way))
            for way in ("there", "back")
        ]
        both = pl.concat(ways, how="horizontal")
        sent += len(both)
        trips += both.drop_nulls().sum_horizontal().to_list()
    return sum(trips) / len(trips), 1 - len(trips) / sent


PINGED: dict[str, tuple[str, dict[str, Any]]] = {
    "ping": (sets.ping(SKY), {}),
    "ping-without-times": (sets.ping(SKY, stamped=False), {"interval_s": 0.1}),
    "irtt": (sets.irtt(SKY), {}),
    "irtt-with-clocks-apart": (sets.irtt(SKY, ahead_s=10.48), {}),
    "lens-irtt": (sets.lens_irtt(SKY), {}),
    "lens-irtt-with-clocks-apart": (sets.lens_irtt(SKY, ahead_s=10.48), {}),
    "monroe": (sets.monroe(SKY), {}),
}


@pytest.mark.parametrize("kind", PINGED)
def test_a_simulated_ping_finds_the_mean_round_trip_and_the_loss(kind: str, tmp_path: Path) -> None:
    log, options = PINGED[kind]
    trace = imported(tmp_path, log, **options)
    assert trace.mean_rtt_s == pytest.approx(SKY.mean_rtt_s, rel=0.001)
    assert trace.mean_loss == pytest.approx(SKY.loss, rel=0.001)
    assert trace.length_s == pytest.approx(300, rel=0.001)
    _, run, *_ = write(trace, tmp_path / "sky.toml")
    trip, loss = probed(run)
    assert trip == pytest.approx(SKY.mean_rtt_s, rel=0.1)
    assert loss == pytest.approx(SKY.loss, rel=0.1)


def test_the_delays_follow_the_log_over_time(tmp_path: Path) -> None:
    """The spike of each period is where it was, not only the mean."""
    link = linked(imported(tmp_path, sets.ping(SKY)))
    delays = {
        float(at.split()[0]): float(value.split()[0]) for at, value in link["delay"]["timetable"]
    }
    assert link["delay"]["repeat"] == "300 s"
    spikes = [delays[at] for at in (12.0, 27.0, 42.0) if at in delays]
    assert spikes
    assert min(spikes) > 2 * sorted(delays.values())[len(delays) // 2] * 0.8
    shares = [value for _, value in link["loss"]["probability"]["timetable"]]
    assert max(shares) > 0.05
    assert min(shares) == 0


def stamped(sent_s: Sequence[float], program: str = "ping") -> str:
    """Pings that were sent at these times, with round trips of 10 ms, and later of 30."""
    lines = []
    for n, at in enumerate(sent_s):
        trip = 10 if n < len(sent_s) / 2 else 30
        stamp = f"[{1_700_000_000 + at + trip / 1e3:.6f}]"
        if program == "fping":
            lines.append(f"{stamp} a : [{n}], 64 bytes, {trip}.0 ms (20 avg, 0% loss)")
        else:
            lines.append(f"{stamp} 64 bytes from a: icmp_seq={n + 1} ttl=60 time={trip}.0 ms")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("program", ["ping", "fping"])
def test_stamps_say_when_packets_were_sent(program: str, tmp_path: Path) -> None:
    # First ten a second, then one.
    sent = [*(n / 10 for n in range(50)), *(5.0 + n for n in range(50))]
    trace = imported(tmp_path, stamped(sent, program))
    assert linked(trace)["delay"] == {
        "repeat": "54.1 s",
        "timetable": [["0 s", "5 ms"], ["5 s", "15 ms"]],
    }
    # Five minutes without any.
    sent = [*(n / 10 for n in range(50)), *(305 + n / 10 for n in range(50))]
    trace = imported(tmp_path, stamped(sent, program))
    assert any("1 gap in the times" in note for note in trace.notes)
    table = linked(trace)["delay"]["timetable"]
    assert table == [["0 s", "5 ms"], ["5 s", "10 ms"], ["305 s", "15 ms"]]


def test_irtt_tells_the_ways_apart(tmp_path: Path) -> None:
    trace = imported(tmp_path, sets.irtt(SKY))
    link = linked(trace)
    assert trace.back is not None
    assert trace.back.delay is not None
    assert trace.there.delay is not None
    ups = [value for value in SKY.there_s if value is not None]
    assert trace.there.delay.mean(300) == pytest.approx(sum(ups) / len(ups), rel=0.02)
    assert trace.back.delay.mean(300) < trace.there.delay.mean(300)
    assert {"delay", "loss"} <= set(link["reverse"])
    _, run, *_ = write(trace, tmp_path / "sky.toml")
    (found,) = runs(run)
    assert found["back.mean_delay_ms"] < found["there.mean_delay_ms"]
    assert found["back.received"] > found["there.received"]


def test_windows_average(tmp_path: Path) -> None:
    fine = imported(tmp_path, sets.ping(SKY))
    coarse = imported(tmp_path, sets.ping(SKY), window_s=15.0)
    assert coarse.there.delay is not None
    assert fine.there.delay is not None
    assert len(coarse.there.delay.values) == 20 < len(fine.there.delay.values)
    assert coarse.there.delay.mean(300) == pytest.approx(fine.there.delay.mean(300), rel=0.01)
    assert coarse.mean_rtt_s == fine.mean_rtt_s
    with pytest.raises(AnabranchError, match="give a longer window"):
        imported(tmp_path, sets.ping(SKY), window_s=1e-4)


RATED: dict[str, tuple[str, dict[str, Any]]] = {
    "gnettrack": (sets.gnettrack(RATES), {}),
    "lumos": (sets.lumos(RATES, sets.rates(seed=3)), {"where": {"run_num": "1"}}),
    "nyu": (sets.nyu(RATES), {}),
    "hsdpa": (sets.bytes_and_ms(RATES), {}),
    "ghent": (sets.bytes_and_ms(RATES, in_ms=True), {}),
    "mba": (sets.mba_rates(RATES), {"where": {"unit_id": "386"}}),
    "plain": ("time,rate_bit_per_s\n" + "".join(f"{n},{r}\n" for n, r in enumerate(RATES)), {}),
    "own-headings": (
        "when;link bandwidth\n" + "".join(f"{n * 1000};{r / 8e3}\n" for n, r in enumerate(RATES)),
        {"columns": {"time": "when", "rate": "link bandwidth"}, "time_unit": "ms",
         "rate_unit": "kB/s"},
    ),
    "no-headings": (
        "".join(f"{n} {r / 1e6}\n" for n, r in enumerate(RATES)),
        {"columns": {"time": "1", "rate": "2"}, "rate_unit": "Mbit/s"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", RATED)
def test_a_table_of_rates_has_the_mean_of_the_log(kind: str, tmp_path: Path) -> None:
    log, options = RATED[kind]
    trace = imported(tmp_path, log, **options)
    assert trace.mean_bit_per_s == pytest.approx(MEAN_RATE, rel=0.005)
    link = linked(trace)
    states = [value for _, value in link["up"]["timetable"]]
    assert states == [True, False, True]
    down, up = (float(at.split()[0]) for at, _ in link["up"]["timetable"][1:])
    assert up - down == pytest.approx(4 * (3600 if kind == "mba" else 1), rel=0.05)


LOADED = """
[flows.load]
from = "a"
to = "b"
paths = ["road"]
transport = {{ kind = "udp" }}
app = {{ kind = "datagrams", rate = "42 Mbit/s", size = "1472 B", intervals = {{ kind = "cbr" }}, \
duration = "{seconds} s", measure = true }}
"""


@pytest.mark.parametrize("mahimahi", [False, True])
def test_a_link_delivers_the_mean_rate_of_the_log(mahimahi: bool, tmp_path: Path) -> None:  # noqa: FBT001
    trace = imported(tmp_path, sets.gnettrack(RATES))
    files = write(trace, tmp_path / "road.toml", mahimahi=mahimahi)
    assert len(files) == (3 if mahimahi else 2)
    head = f'include = ["road.toml"]\n[run]\nduration = "{len(RATES)} s"\n'
    scenario = written(tmp_path / "full.toml", head + LOADED.format(seconds=len(RATES)))
    (found,) = runs(scenario)
    delivered = found["link.road.forward.delivered_bytes"] * 8 / len(RATES)
    assert delivered == pytest.approx(MEAN_RATE, rel=0.01)
    # The first scenario's download has what is left beside its headers, losses and slow start.
    (found,) = runs(files[1])
    assert found["download.goodput_kbit_per_s"] * 1e3 > 0.85 * MEAN_RATE


def test_a_packet_delivery_trace_is_taken_over(tmp_path: Path, anabranch: Command) -> None:
    lines = "".join(f"{n}\n" for n in range(1, 2001) if n % 3 or n > 1000)
    log = "# Source: drawn by a test\n# licence: CC0-1.0\n# A line that stays.\n" + lines
    written(tmp_path / "cell.up", log)
    assert anabranch("trace", "import", "cell.up", "--out", "cell").returncode == 0
    head = (tmp_path / "cell.toml").read_text()
    assert "# Source: drawn by a test\n# Licence: CC0-1.0\n" in head
    assert "A line that stays." in head
    kept = (tmp_path / "cell.trace").read_text()
    assert "# Source: drawn by a test\n# Licence: CC0-1.0\n" in kept
    assert [line for line in kept.splitlines() if not line.startswith("#")] == lines.split()
    # What was written is read again as what it is.
    again = import_trace(tmp_path / "cell.trace")
    write(again, tmp_path / "again.toml")
    assert (
        "# Source: drawn by a test\n# Licence: CC0-1.0\n" in (tmp_path / "again.trace").read_text()
    )
    assert package.load(str(tmp_path / "cell-run.toml"))
    assert measure([tmp_path / "cell.trace"]).opportunities is not None
    # Printed alone, the link has the means of the seconds.
    alone = linked(import_trace(tmp_path / "cell.up"))
    assert alone["rate"]["timetable"][1] == ["1 s", "12000 kbit/s"]


def test_iperf3_has_its_rates_and_the_least_delay(tmp_path: Path) -> None:
    trace = imported(tmp_path, iperf3())
    link = linked(trace)
    assert trace.length_s == 9
    assert len(link["rate"]["timetable"]) == 9
    assert link["delay"] == "10 ms"
    assert "loss" not in link
    udp = imported(tmp_path, iperf3(is_udp=True), take=("rate", "loss"))
    assert linked(udp)["loss"]["probability"] == 0.002


def test_other_logs(tmp_path: Path) -> None:
    both = imported(tmp_path, flent())
    assert both.back is not None
    assert both.mean_bit_per_s == pytest.approx(18.8e6 * 1500 / 1448, rel=0.02)
    assert both.back.rate is not None
    assert both.back.rate.mean(both.length_s) == pytest.approx(20e6 * 1500 / 1448, rel=0.02)
    assert linked(imported(tmp_path, MM_LINK))["rate"] == "12000 kbit/s"
    for log in (FPING, MACOS, MTR_RAW):
        assert imported(tmp_path, log, interval_s=0.5).there.delay is not None
    latency = imported(tmp_path, sets.mba_latency())
    assert latency.mean_rtt_s == pytest.approx(0.0213, rel=0.01)
    assert latency.mean_loss == pytest.approx((47 * 2 + 20) / (48 * 200))
    answered = imported(tmp_path, sets.lens_ping(SKY))
    assert answered.mean_rtt_s == pytest.approx(SKY.mean_rtt_s, rel=0.001)
    pings = imported(tmp_path, sets.gnettrack(RATES, pings=True))
    assert pings.mean_rtt_s == pytest.approx(0.042, rel=0.01)
    assert pings.mean_loss == pytest.approx(1 / 120, rel=0.1)
    assert linked(pings)["delay"] == "20 ms"
    assert "loss" not in linked(pings)
    alone = imported(tmp_path, sets.gnettrack(RATES, pings=True), take=("rate",))
    assert alone.there.delay is None
    assert alone.there.loss is None


def test_further_columns(tmp_path: Path) -> None:
    log = "time,down_mbps,up_mbps,one_way_ms,loss_pct\n0,10,2,20,0\n1,20,4,30,5\n2,15,3,25,0\n"
    columns = {"rate": "down_mbps", "rate_back": "up_mbps"}
    trace = imported(tmp_path, log, columns=columns, take=("rate", "delay", "loss"))
    link = linked(trace)
    assert link["rate"]["timetable"][1] == ["1 s", "20000 kbit/s"]
    assert link["reverse"]["rate"]["timetable"][1] == ["1 s", "4000 kbit/s"]
    assert link["delay"]["timetable"][1] == ["1 s", "30 ms"]
    assert link["loss"]["probability"]["timetable"][1] == ["1 s", 0.05]
    assert link["reverse"]["loss"] == {"kind": "none"}
    beside = linked(imported(tmp_path, log, columns=columns))
    assert beside["delay"] == "20 ms"
    assert "loss" not in beside
    files = write(trace, tmp_path / "two.toml", mahimahi=True)
    assert [file.name for file in files[2:]] == ["two.trace", "two-back.trace"]
    assert package.load(str(files[1]))


def test_a_table_without_headings_has_columns_by_number(tmp_path: Path) -> None:
    rows = sets.mba_latency().splitlines(keepends=True)[1:]
    columns = {"time": "2", "rtt": "4", "arrived": "8", "lost": "9"}
    options: dict[str, Any] = {"columns": columns, "delay_unit": "us", "where": {"1": "386"}}
    trace = imported(tmp_path, "".join(rows), **options)
    assert trace.mean_rtt_s == pytest.approx(0.0213, rel=0.01)
    assert trace.mean_loss == pytest.approx((47 * 2 + 20) / (48 * 200))
    assert trace.title.startswith("48 rows")
    assert trace.began_s == 1_420_070_400


@pytest.mark.parametrize(
    ("heading", "rate"),
    [("bandwidth (kbit/s)", 4e3), ("throughput_mbps", 4e6), ("Rate [Gbit/s]", 4e9),
     ("goodput in MB/s", 32e6), ("bits_per_second", 4.0)],
)  # fmt: skip
def test_a_heading_says_its_unit(heading: str, rate: float, tmp_path: Path) -> None:
    trace = imported(tmp_path, f"timestamp,{heading}\n1700000000000,4\n1700000001000,4\n")
    assert trace.mean_bit_per_s == rate
    assert trace.length_s == 2


def test_the_mean_stands_in_a_gap(tmp_path: Path) -> None:
    """So the mean over time is that of what was measured."""
    seen = [*range(20), *range(80, 100)]
    log = "time,mbps\n" + "".join(f"{n},{30 if n == 19 else 10}\n" for n in seen)
    trace = imported(tmp_path, log)
    assert any("1 gap in the times, the longest of 61 s" in note for note in trace.notes)
    assert trace.mean_bit_per_s == pytest.approx(10.5e6)
    table = linked(trace)["rate"]["timetable"]
    assert table[1:] == [
        ["19 s", "30000 kbit/s"],
        ["20 s", "10500 kbit/s"],
        ["80 s", "10000 kbit/s"],
    ]


def test_a_logger_on_the_road_has_the_means_of_its_pings(tmp_path: Path) -> None:
    """Rows each second, a round of pings every 13 s, none for minutes: as in the Irish 5G set."""
    trips = {n: 80 + 40 * (n % 3) for n in range(5, 900, 13) if not 300 < n < 600}
    lost = {n: 20 * (n % 4 == 1) for n in trips}
    rows = [sets.HEAD_GNETTRACK]
    for n in range(900):
        at = f"2019.12.14_10.{n // 60:02d}.{n % 60:02d}"
        ping = f"{trips[n]},70,90,2,{lost[n]}" if n in trips else "-,-,-,-,-"
        rows.append(f"{at},0,0,0,B,1,5G,-90,-11,7,10,-,{n % 7 * 900},9,D,{ping},B,A,9,1,-1,-")
    trace = imported(tmp_path, "\n".join(rows), take=("delay", "loss"))
    mean_s = sum(trips.values()) / len(trips) / 1e3
    share = sum(lost.values()) / len(lost) / 100
    assert trace.mean_rtt_s == pytest.approx(mean_s)
    assert trace.mean_loss == pytest.approx(share)
    _, run, *_ = write(trace, tmp_path / "road.toml")
    trip, loss = probed(run, 10)
    assert trip == pytest.approx(mean_s, rel=0.1)
    assert loss == pytest.approx(share, rel=0.1)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_the_encodings_of_spreadsheets(encoding: str, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    rows = [f"{second},{rate},{place}" for second, rate, place in ROAD]
    log.write_text("time_s,mbit_per_s,Straße\n" + "\n".join(rows), encoding)
    found = import_trace(log, Options(where={"Straße": "Zürich"}))
    assert found.mean_bit_per_s == pytest.approx(6e6)


def test_packed_with_gzip(tmp_path: Path) -> None:
    file = tmp_path / "road.csv.gz"
    file.write_bytes(gzip.compress(sets.gnettrack(RATES).encode()))
    assert import_trace(file).mean_bit_per_s == pytest.approx(MEAN_RATE, rel=0.005)


def test_what_is_too_fine_for_a_timetable_is_averaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.profile.traces.series.MOST_STEPS", 100)
    trace = imported(tmp_path, sets.ping(SKY))
    assert trace.there.delay is not None
    assert len(trace.there.delay.values) == 60
    assert any("each is the mean over 5 s" in note for note in trace.notes)


def test_the_command_keeps_source_and_licence(tmp_path: Path, anabranch: Command) -> None:
    written(tmp_path / "log.txt", sets.ping(SKY))
    words = ["trace", "import", "log.txt", "--out", "sky", "--ends", "dish", "server",
             "--source", "Zenodo, record 1\n[links.x]", "--licence", "CC BY-SA 4.0"]  # fmt: skip
    said = anabranch(*words)
    assert (said.returncode, said.stderr) == (0, "")
    assert "try it with: anabranch run sky-run.toml" in said.stdout
    head = (tmp_path / "sky.toml").read_text()
    assert "# Source: Zenodo, record 1 [links.x]\n# Licence: CC BY-SA 4.0\n" in head
    assert "# Measured: 2023-11-17 01:00:00 to 2023-11-17 01:05:00" in head
    assert "# Converted: each way has half of the round trip" in head
    assert all(cell_len(line) <= 80 for line in head.splitlines())
    assert anabranch("run", "sky-run.toml").returncode == 0
    # A scenario that is there stays.
    written(tmp_path / "sky-run.toml", "# mine\n")
    assert "sky-run.toml is there already" in anabranch(*words).stdout
    assert (tmp_path / "sky-run.toml").read_text() == "# mine\n"
    # Without --out the link is printed, alone.
    assert "# Licence: not stated" in anabranch("trace", "import", "log.txt").stdout
    assert anabranch("validate", "sky.toml").returncode == 2  # a link alone is no scenario
    assert "is read: name another file" in one_error(
        anabranch("trace", "import", "sky-run.toml", "--out", "sky-run.toml")
    )


@pytest.mark.parametrize("columns", ["80", "200"])
def test_what_it_prints_fits(
    columns: str, tmp_path: Path, anabranch: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    written(tmp_path / "log.csv", sets.gnettrack(RATES, pings=True))
    said = anabranch("trace", "import", "log.csv", "--out", "road", "--mahimahi").stdout
    assert "wrote road.trace" in said
    assert all(cell_len(line.rstrip()) <= int(columns) for line in said.splitlines())


def test_progress_is_said(tmp_path: Path) -> None:
    file = written(tmp_path / "log.txt", sets.ping(sets.sky(20_000, 0.02)))
    read: list[int] = []
    import_trace(file, progress=lambda _: read.append)
    assert read == sorted(read)
    assert 0 < read[-1] <= file.stat().st_size


LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"
BAD: dict[str, tuple[str | bytes, list[str], str]] = {
    "backwards": ("time,mbps\n0,1\n2,1\n1,1\n", [], "log, line 4: the time goes back from 2 s to"),
    "runs": (sets.lumos([1e6] * 3, [1e6] * 3), [], "choose one with --where"),
    "hsdpa-backwards": (
        sets.bytes_and_ms([1e6] * 3) + sets.bytes_and_ms([1e6]), [], "line 4: the time goes back"
    ),
    "mahimahi-backwards": ("1\n5\n3\n", [], "times must not decrease"),
    "negative": ("time,mbps\n0,1\n1,-3\n", [], "log, line 3: `mbps` is `-3`"),
    "negative-rtt": ("time,rtt_ms\n0,1\n1,-3\n", [], "log, line 3: `rtt_ms` is `-3`"),
    "negative-bytes": ("1 1000 2 3 -5 9\n2 2000 2 3 5 9\n", [], "the number of bytes is `-5`"),
    "infinite": ("time,mbps\n0,1\n1,inf\n", [], "log, line 3: `mbps` is `inf`"),
    "no-rate-at-all": ("time,mbps\n0,nan\n1,nan\n", [], "needs two rows with values"),
    "only-outage": ("time,mbps\n0,0\n1,0\n", [], "every rate is 0"),
    "hardly-a-rate": ("time,mbps\n0,1e-9\n1,2e-9\n", [], "every rate is below 1 bit/s"),
    "clock-set-back": (
        stamped([n / 10 - 5 * (n >= 20) for n in range(40)]), [],
        "the time goes back by 4.9 s behind packet 20",
    ),
    "falling-clock": (stamped([-n / 10 for n in range(40)]), [], "goes back by 0.1 s behind"),
    "to-a-folder": (stamped([0, 1]), ["--out", "."], "--out is `.`, a folder"),
    "to-a-trace": (stamped([0, 1]), ["--out", "x.trace"], "the name of a packet-delivery trace"),
    "too-much-loss": ("time,loss_pct\n0,1\n1,120\n", [], "`loss_pct` is `120`"),
    "empty": ("", [], "the file is empty"),
    "zip": (b"PK\3\4" + bytes(range(200)), [], "unpack it first with `unzip`"),
    "zst": (b"\x28\xb5\x2f\xfd" + bytes(range(200)), [], "unpack it first with `unzstd`"),
    "broken-gzip": (b"\x1f\x8b" + bytes(range(200)), [], "unpack it first with `gunzip`"),
    "lfs": (LFS, [], "a pointer of Git LFS, not the data; run `git lfs pull`"),
    "annex": ("/annex/objects/SHA256E-s1--4d7.csv\n", [], "run `git annex get`"),
    "web-page": ("<!DOCTYPE html>\n<html></html>\n", [], "a page of a web site"),
    "rubbish": (bytes(range(256)) * 20, [], "neither a capture"),
    "text": ("Dear colleague, thank you.\n", [], "no column with a rate"),
    "capture": (b"\xd4\xc3\xb2\xa1\2\0\4\0" + bytes(16), [], "a capture has no values over time"),
    "own-output": ('# Written by `anabranch trace import`\n[links.x]\n', [], "a path profile or"),
    "no-times": (sets.ping(SKY, stamped=False), [], "give the time between them with --interval"),
    "ss": (ss(), [], "give the time between them with --interval"),
    "no-unit": ("time,throughput\n0,1\n1,2\n", ["--column", "rate=throughput"], "give --rate-unit"),
    "no-column": ("time,mbps\n0,1\n1,2\n", ["--column", "rate=dl"], "no column `dl`; there are"),
    "no-quantity": ("time,mbps\n0,1\n1,2\n", ["--column", "speed=mbps"], "`speed` is no quantity"),
    "no-equals": ("time,mbps\n0,1\n1,2\n", ["--column", "mbps"], "is not QUANTITY=HEADING"),
    "no-row": (sets.lumos([1e6] * 3), ["--where", "run_num=9"], "with values that --where chooses"),
    "no-such-unit": ("time,mbps\n0,1\n1,2\n", ["--rate-unit", "mph"], "`mph` is no unit"),
    "no-such-part": ("time,mbps\n0,1\n1,2\n", ["--take", "speed"], "`speed` is unknown"),
    "nothing-to-take": ("time,mbps\n0,1\n1,2\n", ["--take", "loss"], "no column with a loss"),
    "no-length": ("time,mbps\n0,1\n1,2\n", ["--window", "5"], "`5` is not a length of time"),
    "unit-of-a-ping": (sets.ping(SKY), ["--rate-unit", "bit/s"], "leave --rate-unit out"),
    "unit-of-a-known-table": (sets.nyu([1e6] * 3), ["--rate-unit", "bit/s"], "leave --rate-unit"),
    "delays-of-rates": (sets.nyu([1e6] * 3), ["--take", "delay"], "the table has rates alone"),
    "no-date": ("time,mbps\nnoon,1\n1,2\n", [], "log, line 2: `noon` is not a time"),
    "short-row": ("time,mbps\n0,1\n1\n", [], "log, line 3: 1 cells, not 2"),
    "ages": ("time,mbps\n0,1\n1e11,2\n", ["--time-unit", "s"], "allowed are up to 1e+09 s"),
    "name": ("time,mbps\n0,1\n1,2\n", ["--name", "a b"], "`a b` is not a name"),
    "slow": ("time,bps\n0,10\n1,12\n", ["--mahimahi", "--out", "x"], "leave --mahimahi out"),
    "mahimahi-to-nowhere": ("time,mbps\n0,1\n1,2\n", ["--mahimahi"], "give --out"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_a_mistake_is_one_sentence(kind: str, tmp_path: Path, anabranch: Command) -> None:
    content, options, sentence = BAD[kind]
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "log").write_bytes(data)
    said = one_error(anabranch("trace", "import", "log", *options))
    assert sentence in said
    assert "\n" not in said
    assert list(tmp_path.iterdir()) == [tmp_path / "log"]


def test_a_log_that_is_not_there(tmp_path: Path, anabranch: Command) -> None:
    assert "No such file" in one_error(anabranch("trace", "import", "nothing.csv"))
    (tmp_path / "folder").mkdir()
    assert "not a file" in one_error(anabranch("trace", "import", "folder"))


LOGS = {name: log.encode() for name, (log, _) in {**PINGED, **RATED}.items()} | {
    name: log.encode() for name, log in SAMPLES.items()
}
SHORT = {
    name: log if log.lstrip().startswith(b"{") else b"".join(log.splitlines(keepends=True)[:60])
    for name, log in LOGS.items()
    if name not in ("irtt-with-clocks-apart",)
} | {"irtt": sets.irtt(sets.sky(60)).encode(), "lumos": sets.lumos([1e6] * 20).encode()}


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(sorted(SHORT)), draw=st.randoms(use_true_random=False))
def test_a_damaged_log_gives_a_link_or_a_sentence(
    kind: str, draw: Any, tmp_path: Path, anabranch: Command
) -> None:
    (tmp_path / "log").write_bytes(changed(SHORT[kind], draw))
    (tmp_path / "road-run.toml").unlink(missing_ok=True)
    words = ["trace", "import", "log", "--out", "road", "--interval", "100ms", "--source", "test"]
    said = anabranch(*words)
    if said.returncode:
        one_error(said)
        return
    assert "# Source: test" in (tmp_path / "road.toml").read_text()
    assert "# Licence: " in (tmp_path / "road.toml").read_text()
    assert package.load(str(tmp_path / "road-run.toml"))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    source=st.text(max_size=200),
    licence=st.text(st.characters(codec="utf-8"), max_size=60),
    comment=st.text(st.characters(categories=["L", "N", "P", "Zs"]), max_size=80),
)
def test_the_text_of_a_head_survives(
    source: str, licence: str, comment: str, tmp_path: Path
) -> None:
    """Whatever is in it: the file stays a link, and says what it was told, but for line breaks."""
    file = written(tmp_path / "log", f"# {comment}\ntime,mbps\n0,1\n1,2\n")
    link = text(import_trace(file), "road", source=source, licence=licence)
    assert tomllib.loads(link)["links"]["road"]["rate"]["repeat"] == "2 s"
    flat = "".join(line.removeprefix("#") for line in link.splitlines() if line.startswith("#"))
    for said in (source, licence):
        for word in "".join(c if c.isprintable() else " " for c in said).split():
            assert word in flat


def test_json_of_nothing_is_a_sentence(tmp_path: Path) -> None:
    for content in ({}, {"version": {"irtt": "1", "json_format": 1}}, {"start": {"test_start": 1}}):
        with pytest.raises(AnabranchError):
            imported(tmp_path, json.dumps(content))
