"""The pattern that every peer sends and checks, as in payload.h; README.md has the rules."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

GOLDEN = 0x9E3779B97F4A7C15
FACTOR = 0xD6E8FEB86659FD93
WORD = (1 << 64) - 1
HEADER = 8

Sizes = tuple[int, int]
"""Least and most octets of a message."""


def sizes(text: str) -> Sizes:
    """Reads `8-1000`, or `1000` for messages of one size."""
    least, _, most = text.partition("-")
    found = (int(least), int(most or least))
    if found[0] < HEADER or found[1] < found[0]:
        raise ValueError(text)
    return found


def _mixed(x: int) -> int:
    x ^= x >> 32
    x = x * FACTOR & WORD
    return x ^ x >> 32


def _key(stream: int, index: int) -> int:
    return _mixed((stream << 32 | index) + GOLDEN & WORD)


def size_of(stream: int, index: int, of: Sizes) -> int:
    """Octets of a message, header included."""
    return of[0] + _mixed(_key(stream, index) ^ 0x5851F42D4C957F2D) % (of[1] - of[0] + 1)


_STEPS: NDArray[np.uint64] = np.arange(1, 1 << 17, dtype=np.uint64) * np.uint64(GOLDEN)


def filled(stream: int, index: int, of: Sizes) -> bytes:
    """A message."""
    length = size_of(stream, index, of) - HEADER
    words = _STEPS[: (length + 7) // 8] + np.uint64(_key(stream, index))
    words ^= words >> np.uint64(32)
    words *= np.uint64(FACTOR)
    words ^= words >> np.uint64(32)
    header = (stream << 32 | index).to_bytes(HEADER, "big")
    return header + words.astype("<u8").tobytes()[:length]


def _hash(message: bytes) -> int:
    words = np.frombuffer(message, "<u8", len(message) // 8)
    last = int.from_bytes(message[len(message) // 8 * 8 :], "little")
    return _mixed(int(words.sum(dtype=np.uint64)) + last + len(message) * GOLDEN & WORD)


class Flow:
    """One direction of an association."""

    def __init__(self) -> None:
        self.messages = self.bytes = 0
        self.corrupt = self.misplaced = self.duplicates = self.out_of_order = 0
        self.digests: dict[int, int] = {}
        self.seen: dict[int, bytearray] = {}

    def count(self, stream: int, message: bytes) -> None:
        self.messages += 1
        self.bytes += len(message)
        self.digests[stream] = self.digests.get(stream, 0) + _hash(message) & WORD

    def check(self, on: int, message: bytes, of: Sizes) -> None:
        """Counts a received message, and compares every octet with the expected one."""
        self.count(on, message)
        number = int.from_bytes(message[:HEADER], "big")
        stream, index = number >> 32, number & 0xFFFFFFFF
        self.misplaced += stream != on
        if len(message) < HEADER or index >= 1 << 26 or message != filled(stream, index, of):
            self.corrupt += 1
            return
        seen = self.seen.setdefault(on, bytearray())
        if index < len(seen):
            if seen[index]:
                self.duplicates += 1
            else:
                self.out_of_order += 1
        else:
            seen.extend(bytes(index + 1 - len(seen)))
        seen[index] = 1

    def report(self, name: str) -> dict[str, Any]:
        """The counts, and what was wrong if it was received."""
        counted = {
            f"{name}_messages": self.messages,
            f"{name}_bytes": self.bytes,
            f"{name}_digests": {str(on): f"{each:016x}" for on, each in self.digests.items()},
        }
        if name == "sent":
            return counted
        wrong = ("corrupt", "misplaced", "duplicates", "out_of_order")
        return counted | {each: getattr(self, each) for each in wrong}
