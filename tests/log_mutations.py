"""Logs as they come to hand: cut, appended, edited, of another encoding, with numbers gone wrong.

python tests/log_mutations.py SECONDS [READER...] gives each reader's samples, changed, to `profile`
for so long each, and prints how many were read, and how many refused in a sentence. It ends at the
first that is neither, that takes more than `LONGEST_S` of CPU, or more memory than `MOST_OCTETS`.
"""

import random
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from test_profile_logs import SAMPLES, estimated

LONGEST_S = 10.0
MOST_OCTETS = 3 << 30
"""Of address space, in the process that tries them."""

_NUMBER = re.compile(rb"\d+(?:\.\d+)?")
_ODD = (
    b"NaN", b"nan", b"inf", b"-inf", b"Infinity", b"1e400", b"-1", b"-0", b"1e308", b"5e-324",
    b"9" * 30, b"9" * 400, b"4294967295", b"18446744073709551616", b"65536", b"0", b"0x10", b"1_0",
    b"1,5", b"", b"\xd9\xa3", b"\xc2\xb2", b"1e9", b"2147483648",
)  # fmt: skip
"""What stands in the place of a number; some are digits of other scripts."""


def changed(text: bytes, rng: random.Random) -> bytes:
    """The file after one to five accidents."""
    for _ in range(rng.randint(1, 5)):
        text = rng.choice(_CHANGES)(text, rng)
        text = text[: 1 << 20]
    return text


def _lines(text: bytes, rng: random.Random) -> bytes:
    """Deletes, repeats, moves or swaps lines."""
    lines = text.splitlines(keepends=True) or [b""]
    at, other = (rng.randrange(len(lines)) for _ in range(2))
    count = rng.choice([1, 1, 1, 3, len(lines) // 2 + 1])
    match rng.randrange(4):
        case 0:
            del lines[at : at + count]
        case 1:
            lines[at:at] = lines[other : other + count] * rng.choice([1, 1, 50])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case _:
            rng.shuffle(lines)
    return b"".join(lines)


def _number(text: bytes, rng: random.Random) -> bytes:
    """Replaces a number, or all that are equal to it."""
    found = list(_NUMBER.finditer(text))
    if not found:
        return text + rng.choice(_ODD)
    one, odd = rng.choice(found), rng.choice(_ODD)
    if rng.random() < 0.2:
        return text.replace(one[0], odd)
    return text[: one.start()] + odd + text[one.end() :]


def _digit(text: bytes, rng: random.Random) -> bytes:
    """A number becomes larger or smaller by powers of ten."""
    found = list(_NUMBER.finditer(text))
    if not found:
        return text
    one = rng.choice(found)
    zeros = b"0" * rng.randint(1, 12)
    new = one[0] + zeros if rng.random() < 0.5 else b"0." + zeros + one[0].replace(b".", b"")
    return text[: one.start()] + new + text[one.end() :]


def _cut(text: bytes, rng: random.Random) -> bytes:
    """The beginning or the end is missing."""
    at = rng.randint(0, len(text))
    return text[:at] if rng.random() < 0.7 else text[at:]


def _octets(text: bytes, rng: random.Random) -> bytes:
    """Some bytes are others, such as NUL."""
    for _ in range(rng.choice([1, 1, 20])):
        at = rng.randint(0, len(text))
        new = rng.choice([b"\0", b"\xff", b"\r", b"\n", b"\x1b[31m", bytes([rng.randrange(256)])])
        text = text[:at] + new + text[at + rng.randint(0, 2) :]
    return text


def _encoding(text: bytes, rng: random.Random) -> bytes:
    """Of another encoding, with a mark of the order of bytes or without, or with other ends."""
    said = text.decode("utf-8", "replace")
    match rng.randrange(6):
        case 0:
            return said.encode("utf-16")
        case 1:
            return said.encode("utf-16-be")
        case 2:
            return b"\xef\xbb\xbf" + text
        case 3:
            return said.encode("latin-1", "replace")
        case 4:
            return said.encode("cp1251", "replace")
        case _:
            return text.replace(b"\n", b"\r\n")


def _again(text: bytes, rng: random.Random) -> bytes:
    """Appended to itself, or to another log."""
    other = text if rng.random() < 0.7 else SAMPLES[rng.choice(sorted(SAMPLES))].encode()
    return text + rng.choice([b"", b"\n"]) + other


def _words(text: bytes, rng: random.Random) -> bytes:
    """Two words change places."""
    words = text.split(b" ")
    one, other = (rng.randrange(len(words)) for _ in range(2))
    words[one], words[other] = words[other], words[one]
    return b" ".join(words)


_CHANGES = (_lines, _number, _digit, _cut, _octets, _encoding, _again, _words)


def tried(name: str, seed: int, file: Path) -> bool:
    """Whether a changed sample is read; else it is refused in a sentence."""
    rng = random.Random(f"{name} {seed}")
    file.write_bytes(changed(SAMPLES[name].encode(), rng))
    began = time.process_time()
    is_read = estimated(file)
    took = time.process_time() - began
    if took > LONGEST_S:
        raise AssertionError(f"{name} {seed} took {took:.1f} s")
    return is_read


def main() -> int:
    """Tries for a while."""
    seconds, names = float(sys.argv[1]), sys.argv[2:] or sorted(SAMPLES)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_OCTETS, MOST_OCTETS))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log"
        for name in names:
            counts: Counter[bool] = Counter()
            end, seed = time.monotonic() + seconds, 0
            while time.monotonic() < end:
                try:
                    counts[tried(name, seed, file)] += 1
                except Exception:
                    print(f"{name}, seed {seed}: {file.read_bytes()[:2000]!r}")
                    raise
                seed += 1
            said = f"{counts[True]} read, {counts[False]} refused"
            print(f"{name}: {counts.total()} inputs, {said}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
