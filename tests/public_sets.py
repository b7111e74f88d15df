"""Logs that look like those of public sets, and are not: every number in them is drawn here.

The forms are those of the sets' own descriptions (docs/traces.md names them); no row of theirs is
in this repository.
"""

import json
import math
import random
from dataclasses import dataclass

HEAD_GNETTRACK = (
    "Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP,RSRQ,SNR,CQI,RSSI,"
    "DL_bitrate,UL_bitrate,State,PINGAVG,PINGMIN,PINGMAX,PINGSTDEV,PINGLOSS,CELLHEX,NODEHEX,LACHEX,"
    "RAWCELLID,NRxRSRP,NRxRSRQ"
)
HEAD_LUMOS = (
    "run_num,seq_num,abstractSignalStr,latitude,longitude,movingSpeed,compassDirection,nrStatus,"
    "lte_rssi,lte_rsrp,lte_rsrq,lte_rssnr,nr_ssRsrp,nr_ssRsrq,nr_ssSinr,Throughput,mobility_mode,"
    "trajectory_direction,tower_id"
)


@dataclass(frozen=True)
class Sky:
    """Packets over satellites that are chosen anew every 15 s, as drawn here."""

    spacing_s: float
    there_s: list[float | None]
    """One-way delays; None where the packet was lost on its way."""
    back_s: list[float | None]
    """Of those that were not lost before."""

    @property
    def mean_rtt_s(self) -> float:
        trips = self.round_trips
        return sum(trips) / len(trips)

    @property
    def round_trips(self) -> list[float]:
        pairs = zip(self.there_s, self.back_s, strict=True)
        return [a + b for a, b in pairs if a is not None and b is not None]

    @property
    def loss(self) -> float:
        return 1 - len(self.round_trips) / len(self.there_s)


def sky(count: int = 3000, spacing_s: float = 0.1, seed: int = 1) -> Sky:
    """Delays that jump at the border of each period of 15 s, and more losses there."""
    draw = random.Random(seed)
    there: list[float | None] = []
    back: list[float | None] = []
    for n in range(count):
        at = n * spacing_s
        since = (at - 12.0) % 15.0
        base = 0.024 + 0.008 * math.sin(7 * ((at - 12.0) // 15.0))
        spike = 0.1 * math.exp(-since / 0.2)
        lossy = 0.15 if since < 0.6 else 0.01
        up = base + 0.6 * spike + draw.uniform(0, 0.006)
        down = 0.8 * base + 0.4 * spike + draw.uniform(0, 0.004)
        there.append(None if draw.random() < lossy else up)
        back.append(None if draw.random() < lossy / 3 else down)
    return Sky(spacing_s, there, back)


def ping(of: Sky, *, stamped: bool = True) -> str:
    """Output of `ping -D`, as RAW files of LENS have it, with its first and its last lines."""
    lines = ["PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data."]
    for n, (up, down) in enumerate(zip(of.there_s, of.back_s, strict=True)):
        if up is None or down is None:
            continue
        at = 1_700_182_800 + n * of.spacing_s + up + down
        stamp = f"[{at:.6f}] " if stamped else ""
        lines.append(
            f"{stamp}64 bytes from 192.0.2.1: icmp_seq={n % 65536 + 1} ttl=63 "
            f"time={(up + down) * 1e3:.1f} ms"
        )
    count = len(of.there_s)
    took = (count - 1) * of.spacing_s * 1e3
    tail = f", time {took:.0f}ms" if stamped else ""
    lines += [
        "",
        "--- 192.0.2.1 ping statistics ---",
        f"{count} packets transmitted, {len(of.round_trips)} received, 2% packet loss{tail}",
    ]
    return "\n".join(lines) + "\n"


def irtt(of: Sky, *, ahead_s: float = 0.0) -> str:
    """JSON of irtt; the server's clock may be ahead."""
    trips = []
    reached = 0
    for n, (up, down) in enumerate(zip(of.there_s, of.back_s, strict=True)):
        reached += up is not None
        if up is None or down is None:
            fate = "true_up" if up is None else "true_down"
            trips.append({"seqno": n, "lost": fate, "delay": {}})
            continue
        delay = {
            "receive": round((down - ahead_s) * 1e9),
            "rtt": round((up + down) * 1e9),
            "send": round((up + ahead_s) * 1e9),
        }
        trips.append({"seqno": n, "lost": "false", "delay": delay})
    return json.dumps({
        "version": {"irtt": "0.9.1", "protocol": 1, "json_format": 1},
        "config": {"params": {"interval": round(of.spacing_s * 1e9), "length": 60}},
        "stats": {
            "start_time": {"wall": 1_707_277_440_772_833_268},
            "server_packets_received": reached,
        },
        "round_trips": trips,
    })  # fmt: skip


def lens_irtt(of: Sky, *, ahead_s: float = 0.0) -> str:
    """A CSV of LENS from irtt: -1 is a loss, 0 beside it is nothing."""
    rows = ["timestamp,rtt,uplink,downlink"]
    for n, (up, down) in enumerate(zip(of.there_s, of.back_s, strict=True)):
        at = 1_705_744_800_616_897_349 + round(n * of.spacing_s * 1e9)
        if up is None:
            rows.append(f"{at},0,-1,0")
        elif down is None:
            rows.append(f"{at},0,0,-1")
        else:
            trip, there, back = ((up + down), up + ahead_s, down - ahead_s)
            rows.append(f"{at},{trip * 1e3:.6f},{there * 1e3:.6f},{back * 1e3:.6f}")
    return "\n".join(rows) + "\n"


def lens_ping(of: Sky) -> str:
    """A CSV of LENS from ping: only what was answered has a row."""
    rows = ["timestamp,rtt"]
    for n, (up, down) in enumerate(zip(of.there_s, of.back_s, strict=True)):
        if up is not None and down is not None:
            rows.append(f"{1_705_744_800.5 + n * of.spacing_s:.6f},{(up + down) * 1e3:.1f}")
    return "\n".join(rows) + "\n"


def monroe(of: Sky) -> str:
    """Pings of a node of MONROE: what was not answered is missing in the numbers."""
    rows = ["nodeid,iccid,timestamp,sequencenumber,bytes,dataid,dataversion,guid,host,operator,rtt"]
    for n, (up, down) in enumerate(zip(of.there_s, of.back_s, strict=True)):
        if up is not None and down is not None:
            rows.append(
                f"9,89,{1_500_000_000 + n * of.spacing_s:.6f},{n},84,MONROE.EXP.PING,2,x,192.0.2.1,"
                f"op,{(up + down) * 1e3:.2f}"
            )
    return "\n".join(rows) + "\n"


def rates(count: int = 120, seed: int = 2, most: float = 40e6) -> list[float]:
    """A rate for each second in bit/s, with an outage of four seconds."""
    draw = random.Random(seed)
    rate = most / 2
    found = []
    for n in range(count):
        rate = min(max(rate * math.exp(draw.gauss(0, 0.4)), most / 100), most)
        found.append(0.0 if 50 <= n < 54 else float(round(rate, -3)))
    return found


def gnettrack(values: list[float], *, pings: bool = False) -> str:
    """A session of G-NetTrack Pro, in kbit/s; some seconds have two rows."""
    rows = [HEAD_GNETTRACK]
    for n, value in enumerate(values):
        at = f"2019.12.14_10.{16 + n // 60:02d}.{n % 60:02d}"
        trip = f"{40 + n % 5},38,50,2,{100 if n == 7 else 0}" if pings else "-,-,-,-,-"
        row = (
            f"{at},-8.4,51.9,0,B,11,5G,-90,-11,7.0,10,-,{value / 1e3:.0f},{value / 5e4:.0f},D,"
            f"{trip},B,A,9,1,-100,-"
        )
        rows += [row, row] if n % 40 == 3 else [row]
    return "\n".join(rows) + "\n"


def lumos(*runs: list[float]) -> str:
    """Downloads of Lumos5G in Mbit/s, each with seconds from 1 on."""
    rows = [HEAD_LUMOS]
    for number, values in enumerate(runs, 1):
        for n, value in enumerate(values, 1):
            rows.append(
                f"{number},{n},2,44.97,-93.25,1.2,150,CONNECTED,-60,-90,-11,20,-80,-11,10,"
                f"{value / 1e6:.3f},walking,CW,5"
            )
    return "\n".join(rows) + "\n"


def nyu(values: list[float]) -> str:
    """A sample trace of NYU-METS."""
    return "".join(f"{value / 1e6:.4g},Mbits/sec\n" for value in values)


def bytes_and_ms(values: list[float], *, in_ms: bool = False) -> str:
    """Lines of HSDPA in Norway, or with a time of day in ms of 4G in Ghent."""
    passed, lines = 549_692, []
    for n, value in enumerate(values):
        took = (1008, 1080, 1001, 999)[n % 4]
        passed += took
        day = 1_289_406_399 + n
        octets = round(value * took / 8e3)
        stamp = day * 1000 + 3 if in_ms else day
        lines.append(f"{stamp} {passed} 59.851754 10.781778 {octets} {took:04d}")
    return "\n".join(lines) + "\n"


def mba_rates(values: list[float]) -> str:
    """Tests of throughput of two units of Measuring Broadband America, in bytes each second."""
    rows = [
        "unit_id,dtime,target,address,fetch_time,bytes_total,bytes_sec,bytes_sec_interval,"
        "warmup_time,warmup_bytes,sequence,threads,successes,failures,location_id"
    ]
    for unit in (386, 1001):
        for n, value in enumerate(values):
            rows.append(
                f"{unit},2015-01-{1 + n // 24:02d} {n % 24:02d}:07:12,t.example,192.0.2.4,5000000,"
                f"1,{value / 8 / (1 if unit == 386 else 2):.0f},1,1,1,0,3,1,0,7"
            )
    return "\n".join(rows) + "\n"


def mba_latency(count: int = 48) -> str:
    """Tests of latency of one unit, in microseconds: of 200 packets 2 are lost, once 20."""
    rows = ["unit_id,dtime,target,rtt_avg,rtt_min,rtt_max,rtt_std,successes,failures,location_id"]
    for n in range(count):
        lost = 20 if n == 10 else 2
        rows.append(
            f"386,2015-01-{1 + n // 24:02d} {n % 24:02d}:00:00,t.example,{21_000 + 100 * (n % 7)},"
            f"20000,40000,900,{200 - lost},{lost},7"
        )
    return "\n".join(rows) + "\n"
