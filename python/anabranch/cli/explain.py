"""`anabranch explain`."""

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from cyclopts import Parameter

from anabranch.errors import AnabranchError, ScenarioError
from anabranch.support import progress, terminal
from anabranch.support.files import check_different, check_file, check_folder
from anabranch.support.stdin import on_disk

from .app import UNDERSTAND, File, Flag, Natural, Sets, app, pairs, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure
    from rich.console import RenderableType


@app.command(
    group=UNDERSTAND,
    sort_key=1,
    help_epilogue="""\
Examples:
  anabranch explain scenarios/load-sharing.toml
  anabranch explain scenarios/load-sharing.toml --cell 3 --plot figures
  anabranch explain scenarios/video-call.toml --cell 3 --plot figures
  anabranch explain my-transfer.toml \\
      --set flows.transfer.transport.receive_buffer='64 kB'
  tcpdump -i eth0 -s 128 -w transfer.pcap
  anabranch explain transfer.pcap --plot figures
  ssh host tcpdump -i eth0 -s 128 -U -w - | anabranch explain -
  anabranch explain server.sqlog""",
)
def explain(
    source: File,
    /,
    *,
    set_: Sets = (),
    flow: str | None = None,
    seed: Natural | None = None,
    replication: Natural = 0,
    cell: Natural = 0,
    metric: str | None = None,
    no_alone: Annotated[bool, Flag] = False,
    interface: Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=True)] = (),
    from_s: Annotated[float, Parameter(name="--from")] = 0.0,
    codec: str | None = None,
    plot: Path | None = None,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
) -> None:
    """Say where the time of a run went, path by path, and what to change.

    A scenario is run once, and once more over each path of the flow alone. Of a call it says what
    its quality was lost to, of a video over RTP or UDP what it stood still for. Of a capture (pcap,
    pcapng) the flows of the most bytes are explained: what was lost and retransmitted, timeouts,
    failovers, pauses, how long packets waited in queues, and what a call in RTP is worth. Of a
    qlog file (.qlog, .sqlog) the ends of connections in it: goodput, round trips, losses, probe
    timeouts, flow control, migration, and why the connection was closed.

    Parameters
    ----------
    source
        A scenario file, a capture or a qlog file; `-` is standard input. With its seed and
        replication a scenario says everything about a run, so the run need not have been kept.
    set_
        Change a value, PATH=VALUE; may be given several times.
    flow
        Which flow; the first one with several paths if not given. Of a capture a part of its name,
        which has its protocol, addresses and ports; of a qlog file one of the connection's name.
    seed
        Replaces the scenario's seed.
    replication
        Which of the independent repetitions.
    cell
        Which cell, if the scenario has a sweep.
    metric
        The scalar to compare the paths by, without the flow's name; MOS or goodput if not given.
    no_alone
        Do not try each path alone.
    interface
        Of a capture: look only at packets of these interfaces.
    from_s
        Of a capture: leave out what was captured in its first so many seconds.
    codec
        Of a capture: the codec of a call in RTP (`anabranch list codecs`), if its payload type does
        not say it.
    plot
        Draw what held each path back over time into this folder, or a video's freezes, or the end
        that a qlog file is of; of a flow of a capture also the time-sequence graph of the end that
        sends.
    json_file
        Write all numbers and sentences to this file.
    """
    check_different(source, plot=plot, json=json_file)
    if plot is not None:
        check_folder(plot)
    check_file(json_file)
    with on_disk(source) as file:
        _explain(
            file, set_=set_, flow=flow, seed=seed, replication=replication, cell=cell,
            metric=metric, interface=interface, codec=codec, no_alone=no_alone, from_s=from_s,
            plot=plot, json_file=json_file,
        )  # fmt: skip


def _explain(
    source: Path,
    *,
    set_: Sets,
    flow: str | None,
    seed: int | None,
    replication: int,
    cell: int,
    metric: str | None,
    interface: tuple[str, ...],
    codec: str | None,
    no_alone: bool,
    from_s: float,
    plot: Path | None,
    json_file: Path | None,
) -> None:
    from anabranch import explain as explaining
    from anabranch import profile as profiling
    from anabranch.explain import captured, qlogs

    kind = "capture" if captured.is_capture(source) else "scenario"
    if kind == "scenario" and qlogs.is_qlog(source):
        kind = "qlog file"
    of_runs = {
        "--set": bool(set_),
        "--seed": seed is not None,
        "--replication": replication != 0,
        "--cell": cell != 0,
        "--metric": metric is not None,
        "--no-alone": no_alone,
    }
    of_captures = {
        "--interface": bool(interface),
        "--from": from_s != 0,
        "--codec": codec is not None,
    }
    for option, is_given in of_runs.items():
        if is_given and kind != "scenario":
            raise AnabranchError(f"{option} is for scenarios, and {source} is a {kind}")
    for option, is_given in of_captures.items():
        if is_given and kind != "capture":
            raise AnabranchError(
                f"{option} is for captures (pcap, pcapng), and {source} is not one"
            )
    if kind == "capture":
        if not 0 <= from_s < math.inf:
            raise AnabranchError(f"--from {from_s}: give seconds, 0 or more")
        _explain_capture(
            source, flow, interface, codec, from_s=from_s, plot=plot, json_file=json_file
        )
        return
    if kind == "qlog file":
        _explain_qlog(source, flow, plot=plot, json_file=json_file)
        return
    try:
        explanation = explaining.explain(
            source,
            set=pairs(set_),
            flow=flow,
            seed=seed,
            replication=replication,
            cell=cell,
            metric=metric,
            alone=not no_alone,
            steps=lambda count: progress.steps("each path alone", count),
        )
    except ScenarioError:
        if source.is_file() and not source.stat().st_size:
            raise AnabranchError(f"{source}: the file is empty") from None
        if source.is_file() and profiling.is_log(source):
            raise AnabranchError(
                f"{source}: a log, of which `anabranch profile` makes a path; a scenario, a "
                "capture or a qlog file is explained"
            ) from None
        raise
    figures = [(f"{explanation.result.scenario.name}-explain", explanation.figure)]
    _hand_out(explanation, figures, plot, json_file)


def _explain_capture(
    file: Path,
    flow: str | None,
    interfaces: tuple[str, ...],
    codec: str | None,
    *,
    from_s: float,
    plot: Path | None,
    json_file: Path | None,
) -> None:
    from anabranch.explain import captured

    with progress.reading() as reading:
        explanation = captured.explain(
            file, flow=flow, codec=codec, interfaces=interfaces, from_s=from_s,
            progress=reading(file),
        )  # fmt: skip
    figures = [
        (_stem(file, name, number), draw)
        for number, one in enumerate(explanation.flows, 1)
        for name, draw in (
            ("explain", one.figure),
            ("sequence", partial(one.sequence, file, from_s)),
        )
    ]
    _hand_out(explanation, figures, plot, json_file)


def _explain_qlog(
    file: Path, flow: str | None, *, plot: Path | None, json_file: Path | None
) -> None:
    from anabranch.explain import qlogs

    with progress.reading() as reading:
        explanation = qlogs.explain(file, flow=flow, progress=reading(file))
    figures = [
        (_stem(file, "explain", number), one.figure)
        for number, one in enumerate(explanation.connections, 1)
    ]
    _hand_out(explanation, figures, plot, json_file)


def _stem(file: Path, name: str, number: int) -> str:
    """The name of a figure of the flow with this number, without its ending."""
    return f"{file.stem}-{name}" if number == 1 else f"{file.stem}-{name}-{number}"


class _Explained(Protocol):
    """What is explained, for people and for programs."""

    def tables(self, width: int) -> "RenderableType": ...

    def as_json(self) -> dict[str, Any]: ...


def _hand_out(
    explanation: _Explained,
    figures: "Sequence[tuple[str, Callable[[], Figure | None]]]",
    plot: Path | None,
    json_file: Path | None,
) -> None:
    """Prints an explanation, and writes what is asked for; figures are drawn only then."""
    out = terminal.console()
    out.print(explanation.tables(out.width))
    if plot is not None:
        from anabranch.figures import plots

        for stem, draw in figures:
            if (figure := draw()) is not None:
                for path in plots.save(figure, plot / stem, ["png"]):
                    out.print(f"wrote {path}")
    if json_file is not None:
        write_json(json_file, explanation.as_json())
        out.print(f"wrote {json_file}")
