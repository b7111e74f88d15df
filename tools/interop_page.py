"""Writes docs/interop.md: how our SCTP, TCP, MPTCP and QUIC work with stacks that others wrote.

python tools/interop_page.py docs [--quick | --from REPORT.xml...]

It runs the tests of tests/interop that involve a stack of ours, with 100 MB in each direction (1 MB
with --quick), and writes tables of features and peers: each cell is one test, or the worst of
several. Then each SCTP sends to itself over the loopback address as fast as it can. With --from it
reads JUnit reports of such tests instead of running them. The exit status is 1 if a test fails.
"""

import argparse
import dataclasses
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "tests" / "interop"
sys.path.insert(0, str(TESTS))
IS_QUICK = "--quick" in sys.argv
if not IS_QUICK:
    os.environ["INTEROP"] = "full"

import peers  # noqa: E402
import quic_peers  # noqa: E402
from peers import ANABRANCH, Load  # noqa: E402

SCTP_PEERS = [each.name for each in peers.PEERS]
SECTIONS = {
    "SCTP": (["test_sctp"], SCTP_PEERS),
    "TCP": (["test_kernel_tcp", "test_gvisor_tcp"], ["kernel", "gvisor"]),
    "MPTCP": (["test_kernel_mptcp"], ["kernel"]),
    "QUIC": (["test_quic"], [*quic_peers.NAMES]),
    "QUIC on several paths": (["test_quic_multipath"], [*quic_peers.SEVERAL]),
}
"""For each table, the modules of its tests, and its columns."""

SPEED_RUNS = 3


@dataclasses.dataclass(frozen=True)
class Cell:
    """One test's result."""

    mark: str
    """The mark in the table."""
    note: str = ""
    """Why the result is not simply good."""


Table = dict[str, dict[str, Cell]]
"""Cells by feature and peer."""


def results(reports: list[Path]) -> tuple[dict[str, Table], int]:
    """The tables of all sections from JUnit files, and how many tests failed."""
    tables: dict[str, Table] = {name: defaultdict(dict) for name in SECTIONS}
    section_of = {module: name for name, (modules, _) in SECTIONS.items() for module in modules}
    failed = 0
    cases = (case for each in reports for case in ET.parse(each).getroot().iter("testcase"))
    for case in cases:
        properties = {each.get("name", ""): each.get("value", "") for each in case.iter("property")}
        if "feature" not in properties:
            continue
        cell = _cell(case, properties.get("mb_per_s"))
        failed += cell.mark == "**fails**"
        module = case.get("classname", "").rpartition(".")[2]
        row = tables[section_of[module]][properties["feature"]]
        name = properties["peer"]
        # A feature may have several tests: the worst result counts.
        if name not in row or _badness(cell) > _badness(row[name]):
            row[name] = cell
    return tables, failed


def _badness(cell: Cell) -> int:
    return ["good", "not run", "no", "**fails**"].index(
        cell.mark if cell.mark in ("not run", "no", "**fails**") else "good"
    )


def _cell(case: ET.Element, speed: str | None) -> Cell:
    broken = case.find("failure") if case.find("failure") is not None else case.find("error")
    if broken is not None:
        return Cell("**fails**", (broken.get("message") or "").splitlines()[0][:200])
    skipped = case.find("skipped")
    if skipped is not None:
        is_known = skipped.get("type") == "pytest.xfail"
        return Cell("no" if is_known else "not run", skipped.get("message") or "")
    return Cell(f"{float(speed):.3g} MB/s" if speed else "yes")


def text_of(table: Table, columns: list[str]) -> str:
    """Features as rows, peers as columns, and the notes below."""
    notes: list[str] = []
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for feature, row in table.items():
        words = [feature]
        for name in columns:
            cell = row.get(name, Cell("–"))
            mark = cell.mark
            if cell.note:
                if cell.note not in notes:
                    notes.append(cell.note)
                mark += f" [{notes.index(cell.note) + 1}]"
            words.append(mark)
        lines.append("| " + " | ".join(words) + " |")
    numbered = [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    return "\n".join([*lines, "", *numbered])


def speeds(messages: int) -> str:
    """The speed of each stack with itself, in one direction."""
    lines = [
        "| stack | MB/s | CPU of the sender, ms per MB | of the receiver |",
        "|---|---|---|---|",
    ]
    for peer in (ANABRANCH, *peers.PEERS):
        try:
            peer.command()
        except peers.MissingError as error:
            lines.append(f"| {peer} | not run: {error} | | |")
            continue
        closer = "connect" if peer.has_shutdown else "listen"
        close = "shutdown" if peer.has_shutdown else "abort"
        load = Load(messages, back=0, timeout=300, closer=closer, close=close)
        runs = [peers.over_loopback(peer, peer, load) for _ in range(SPEED_RUNS)]
        best = max(runs, key=lambda run: run.listen.received_bytes / run.listen.data_s)
        if any(peers.wrong(run.connect, run.listen) for run in runs):
            lines.append(f"| {peer} | not exact | | |")
            continue
        megabytes = best.listen.received_bytes / 1e6
        lines.append(
            f"| {peer} | {megabytes / best.listen.data_s:.3g} "
            f"| {1e3 * best.connect.cpu_s / megabytes:.3g} "
            f"| {1e3 * best.listen.cpu_s / megabytes:.3g} |"
        )
    return "\n".join(lines)


HEAD = """\
# With other stacks

**In short**: our SCTP exchanges data with usrsctp, dcsctp, pion and aiortc, our TCP with the
Linux kernel's and gVisor's, our Multipath TCP with the kernel's, our QUIC with aioquic, quinn,
noq and quic-go, up to 5 % loss with packets reordered and duplicated, octet by octet. Where a
feature is not tried with a peer, the peer lacks it.

Written by `make validate` (`python tools/interop_page.py docs`) on a machine of two cores. Each
cell is a test of `tests/interop` or the worst of several, either end opening, of both IP versions
([what the peers are](../tests/interop/README.md)): the octets are compared one by one, their order
and number too. Bulk is {bulk} MB each way at the same time; MB/s is the sum of both. With loss,
packets are also reordered and duplicated (1 % and 1 %; SCTP at 5 % loss 2 % and 2 %), and the path
takes 0.5 ms (TCP: 1 ms, MPTCP: 2 ms) each way. "no" is a limit that is known, "not run" that it
cannot be tried, – that the feature is not there.
"""

NOTES = {
    "SCTP": """
In UDP (RFC 6951) over the loopback address, or where it says so in IP between two network
namespaces, or ours behind TUN devices and the peer in IP in the same namespace. Failover
cuts the primary path in the middle of a transfer, silently or with the loss of the carrier, and
restores it.
""",
    "TCP": """
Behind TUN devices in a network namespace, as root: the kernel of the machine at the other end of
ours, or gVisor's netstack behind a device of its own and the kernel as the router between.

Linux agrees on accurate ECN (RFC 9768) where `tcp_ecn` may be 3, which 6.18 still refuses; the test
of it then runs in the [virtual kernel](virtual-kernel.md#building-it), if that takes it, and passes
there with Linux 7.3.4, whichever end opens. With the option both ends count the same marks (81 of
3,450 segments); without it an acknowledgement of many segments stands for the most that its field
can mean (194 for 90; RFC 9768 appendix A.2). Prague has no peer here, as no kernel of the
distributions has it. Both were held against what others wrote as well: Linux's own
[packetdrill scripts](drill.md) of accurate ECN, of whose 63 pass 55 as they stand, and
[UDP Prague](congestion-control.md#prague), whose class gives the same windows within 1 % of the
same marks as long as some come (without any for long it grows faster), and whose programs run over
[our DualPI2](emulate.md).
""",
    "MPTCP": """
Over two TUN devices. Over IPv6 the kernel announces no address with a port, since its code has no
room beside timestamps.
""",
    "QUIC": """
Over the loopback address, by the names of the cases of the
[public interop runner](https://github.com/quic-interop/quic-interop-runner), without its containers
and HTTP: the server sends every stream back. Its `transfer` is that without loss, `transferloss`
are those with 1 and 5 %. `handshakeloss` loses 30 % of all packets, `handshakecorruption` flips a
bit in as many, `transfercorruption` in 5 %; `longrtt` is 750 ms each way, `blackhole` an outage of
two seconds, `ecn` marks 10 % of what is ECN-capable. `amplificationlimit` loses the client's
packets 2 to 7 where the server's certificate has several datagrams; `rebind-port` and `rebind-addr`
are a NAT in the middle of a transfer. What the runner measures, `goodput` and `crosstraffic`, is in
[bench-quic](bench-quic.md).
""",
    "QUIC on several paths": """
RFC 10069 over two pairs of loopback addresses, each a path of 3 ms each way and of a rate that both
ends fill; in every transfer both paths carry data in both directions. Either end gives either path
up, each path is cut in the middle of a transfer and comes back, and a NAT binds each anew. picoquic
is the library in the Python package aiopquic.
""",
}


def main() -> int:
    """Runs the tests and writes the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("docs", type=Path, help="the folder that interop.md is written to")
    parser.add_argument("--quick", action="store_true", help="1 MB instead of 100 MB")
    parser.add_argument(
        "--from",
        dest="reports",
        type=Path,
        nargs="+",
        metavar="REPORT",
        help="JUnit reports that are read instead of running the tests",
    )
    arguments = parser.parse_args()
    target = arguments.docs / "interop.md"
    with tempfile.TemporaryDirectory() as folder:
        if arguments.reports:
            reports = arguments.reports
        else:
            reports = [Path(folder) / "report.xml"]
            modules = [name for names, _ in SECTIONS.values() for name in names]
            files = [str(TESTS / f"{name}.py") for name in modules]
            command = [sys.executable, "-m", "pytest", "-q", *files]
            options = ["-o", "junit_family=xunit1", f"--junitxml={reports[0]}"]
            subprocess.run([*command, *options], cwd=ROOT, check=False)
        tables, failed = results(reports)
    speed = speeds(10_000 if IS_QUICK else 200_000)
    parts = [HEAD.format(bulk=1 if IS_QUICK else 100)]
    for name, (_, columns) in SECTIONS.items():
        parts += [f"## {name}\n{NOTES[name]}", text_of(tables[name], columns), ""]
    parts += [
        "## Speed of SCTP\n",
        "Both ends are the same stack, on the loopback address over UDP; messages of 1000 octets "
        f"in packets of 1200 at most, the best of {SPEED_RUNS} runs. "
        "The peers fill and check every octet.\n",
        speed,
    ]
    target.write_text("\n".join(parts) + "\n", encoding="utf-8")
    print(f"wrote {target}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
