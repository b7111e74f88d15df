"""Captures of others read by `explain` and `profile`, and what tshark says of the same.

`python tools/public_captures.py FOLDER [PAGE] [--jobs N]` reads every capture below FOLDER, such as
the test suites of other programs, and prints what became of them: crashes, refusals, profiles that
`validate` would refuse, and where losses of TCP and RTP and round trips differ from tshark's by
more than a bound. With PAGE the table is written there between its marks. Nothing of FOLDER is
kept. tshark is optional: without it, only crashes and refusals are counted.
"""

import argparse
import csv
import io
import ipaddress
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import marked
from anabranch import _engine
from anabranch.errors import AnabranchError
from anabranch.explain import captured
from anabranch.profile import estimate, measure, output
from anabranch.support import progress
from anabranch.support.capture import is_capture

LONGEST_S = 120
"""Reading one capture may take so long; then it counts as a hang."""

LEAST_PACKETS = 20
"""Flows with fewer packets with data are not compared."""

LOSS_BOUND = 0.02
"""Shares of loss that differ by no more than this, or by two packets, agree."""

ROUND_TRIP_BOUND = 1.1
"""A measured least round trip that is this much longer than the handshake's disagrees with it."""

_BEGIN, _END = "<!-- generated: tools/public_captures.py -->", "<!-- end of generated -->"

Ends = tuple[str, str]
"""Two addresses with ports, the smaller first."""


@dataclass
class Outcome:
    """What became of one capture."""

    file: Path
    words: Counter[str] = field(default_factory=Counter)
    """`explained`, `profiled`, `refused ...`, `crashed ...`, and comparisons, with counts."""
    remarks: list[str] = field(default_factory=list)
    """Disagreements and crashes, a sentence each."""


class _HangError(Exception):
    """Raised when a capture takes too long."""


def _too_long(_: int, __: FrameType | None) -> None:
    raise _HangError


def captures(folder: Path) -> Iterator[Path]:
    """All captures below a folder."""
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.stat().st_size and is_capture(file):
            yield file


def read(file: Path) -> Outcome:
    """Reads a capture in both ways and compares with tshark."""
    outcome = Outcome(file)
    signal.signal(signal.SIGALRM, _too_long)
    explained = _tried(outcome, "explain", lambda: captured.explain(file).as_json())
    profiled = _tried(outcome, "profile", lambda: _profiled(file))
    if explained is None and profiled is None:
        return outcome
    theirs = Theirs.of(file)
    if theirs is not None:
        if explained is not None:
            _compare_losses(outcome, explained, theirs)
        if profiled is not None:
            _compare_round_trip(outcome, profiled, theirs)
    return outcome


def _tried(outcome: Outcome, what: str, work: Any) -> dict[str, Any] | None:
    signal.alarm(LONGEST_S)
    try:
        found: dict[str, Any] = work()
    except AnabranchError:
        outcome.words[f"{what}: refused in a sentence"] += 1
        return None
    except _HangError:
        outcome.words[f"{what}: hung"] += 1
        outcome.remarks.append(f"{what} took more than {LONGEST_S} s")
        return None
    except Exception as error:
        outcome.words[f"{what}: crashed"] += 1
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        outcome.remarks.append(f"{what} crashed: {type(error).__name__} in {where}: {error}")
        return None
    finally:
        signal.alarm(0)
    outcome.words[f"{what}: read"] += 1
    return found


def _profiled(file: Path) -> dict[str, Any]:
    found = estimate(measure([file]))
    text = output.toml(found, "public", ("a", "b"))
    if "[links." in text:
        flow = (
            '[flows.f]\nfrom = "a"\nto = "b"\npaths = ["public"]\ntransport = { kind = "udp" }\n'
            'app = { kind = "datagrams", intervals = { kind = "cbr" } }\n'
        )
        try:
            _engine.Scenario.parse(f'name = "x"\n{text}\n{flow}')
        except _engine.ScenarioError as error:
            raise RuntimeError(f"a profile that is refused: {error}") from error
    return output.as_json(found, "public")


@dataclass
class Theirs:
    """What tshark says of a capture."""

    lost: dict[Ends, tuple[int, int]] = field(default_factory=dict)
    """Of each TCP connection: what was retransmitted, and all segments with data."""
    handshake_s: dict[Ends, float] = field(default_factory=dict)
    """The initial round trip of each."""
    rtp: dict[Ends, tuple[int, int]] = field(default_factory=dict)
    """Of each flow with one stream of RTP: packets lost and expected."""

    @classmethod
    def of(cls, file: Path) -> "Theirs | None":
        """Asks tshark; None without it, or where it cannot read the file."""
        if shutil.which("tshark") is None:
            return None
        found = cls()
        fields = (
            "tcp.srcport", "tcp.dstport", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "tcp.len",
            "tcp.analysis.retransmission", "tcp.analysis.spurious_retransmission",
            "tcp.analysis.keep_alive", "tcp.analysis.zero_window_probe",
            "tcp.analysis.initial_rtt",
        )  # fmt: skip
        words = [word for name in fields for word in ("-e", name)]
        # One run for both, since starting takes longer than most captures: streams come last.
        tcp = ("-Y", "tcp", "-T", "fields", "-E", "separator=;", *words)
        said = _tshark(file, *tcp, "-z", "rtp,streams")
        if said is None:
            return None
        counts: dict[Ends, Counter[str]] = defaultdict(Counter)
        for line in csv.reader(io.StringIO(said), delimiter=";"):
            if len(line) != len(fields):
                continue
            one = dict(zip(fields, (value.split(",")[0] for value in line), strict=True))
            source = one["ip.src"] or one["ipv6.src"]
            target = one["ip.dst"] or one["ipv6.dst"]
            ends = ends_of((source, one["tcp.srcport"]), (target, one["tcp.dstport"]))
            if ends is None:
                continue
            if one["tcp.analysis.initial_rtt"]:
                found.handshake_s.setdefault(ends, float(one["tcp.analysis.initial_rtt"]))
            is_probe = one["tcp.analysis.keep_alive"] or one["tcp.analysis.zero_window_probe"]
            if int(one["tcp.len"] or 0) == 0 or is_probe:
                continue
            counts[ends]["data"] += 1
            is_again = one["tcp.analysis.retransmission"]
            counts[ends]["again"] += bool(is_again)
        found.lost = {ends: (each["again"], each["data"]) for ends, each in counts.items()}
        found.rtp = _rtp_streams(said)
        return found


def _tshark(file: Path, *words: str) -> str | None:
    # RTP without a signalling protocol in the capture is found by what it looks like.
    command = ["tshark", "-n", "--enable-heuristic", "rtp_udp", "-r", str(file), *words]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout.decode(errors="replace")


def _rtp_streams(said: str) -> dict[Ends, tuple[int, int]]:
    """The streams of `-z rtp,streams`: their flows with lost and expected packets."""
    form = re.compile(
        r"^\s*[\d.]+\s+[\d.]+\s+(\S+)\s+(\d+)\s+(\S+)\s+(\d+)\s+0x[0-9A-Fa-f]+\s+.*?"
        r"(\d+)\s+(-?\d+)\s+\((-?[\d.]+)%\)"
    )
    streams: dict[Ends, list[tuple[int, int]]] = defaultdict(list)
    for line in said.splitlines():
        if (match := form.match(line)) is None:
            continue
        ends = ends_of((match[1], match[2]), (match[3], match[4]))
        if ends is not None:
            received, lost = int(match[5]), int(match[6])
            streams[ends].append((lost, received + lost))
    return {ends: each[0] for ends, each in streams.items() if len(each) == 1}


def ends_of(one: tuple[str, str], other: tuple[str, str]) -> Ends | None:
    """Both ends in one order; None where an address is none."""
    try:
        texts = [f"{ipaddress.ip_address(address)} {int(port)}" for address, port in (one, other)]
    except ValueError:
        return None
    return min(texts), max(texts)


def _of_flow(name: str) -> Ends | None:
    """The ends in the name of a flow of `explain`."""
    match = re.match(r"\S+ from (\S+):(\d+) to (\S+):(\d+)", name)
    if match is None:
        return None
    return ends_of((match[1].strip("[]"), match[2]), (match[3].strip("[]"), match[4]))


def _compare_losses(outcome: Outcome, explained: dict[str, Any], theirs: Theirs) -> None:
    names = Counter(_of_flow(flow["flow"]) for flow in explained["flows"])
    for flow in explained["flows"]:
        ends = _of_flow(flow["flow"])
        of_tcp = flow["protocol"] == "TCP"
        said = theirs.lost if of_tcp else theirs.rtp if flow["protocol"] == "UDP" else {}
        if ends is None or ends not in said or names[ends] != 1:
            continue
        again, packets = said[ends]
        known = [
            path["losses"]
            for side in flow["ends"].values()
            for path in side["paths"].values()
            if path.get("losses")
        ]
        if packets < LEAST_PACKETS or not known:
            continue
        lost, sent = (sum(one[key] for one in known) for key in ("lost", "packets"))
        apart = abs(lost / max(sent, 1) - again / packets)
        kind = "losses of TCP" if of_tcp else "losses of RTP"
        if apart <= LOSS_BOUND or abs(lost - again) <= 2:
            outcome.words[f"{kind}: agree"] += 1
        else:
            outcome.words[f"{kind}: differ"] += 1
            outcome.remarks.append(
                f"{flow['flow']}: {lost} of {sent} lost here, {again} of {packets} at tshark"
            )


def _compare_round_trip(outcome: Outcome, profiled: dict[str, Any], theirs: Theirs) -> None:
    delay, ends = profiled.get("delay_s"), _of_flow(str(profiled["measured"]))
    if delay is None or ends not in theirs.handshake_s or profiled["delay_is_upper_bound"]:
        return
    handshake = theirs.handshake_s[ends]
    if handshake <= 0:
        return
    if 2 * delay["value"] <= ROUND_TRIP_BOUND * handshake + 1e-4:
        outcome.words["round trips: at most the handshake's"] += 1
    else:
        outcome.words["round trips: longer than the handshake's"] += 1
        outcome.remarks.append(
            f"{profiled['measured']}: {2e3 * delay['value']:.3g} ms here, the handshake took"
            f" {1e3 * handshake:.3g} ms"
        )


def table(outcomes: list[Outcome]) -> list[str]:
    """What became of all captures."""
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        counts.update(outcome.words)
    lines = ["| what | captures or flows |", "|---|---:|", f"| captures | {len(outcomes):,} |"]
    return lines + [f"| {word} | {count:,} |" for word, count in sorted(counts.items())]


def main() -> int:
    """Reads the folder, prints the table and every disagreement."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("page", type=Path, nargs="?")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    files = list(captures(arguments.folder))
    if not files:
        print(f"{arguments.folder} has no captures", file=sys.stderr)
        return 2
    if shutil.which("tshark") is None:
        print("tshark is not installed: nothing is compared with it", file=sys.stderr)
    outcomes = []
    with (
        multiprocessing.get_context("spawn").Pool(arguments.jobs, maxtasksperchild=200) as pool,
        progress.steps("captures", len(files), "captures") as step,
    ):
        for outcome in pool.imap(read, files):
            outcomes.append(outcome)
            step()
    lines = table(outcomes)
    print("\n".join(lines))
    for outcome in outcomes:
        for remark in outcome.remarks:
            print(f"{outcome.file.relative_to(arguments.folder)}: {remark}")
    if arguments.page is not None:
        text = arguments.page.read_text("utf-8")
        page = marked.replaced(text, _BEGIN, _END, "\n".join(lines))
        arguments.page.write_text(page, "utf-8")
    return 1 if any(word.endswith(("crashed", "hung")) for o in outcomes for word in o.words) else 0


if __name__ == "__main__":
    sys.exit(main())
