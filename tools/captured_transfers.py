"""Losses, delay, rate and queue that captures of the kernel's transfers show, beside the truth.

`python tools/captured_transfers.py [PAGE] [--paths 100] [--first 0] [--jobs 2] [--kernel virtual]`
draws paths, sends over each with the kernel's TCP through the emulator (`kernel_transfer.py`),
reads the captures with `profile` and `explain` in every way that people capture, and prints how far
what they say is from the emulator's own counts and settings. With PAGE the tables are written there
between its marks. `--kernel host` runs in real time and needs root and dumpcap; `virtual` runs the
same in the virtual kernel (`make kernel`), repeatably, on however busy a machine.
"""

import argparse
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import kernel_transfer
import marked
from anabranch.errors import AnabranchError
from anabranch.explain import captured
from anabranch.profile import estimate, measure
from anabranch.support import progress
from anabranch.support.capture import Capture
from anabranch.virtual import kernel_file, run_in_kernel
from kernel_transfer import Drawn

BATCH = 5
"""Transfers that one virtual kernel carries out, one after the other."""
LONGEST_S = 900.0
"""A batch may take so long on the wall."""
DATA_OCTETS = 1500
"""Of a full packet."""
RANDOM_LOSS_SHOWN = 2
"""Packets by which a number of losses may be off, however few there are."""

BOUNDS = {"losses": 0.02, "delay": 0.05, "rate": 0.01, "queue": 0.1}
"""By what part of the truth an estimate may be off; beside it 2 losses, 0.3 ms and what a card at
the receiver holds packets back, and 2 packets of queue."""

_BEGIN, _END = "<!-- generated: tools/captured_transfers.py -->", "<!-- end of generated -->"

SENDER, RECEIVER = "here.link", "peer.link"
"""The emulator's names for both ends of the link."""


@dataclass(frozen=True)
class Found:
    """What one capture says of one transfer; None where it says nothing."""

    number: int
    kind: str
    lost: int | None = None
    delay: float | None = None
    delay_is_bound: bool = False
    """Whether the delay is at most this."""
    rate: float | None = None
    rate_is_bound: bool = False
    """Whether the rate is at least this."""
    queue: float | None = None
    refused: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Truth:
    """What was so."""

    drawn: Drawn
    lost: int
    lost_later: int
    """What was lost since the middle of the transfer."""
    lost_behind: int
    """What was lost of that which would have come to the receiver since then: its holes."""
    middle_s: float
    has_overflowed: bool
    late_p99_ms: float

    def lost_since(self, kind: str) -> int:
        """What was lost in the second half, as a kind of capture has it."""
        return self.lost_behind if kind.startswith("at the receiver") else self.lost_later

    @classmethod
    def of(cls, folder: Path) -> "Truth":
        """Of a transfer's folder."""
        said = json.loads((folder / "truth.json").read_text("utf-8"))
        row = said["summary"]
        lost = round(sum(row[f"link.link.forward.{way}_packets"] for way in ("lost", "queue_full")))
        return cls(
            Drawn(**said["drawn"]),
            lost,
            lost - said["middle"]["dropped"],
            _lost_behind(folder / "link.pcapng", said["middle"]["at"]),
            said["middle"]["at"],
            row["link.link.forward.queue_full_packets"] > 0,
            row["emulation.lateness_p99_ms"],
        )


def _lost_behind(file: Path, middle_s: float) -> int:
    """How many packets of a link were lost whose next one arrived since then."""
    capture = Capture(file)
    batches = list(capture.batches())
    place, source, identity, time_ns = (
        np.concatenate([getattr(batch, name) for batch in batches])
        for name in ("place", "source", "identity", "time_ns")
    )
    names = [one.interface for one in capture.places]
    sent = np.flatnonzero((place == names.index(SENDER)) & (source == source[0]))
    arrived = np.flatnonzero((place == names.index(RECEIVER)) & (source == source[0]))
    order = arrived[np.argsort(identity[arrived], kind="stable")]
    at = np.minimum(np.searchsorted(identity[order], identity[sent]), len(order) - 1)
    has_come = identity[order][at] == identity[sent]
    # The next one that arrived, for each.
    came_ns = np.where(has_come, time_ns[order][at], np.iinfo(np.int64).max)
    next_ns = np.minimum.accumulate(came_ns[::-1])[::-1]
    is_late = (next_ns / 1e9 >= middle_s) & (next_ns < np.iinfo(np.int64).max)
    return int((~has_come & is_late).sum())


PROFILES: dict[str, tuple[list[str], list[str]]] = {
    "at the link, sender's end": (["link"], [SENDER]),
    "at the link, receiver's end": (["link"], [RECEIVER]),
    "at the link, both ends": (["link"], [SENDER, RECEIVER]),
    "at the sender": (["near"], []),
    "at the receiver": (["far"], []),
    "at both hosts": (["near", "far"], []),
    "`-i any` at the sender's router": (["any"], []),
    "at the sender, second half": (["near-late"], []),
    "at the receiver, second half": (["far-late"], []),
    "at both hosts, second half": (["near-late", "far-late"], []),
    "at both hosts, data only": (["near-data", "far-data"], []),
}
"""Kinds of captures that `profile` reads: files and interfaces."""

EXPLAINED = {
    "explain: at the sender": "near",
    "explain: at the receiver": "far",
    "explain: at the link, both ends": "link",
    "explain: `-i any` at the sender's router": "any",
    "explain: at the sender, second half": "near-late",
    "explain: at the sender, data only": "near-data",
}


def judged(folder: Path) -> tuple[Truth, list[Found]]:
    """What each kind of capture of a transfer says."""
    truth = Truth.of(folder)
    for end in ("near", "far"):
        file = folder / f"{end}.pcapng"
        _keep(file, folder / f"{end}-late.pcapng", after_s=truth.middle_s)
        _keep(file, folder / f"{end}-data.pcapng", source=bytes([192, 168, 1, 2]))
    found = [
        _profiled(truth, kind, [folder / f"{name}.pcapng" for name in names], interfaces)
        for kind, (names, interfaces) in PROFILES.items()
    ]
    found += [
        _explained(truth, kind, folder / f"{name}.pcapng") for kind, name in EXPLAINED.items()
    ]
    return truth, found


def _profiled(truth: Truth, kind: str, files: list[Path], interfaces: list[str]) -> Found:
    number = truth.drawn.number
    try:
        measured = measure(files, interfaces=interfaces)
        profile = estimate(measured)
    except AnabranchError as error:
        return Found(number, kind, refused=str(error))
    losses = measured.losses
    delay, rate, queue = profile.delay_s, profile.rate_bit_per_s, profile.queue_packets
    return Found(
        number,
        kind,
        None if losses is None else int(losses.lost.sum()),
        None if delay is None else delay.value,
        profile.delay_is_bound,
        None if rate is None else rate.value,
        profile.rate_is_bound,
        None if queue is None else queue.value,
        remarks=tuple(measured.notes),
    )


def _explained(truth: Truth, kind: str, file: Path) -> Found:
    number = truth.drawn.number
    try:
        said = captured.explain(file).as_json()
    except AnabranchError as error:
        return Found(number, kind, refused=str(error))
    known = [
        path["losses"]["lost"]
        for flow in said["flows"]
        for end in flow["ends"].values()
        for path in end["paths"].values()
        if path.get("losses") and path["losses"]["packets"] > 2
    ]
    return Found(number, kind, sum(known) if known else None)


def _keep(file: Path, to: Path, *, after_s: float = 0.0, source: bytes = b"") -> None:
    """Writes the frames of a capture since then, or from this address."""
    with to.open("wb") as out:
        for block in _blocks(file.read_bytes()):
            if int.from_bytes(block[:4], "little") == 6:  # Enhanced Packet Block
                high, low = struct.unpack_from("<II", block, 12)
                is_early = (high << 32 | low) / 1e9 < after_s
                if is_early or not block[28 + 26 :].startswith(source):
                    continue
            out.write(block)


def _blocks(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + 12 <= len(data):
        length = max(int.from_bytes(data[at + 4 : at + 8], "little"), 12)
        yield data[at : at + length]
        at += length


def errors(truth: Truth, found: Found) -> dict[str, float]:
    """By what part each estimate is off, beyond what is free; of a bound, if it does not hold."""
    drawn, off = truth.drawn, {}
    lost, has_overflowed = truth.lost, truth.has_overflowed
    if "half" in found.kind:
        # What was lost since then is known, and without other losses also why.
        lost = truth.lost_since(found.kind)
        has_overflowed = drawn.loss == 0 and truth.lost_later > 0
    if found.lost is not None:
        off["losses"] = _off(found.lost, lost, RANDOM_LOSS_SHOWN)
    if found.delay is not None:
        off["delay"] = _off(found.delay, drawn.delay, 0.3e-3 + drawn.hold_s)
        if found.delay_is_bound:
            off["delay"] = min(off["delay"], 0.0)
    if found.rate is not None:
        off["rate"] = _off(found.rate, drawn.rate, 0.0)
        if found.rate_is_bound:
            off["rate"] = max(off["rate"], 0.0)
    if found.queue is not None and has_overflowed:
        off["queue"] = _off(found.queue, drawn.queue, 2)
        # What stood in it all the time is not seen.
        if found.delay_is_bound:
            off["queue"] = max(off["queue"], 0.0)
    return off


def _off(found: float, truth: float, free: float) -> float:
    distance = found - truth
    if abs(distance) <= free:
        return 0.0
    return math.copysign(abs(distance) - free, distance) / (truth or 1.0)


def run(numbers: list[int], folder: Path, kernel: str) -> None:
    """Carries out these transfers, each into a folder of its own."""
    words: list[str | Path] = [
        sys.executable, Path(kernel_transfer.__file__).absolute(), ",".join(map(str, numbers)),
        folder,
    ]  # fmt: skip
    if kernel == "virtual":
        done = run_in_kernel(words, folder=folder, timeout=LONGEST_S)
        status, said = done.returncode, done.stderr
    else:
        process = subprocess.run(words, check=False, capture_output=True, timeout=LONGEST_S)
        status, said = process.returncode, process.stderr
    if status:
        raise RuntimeError(f"transfers {numbers}: {said.decode(errors='replace')}")


def transfers(
    numbers: list[int], kernel: str, jobs: int, kept: Path | None
) -> Iterator[tuple[Truth, list[Found]]]:
    """Carries them out and reads their captures."""

    def batch(some: list[int]) -> list[tuple[Truth, list[Found]]]:
        with tempfile.TemporaryDirectory(dir=kept) as name:
            run(some, Path(name), kernel)
            return [judged(Path(name) / str(number)) for number in some]

    parts = [numbers[at : at + BATCH] for at in range(0, len(numbers), BATCH)]
    with ThreadPoolExecutor(jobs) as pool:
        for part in pool.map(batch, parts):
            yield from part


def tables(done: list[tuple[Truth, list[Found]]]) -> str:
    """Quantiles of the errors per kind of capture, and those beyond a bound."""
    by_kind: dict[str, list[tuple[Truth, Found]]] = {}
    for truth, found in done:
        for one in found:
            by_kind.setdefault(one.kind, []).append((truth, one))
    heads = [
        "capture", "refused", "delay is a bound", "rate is a bound",
        *(f"{what}: median, 95 %, most, beyond" for what in BOUNDS),
    ]  # fmt: skip
    rows, outside = [], []
    bounds = Counter(one.kind for _, found in done for one in found if one.delay_is_bound)
    slow = Counter(one.kind for _, found in done for one in found if one.rate_is_bound)
    for kind, pairs in by_kind.items():
        refused = sum(bool(one.refused) for _, one in pairs)
        row = [kind, *(str(count or "") for count in (refused, bounds[kind], slow[kind]))]
        for what, bound in BOUNDS.items():
            values = [
                (off[what], truth, one)
                for truth, one in pairs
                if what in (off := errors(truth, one))
            ]
            beyond = [value for value in values if abs(value[0]) > bound]
            row.append(_quantiles([value[0] for value in values], len(beyond)))
            outside += [(kind, what, *value) for value in beyond]
        rows.append(row)
    said = [_table(heads, rows)]
    if outside:
        heads = ["path", "capture", "what", "off", "found", "truth", "path's settings"]
        said.append(_table(heads, [_outlier(*one) for one in outside]))
    return "\n\n".join(said)


def _quantiles(values: list[float], beyond: int) -> str:
    if not values:
        return "–"
    size = np.abs(values)
    parts = [float(np.quantile(size, part)) for part in (0.5, 0.95, 1.0)]
    return ", ".join(f"{100 * part:.1f} %" for part in parts) + f", {beyond} of {len(values)}"


def _outlier(kind: str, what: str, off: float, truth: Truth, found: Found) -> list[str]:
    drawn = truth.drawn
    lost = truth.lost_since(kind) if "half" in kind else truth.lost
    scale, unit = {"delay": (1e3, " ms"), "rate": (1e-6, " Mbit/s")}.get(what, (1.0, ""))
    right = {"losses": lost, "delay": drawn.delay, "rate": drawn.rate, "queue": drawn.queue}[what]
    value = getattr(found, {"losses": "lost"}.get(what, what))
    offload = [
        end
        for end, has in (("sender", drawn.sender_has_offload), ("receiver", drawn.hold_s > 0))
        if has
    ]
    settings = (
        f"{drawn.rate / 1e6:.3g} Mbit/s, {drawn.delay * 1e3:.3g} ms, {100 * drawn.loss:.2g} %"
        f" in {drawn.burst:.0f}, {drawn.queue} packets, {drawn.control}"
        f"{', offload: ' + ', '.join(offload) if offload else ''}"
    )
    return [
        str(drawn.number), kind, what, f"{100 * off:+.1f} %", f"{value * scale:.4g}{unit}",
        f"{right * scale:.4g}{unit}", settings,
    ]  # fmt: skip


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def summary(done: list[tuple[Truth, list[Found]]], kernel: str) -> str:
    """What was done, in a sentence."""
    lost = sum(truth.lost for truth, _ in done)
    late = max(truth.late_p99_ms for truth, _ in done)
    where = f"Linux {os.uname().release}, in real time"
    if kernel == "virtual":
        release = kernel_file().with_name("version").read_text("utf-8").strip()
        where = f"Linux {release} in virtual time"
    return (
        f"{len(done)} transfers by {where}, {lost:,} packets lost on the way of the data; 99 of 100"
        f" packets left the emulator at most {late:.2g} ms late in each of them."
    )


def main() -> int:
    """Runs, prints, and writes the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("page", type=Path, nargs="?")
    parser.add_argument("--paths", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--kernel", choices=["host", "virtual"], default="virtual")
    parser.add_argument("--keep", type=Path, help="a folder in which the captures stay")
    arguments = parser.parse_args()
    if arguments.kernel == "host" and shutil.which("dumpcap") is None:
        print("the program `dumpcap` is not installed", file=sys.stderr)
        return 2
    numbers = list(range(arguments.first, arguments.first + arguments.paths))
    done: list[tuple[Truth, list[Found]]] = []
    with progress.steps("transfers", len(numbers), "transfers") as step:
        for one in transfers(numbers, arguments.kernel, arguments.jobs, arguments.keep):
            done.append(one)
            step()
    text = f"{summary(done, arguments.kernel)}\n\n{tables(done)}"
    print(text)
    if arguments.page is not None:
        page = marked.replaced(arguments.page.read_text("utf-8"), _BEGIN, _END, text)
        arguments.page.write_text(page, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
