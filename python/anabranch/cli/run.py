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
from anabranch.support import terminal, wording
from anabranch.support.files import check_different, check_file, check_folder, write_atomically

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
        Write all packets to this file, as a capture (pcapng) with an interface for each end of each
        link; Wireshark, tshark and `anabranch profile` read it.
    pcap_at
        Only what this node sends and receives: no packet is seen twice, as if tcpdump ran there.
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
    for folder in (trace, plot):
        if folder is not None:
            check_folder(folder)
    check_different(trace=None if trace == plot else trace, plot=plot, json=json_file, pcap=pcap)
    check_file(json_file, made=trace)
    check_file(pcap, made=trace)
    is_traced = plot is not None or trace is not None
    result = anabranch.run(
        loaded, seed=seed, replication=replication, cell=cell, trace=is_traced, pcap=pcap,
        pcap_at=pcap_at,
    )  # fmt: skip
    out = terminal.console()
    if loaded.cell_count > 1:
        out.print(f"cell {cell} of {loaded.cell_count}: {wording.key_text(loaded.cell_key(cell))}")
    for line in [*headline.lines(result), *notes.of(loaded, cell)]:
        out.print(line)
    if all_:
        out.print(terminal.summary(result.summary))
    else:
        out.print(f"more: {_more(scenario, set_, result)}")
    written = [] if pcap is None else [pcap]
    if trace is not None:
        from anabranch.store import write_tables  # noqa: PLC0415 - slow to import

        written += write_tables(trace, result.traces)
    if plot is not None:
        from anabranch.figures import plots, run_page, run_plots  # noqa: PLC0415 - slow to import

        figures = run_plots.of_run(result)
        page = plot / f"{loaded.name}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        files = []
        for name, figure in figures.items():
            files += plots.save(figure, plot / f"{loaded.name}-{name}", formats)
        # This comes last, as it leaves the figures in their form for narrow screens.
        write_atomically(page, run_page.page(result, figures).encode())
        written += [page, *files]
    if json_file is not None:
        write_json(json_file, run_record(result, "simulation"))
        written.append(json_file)
    for path in written:
        out.print(f"wrote {path}")


def _more(scenario: Path, sets: Sequence[str], result: "Result") -> str:
    """Further commands to type for details."""
    shown = f"--plot DIR draws it; --all prints all {len(result.summary)} scalars"
    flows = tomllib.loads(result.scenario.cell_toml(result.cell))["flows"].values()
    several = (flow for flow in flows if len(flow["paths"]) > 1)
    if next(several, next(iter(flows)))["transport"]["kind"] == "udp":
        return shown  # only connections have time accounts
    words = ["anabranch", "explain", str(scenario)]
    for text in sets:
        words += ["--set", text]
    which = {"--cell": result.cell, "--replication": result.replication}
    words += [word for flag, value in which.items() if value for word in (flag, str(value))]
    if result.seed != result.scenario.seed:
        words += ["--seed", str(result.seed)]
    return f"`{shlex.join(words)}` says why; {shown}"
