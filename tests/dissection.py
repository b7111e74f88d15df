"""What tshark, which nobody here wrote, makes of captures of whole runs.

python tests/dissection.py FILE

Writes the record docs/validation/captures.md: runs of the first, the middle and the last cell of
every study of the four papers, and of every scenario in scenarios/. Exit status 1 where tshark
finds a packet that is malformed, a checksum that is wrong or that it did not look at, a transport
that it does not take apart, or a warning that has not its cause in the run. Half an hour on one
core.
"""

import re
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import anabranch
from anabranch._engine import Scenario

SCENARIOS = Path(__file__).parent.parent / "scenarios"
PAPERS = ("voip-sctp", "tcp-wimax", "sctp-handover", "mptcp-aqm")

CHECKED = (
    "sctp.checksum:crc-32c",
    *(f"{name}.check_checksum:TRUE" for name in ("ip", "tcp", "udp")),
)
"""tshark looks at these checksums only where it is asked to."""

CAUSES = {
    r"Previous segment\(s\) not captured": "lost",
    r"\(suspected\) (fast |spurious )?retransmission": "lost",
    r"\(suspected\) out-of-order segment": "lost",
    r"Duplicate ACK|D-SACK Sequence|Retransmitted TSN|Duplicate TSN": "lost",
    r"ACKed segment that wasn't captured": "lost",
    r"More than N TSNs were gap-acknowledged": "lost",
    r"N NOP in a row": "options",
    r"TCP (window|Zero Window|window specified)|window is (full|now completely full)": "window",
    r"keep-alive": "window",
    r"Connection reset": "reset",
    r"(initiates|undergoes) the connection closing": "always",
    r"Connection (establish|finish)|TCP window update": "always",
    r"QUIC frame (has a reused stream offset|overlaps a previous frame)": "lost",
    r"Unknown Frame Type|Connection ID Length must be|Malformed Packet|failed assertion": "paths",
}
"""For every message of tshark's experts, what in the run may cause it; see `Run.causes`."""

WORDS = {
    "lost": "packets that were dropped or went past each other, and what was then retransmitted",
    "options": "MPTCP's options and timestamps padded with two NOP each, as Linux does it",
    "window": "a receiver whose buffer was full, or a limit of its window",
    "reset": "a subflow or connection that was given up",
    "always": "connections that begin and end",
    "paths": "several paths of QUIC (RFC 10069), whose frames this tshark does not know",
}

COUNTS = {
    "IP": "ip || ipv6",
    "IPv4": "ip",
    "IPv4 right": "ip.checksum.status == 1",
    "fragments": "ip.flags.mf == 1 || ip.frag_offset > 0",
    "SCTP": "sctp",
    "SCTP right": "sctp.checksum.status == 1",
    "TCP": "tcp",
    "TCP right": "tcp.checksum.status == 1",
    "MPTCP": "tcp.options.mptcp.subtype",
    "UDP": "udp",
    "UDP right": "udp.checksum.status == 1",
    "dropped": "frame.comment contains dropped",
    "malformed": "_ws.malformed",
}
"""The counts that are taken from a capture, by display filter."""

TRANSPORTS = ("SCTP", "TCP", "UDP")


@dataclass
class Run:
    """A run, and what tshark says of the packets at each end of each link."""

    group: str
    name: str
    counts: Counter[str] = field(default_factory=Counter)
    messages: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By severity and text."""
    summary: dict[str, float] = field(default_factory=dict)
    has_quic_paths: bool = False

    def causes(self) -> set[str]:
        """Which of `WORDS` this run has."""
        found = {"always"}
        lost = self.counts["dropped"] > 0 or self._has(r"overtak|reorder|duplicated_packets")
        timers = self._has(r"timeouts|retransmi|probes|rto")
        if lost or timers:
            found.add("lost")
        if self.counts["MPTCP"]:
            found |= {"options", "window"}
        if self.counts["TCP"]:
            found |= {"window"}
        if self._has(r"reset|subflow|abort") or self.counts["MPTCP"]:
            found.add("reset")
        if self.has_quic_paths:
            found.add("paths")
        return found

    def _has(self, scalars: str) -> bool:
        return any(value > 0 for name, value in self.summary.items() if re.search(scalars, name))

    def faults(self) -> list[str]:
        """A sentence for each finding that must not occur."""
        counts = self.counts
        wrong = []
        if counts["malformed"] and not self.has_quic_paths:
            wrong.append(f"{counts['malformed']} malformed packets")
        for protocol in ("IPv4", *TRANSPORTS):
            # The checksum of a packet in fragments is looked at where they are put together.
            missing = counts[protocol] - counts[f"{protocol} right"]
            if missing and not (protocol in TRANSPORTS and counts["fragments"]):
                wrong.append(f"{missing} packets of {protocol} without a right checksum")
        apart = sum(counts[protocol] for protocol in TRANSPORTS)
        if not counts["IP"] - counts["fragments"] <= apart <= counts["IP"]:
            wrong.append(f"{counts['IP'] - apart} packets whose transport was not taken apart")
        if not counts["IP"]:
            wrong.append("no packets")
        causes = self.causes()
        for (severity, text), count in self.messages.items():
            cause = cause_of(text)
            if severity not in ("Chats", "Comments") and cause not in causes:
                wrong.append(f"{count} times {severity.lower()}: {text}")
        return wrong


def cause_of(text: str) -> str | None:
    """The word for what may cause a message of tshark's."""
    return next((cause for words, cause in CAUSES.items() if re.search(words, text)), None)


def interfaces(capture: Path, folder: Path) -> Iterator[Path]:
    """The capture in parts: a file for each interface, so that no packet is seen twice.

    tshark takes the second sight of a packet for a retransmission.
    """
    data = memoryview(capture.read_bytes())
    heads: list[memoryview] = []
    packets: dict[int, list[memoryview]] = {}
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        block = data[at : at + length]
        if kind == 6:  # Enhanced Packet Block
            packets.setdefault(struct.unpack_from("<I", block, 8)[0], []).append(block)
        else:
            heads.append(block)
        at += length
    for number, blocks in packets.items():
        part = folder / f"{number}.pcapng"
        with part.open("wb") as file:
            file.writelines([*heads, *blocks])
        yield part
        part.unlink()


def dissect(capture: Path, run: Run) -> None:
    """Counts what tshark finds in a capture."""
    command = ["tshark", "-q", "-r", str(capture), "-z", "expert"]
    command += ["-z", ",".join(["io,stat,0", *COUNTS.values()])]
    for preference in CHECKED:
        command += ["-o", preference]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    frames = re.search(r"^\|[^|]*<>[^|]*\|(.*)\|$", said, re.MULTILINE)
    assert frames, said
    values = [int(value) for value in frames[1].split("|")[::2]]
    assert len(values) == len(COUNTS), "tshark does not know a field"
    run.counts.update(dict(zip(COUNTS, values, strict=True)))
    severity = ""
    for line in said.splitlines():
        if head := re.match(r"(\w+) \(\d+\)$", line):
            severity = head[1]
        elif row := re.match(r" +(\d+) +\S+ +\S+ +(.*)$", line):
            run.messages[severity, re.sub(r"0x[0-9a-f]+|#?\d+", "N", row[2])] += int(row[1])


def run_cell(group: str, name: str, scenario: Scenario, cell: int, folder: Path) -> Run:
    """Runs a cell and has tshark read its packets."""
    capture = folder / "run.pcapng"
    text = scenario.cell_toml(cell)
    run = Run(group, name, has_quic_paths="quic" in text and "multipath = true" in text)
    run.summary = anabranch.run(scenario, cell=cell, pcap=capture, pcap_at="all").summary
    for part in interfaces(capture, folder):
        dissect(part, run)
    capture.unlink()
    return run


def cases() -> Iterator[tuple[str, str, Scenario, int]]:
    """Every scenario file, and of every study of every paper the first, middle and last cell."""
    for path in sorted(SCENARIOS.glob("*.toml")):
        scenario = anabranch.load(path)
        for cell in sorted({0, scenario.cell_count - 1}):
            yield "scenarios", f"{path.stem} {cell}", scenario, cell
    for paper in PAPERS:
        studies = import_module(f"anabranch.papers.{paper.replace('-', '_')}.studies")
        for work in studies.all_studies(studies.EFFORTS["quick"]):
            last = work.scenario.cell_count - 1
            for cell in sorted({0, last // 2, last}):
                yield paper, f"{work.name} {cell}", work.scenario, cell


def report(runs: list[Run]) -> str:
    """The record."""
    heads = ["runs of", "runs", "packets", "SCTP", "TCP", "of these MPTCP", "UDP", "fragments"]
    shown = ("IP", "SCTP", "TCP", "MPTCP", "UDP", "fragments")
    rows = []
    for group in ("scenarios", *PAPERS):
        own = [run for run in runs if run.group == group]
        total = sum((run.counts for run in own), Counter())
        rows.append([group, f"{len(own)}", *(f"{total[name]:,}" for name in shown)])
    messages: Counter[tuple[str, str]] = Counter()
    where: Counter[tuple[str, str]] = Counter()
    for run in runs:
        chosen = {key: n for key, n in run.messages.items() if key[0] not in ("Chats", "Comments")}
        messages.update(chosen)
        where.update(chosen.keys())
    said = [
        [
            text,
            severity,
            f"{count:,}",
            f"{where[severity, text]}",
            WORDS.get(cause_of(text) or "", "?"),
        ]
        for (severity, text), count in sorted(messages.items(), key=lambda item: -item[1])
    ]
    faults = [f"- {run.group} {run.name}: {fault}" for run in runs for fault in run.faults()]
    version = subprocess.run(["tshark", "--version"], capture_output=True, text=True, check=True)
    name = re.search(r"\d+\.\d+\.\d+", version.stdout)
    assert name
    return (
        "\n\n".join(
            [
                "# Captures, read by tshark",
                "Written by `make validate` (`python tests/dissection.py "
                f"docs/validation/captures.md`) with anabranch {anabranch.__version__} and tshark "
                f"{name[0]}; do not edit. Each packet is counted where it leaves an end of a link "
                "and where it arrives at one. The checksums of IP, SCTP (CRC32c), TCP and UDP were "
                "looked at in all of them.",
                table(heads, rows),
                "## What was wrong",
                "\n".join(faults)
                or "Nothing: no malformed packet without a cause that is named below, no wrong "
                "checksum, no transport that was not taken apart, and no message without its "
                "cause in the run.",
                "## What tshark's experts say",
                table(["message", "severity", "times", "runs", "cause"], said),
            ]
        )
        + "\n"
    )


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    """Writes the record."""
    target = Path(sys.argv[1])
    runs = []
    with tempfile.TemporaryDirectory() as name:
        for case in cases():
            runs.append(run_cell(*case, Path(name)))
            print(
                runs[-1].group, runs[-1].name, runs[-1].counts["IP"], runs[-1].faults(), flush=True
            )
    target.write_text(report(runs), encoding="utf-8")
    print(f"wrote {target}")
    return 1 if any(run.faults() for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
