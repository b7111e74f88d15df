"""Path profiles from measurements: captures, pings and other logs, packet-delivery traces.

`measure(files)` reads, `estimate(measurement)` gives a `Profile`; `output` writes it as a part of a
scenario, as a line for tc-netem and as JSON, `figures` draws it.
"""

from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path

from anabranch.errors import AnabranchError
from anabranch.support import capture, reading

from . import kinds, logs, main_flow, pair
from .estimates import Estimate, Profile, estimate
from .measurement import Measurement

__all__ = ["Estimate", "Measurement", "Profile", "estimate", "is_log", "measure"]


def measure(
    files: list[Path],
    progress: Callable[[Path], Callable[[int], None]] | None = None,
    interfaces: Sequence[str] = (),
) -> Measurement:
    """Reads a measurement and recognises its kind by its content.

    Parameters
    ----------
    files
        One file, or two captures of the same traffic, with the sender's first.
    progress
        Called for each file; gives a function that is told how many of its bytes have been read.
    interfaces
        The interfaces to read in captures that have several: one name, or for a single capture two,
        with the sender's first; for two captures, one of each.

    Raises
    ------
    AnabranchError
        Where a file is no measurement, or says nothing about a path.

    Examples
    --------
    >>> from pathlib import Path
    >>> from anabranch.profile import estimate, measure
    >>> capture = Path("call.pcapng")
    >>> _ = anabranch.run("scenarios/two-path-call.toml", pcap=capture, pcap_at="all")
    >>> measured = measure([capture], interfaces=["first@caller", "first@callee"])
    >>> measured.title
    '1566 packets seen at both ends'
    >>> print(round(estimate(measured).delay_s.value, 3))
    0.03
    """
    if not 1 <= len(files) <= 2:
        raise AnabranchError(f"{len(files)} files; give one, or two captures of the same traffic")
    readers = [kinds.reader(file) for file in files]
    if len(files) == 2 and any(readers):
        raise AnabranchError("two files have to be captures of the same traffic, one of each end")
    if len(files) == 2 and files[0].samefile(files[1]) and len(interfaces) < 2:
        raise AnabranchError(
            f"{files[0]}: one file, named twice; give a capture of each end, or two of its "
            "interfaces with --interface"
        )
    _check_interfaces(files, interfaces, is_capture=readers[0] is None)
    if readers[0] is not None:
        with reading.watched(progress):
            return readers[0].read(files[0])
    # Two interfaces of one file count as two captures.
    places = list(zip_longest(files * max(1, len(interfaces) // len(files)), interfaces))
    captures = [
        capture.Capture(file, progress(file) if progress is not None else None, interface)
        for file, interface in places
    ]
    named = " and ".join(str(file) for file in files)
    try:
        measure_ = pair.measure if len(captures) == 2 else main_flow.measure
        measured = measure_(*captures)
    except AnabranchError as error:
        if str(error).startswith(tuple(str(file) for file in files)):
            raise
        for each in captures:
            each.check_interface()
        # The packets that were left out may be the reason.
        said = [str(error), *(note for each in captures for note in each.notes)]
        raise AnabranchError(f"{named}: {'; '.join(said)}") from None
    for each in captures:
        each.check_interface()
        measured.notes.extend(each.notes)
    return measured


def is_log(file: Path) -> bool:
    """Whether a file is a log that is read, and no text that only has a comma in its first line."""
    reader = logs.reader_of(file)
    return reader is not None and (
        reader is not logs.table or logs.table.has_columns(reading.head(file))
    )


def _check_interfaces(files: list[Path], interfaces: Sequence[str], *, is_capture: bool) -> None:
    if interfaces and not is_capture:
        raise AnabranchError(f"{files[0]}: not a capture; --interface does not go with it")
    if len(interfaces) > 2 or (len(files) == 2 and len(interfaces) == 1):
        raise AnabranchError(
            f"{len(interfaces)} interfaces; give one or two of a capture, or one of each of two"
        )
