"""Logs of other programs: each is recognised, and says what it says and no more."""

import contextlib
import gzip
import itertools
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.errors import AnabranchError
from anabranch.profile import Profile, estimate, measure, output
from anabranch.profile.logs import READERS, mahimahi
from anabranch.profile.loss import Losses
from anabranch.profile.measurement import LossCounts
from anabranch.support.reading import head
from conftest import written

BROADCAST = "PING 10.0.0.255 (10.0.0.255) 56(84) bytes of data.\n" + "".join(
    f"64 bytes from 10.0.0.{7 + (n + 1) % 2}: icmp_seq={n} ttl=64 time={3 if n % 2 else 0.5} ms\n"
    f"64 bytes from 10.0.0.{7 + n % 2}: icmp_seq={n} ttl=64 time={0.5 if n % 2 else 3} ms (DUP!)\n"
    for n in range(1, 21)
    if n != 5
) + "64 bytes from 10.0.0.8: icmp_seq=5 ttl=64 time=0.5 ms\n"  # fmt: skip

MACOS = """PING example.org (93.184.216.34): 56 data bytes
Request timeout for icmp_seq 0
64 bytes from 93.184.216.34: icmp_seq=1 ttl=56 time=11.632 ms
64 bytes from 93.184.216.34: icmp_seq=2 ttl=56 time=12.102 ms

--- example.org ping statistics ---
4 packets transmitted, 2 packets received, 50.0% packet loss
round-trip min/avg/max/stddev = 11.632/11.867/12.102/0.235 ms
"""

WINDOWS = {
    "en": """
Pinging example.com [93.184.216.34] with 32 bytes of data:
Reply from 93.184.216.34: bytes=32 time=12ms TTL=56
Request timed out.
Reply from 192.168.1.1: Destination host unreachable.
Reply from 93.184.216.34: bytes=32 time=13ms TTL=56

Ping statistics for 93.184.216.34:
    Packets: Sent = 4, Received = 2, Lost = 2 (50% loss),
Approximate round trip times in milli-seconds:
    Minimum = 12ms, Maximum = 13ms, Average = 12ms
""",
    "de": """
Ping wird ausgeführt für example.com [93.184.216.34] mit 32 Bytes Daten:
Antwort von 93.184.216.34: Bytes=32 Zeit=12ms TTL=56
Zeitüberschreitung der Anforderung.
Antwort von 192.168.1.1: Zielhost nicht erreichbar.
Antwort von 93.184.216.34: Bytes=32 Zeit=13ms TTL=56

Ping-Statistik für 93.184.216.34:
    Pakete: Gesendet = 4, Empfangen = 2, Verloren = 2
    (50% Verlust),
Ca. Zeitangaben in Millisek.:
    Minimum = 12ms, Maximum = 13ms, Mittelwert = 12ms
""",
    "fr": """
Envoi d'une requête 'Ping'  93.184.216.34 avec 32 octets de données :
Réponse de 93.184.216.34 : octets=32 temps=12 ms TTL=56
Délai d'attente de la demande dépassé.
Réponse de 192.168.1.1 : Impossible de joindre l'hôte de destination.
Réponse de 93.184.216.34 : octets=32 temps=13 ms TTL=56

Statistiques Ping pour 93.184.216.34:
    Paquets : envoyés = 4, reçus = 2, perdus = 2 (perte 50%),
Durée approximative des boucles en millisecondes :
    Minimum = 12ms, Maximum = 13ms, Moyenne = 12ms
""",
    "ru": """
Обмен пакетами с example.com [93.184.216.34] с 32 байтами данных:
Ответ от 93.184.216.34: число байт=32 время=12мс TTL=56
Превышен интервал ожидания для запроса.
Ответ от 192.168.1.1: Заданный узел недоступен.
Ответ от 93.184.216.34: число байт=32 время=13мс TTL=56

Статистика Ping для 93.184.216.34:
    Пакетов: отправлено = 4, получено = 2, потеряно = 2
    (50% потерь)
Приблизительное время приема-передачи в мс:
    Минимальное = 12мсек, Максимальное = 13 мсек, Среднее = 12 мсек
""",
    "ja": """
example.com [93.184.216.34]に ping を送信しています 32 バイトのデータ:
93.184.216.34 からの応答: バイト数 =32 時間 =12ms TTL=56
要求がタイムアウトしました。
192.168.1.1 からの応答: 宛先ホストに到達できません。
93.184.216.34 からの応答: バイト数 =32 時間 =13ms TTL=56

93.184.216.34 の ping 統計:
    パケット数: 送信 = 4、受信 = 2、損失 = 2 (50% の損失)、
ラウンド トリップの概算時間 (ミリ秒):
    最小 = 12ms、最大 = 13ms、平均 = 12ms
""",
}
WINDOWS_IPV6 = """
Pinging ::1 with 32 bytes of data:
Reply from ::1: time<1ms
Reply from ::1: time<1ms
Reply from ::1: time=2ms
"""

FPING = """\
example.org : [0], 64 bytes, 21.3 ms (21.3 avg, 0% loss)
other.org   : [0], 64 bytes, 5.32 ms (5.32 avg, 0% loss)
example.org : [1], timed out (21.3 avg, 50% loss)
example.org : [2], 64 bytes, 20.9 ms (21.1 avg, 33% loss)

example.org : xmt/rcv/%loss = 4/2/50%, min/avg/max = 20.9/21.1/21.3
other.org   : xmt/rcv/%loss = 1/1/0%, min/avg/max = 5.32/5.32/5.32
"""
FPING_ROW = "example.org : 21.3 - 20.9 -\n"
FPING_JSON = """\
{"resp": {"timestamp": "1732.12345", "host": "example.org", "seq": 0, "size": 64, "rtt": 21.3}}
{"timeout": {"host": "example.org", "seq": 1}}
{"resp": {"host": "example.org", "seq": 2, "size": 64, "rtt": 20.9}}
{"summary": {"host": "example.org", "xmt": 4, "rcv": 2, "loss": 50, "rttMin": 20.9}}
"""

MTR_RAW = """\
x 0 33000
x 1 33001
h 0 192.168.1.1
p 0 1200 33000
h 1 192.0.2.7
p 1 21300 33001
x 2 33002
h 2 192.0.2.7
p 2 21400 33002
x 0 33003
x 1 33004
x 1 33005
p 1 20900 33005
x 1 33006
"""
MTR_JSON = json.dumps({
    "report": {
        "mtr": {"src": "here", "dst": "example.org", "tos": 0, "tests": 10, "psize": "64"},
        "hubs": [
            {"count": 1, "host": "192.168.1.1", "Loss%": 0.0, "Snt": 10, "Best": 1.1, "Wrst": 2.0},
            {"count": 2, "host": "???", "Loss%": 100.0, "Snt": 10, "Best": 0.0, "Wrst": 0.0},
            {"count": 3, "host": "192.0.2.7", "Loss%": 20.0, "Snt": 10, "Best": 20.9, "Wrst": 25.0},
        ],
    }
})  # fmt: skip


def irtt_trips(count: int = 40, clock_ns: int = 0) -> list[dict[str, Any]]:
    """Round trips of 10 ms there and 25 ms back; every tenth lost there, one of those back."""
    trips: list[dict[str, Any]] = []
    for number in range(count):
        lost = "true_up" if number % 10 == 4 else "true_down" if number == 17 else "false"
        there, back = 10_000_000 + 1000 * (number % 7), 25_000_000 + 1000 * (number % 5)
        delay = {"rtt": there + back, "send": there + clock_ns, "receive": back - clock_ns}
        trips.append({"seqno": number, "lost": lost, "delay": delay if lost == "false" else {}})
    return trips


def irtt(trips: list[dict[str, Any]], **stats: Any) -> str:
    return json.dumps({
        "version": {"irtt": "0.9.1", "protocol": 1, "json_format": 1},
        "config": {"params": {"interval": 20_000_000}},
        "stats": stats,
        "round_trips": trips,
    })  # fmt: skip


IRTT_TEXT = """\
[Connecting] connecting to 192.0.2.7
[192.0.2.7:2112] [Connected] connection established
seq=0 rtt=35.2ms rd=25.1ms sd=10.1ms ipdv=n/a
seq=1 rtt=35.1ms rd=25.05ms sd=10.05ms ipdv=100µs
DUP! seq=1
seq=3 rtt=1m0.035s rd=1m0.024s sd=10.9ms ipdv=n/a (LATE)

                         Min     Mean   Median      Max  Stddev
                         ---     ----   ------      ---  ------
                RTT   35.1ms   20.03s   35.2ms  1m0.03s  34.6s

                duration: 801ms (wait 105ms)
   packets sent/received: 5/3 (40.00% loss)
 server packets received: 3/5 (40.00%/0.00% loss up/down)
     bytes sent/received: 300/180
"""
IRTT_RAW = """\
0 35.200000 25.100000 10.100000 NaN 0 0
1 35.100000 25.050000 10.050000 -0.100000 0 0
1 NaN NaN NaN NaN 1 NaN
3 36.100000 25.200000 10.900000 NaN 0 0
"""


def iperf3(*, is_udp: bool = False, rtt_us: int = 60_000, **test: Any) -> str:
    intervals: list[dict[str, Any]] = []
    for second in range(10):
        total: dict[str, Any] = {
            "start": second, "end": second + 1, "seconds": 1.0, "bytes": 2_500_000,
            "bits_per_second": 2e7 + 1e5 * (second % 3), "omitted": second == 0,
        }  # fmt: skip
        if is_udp:
            total |= {"jitter_ms": 0.5, "lost_packets": 2, "packets": 1000, "lost_percent": 0.2}
            streams = [dict(total)]
        else:
            total |= {"retransmits": 3 if second == 4 else 0}
            streams = [total | {"rtt": rtt_us + 100 * second, "rttvar": 500, "snd_cwnd": 250_000}]
        intervals.append({"streams": streams, "sum": total})
    end = {"seconds": 10.0, "bytes": 25_000_000, "bits_per_second": 2e7, "retransmits": 3}
    return json.dumps({
        "start": {
            "connected": [{"socket": 5, "local_host": "10.0.0.1", "remote_host": "10.0.0.2"}],
            "version": "iperf 3.16",
            "tcp_mss_default": 1448,
            "test_start": {"protocol": "UDP" if is_udp else "TCP", "num_streams": 1,
                           "blksize": 1448, "reverse": 0} | test,
        },
        "intervals": intervals,
        "end": {
            "streams": [{"sender": {"min_rtt": 20_000, "max_rtt": 61_000, "mean_rtt": 60_000}}],
            "sum_sent": end, "sum_received": end,
        },
    })  # fmt: skip


def flent(standing_ms: float = 40.0) -> str:
    pings = [{"t": 1.6e9 + 0.2 * n, "val": 20.0 if n < 20 else 20.0 + standing_ms, "seq": n}
             for n in range(100) if n not in (7, 50)]  # fmt: skip
    rates = [None, *[9.4] * 40]
    return json.dumps({
        "metadata": {"NAME": "rrul", "DATA_FILENAME": "rrul-2026.flent.gz", "FLENT_VERSION": "2.1"},
        "raw_values": {"Ping (ms) ICMP": pings},
        "results": {"Ping (ms) ICMP": [20.0] * 41, "Ping (ms) avg": [20.0] * 41,
                    "TCP upload BE": rates, "TCP upload BK": rates, "TCP upload sum": rates,
                    "TCP download BE": [20.0] * 41, "TCP download avg": [5.0] * 41},
        "version": 4,
        "x_values": [0.2 * n for n in range(41)],
    })  # fmt: skip


def ss(samples: int = 10, rtt: float = 60.0) -> str:
    return "".join(
        "State Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n"
        "ESTAB 0      36     192.0.2.1:22       192.0.2.9:51514\n"
        "\t cubic wscale:7,7 rto:204 rtt:1.5/0.5 mss:1448 bytes_sent:4000 segs_out:40 "
        "data_segs_out:30 send 77Mbps delivery_rate 9Mbps app_limited minrtt:1.2\n"
        "ESTAB 0      2896   192.0.2.1:40000    192.0.2.2:5001\n"
        f"\t cubic wscale:7,7 rto:240 rtt:{rtt + n / 10:.1f}/2.5 mss:1448 pmtu:1500 cwnd:90 "
        f"bytes_sent:{n * 2_500_000} bytes_acked:{n * 2_400_000} segs_out:{n * 1800} "
        f"data_segs_out:{n * 1750} send 19.8Mbps lastsnd:4 pacing_rate 23.7Mbps "
        f"delivery_rate {19.2 + n % 2 / 10}Mbps busy:{n}000ms retrans:0/{n * 7} minrtt:20.1\n"
        for n in range(1, samples + 1)
    )


MM_LINK = "# mahimahi mm-link (uplink) [/traces/lte.up] > up\n# base timestamp: 1000\n" + "".join(
    f"{1000 + n} # 1500\n" + (f"{1000 + n} + 1500\n{1000 + n} - 1500 {n % 40}\n" if n % 2 else "")
    + (f"{1000 + n} d 3 4500\n" if n == 500 else "")
    for n in range(3500)
)  # fmt: skip

TIMED = "time,rtt_ms\n" + "".join(f"{n / 50:.2f},{20 + n % 3}\n" for n in range(30)) + "0.60,\n"
RATES = "timestamp;mbps\n" + "".join(f"{n};{10 + n % 2}\n" for n in range(20))

SAMPLES = {
    "ping": BROADCAST, "macos": MACOS, **{f"windows-{key}": text for key, text in WINDOWS.items()},
    "windows-ipv6": WINDOWS_IPV6, "fping": FPING, "fping-row": FPING_ROW, "fping-json": FPING_JSON,
    "mtr-raw": MTR_RAW, "mtr-json": MTR_JSON, "irtt": irtt(irtt_trips()), "irtt-text": IRTT_TEXT,
    "irtt-raw": IRTT_RAW, "iperf3": iperf3(), "iperf3-udp": iperf3(is_udp=True), "flent": flent(),
    "ss": ss(), "mm-link": MM_LINK, "timed": TIMED, "rates": RATES, "seq": "seq,rtt\n1,20\n2,21\n",
    "mahimahi": "1\n2\n3\n",
}  # fmt: skip
READS = {
    "ping": "ping", "macos": "ping", "windows": "windows_ping", "fping": "fping", "mtr": "mtr",
    "irtt": "irtt", "iperf3": "iperf3", "flent": "flent", "ss": "ss", "mm-link": "mm_link",
    "mahimahi": "mahimahi",
}  # fmt: skip


def of(folder: Path, text: str, name: str = "log") -> Profile:
    return estimate(measure([written(folder / name, text)]))


def ms(value: float) -> float:
    return value * 1e3


@pytest.mark.parametrize("name", SAMPLES)
def test_each_log_has_one_reader(name: str, tmp_path: Path) -> None:
    """And gives a link that a scenario takes, packed or not; nobody else claims it but a table."""
    file = written(tmp_path / name, SAMPLES[name])
    found = [reader for reader in READERS if reader.recognises(head(file))]
    wanted = READS.get(name, READS.get(name.partition("-")[0], "table"))
    assert getattr(found[0], "__name__", "").rpartition(".")[2] == wanted
    assert [r for r in found[1:] if not getattr(r, "__name__", "").endswith("table")] == []
    plain = estimate(measure([file]))
    text = output.toml(plain, "link", ("a", "b"))
    assert tomllib.loads(text)["links"]["link"]["ends"] == ["a", "b"]
    assert json.dumps(output.as_json(plain, "link"), allow_nan=True)
    assert output.rows(plain)
    if wanted != "mahimahi":
        packed = tmp_path / f"{name}.gz"
        packed.write_bytes(gzip.compress(SAMPLES[name].encode()))
        assert output.rows(estimate(measure([packed]))) == output.rows(plain)


def runs_of_ping(starts: list[tuple[float, int]]) -> str:
    """Runs of 300 pings with this round-trip time in ms, every so many of them lost."""
    return "".join(
        "PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.\n"
        + "".join(
            f"64 bytes from 192.0.2.1: icmp_seq={n} ttl=60 time={time + n % 10 / 10:.1f} ms\n"
            for n in range(1, 301)
            if n % every
        )
        + "\n--- 192.0.2.1 ping statistics ---\n"
        f"300 packets transmitted, {300 - 300 // every} received, 0% packet loss, time 59800ms\n"
        for time, every in starts
    )


@pytest.mark.parametrize("headed", [True, False])
def test_appended_runs_are_runs_of_their_own(tmp_path: Path, *, headed: bool) -> None:
    """The second one does not overwrite the first, also where only the answers were kept."""
    text = runs_of_ping([(20, 10), (40, 9)])
    if not headed:
        text = "".join(line for line in text.splitlines(keepends=True) if "icmp_seq" in line)
    found = of(tmp_path, text)
    assert found.losses is not None
    assert found.losses.count == 30 + 33 - (not headed) * 1  # one of the last, which no line has
    assert found.losses.sent == 600 - (not headed) * 1
    assert found.delay_s is not None
    assert ms(found.delay_s.value) == pytest.approx(10, abs=0.1)
    assert "2 runs in one file" in found.measurement.notes[0]
    assert "from 20.1 to 40 ms" in found.measurement.notes[0]


def test_of_a_broadcast_one_host_is_measured(tmp_path: Path) -> None:
    found = of(tmp_path, BROADCAST)
    assert found.measurement.delays is not None
    assert set(found.measurement.delays.seconds) == {5e-4}
    assert found.losses is not None
    assert (found.losses.count, found.losses.sent) == (0, 20)
    assert "2 hosts answered" in found.measurement.notes[0]


def test_pings_to_two_hosts_are_two_paths(tmp_path: Path) -> None:
    text = runs_of_ping([(20, 10)]) + runs_of_ping([(50, 11)]).replace("192.0.2.1", "192.0.2.9")
    found = of(tmp_path, text + text.partition("PING 192.0.2.9")[0])
    assert found.losses is not None
    assert (found.losses.count, found.losses.sent) == (60, 600)
    assert "only the pings to 192.0.2.1 are measured" in found.measurement.notes[0]


def test_a_lost_first_ping_of_macos_is_lost(tmp_path: Path) -> None:
    found = of(tmp_path, MACOS)
    assert isinstance(found.losses, Losses)
    assert found.losses.lost.tolist() == [True, False, False, True]


@pytest.mark.parametrize("language", WINDOWS)
def test_windows_pings_in_every_language(language: str, tmp_path: Path) -> None:
    """Also as PowerShell and other programs write it, and twice in one file."""
    text = WINDOWS[language]
    files = []
    for encoding in ("utf-16", "utf-32", "cp1252"):
        files.append(tmp_path / f"{encoding}.txt")
        files[-1].write_text(text, encoding, errors="replace")
    for found in (of(tmp_path, text), *(estimate(measure([file])) for file in files)):
        assert isinstance(found.losses, Losses)
        assert found.losses.lost.tolist() == [False, True, True, False]
        assert found.measurement.delays is not None
        assert found.measurement.delays.seconds.tolist() == pytest.approx([0.012, 0.013])
    twice = of(tmp_path, text + text)
    assert twice.losses is not None
    assert (twice.losses.count, twice.losses.sent) == (4, 8)


def test_less_than_a_millisecond(tmp_path: Path) -> None:
    found = of(tmp_path, WINDOWS_IPV6)
    assert found.measurement.delays is not None
    assert found.measurement.delays.seconds.tolist() == [0.0005, 0.0005, 0.002]


@pytest.mark.parametrize("text", [FPING, FPING_ROW, FPING_JSON])
def test_fping(text: str, tmp_path: Path) -> None:
    found = of(tmp_path, text)
    assert isinstance(found.losses, Losses)
    assert found.losses.lost.tolist() == [False, True, False, True]
    assert found.measurement.delays is not None
    assert found.measurement.delays.seconds.tolist() == pytest.approx([0.0213, 0.0209])
    assert any("2 hosts" in note for note in found.measurement.notes) == ("other.org" in text)


def test_mtr_measures_the_way_to_its_end(tmp_path: Path) -> None:
    """The nearest hop with the last address; a report has only a bound of the delay."""
    found = of(tmp_path, MTR_RAW)
    assert isinstance(found.losses, Losses)
    assert found.losses.lost.tolist() == [False, True, False, True]
    assert found.measurement.delays is not None
    assert found.measurement.delays.seconds.tolist() == pytest.approx([0.0213, 0.0209])
    assert "192.0.2.7, hop 2" in found.measurement.notes[0]
    found = of(tmp_path, MTR_JSON)
    assert isinstance(found.measurement.losses, LossCounts)
    assert found.losses is not None
    assert (found.losses.count, found.losses.sent) == (2, 10)
    assert found.delay_s is not None
    assert ms(found.delay_s.value) == pytest.approx(10.45)
    assert found.delay_s.interval[0] == 0
    assert found.jitter_s is None
    assert found.loss is not None
    assert found.loss.model == "bernoulli"


def test_irtt_has_both_ways(tmp_path: Path) -> None:
    found = of(tmp_path, irtt(irtt_trips()))
    assert found.losses is not None
    assert found.back is not None
    assert found.back.losses is not None
    assert (found.losses.count, found.losses.sent) == (4, 40)
    assert (found.back.losses.count, found.back.losses.sent) == (1, 36)
    assert found.delay_s is not None
    assert found.back.delay_s is not None
    assert ms(found.delay_s.value) == pytest.approx(10, abs=0.01)
    assert ms(found.back.delay_s.value) == pytest.approx(25, abs=0.01)
    link = tomllib.loads(output.toml(found, "x", ("a", "b")))["links"]["x"]
    assert link["delay"].startswith(("10 ", "9.99"))
    assert link["reverse"]["delay"].startswith(("25 ", "24.99"))
    assert link["reverse"]["loss"]["probability"] == pytest.approx(1 / 36, rel=1e-3)
    (there, back) = [line for line in output.netem(found) if line.startswith("tc ")]
    assert "delay 10" in there.replace("delay 9.99", "delay 10")
    assert "delay 25" in back.replace("delay 24.99", "delay 25")
    assert "loss" in there
    assert "loss" in back
    assert "each way by itself" in (output.direction(found, ("a", "b")) or "")
    assert any(row[0] == "loss, way back" for row in output.rows(found))


def test_irtt_with_clocks_that_disagree_has_round_trips(tmp_path: Path) -> None:
    found = of(tmp_path, irtt(irtt_trips(clock_ns=30_000_000)))
    assert found.delay_s is not None
    assert ms(found.delay_s.value) == pytest.approx(17.5, abs=0.01)
    assert any("clocks of both ends disagree" in note for note in found.measurement.notes)
    assert found.losses is not None
    assert found.losses.count == 4


def test_what_the_server_counted_says_on_which_way(tmp_path: Path) -> None:
    """Where no packet has its way: all on one way keep their bursts, some on each only numbers."""
    trips = irtt_trips()
    for trip in trips:
        trip["lost"] = trip["lost"].replace("true_up", "true").replace("true_down", "true")
    up = of(tmp_path, irtt(trips, server_packets_received=35))
    assert up.losses is not None
    assert (up.losses.count, len(up.losses.bursts)) == (5, 5)
    assert up.back is not None
    assert up.back.losses is not None
    assert up.back.losses.count == 0
    both = of(tmp_path, irtt(trips, server_packets_received=37))
    assert both.back is not None
    assert both.losses is not None
    assert both.back.losses is not None
    assert (both.losses.count, both.back.losses.count, both.back.losses.sent) == (3, 2, 37)
    unknown = of(tmp_path, irtt(trips))
    assert unknown.measurement.losses is not None
    assert unknown.measurement.losses.round_trip


@pytest.mark.parametrize("text", [IRTT_TEXT, IRTT_RAW])
def test_irtt_as_text(text: str, tmp_path: Path) -> None:
    found = of(tmp_path, text)
    assert isinstance(found.losses, Losses)
    assert found.losses.lost.tolist() == [False, False, True, False, True][: found.losses.sent]
    assert found.losses.sent == (5 if "sent/received" in text else 4)
    assert found.measurement.delays is not None
    assert found.measurement.delays.seconds.tolist() == pytest.approx([0.0101, 0.01005, 0.0109])
    assert found.back is not None


def test_iperf3_over_tcp(tmp_path: Path) -> None:
    """Full: the smoothed round trips stand above the least one. Not full: at least this rate."""
    found = of(tmp_path, iperf3())
    assert found.rate_bit_per_s is not None
    assert not found.rate_is_bound
    assert found.rate_bit_per_s.value == pytest.approx(20.1e6 * 1500 / 1448)
    assert found.delay_s is not None
    assert found.delay_s.value == pytest.approx(0.010)
    assert found.delay_s.interval == pytest.approx((0.0, 0.010))
    assert found.jitter_s is None
    assert found.queue_packets is not None
    assert found.queue_packets.value == pytest.approx(0.041 * 20.1e6 / 8 / 1448, rel=0.05)
    assert found.losses is not None
    assert found.losses.count == 3
    assert found.losses.sent == pytest.approx(9 * 2.5e6 / 1448, rel=0.01)
    idle = of(tmp_path, iperf3(rtt_us=20_200))
    assert idle.rate_is_bound
    assert any("at least this" in note for note in idle.measurement.notes)
    reverse = of(tmp_path, iperf3(reverse=1))
    assert any("the first of --ends is the server" in note for note in reverse.measurement.notes)


def test_iperf3_over_udp(tmp_path: Path) -> None:
    found = of(tmp_path, iperf3(is_udp=True))
    assert found.rate_is_bound
    assert found.delay_s is None
    assert found.jitter_s is not None
    assert found.jitter_s.value == pytest.approx(0.0015)
    assert found.losses is not None
    assert (found.losses.count, found.losses.sent) == (18, 9000)
    assert found.mean_loss is not None
    low, high = found.mean_loss.interval
    assert low < 0.002 < high < 0.004


def test_counted_losses_that_come_together_are_less_sure(tmp_path: Path) -> None:
    """90 lost in one of nine seconds, or ten in each: the same share, another interval."""
    tree = json.loads(iperf3(is_udp=True))
    ends = {}
    for name, lost in (("even", [10] * 10), ("burst", [0] * 5 + [90] + [0] * 4)):
        for interval, count in zip(tree["intervals"], lost, strict=True):
            interval["sum"]["lost_packets"] = count
        found = of(tmp_path, json.dumps(tree))
        assert found.mean_loss is not None
        assert found.mean_loss.value == pytest.approx(0.01)
        ends[name] = found.mean_loss.interval
    assert ends["burst"][1] > 1.5 * ends["even"][1]
    assert ends["burst"][0] < ends["even"][0]


def test_flent_has_pings_and_both_rates(tmp_path: Path) -> None:
    file = tmp_path / "rrul.flent.gz"
    file.write_bytes(gzip.compress(flent().encode()))
    found = estimate(measure([file]))
    assert found.losses is not None
    assert (found.losses.count, found.losses.sent) == (2, 100)
    assert found.rate_bit_per_s is not None
    assert not found.rate_is_bound
    assert found.rate_bit_per_s.value == pytest.approx(18.8e6 * 1500 / 1448)
    assert found.back is not None
    assert found.back.rate_bit_per_s is not None
    assert found.back.rate_bit_per_s.value == pytest.approx(20e6 * 1500 / 1448)
    assert "rate" in tomllib.loads(output.toml(found, "x", ("a", "b")))["links"]["x"]["reverse"]
    assert of(tmp_path, flent(standing_ms=0.0)).rate_is_bound


def test_ss_measures_the_connection_that_sent_most(tmp_path: Path) -> None:
    found = of(tmp_path, ss())
    assert "192.0.2.1:40000 to 192.0.2.2:5001" in found.measurement.notes[0]
    assert found.delay_s is not None
    assert ms(found.delay_s.value) == pytest.approx(20.1 / 2)
    assert found.losses is not None
    assert (found.losses.count, found.losses.sent) == (70, 17_500)
    assert found.rate_bit_per_s is not None
    assert found.rate_bit_per_s.value == pytest.approx(19.25e6 * 1500 / 1448)
    assert not found.rate_is_bound
    assert of(tmp_path, ss(samples=1)).rate_is_bound
    assert of(tmp_path, ss(rtt=20.2)).rate_is_bound


def test_mm_link_has_the_rate_and_the_queue(tmp_path: Path) -> None:
    found = of(tmp_path, MM_LINK)
    assert found.rate_bit_per_s is not None
    assert found.rate_bit_per_s.value == pytest.approx(12e6)
    assert found.delay_s is None
    assert found.losses is None
    assert found.queue_packets is not None
    assert found.queue_packets.value == pytest.approx(38, abs=1)
    assert any("/traces/lte.up" in note for note in found.measurement.notes)
    assert any("dropped 3 of 1750" in note for note in found.measurement.notes)


def test_a_trace_of_one_line_is_a_trace(tmp_path: Path) -> None:
    """A packet of 1500 bytes each millisecond are 12 Mbit/s."""
    found = of(tmp_path, "1\n")
    assert found.rate_bit_per_s is not None
    assert found.rate_bit_per_s.value == pytest.approx(12e6)
    assert found.rate_bit_per_s.interval == pytest.approx((12e6, 12e6))
    assert found.outages == []


def test_a_trace_of_thirty_years_takes_no_memory(tmp_path: Path) -> None:
    found = of(tmp_path, "1\n2\n3\n999999999999\n")
    assert any("rate left out: 4.8e-05" in note for note in found.measurement.notes)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xef\xbb\xbf1\n2\n", "byte-order mark"),
        ("1\n2\n".encode("utf-16"), "byte-order mark"),
        (b"1\n# \xff\n2\n", "line 2: not UTF-8"),
        (b"1\r2\n3\n4\n5\n", "line 1"),
        (b"1\n2\n\x1f\n", "line 3"),
        (b"1\n2\x1c\n", "line 2"),
    ],
)
def test_a_trace_is_one_that_a_scenario_takes(tmp_path: Path, content: bytes, message: str) -> None:
    """Its profile names the file, which the scenario reads by itself."""
    file = tmp_path / "trace"
    file.write_bytes(content)
    with pytest.raises(AnabranchError, match=message):
        mahimahi.read(file)


def test_tables_of_times(tmp_path: Path) -> None:
    found = of(tmp_path, TIMED)
    assert found.losses is not None
    assert (found.losses.count, found.losses.sent) == (1, 31)
    assert found.measurement.losses is not None
    assert found.measurement.losses.spacing_s == pytest.approx(0.02)
    found = of(tmp_path, RATES)
    assert found.rate_is_bound
    assert found.rate_bit_per_s is not None
    assert found.rate_bit_per_s.value == pytest.approx(10.5e6)


UNREAD = {
    "[ ID] Interval           Transfer     Bitrate\n[  5]   0.00-1.00   sec  112 MB\n": "--json",
    "HOST: here      Loss%   Snt   Last   Avg  Best  Wrst StDev\n  1.|-- gw  0.0%\n": "mtr --raw",
    "traceroute to example.org (192.0.2.7), 30 hops max\n": "mtr --raw",
    "State Recv-Q Send-Q Local Address:Port Peer\nESTAB 0 0 192.0.2.1:22 192.0.2.9:51\n": "ss -ti",
    "MIGRATED TCP STREAM TEST from 0.0.0.0\n": "flent",
    "12:00:00.123456 IP 192.0.2.1.80 > 192.0.2.2.90: Flags [S], seq 1, win 64240\n": "tcpdump -w",
    "Mtr_Version,Start_Time,Status,Host,Hop,Ip,Loss%,\n": "mtr --raw",
    "---\nClient connecting to 192.0.2.1, TCP port 5001\n": "--json",
    "Source   Destination IPV4Address Bytes Time(ms)\n": "Windows' ping",
    "PING a (192.0.2.1) 56(84) bytes of data.\n\n--- a ping statistics ---\n"
    "9 packets transmitted, 8 received, 11% packet loss, time 8000ms\n": "without `-q`",
    "some words\n": "irtt (JSON, text, `-r`)",
}


@pytest.mark.parametrize("text", UNREAD)
def test_what_is_not_read_is_named_with_what_would_be(text: str, tmp_path: Path) -> None:
    with pytest.raises(AnabranchError) as error:
        of(tmp_path, text)
    assert UNREAD[text] in str(error.value)
    assert "\n" not in str(error.value)


BAD_NUMBERS = {
    "negative": (iperf3().replace('"rtt": 60100', '"rtt": -1'), "`rtt` is `-1`"),
    "nan": (iperf3().replace('"rtt": 60100', '"rtt": NaN'), "NaN is no number"),
    "huge": (
        iperf3().replace('"bits_per_second": 20100000.0', '"bits_per_second": 1e300'),
        "1e+300",
    ),
    "wide": (irtt([{"seqno": 0, "lost": "false", "delay": {"rtt": 10**400}}]), "`rtt` is"),
    "far": (FPING.replace("[2]", "[999999999]"), "sequence numbers from 0"),
    "ping": (MACOS.replace("12.102", "1.2.3"), "is not a round-trip time"),
    "two": (MTR_JSON + MTR_JSON, "a second result begins"),
    "deep": ('{"report": {"mtr": ' + '{"a":' * 100_000, "nested too deeply"),
    "over": (MTR_JSON.replace('"Loss%": 20.0', '"Loss%": 120'), "allowed is 0 to 100"),
    "flent": (flent().replace("[null, 9.4", '[null, "9.4x"'), "`TCP upload` a value"),
    "text": (flent().replace('"val": 20.0', '"val": "x"', 1), "a value is `x`"),
    "packed": ("", "damaged or cut off"),
    "mahimahi": ("0\n0\n", "a time above 0"),
    "lost": (WINDOWS["en"].replace("TTL=56", "").replace("time=", ""), "no ping was answered"),
}


@pytest.mark.parametrize("name", BAD_NUMBERS)
def test_numbers_are_checked(name: str, tmp_path: Path) -> None:
    text, message = BAD_NUMBERS[name]
    file = written(tmp_path / "log", text)
    if name == "packed":
        file.write_bytes(gzip.compress(FPING.encode() * 300)[:-20])
    with pytest.raises(AnabranchError) as error:
        measure([file])
    assert message in str(error.value), str(error.value)
    assert str(error.value).startswith(str(file))
    assert "\n" not in str(error.value)


def estimated(file: Path) -> bool:
    """Whether it is a profile, with values in their intervals and in range; else a sentence."""
    try:
        found = estimate(measure([file]))
    except AnabranchError as error:
        assert "\n" not in str(error)  # noqa: PT017 - both are right
        return False
    for each in (found, found.back):
        if each is None:
            continue
        for value in (each.delay_s, each.jitter_s, each.rate_bit_per_s, each.mean_loss):
            if value is not None:
                assert np.isfinite([value.value, *value.interval]).all()
                assert 0 <= value.interval[0] <= value.interval[1]
    tomllib.loads(output.toml(found, "x", ("a", "b")))
    output.netem(found)
    output.rows(found)
    output.as_json(found, "x")
    return True


FUZZ = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150
)


@FUZZ
@given(st.data())
def test_any_change_of_a_log_is_a_profile_or_a_sentence(
    tmp_path: Path, data: st.DataObject
) -> None:
    text = SAMPLES[data.draw(st.sampled_from(sorted(SAMPLES)))][:3000]
    words = st.sampled_from(
        ["-1", "NaN", "1e400", "null", "[]", "{}", "\n", "0", "99999999999999999999", ":", "\0",
         "seq=", "é", "PING x\n", '"', ",", "=5ms TTL=1\n", "true", " "]
    )  # fmt: skip
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 12))
        text = text[:at] + data.draw(words | st.text(max_size=5)) + text[at + length :]
    file = tmp_path / "log"
    file.write_text(text, "utf-8", errors="replace")
    estimated(file)


@FUZZ
@given(st.data())
def test_any_bytes_are_a_profile_or_a_sentence(tmp_path: Path, data: st.DataObject) -> None:
    """Each reader, also where the file would have another."""
    file = tmp_path / "log"
    file.write_bytes(data.draw(st.binary(max_size=300)))
    estimated(file)
    for reader in READERS:
        with contextlib.suppress(AnabranchError):
            reader.read(file)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything in a tree."""
    below = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *itertools.chain.from_iterable(leaves(each, (*path, key)) for key, each in below)]


@FUZZ
@given(st.data())
def test_any_tree_is_a_profile_or_a_sentence(tmp_path: Path, data: st.DataObject) -> None:
    """Any value of a result in JSON, replaced by one of any other kind."""
    name = data.draw(st.sampled_from(["iperf3", "iperf3-udp", "flent", "mtr-json", "irtt"]))
    tree = json.loads(SAMPLES[name])
    for _ in range(data.draw(st.integers(1, 3))):
        *above, last = data.draw(st.sampled_from([path for path in leaves(tree) if path]))
        place = tree
        for key in above:
            place = place[key]
        place[last] = data.draw(
            st.none() | st.booleans() | st.integers(-5, 10**20) | st.floats() | st.text(max_size=4)
            | st.lists(st.integers(0, 9), max_size=3)
            | st.dictionaries(st.just("val"), st.integers())
        )  # fmt: skip
    estimated(written(tmp_path / "log", json.dumps(tree)))
