"""Packets of captures, read in pieces: pcap and its relatives, pcapng, snoop, ERF.

The engine takes frames and headers apart (`crates/anabranch-capture`) and gives columns
(`anabranch.support.packets`); a capture may be compressed, and may have been cut to its headers
(`tcpdump -s 128`). What is left out is counted.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from anabranch import _engine
from anabranch.errors import AnabranchError
from anabranch.support import wording
from anabranch.support.packets import Packets, Place


@dataclass
class Capture:
    """A capture file that is being read."""

    file: Path
    progress: Callable[[int], None] | None = None
    """Called from time to time with the number of bytes read."""
    interface: str | None = None
    """The only interface whose packets are wanted, by its name or number, or the only place of one
    (as `eth0.5`); None for all.
    """
    interfaces: Counter[str] = field(default_factory=Counter)
    """How many frames of each interface the file has, so far, wanted or not."""
    names: dict[bytes, str] = field(default_factory=dict)
    """Of hosts, by packed addresses, as far as the file says them (name resolution blocks)."""
    places: list[Place] = field(default_factory=list)
    """Where packets were seen, so far; the number of one is its index."""
    addresses: list[IPv4Address | IPv6Address] = field(default_factory=list)
    """The hosts so far."""
    comments: list[str] = field(default_factory=list)
    """What is written about packets, so far."""
    steps_back: int = 0
    """How often a frame's time is before that of the one before it, of the same interface: out of
    order, or since a clock was set (`support.clocks`).
    """
    largest_step_back_ns: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """What has been left out so far, with the number of frames."""
    damage: str | None = None
    """Why the file could not be read to its end; None where it could."""

    def batches(self) -> Iterator[Packets]:
        """The IP packets of the file; from a damaged or cut file, those before the damage.

        Raises
        ------
        AnabranchError
            Where the file is no capture, or damaged before its first frame.
        """
        reader = _engine.CaptureReader(self.file, self.interface)
        counted: Counter[str] = Counter()
        while (batch := reader.next_batch()) is not None:
            self._take(reader, counted)
            if self.progress is not None:
                self.progress(reader.position)
            packets = Packets.of(batch)
            if len(packets):
                yield packets

    def again(self) -> "Capture":
        """The same capture, to be read once more."""
        return Capture(self.file, interface=self.interface)

    def _take(self, reader: _engine.CaptureReader, counted: Counter[str]) -> None:
        """Takes what the reader knows besides packets; `counted` is what was left out before."""
        for name, frames in reader.interfaces:
            self.interfaces[_plain_text(name)] = frames
        self.places += (
            Place(*map(_plain_text, place)) for place in reader.places(len(self.places))
        )
        self.addresses += map(ip_address, reader.addresses(len(self.addresses)))
        self.comments += map(_plain, reader.comments(len(self.comments)))
        self.names = {address: _plain(name) for address, name in reader.names}
        left_out = Counter(dict(reader.left_out))
        self.left_out.update(left_out - counted)
        counted.update(left_out - counted)
        self.damage = reader.damage
        self.steps_back, self.largest_step_back_ns = reader.steps_back

    def check_interface(self) -> None:
        """Checks, once the packets have been read, that it is clear which interface is meant.

        A packet that several interfaces have seen would count several times.

        Raises
        ------
        AnabranchError
            Where the file has several interfaces and none is asked for, or lacks the one that is.
        """
        names = wording.some(self.interfaces)
        if self.interface is None and len(self.interfaces) > 1:
            raise AnabranchError(
                f"{self.file}: there are packets of {len(self.interfaces)} interfaces ({names});"
                " name one with --interface, or two, that of the sender first"
            )
        known = {*self.interfaces, *(place.name for place in self.places)}
        if self.interface is not None and self.interface not in known:
            raise AnabranchError(
                f"{self.file}: --interface {self.interface}: there is none of this name that has"
                f" packets; those are {names}"
            )

    @property
    def notes(self) -> list[str]:
        """Sentences about the parts of the file that are not used."""
        sentences = left_out(self.left_out, self.file.name)
        if self.damage is not None:
            sentences.append(f"{self.file.name}: {self.damage}; what comes before it is used")
        return sentences


def is_capture(file: Path) -> bool:
    """Whether a file is a capture, also if it is compressed."""
    return _engine.is_capture(file)


def left_out(counts: Counter[str], file: str = "") -> list[str]:
    """A sentence for each kind of packet that is left out."""
    of = f"{file}: " if file else ""
    return [f"{of}left out: {count} {what}" for what, count in sorted(counts.items())]


def _plain(text: bytes) -> str:
    """A file's text as a terminal may have it, in one line."""
    return _plain_text(text.decode("utf-8", errors="replace"))


def _plain_text(text: str) -> str:
    return wording.harmless(" ".join(text.split("\n")))
