"""Captures as they come to hand: cut, joined, damaged, with clocks and lengths gone wrong.

A kind of capture is a link layer or tunnel, or a format of files (`tools/fuzz_seeds.py` has both),
or two captures of one transfer. What is behind the link layer are packets of every kind that
`profile` and `explain` tell apart, some 300 of each.
"""

import random
import struct
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import anabranch
import capture_kinds
import captures
import fuzz_seeds
from fuzz_seeds import FORMATS, Seen

CASES = Path(__file__).parent / "cases" / "captures"
SCENARIOS = Path(__file__).parent.parent / "scenarios"
MOST_FRAMES = 600
MOST_BYTES = 1 << 20
START_NS = 1_700_000_000_000_000_000
_LINK = """
rate = "8 Mbit/s"
delay = "10 ms"
jitter = "4 ms"
queue = { kind = "drop_tail", packets = 40 }
loss = { kind = "bernoulli", probability = 0.01 }
"""
_ETHERNET = 14
_WORDS = (0, 1, 2, 3, 4, 7, 8, 19, 20, 27, 40, 127, 128, 255, 256, 1500, 32_767, 32_768, 65_535)
_LONG_WORDS = (*_WORDS, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1_700_000_000)

Frames = list[Seen]


@cache
def packets() -> tuple[Frames, ...]:
    """IP packets of each kind of traffic, as somebody sees them."""
    found = [_of_case(file) for file in sorted(CASES.glob("*.pcap"))]
    for transport in ("tcp", "sctp"):
        seen = captures.simulate(_LINK, f'{{ kind = "{transport}" }}', '{ kind = "bulk" }', 7, 1.0)
        one, other = (captures.transfer(seen, side, transport) for side in "ab")
        found += [_without_ethernet(frames) for frames in (one, other, sorted(one + other))]
    round_trips = captures.round_trips(_LINK, 3, 150)
    found.append(_without_ethernet(captures.echoes(round_trips)))
    found.append(_without_ethernet(captures.rtp(captures.probes(_LINK, 4, 300))))
    found.append([_seen(*frame) for frame in capture_kinds.Call(0.1, 3.0, {5, 6}, above=1).frames])
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "run.pcapng"
        for scenario, interface in _RUNS.items():
            loaded = anabranch.load(SCENARIOS / f"{scenario}.toml", {"run.duration": "4 s"})
            anabranch.run(loaded, pcap=file)
            found.append([_seen(*frame) for frame in capture_kinds.at(file, interface)[:300]])
    return tuple(frames[:300] for frames in found if frames)


_RUNS = {
    "quic-upload": "wifi@phone", "mptcp-phone": "wifi@phone", "delay-centric": "first@caller",
}  # fmt: skip
"""Scenarios, and the interface at which their packets are taken."""


def _seen(time_s: float, data: bytes) -> Seen:
    """With the length that its header says, of which a capture may have less."""
    is_v6 = data[0] >> 4 == 6
    octets = 40 + int.from_bytes(data[4:6]) if is_v6 else int.from_bytes(data[2:4])
    return Seen(START_NS + round(time_s * 1e9), max(octets, len(data)), data)


def _without_ethernet(frames: Sequence[tuple[float, bytes]]) -> Frames:
    return [_seen(time_s, data[_ETHERNET:]) for time_s, data in frames]


def _of_case(file: Path) -> Frames:
    """The packets of IP in a pcap file, of which Ethernet and what it carries is taken off."""
    data = file.read_bytes()
    order = "<" if data[:1] in (b"\xd4", b"\x4d") else ">"
    unit_ns = 1 if data[:4] in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d") else 1_000
    (link,) = struct.unpack_from(f"{order}I", data, 20)
    at = 24
    found: Frames = []
    while at < len(data) and len(found) < 300:
        seconds, units, captured, octets = struct.unpack_from(f"{order}IIII", data, at)
        frame = data[at + 16 : at + 16 + captured]
        at += 16 + captured
        before = next(
            (n for n in range(0 if link == 101 else 14, 40, 2) if _is_ip(frame[n:], octets - n)),
            None,
        )
        if before is not None:
            time_ns = seconds * 1_000_000_000 + units * unit_ns
            found.append(Seen(time_ns, octets - before, frame[before:]))
    return found


def _is_ip(data: bytes, octets: int) -> bool:
    """Whether a packet begins here, by its version and its length."""
    return len(data) >= 20 and (
        (data[0] == 0x45 and int.from_bytes(data[2:4]) <= octets)
        or (data[0] >> 4 == 6 and int.from_bytes(data[4:6]) + 40 <= octets)
    )


@cache
def layers() -> dict[str, list[int]]:
    """Link layers and tunnels -> which of `fuzz_seeds.frames` are of them."""
    found: dict[str, list[int]] = {}
    for number, (name, _, _) in enumerate(fuzz_seeds.frames(packets()[0][0].data)):
        found.setdefault(name, []).append(number)
    return found


@cache
def _behind(base: int, layer: int) -> tuple[int, Frames]:
    """The packets of this base behind this link layer, and its link type."""
    found, link = [], 0
    for time_ns, octets, data in packets()[base]:
        _, link, frame = list(fuzz_seeds.frames(data))[layer]
        found.append(Seen(time_ns, octets + len(frame) - len(data), frame))
    return link, found


def kinds() -> list[str]:
    """Every kind of capture."""
    return [*layers(), *FORMATS, "two-captures"]


def written(kind: str, rng: random.Random, folder: Path) -> list[Path]:
    """Writes a changed capture of this kind, or two, and gives their files."""
    if kind == "two-captures":
        # A transfer as each of its ends sees it; only frames are changed, mostly those of one.
        number = len(list(CASES.glob("*.pcap"))) + rng.choice([0, 3])
        found = []
        for end in (0, 1):
            link, seen = _behind(number + end, layers()["ethernet"][0])
            seen = changed(seen, rng) if rng.random() < 0.7 else seen
            found.append(folder / f"end-{end}.pcap")
            found[-1].write_bytes(fuzz_seeds.file_of("nano-little", link, seen))
        return found
    layer = rng.choice(layers().get(kind, layers()["ethernet"]))
    link, seen = _behind(rng.randrange(len(packets())), layer)
    form = kind if kind in FORMATS else rng.choice(["pcap-little", "nano-big", "pcapng-little"])
    if rng.random() < (0.5 if kind in FORMATS else 0.95):
        seen = changed(seen, rng)
    data = fuzz_seeds.file_of(form, link, seen)
    if rng.random() < (0.9 if kind in FORMATS else 0.1):
        data = damaged(data, rng)
    file = folder / "capture"
    file.write_bytes(data[:MOST_BYTES])
    return [file]


def changed(seen: Frames, rng: random.Random) -> Frames:
    """The frames after some accidents."""
    seen = list(seen)
    for _ in range(rng.choice([1, 1, 2, 3, 8, 30])):
        seen = rng.choice(_CHANGES)(seen, rng)[:MOST_FRAMES]
    return seen


def _data(seen: Frames, rng: random.Random) -> Frames:
    """Bytes of one frame are others, or a number in it, such as a length."""
    if not seen:
        return seen
    at = rng.randrange(len(seen))
    data = bytearray(seen[at].data)
    for _ in range(rng.choice([1, 1, 2, 6])):
        place = rng.randrange(min(len(data), 120) + 1)
        match rng.randrange(4):
            case 0:
                data[place : place + 1] = bytes([rng.randrange(256)])
            case 1:
                data[place : place + 2] = rng.choice(_WORDS).to_bytes(
                    2, rng.choice(["big", "little"])
                )
            case 2:
                data[place : place + 4] = rng.choice(_LONG_WORDS).to_bytes(4)
            case _:
                old = int.from_bytes(data[place : place + 2])
                data[place : place + 2] = (old + rng.choice([-4, -1, 1, 4]) & 0xFFFF).to_bytes(2)
    seen[at] = seen[at]._replace(data=bytes(data))
    return seen


def _same(seen: Frames, rng: random.Random) -> Frames:
    """The same bytes of all frames are others."""
    place, new = rng.randrange(100), bytes([rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])])
    return [
        each._replace(data=each.data[:place] + new + each.data[place + 1 :])
        if len(each.data) > place
        else each
        for each in seen
    ]


def _cut(seen: Frames, rng: random.Random) -> Frames:
    """One frame or all are cut off, or empty."""
    length = rng.randrange(120)
    if not seen or rng.random() < 0.2:
        return [each._replace(data=each.data[:length]) for each in seen]
    at = rng.randrange(len(seen))
    seen[at] = seen[at]._replace(data=seen[at].data[:length])
    return seen


def _joined(seen: Frames, rng: random.Random) -> Frames:
    """The beginning of one frame is before the end of another."""
    if not seen:
        return seen
    at, other = (rng.randrange(len(seen)) for _ in range(2))
    head, tail = rng.randrange(100), rng.randrange(100)
    seen[at] = seen[at]._replace(data=seen[at].data[:head] + seen[other].data[tail:])
    return seen


def _again(seen: Frames, rng: random.Random) -> Frames:
    """Frames come several times, at once or later."""
    if not seen:
        return seen
    at, count = rng.randrange(len(seen)), rng.choice([1, 1, 5, 100])
    times, later_ns = rng.choice([1, 1, 3, 50]), rng.choice([0, 1_000, 30_000_000, 10**9])
    part = seen[at : at + count]
    more = [
        each._replace(time_ns=each.time_ns + n * later_ns)
        for n in range(1, times + 1)
        for each in part
    ]
    return seen[: at + count] + more + seen[at + count :]


def _missing(seen: Frames, rng: random.Random) -> Frames:
    """Frames are missing; often the first ones, or all but a few."""
    at = rng.choice([0, rng.randrange(len(seen) + 1)])
    return seen[:at] + seen[at + rng.choice([1, 1, 3, 10, len(seen) * 9 // 10]) :]


def _order(seen: Frames, rng: random.Random) -> Frames:
    """Some frames are in another order, with their times or without."""
    at = rng.randrange(len(seen) + 1)
    part = seen[at : at + rng.choice([2, 5, 50, 600])]
    times = [each.time_ns for each in part]
    rng.shuffle(part)
    if rng.random() < 0.5:
        part = [each._replace(time_ns=time_ns) for each, time_ns in zip(part, times, strict=True)]
    return seen[:at] + part + seen[at + len(part) :]


def _time(seen: Frames, rng: random.Random) -> Frames:
    """A clock steps, has ticks, runs faster or slower, or stands; or one time is anything."""
    if not seen:
        return seen
    at, first_ns = rng.randrange(len(seen)), seen[0].time_ns
    by = rng.choice([-(10**12), -(10**9), -(10**6), 10**6, 10**9, 10**14, 2**61])
    tick, scale = rng.choice([1_000, 10**6, 10**7, 10**9]), rng.choice([0, 1e-6, 1e-3, 1e3, 1e6])
    match rng.randrange(5):
        case 0:
            return [each._replace(time_ns=each.time_ns // tick * tick) for each in seen]
        case 1:
            return [
                each._replace(time_ns=first_ns + round((each.time_ns - first_ns) * scale))
                for each in seen
            ]
        case 2:
            seen[at] = seen[at]._replace(time_ns=rng.choice([0, 1, first_ns, 2**63 - 1, 2**64 - 1]))
            return seen
        case 3:
            return [
                each._replace(time_ns=each.time_ns + (by if number >= at else 0))
                for number, each in enumerate(seen)
            ]
        case _:
            return sorted(seen, key=lambda each: each.time_ns)


def _length(seen: Frames, rng: random.Random) -> Frames:
    """Frames were of another length than they say."""
    if not seen:
        return seen
    at = rng.randrange(len(seen))
    seen[at] = seen[at]._replace(octets=rng.choice([*_LONG_WORDS, seen[at].octets + 1]))
    return seen


def _mixed(seen: Frames, rng: random.Random) -> Frames:
    """Other traffic passes, in Ethernet or as it is."""
    other = packets()[rng.randrange(len(packets()))]
    if rng.random() < 0.5:
        _, other = _behind(packets().index(other), layers()["ethernet"][0])
    both = seen + other[: rng.choice([1, 10, 300])]
    return sorted(both, key=lambda each: each.time_ns) if rng.random() < 0.5 else both


_CHANGES = (
    _data,
    _data,
    _data,
    _same,
    _cut,
    _joined,
    _again,
    _missing,
    _order,
    _time,
    _length,
    _mixed,
)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The file after one or two accidents."""
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.choice([rng.randrange(min(200, len(data)) + 1), rng.randrange(len(data) + 1)])
        match rng.randrange(6):
            case 0:
                data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
            case 1:
                word = rng.choice(_LONG_WORDS).to_bytes(4, rng.choice(["big", "little"]))
                data = data[:at] + word + data[at + 4 :]
            case 2:
                data = data[:at]
            case 3:
                data = data[:at] + data[at + rng.choice([1, 2, 4, 16, 100]) :]
            case 4:
                data += data[at:]
            case _:
                data = data[:at] + data[at : at + rng.choice([1, 4, 32, 1000])] * 2 + data[at:]
    return data
