"""The seeds of the fuzz targets: packets of our own captures.

python tools/fuzz_seeds.py FOLDER

It writes a folder of seeds for each target that reads packets (see fuzz/). From every scenario in
scenarios/ that has such packets, it takes the first ones of each length.
"""

import struct
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import anabranch
from anabranch.errors import ScenarioError

SCENARIOS = Path(__file__).parent.parent / "scenarios"
MOST_PACKETS = 20_000
"""How many packets of each capture are looked at."""
MOST_SEEDS = 300
"""How many seeds each target gets at most."""

PROTOCOLS = {6: "tcp", 17: "udp", 132: "sctp"}
"""IP protocol -> the target that reads what follows the IP header."""


def packets(capture: Path) -> Iterator[bytes]:
    """The first packets of a capture of ours."""
    data = capture.read_bytes()
    at = count = 0
    while at < len(data) and count < MOST_PACKETS:
        kind, length = struct.unpack_from("<II", data, at)
        if kind == 6:  # Enhanced Packet Block
            (captured,) = struct.unpack_from("<I", data, at + 20)
            yield data[at + 28 : at + 28 + captured]
            count += 1
        at += length


def parts(packet: bytes) -> Iterator[tuple[str, bytes]]:
    """The parts of a packet, each with its target. Their first byte tells how they are read."""
    is_v6 = packet[0] >> 4 == 6
    header, protocol = (40, packet[6]) if is_v6 else (20, packet[9])
    yield "ip", b"\0" + packet
    if len(packet) < 256:
        # A frame of raw IP, the sixth of that target's link types.
        yield "capture", bytes([5 << 1 | 1, len(packet)]) + packet
    if protocol in PROTOCOLS:
        yield PROTOCOLS[protocol], bytes([is_v6]) + packet[header:]
    if protocol == 132:
        # Scripts of one act: forged chunks to an end, or a packet to the server.
        chunks = packet[header + 12 :]
        yield (
            "association",
            bytes([0, 0x8F, 0, 0]) + struct.pack(">H", len(chunks)) + chunks + b"\1",
        )
        yield "sctp_listener", bytes([0, 6]) + struct.pack(">H", len(chunks) + 12) + packet[header:]
    if protocol == 6:
        flags, words = packet[header + 13], packet[header + 12] >> 4
        payload = min(255, len(packet) - header - 4 * words)
        how = bytes([is_v6]) + bytes(6) + bytes([flags, payload])
        for value in mptcp_options(packet[header + 20 : header + 4 * words]):
            yield "mptcp", how + bytes([value[0], len(value) - 1]) + value[1:]


def mptcp_options(options: bytes) -> Iterator[bytes]:
    """The values of MPTCP's options among TCP's options."""
    at = 0
    while at + 1 < len(options) and options[at] != 0:
        if options[at] == 1:
            at += 1
            continue
        if options[at] == 30:
            yield options[at + 2 : at + options[at + 1]]
        at += options[at + 1]


def main() -> int:
    """Writes the seeds."""
    folder = Path(sys.argv[1])
    seeds: dict[str, dict[tuple[int, bytes], bytes]] = defaultdict(dict)
    with tempfile.TemporaryDirectory() as name:
        for path in sorted(SCENARIOS.glob("*.toml")):
            capture = Path(name) / "run.pcapng"
            try:
                scenario = anabranch.load(path, {"run.duration": "12 s"})
            except ScenarioError:  # its phases come later
                scenario = anabranch.load(path)
            anabranch.run(scenario, pcap=capture)
            for packet in packets(capture):
                for target, seed in parts(packet):
                    # One seed of each length and beginning: flags, types of chunks, kinds of
                    # options.
                    seeds[target].setdefault((len(seed), seed[13:18]), seed[:2048])
    for target, found in seeds.items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        chosen = sorted(found.values(), key=lambda seed: (len(seed), seed))
        step = max(1, len(chosen) // MOST_SEEDS)
        for number, seed in enumerate(chosen[::step]):
            (folder / target / f"{number:04}").write_bytes(seed)
        print(f"{target}: {len(chosen[::step])} seeds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
