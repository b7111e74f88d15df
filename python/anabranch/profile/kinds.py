"""What kind of file a measurement is, told by its beginning; what to do with one that is none."""

import re
from pathlib import Path

from anabranch.errors import AnabranchError
from anabranch.support import capture

from . import logs

_PROFILE = re.compile(r"^# Path profile of |^# Written by `anabranch|^\[links\.", re.MULTILINE)
"""Matches the text of a path file."""

_PACKED = {
    b"\x1f\x8b": "gunzip",
    b"\x28\xb5\x2f\xfd": "unzstd",
    b"BZh": "bunzip2",
    b"\xfd7zXZ\0": "unxz",
    b"PK\3\4": "unzip",
    b"7z\xbc\xaf": "7z x",
    b"Rar!": "unrar x",
}
"""The first bytes of packed files, and the program that unpacks them."""

_TAR = (257, b"ustar")
"""Where an archive of tar has its mark, in bytes."""

_STAND_INS = (
    (re.compile(rb"version https://git-lfs\.github\.com/spec/"),
     "a pointer of Git LFS, not the data; run `git lfs pull` in its repository"),
    (re.compile(rb"(?:\.\./|/)*(?:\.git/)?annex/objects/"),
     "a pointer of git-annex, not the data; run `git annex get` in its repository"),
    (re.compile(rb"\s*<(?:!doctype html|html)", re.IGNORECASE),
     "a page of a web site, not the data; fetch the file that the page is about"),
)  # fmt: skip
"""What stands in the place of data, and what to do about it."""


def start(file: Path) -> bytes:
    """The beginning of a file.

    Raises an AnabranchError of one sentence where it is empty, or stands in the place of data.
    """
    if file.exists() and not file.is_file():
        raise AnabranchError(f"{file}: not a file")
    with file.open("rb") as stream:
        head = stream.read(4096)
    if not head:
        raise AnabranchError(f"{file}: the file is empty")
    for form, said in _STAND_INS:
        if form.match(head):
            raise AnabranchError(f"{file}: {said}")
    return head


def reader(file: Path) -> logs.Reader | None:
    """The reader of a log; None for a capture.

    Raises an AnabranchError of one sentence where the file is neither.
    """
    head = start(file)
    if capture.is_capture(file):
        return None
    if _PROFILE.search(head.decode("utf-8", errors="replace")):
        raise AnabranchError(
            f"{file}: a path profile or a scenario, not a measurement; "
            "`anabranch advise --paths` and `include` of a scenario take it as it is"
        )
    if (found := logs.reader_of(file)) is not None:
        return found
    for mark, program in _PACKED.items():
        if head.startswith(mark):
            raise AnabranchError(f"{file}: compressed; unpack it first with `{program}`")
    if head[_TAR[0] :].startswith(_TAR[1]):
        raise AnabranchError(f"{file}: an archive; unpack it first with `tar -xf`")
    raise AnabranchError(
        f"{file}: neither a capture (pcap, pcapng, snoop, ERF) nor a log that is read: "
        f"{logs.names()}"
    )
