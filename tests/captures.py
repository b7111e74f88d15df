"""Measurements of simulated paths: what ping and tcpdump would have written.

Packets are the engine's, with the times and fates of its trace `packets`; dpkt writes their
headers.
"""

import random
import struct
from pathlib import Path
from typing import Any

import dpkt
import polars as pl

import anabranch

A, B = b"\x0a\x00\x00\x01", b"\x0a\x00\x00\x02"
START = 1_700_000_000.0
"""Wall-clock time at which a simulation begins."""


def simulate(link: str, transport: str, app: str, seed: int, duration: float) -> pl.DataFrame:
    """The packets of one flow from `a` to `b` over one link."""
    text = f"""
seed = {seed}
[run]
duration = "{duration} s"
[links.path]
ends = ["a", "b"]
{link}
[paths.path]
via = ["path"]
[flows.flow]
from = "a"
to = "b"
paths = ["path"]
transport = {transport}
app = {app}
"""
    return anabranch.run(anabranch.load(text), trace=True).traces["packets"]


def probes(link: str, seed: int, count: int, interval_ms: float = 20.0) -> pl.DataFrame:
    """Packets of 84 bytes at equal intervals; `delay_s` is null where one was lost."""
    app = (
        f'{{ kind = "datagrams", size = "56 B", rate = "{56 * 8 / interval_ms} kbit/s", '
        f'intervals = {{ kind = "cbr" }} }}'
    )
    frame = simulate(link, '{ kind = "udp" }', app, seed, count * interval_ms / 1e3 + 2)
    return frame.head(count).select(
        "sent_s",
        delay_s=pl.when(pl.col("fate") == "delivered").then(
            pl.col("delivered_s") - pl.col("sent_s")
        ),
    )


def round_trips(link: str, seed: int, count: int) -> list[float | None]:
    """Round-trip times in s, or None: losses are those of the way there."""
    there = probes(link, seed, count)["delay_s"].to_list()
    # Its own random numbers, and no losses.
    without = "\n".join(line for line in link.splitlines() if not line.startswith("loss"))
    back = probes(without, seed + 100_000, count)["delay_s"].to_list()
    return [None if one is None else one + other for one, other in zip(there, back, strict=True)]


def ping_csv(path: Path, times: list[float | None]) -> Path:
    rows = [f"{i},{'' if time is None else f'{time * 1e3:.4f}'}" for i, time in enumerate(times, 1)]
    path.write_text("\n".join(["seq,rtt", *rows]) + "\n", encoding="utf-8")
    return path


def ping_text(path: Path, times: list[float | None], interval_s: float = 0.02) -> Path:
    """The output of iputils' ping with `-D`."""
    lines = ["PING b (10.0.0.2) 56(84) bytes of data."]
    for i, time in enumerate(times, 1):
        if time is not None:
            stamp = START + i * interval_s + time
            shown = f"{time * 1e3:.3g}" if time >= 0.1 else f"{time * 1e3:.1f}"
            lines.append(
                f"[{stamp:.6f}] 64 bytes from 10.0.0.2: icmp_seq={i % 65536} ttl=64 time={shown} ms"
            )
    got = sum(time is not None for time in times)
    lines += [
        "",
        "--- b ping statistics ---",
        f"{len(times)} packets transmitted, {got} received, 3% packet loss, time 12ms",
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write(path: Path, packets: list[tuple[float, bytes]]) -> Path:
    """Frames in the order of their times: pcapng, or pcap by the file's name."""
    with path.open("wb") as file:
        kind = dpkt.pcapng.Writer if path.suffix == ".pcapng" else dpkt.pcap.Writer
        writer = kind(file, snaplen=128, linktype=dpkt.pcap.DLT_EN10MB)
        for time, frame in sorted(packets, key=lambda packet: packet[0]):
            writer.writepkt(frame[:128], ts=START + time)
    return path


_ETHERNET = bytes(dpkt.ethernet.Ethernet(type=dpkt.ethernet.ETH_TYPE_IP))


def frame(
    payload: bytes, protocol: int, octets: int, number: int, *, forward: bool = True
) -> bytes:
    """An Ethernet frame with an IP packet whose header states this length."""
    source, destination = (A, B) if forward else (B, A)
    packet = dpkt.ip.IP(
        src=source, dst=destination, p=protocol, id=number % 65536, len=octets, data=payload
    )
    return _ETHERNET + bytes(packet)


def transfer(packets: pl.DataFrame, side: str, protocol: str = "tcp") -> list[tuple[float, bytes]]:
    """A bulk transfer from `a` to `b` as captured on the side of `a` or of `b`.

    Of the receiver's own numbers there is one, which its SYN has.
    """
    seen: list[tuple[float, int, bytes]] = []
    first = min(packets.filter(side="a", kind="data")["tsn"].to_list())
    heard: dict[str, list[tuple[float, int]]] = {"a": [], "b": []}
    """Time stamps that have come to a side, and when."""
    for row in packets.filter(fate="delivered").sort("delivered_s").iter_rows(named=True):
        other = "b" if row["side"] == "a" else "a"
        heard[other].append((row["delivered_s"], _stamp(row["sent_s"])))
    told = {"a": 0, "b": 0}
    for number, row in enumerate(packets.sort("sent_s").iter_rows(named=True)):
        time, forward = row["sent_s"], row["side"] == "a"
        own = row["side"]
        while told[own] < len(heard[own]) and heard[own][told[own]][0] <= time + 1e-9:
            told[own] += 1
        echo = heard[own][told[own] - 1][1] if told[own] else 0
        if row["kind"] in _HANDSHAKE and protocol == "sctp":
            payload = bytes(12) + struct.pack(">BBH", _HANDSHAKE[row["kind"]], 0, 4)
        elif row["kind"] in ("syn", "syn_ack"):
            payload = _opening(row["kind"], first - 1, (_stamp(time), echo))
        elif row["kind"] not in ("data", "ack", "sack"):
            continue
        elif protocol == "tcp":
            payload = _segment(row, forward, first, (_stamp(time), echo))
        else:
            payload = _chunk(row, forward)
        moment = time if forward == (side == "a") else row["delivered_s"]
        if forward != (side == "a") and row["fate"] != "delivered":
            continue
        carried = {"tcp": 6, "sctp": 132}[protocol]
        data = frame(payload, carried, row["size_bytes"], number, forward=forward)
        seen.append((moment, number, data))
    return [(time, data) for time, _, data in sorted(seen)]


_HANDSHAKE = {"init": 1, "init_ack": 2, "cookie_echo": 10, "cookie_ack": 11}
"""Chunks of SCTP by the engine's names."""


def _opening(kind: str, number: int, stamps: tuple[int, int]) -> bytes:
    """A SYN, or its answer, with the largest segment of Ethernet (RFC 9293 section 3.2)."""
    forward = kind == "syn"
    return _tcp(
        forward,
        (number % 2**32, 0) if forward else (0, (number + 1) % 2**32),
        dpkt.tcp.TH_SYN if forward else dpkt.tcp.TH_SYN | dpkt.tcp.TH_ACK,
        b"\x02\x04\x05\xb4" + b"\x01\x01" + _STAMP + b"".join(each.to_bytes(4) for each in stamps),
    )


def _segment(row: dict[str, Any], forward: bool, first: int, stamps: tuple[int, int]) -> bytes:  # noqa: FBT001
    # What has no data has the number of the next, which for the sender's first is the first.
    number = row["tsn"] if row["tsn"] >= 0 else first
    header = _tcp(
        forward,
        (number % 2**32, 1) if forward else (1, row["ack"] % 2**32),
        dpkt.tcp.TH_ACK,
        b"\x01\x01" + _STAMP + b"".join(stamp.to_bytes(4) for stamp in stamps),
    )
    return header + bytes(max(row["size_bytes"] - 52, 0))


_STAMP = b"\x08\x0a"
"""Kind and length of TCP's time stamps (RFC 7323 section 3.2)."""


def _tcp(forward: bool, numbers: tuple[int, int], flags: int, options: bytes) -> bytes:  # noqa: FBT001
    header = dpkt.tcp.TCP(
        sport=5001 if forward else 80,
        dport=80 if forward else 5001,
        seq=numbers[0],
        ack=numbers[1],
        flags=flags,
        opts=options,
    )
    header.off = 5 + len(options) // 4
    return bytes(header)


def _chunk(row: dict[str, Any], forward: bool) -> bytes:  # noqa: FBT001
    """SCTP with one DATA or SACK chunk (RFC 9260 sections 3.3.1 and 3.3.4)."""
    ports = bytes(12)
    if not forward:
        return ports + struct.pack(">BBHIIHH", 3, 0, 16, (row["ack"] - 1) % 2**32, 65_535, 0, 0)
    length = row["size_bytes"] - 20 - 12
    header = struct.pack(">BBHIHHI", 0, 3, length, row["tsn"] % 2**32, 0, 0, 0)
    return ports + header + bytes(length - 16)


def _stamp(time: float) -> int:
    """TCP timestamps, in ms."""
    return 1000 + int(time * 1000)


def echoes(times: list[float | None], interval_s: float = 0.02) -> list[tuple[float, bytes]]:
    """ICMP echoes and their answers at the side that asks."""
    found = []
    for i, time in enumerate(times):
        asking = dpkt.icmp.ICMP(
            type=8, data=dpkt.icmp.ICMP.Echo(id=7, seq=i % 65536, data=b"x" * 56)
        )
        found.append((i * interval_s, frame(bytes(asking), 1, 84, i)))
        if time is not None:
            answer = dpkt.icmp.ICMP(
                type=0, data=dpkt.icmp.ICMP.Echo(id=7, seq=i % 65536, data=b"x" * 56)
            )
            found.append((i * interval_s + time, frame(bytes(answer), 1, 84, i, forward=False)))
    return found


def rtp(packets: pl.DataFrame, *, arrived: bool = True) -> list[tuple[float, bytes]]:
    """Probes as RTP at their receiver, or with `arrived` false at their sender."""
    found = []
    first = random.Random(1).randrange(65536)
    for i, row in enumerate(packets.iter_rows(named=True)):
        if arrived and row["delay_s"] is None:
            continue
        header = dpkt.rtp.RTP(
            version=2, p=0, x=0, cc=0, m=0, pt=0, seq=(first + i) % 65536, ts=i * 160, ssrc=99,
            data=b"v" * 44,
        )  # fmt: skip
        datagram = dpkt.udp.UDP(sport=4000, dport=5004, ulen=64, data=bytes(header))
        time = row["sent_s"] + (row["delay_s"] if arrived else 0.0)
        found.append((time, frame(bytes(datagram), 17, 84, i)))
    return found
