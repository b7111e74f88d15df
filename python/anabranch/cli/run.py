"""`anabranch run`."""

import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

import anabranch
from anabranch.errors import AnabranchError
from anabranch.studies import headline
from anabranch.studies.result import capture_node
from anabranch.support import terminal
from anabranch.support.files import check_different, check_file, check_folder, write_atomically
from anabranch.support.transports import can

from . import notes
from .app import MODEL, Formats, Natural, Sets, app, pairs, run_record, write_json

if TYPE_CHECKING:
    from anabranch.studies.result import Result


@app.command(
    group=MODEL,
    sort_key=4,
    help_epilogue="""\
Examples:
  anabranch run scenarios/two-path-call.toml
  anabranch run my-call.toml --set flows.call.transport.rto_max='1 s' --seed 7
  anabranch run my-call.toml --plot out
  anabranch run my-call.toml --trace traces --plot out --formats png,pdf
  anabranch run my-call.toml --pcap call.pcapng && tshark -r call.pcapng
  anabranch run scenarios/bulk-transfer.toml --qlog transfer.sqlog
  anabranch run scenarios/rto-sweep.toml --cell 3 --json result.json""",
)
def run(
    scenario: Path,
    /,
    *,
    set_: Sets = (),
    seed: Natural | None = None,
    replication: Natural = 0,
    cell: Natural = 0,
    trace: Path | None = None,
    plot: Path | None = None,
    pcap: Path | None = None,
    pcap_at: str | None = None,
    qlog: Path | None = None,
    formats: Formats = (),
    all_: Annotated[bool, Parameter(name="--all", negative="", show_default=False)] = False,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
) -> None:
    """Run a scenario once: print its results, and what held it back.

    Parameters
    ----------
    scenario
        A scenario file.
    set_
        Change a value, PATH=VALUE; may be given several times.
    seed
        Replaces the scenario's seed.
    replication
        Which of the independent repetitions.
    cell
        Which cell, if the scenario has a sweep.
    trace
        Write the trace tables into this folder, as Parquet: packets, their hops, frames, ratings,
        intervals, exchanges, path state and limits, head-of-line blocking, queues, losses, radio
        and events.
    plot
        Write a page into this folder: of calls frame delay with the path of each frame, MOS and
        path state over time; of TCP goodput, round trip, window, queue, what held the sender
        back, and the time-sequence graph; every scalar, and the scenario.
    pcap
        Write what one node sends and receives to this file, as a capture (pcapng), as if tcpdump
        ran there; Wireshark, tshark, `anabranch explain` and `anabranch profile` read it.
    pcap_at
        The node; by default the one that the first flow comes from. `all`: both ends of each link,
        an interface each, so that most packets are seen twice.
    qlog
        Write what each end sends, receives and takes for lost, and its window, to this file, as
        qlog: .sqlog (a record for each event) or .qlog (one document); qvis draws it.
    formats
        Also write each figure of the page as a file of its own: png, svg, pdf or pgf, or several,
        pdf,svg.
    all_
        Print every scalar.
    json_file
        Write the scalars to this file.
    """
    loaded = anabranch.load(scenario, pairs(set_))
    if formats and plot is None:
        raise AnabranchError("--formats needs --plot: it says how the page's figures are written")
    _check(scenario, trace, plot, json_file=json_file, pcap=pcap, qlog=qlog)
    is_traced = plot is not None or trace is not None or qlog is not None
    result = anabranch.run(
        loaded, seed=seed, replication=replication, cell=cell, trace=is_traced, pcap=pcap,
        pcap_at=pcap_at,
    )  # fmt: skip
    out = terminal.console()
    if loaded.cell_count > 1:
        from anabranch.stats import labels

        key = labels.key_text(loaded.cell_key(cell), labels.of_values({}, loaded.axes))
        out.print(f"cell {cell} of {loaded.cell_count}: {key}")
    for line in [*headline.lines(result), *notes.of(loaded, cell)]:
        out.print(line)
    if all_:
        out.print(terminal.summary(result.summary))
    else:
        out.print(f"more: {_more(scenario, set_, result)}")
    written = [] if pcap is None else [pcap]
    if qlog is not None:
        from anabranch.studies import qlog as qlogs

        qlogs.write(result, qlog)
        written.append(qlog)
    if trace is not None:
        from anabranch.store import write_tables

        written += write_tables(trace, result.traces)
    if plot is not None:
        written += _drawn(result, plot, formats)
    if json_file is not None:
        write_json(json_file, run_record(result, "simulation"))
        written.append(json_file)
    for path in written:
        seen = _seen(loaded, cell) if path == pcap and pcap_at is None else ""
        out.print(f"wrote {path}{seen}")


def _check(
    scenario: Path,
    trace: Path | None,
    plot: Path | None,
    *,
    json_file: Path | None,
    pcap: Path | None,
    qlog: Path | None,
) -> None:
    """Raises where something cannot be written, before the run."""
    for folder in (trace, plot):
        if folder is not None:
            check_folder(folder)
    different = None if trace == plot else trace
    check_different(scenario, trace=different, plot=plot, json=json_file, pcap=pcap, qlog=qlog)
    for file in (json_file, pcap, qlog):
        check_file(file, made=trace)
    if qlog is not None:
        from anabranch.studies import qlog as qlogs

        qlogs.check(qlog)


def _drawn(result: "Result", folder: Path, formats: Sequence[str]) -> list[Path]:
    """Writes the page and its figures; gives the files."""
    from anabranch.figures import plots, run_page, run_plots

    name = result.scenario.name
    figures = run_plots.of_run(result)
    page = folder / f"{name}.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    files = []
    for figure_name, figure in figures.items():
        files += plots.save(figure, folder / f"{name}-{figure_name}", formats)
    # This comes last, as it leaves the figures in their form for narrow screens.
    write_atomically(page, run_page.page(result, figures).encode())
    return [page, *files]


def _seen(scenario: anabranch.Scenario, cell: int) -> str:
    """What a capture has by default."""
    node = capture_node(scenario, cell, None)
    return f": what {node} sends and receives (--pcap-at names another node, or all)"


def _more(scenario: Path, sets: Sequence[str], result: "Result") -> str:
    """Further commands to type for details."""
    shown = f"--plot DIR draws it; --all prints all {len(result.summary)} scalars"
    flows = tomllib.loads(result.scenario.cell_toml(result.cell))["flows"].values()
    several = (flow for flow in flows if len(flow["paths"]) > 1)
    if not can(next(several, next(iter(flows)))["transport"]["kind"]).flow_control:
        return shown  # only connections have time accounts
    words = ["anabranch", "explain", str(scenario)]
    for text in sets:
        words += ["--set", text]
    which = {"--cell": result.cell, "--replication": result.replication}
    words += [word for flag, value in which.items() if value for word in (flag, str(value))]
    if result.seed != result.scenario.seed:
        words += ["--seed", str(result.seed)]
    return f"`{shlex.join(words)}` says why; {shown}"
