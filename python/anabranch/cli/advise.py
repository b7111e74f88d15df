"""`anabranch advise`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from anabranch.errors import AnabranchError
from anabranch.support import progress, terminal
from anabranch.support.files import check_different, check_file, check_folder

from .app import UNDERSTAND, Flag, Sets, Whole, app, pairs, write_json


@app.command(
    group=UNDERSTAND,
    sort_key=2,
    help_epilogue="""\
Examples:
  anabranch advise --paths lossy-two-paths --goal mos
  anabranch advise --paths my-paths.toml --goal failover --out advice
  anabranch advise --paths wifi.toml lte.toml --goal latency --full
  anabranch advise --paths wifi-and-lte --goal mos --transport udp
  anabranch advise --paths dsl.toml --goal mos --transport udp --beside-bulk
  anabranch advise --paths wifi-and-lte --goal video
  anabranch advise --paths wifi-and-lte --goal goodput --transport tcp""",
)
def advise(
    *,
    paths: Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=True)] = (),
    goal: Literal["mos", "video", "goodput", "failover", "latency"],
    transport: Literal["sctp", "mptcp", "tcp", "udp", "quic", "rtp"] | None = None,
    profile: str | None = None,
    beside_bulk: Annotated[bool, Flag] = False,
    set_: Sets = (),
    quick: Annotated[bool, Flag] = False,
    full: Annotated[bool, Flag] = False,
    method: Literal["grid", "optuna"] = "grid",
    jobs: Whole | None = None,
    out: Path | None = None,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
) -> None:
    """Say which settings to use over your own paths, how much they gain, and how to set them.

    Parameters
    ----------
    paths
        A path file ([links.NAME], perhaps [paths.NAME]), a scenario whose paths are taken, or an
        example: lossy-two-paths, clean-two-paths, wifi-and-lte. Several files are several paths.
    goal
        What to improve: the quality of a call, what is seen of its video, the goodput of a bulk
        transfer, the interruption when the primary path dies, or response times beside a bulk
        transfer.
    transport
        The transport; if not given, sctp for mos and failover, rtp for video, otherwise mptcp, or
        tcp over one path. udp is for calls as SIP makes them (RTP): packetisation, jitter buffer,
        codec, a copy over the second path, and the queue of the slowest link. rtp has a congestion
        control besides, retransmissions, and ways to use several paths. quic uses all paths at the
        same time (RFC 10069).
    profile
        The implementation to set up, such as rfc9260, freebsd_10 or noq; Linux if not given, for
        quic rfc9000.
    beside_bulk
        Rate a call or its video beside a bulk transfer of TCP, which fills the first path in its
        direction.
    set_
        Change a value, PATH=VALUE; may be given several times.
    quick
        Try fewer settings, in about a minute; this is the default.
    full
        Try four times as many settings, with five times as many replications.
    method
        Search by a grid, or by Optuna's TPE, which needs anabranch[optuna].
    jobs
        Threads; all cores if not given. Never changes the advice.
    out
        Keep all runs in this folder: the same command continues after Ctrl-C.
    json_file
        Write the advice with all numbers to this file.
    """
    from anabranch import advise as advising
    from anabranch.advise import tables

    if quick and full:
        raise AnabranchError("use --quick or --full, not both")
    check_different(*map(Path, paths), out=out, json=json_file)
    check_file(json_file, out)
    if out is not None:
        check_folder(out)
    advice = advising.advise(
        paths,
        goal,
        transport=transport,
        profile=profile,
        beside_bulk=beside_bulk,
        set=pairs(set_),
        effort=advising.FULL if full else advising.QUICK,
        method=method,
        out=out,
        jobs=jobs,
        rounds=lambda title: progress.shown(title, kept=out is not None),
    )
    output = terminal.console()
    for part in tables.report(advice):
        output.print(part)
    text = advice.paste.text()
    if text:
        print(f"\n{text}\n")
    for part in tables.evidence(advice):
        output.print(part)
    if json_file is not None:
        write_json(json_file, advice.as_json())
        output.print(f"wrote {json_file}")
