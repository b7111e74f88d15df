"""The command line: arguments in, calls of the package, tables out. What computes is elsewhere."""

import importlib
import io
import json
import logging
import math
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter, Token, UnusedCliTokensError

import anabranch
from anabranch import _engine, library, papers, progress, report
from anabranch.errors import AnabranchError, Terminated
from anabranch.files import check_different, check_file, check_folder, write_atomically
from anabranch.quantities import milliseconds, share

USER_ERROR = 2
# As shells have it: 128 and the number of the signal.
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM
NARROWEST = 20
"""Characters of a line that tables and help are made for."""

app = App(
    name="anabranch",
    help="A laboratory for transport over several paths at once.",
    help_format="plaintext",
    help_epilogue="""\
Start with:
  anabranch new my-call
  anabranch run my-call.toml --plot
`anabranch COMMAND --help` has examples for every command.""",
    version=_engine.__version__,
    suppress_keyboard_interrupt=False,
)

Flag = Parameter(negative="", show_default=False)


def _whole(_: object, tokens: Sequence[Token]) -> int:
    text = tokens[0].value
    # A fraction is a mistake, not something to round.
    if not re.fullmatch(r"-?[0-9]+", text):
        raise ValueError(f"`{text}` is not a whole number")
    # The engine's numbers have 64 bits.
    if len(text) > 20 or abs(int(text)) >= 2**64:
        raise ValueError(f"`{text[:30]}` is not a whole number up to {2**64 - 1}")
    return int(text)


def _natural(kind: object, tokens: Sequence[Token]) -> int:
    number = _whole(kind, tokens)
    if number < 0:
        raise ValueError(f"`{number}` is not a whole number from 0 on")
    return number


Whole = Annotated[int, Parameter(converter=_whole)]
Natural = Annotated[int, Parameter(converter=_natural)]
Sets = Annotated[
    tuple[str, ...],
    Parameter(name="--set", negative="", show_default=False, consume_multiple=False),
]


@app.command(
    help_epilogue="""\
Examples:
  anabranch run scenarios/two-path-call.toml
  anabranch run my-call.toml --set flows.call.transport.rto_max='1 s' --seed 7
  anabranch run my-call.toml --trace traces --plot
  anabranch run scenarios/rto-sweep.toml --cell 3 --json result.json"""
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
    plot: Annotated[bool, Flag] = False,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
) -> None:
    """Run a scenario once and print every scalar.

    Parameters
    ----------
    scenario
        A scenario file.
    set_
        Change a value, PATH=VALUE; may be given several times.
    seed
        Instead of the scenario's seed.
    replication
        Which of the independent repetitions.
    cell
        Which cell, if the scenario has a sweep.
    trace
        Write packet, frame, path, queue and event traces into this folder, as Parquet.
    plot
        Draw frame delay, MOS and path state over time, into the trace folder or the current one.
    json_file
        Write the scalars to this file.
    """
    loaded = anabranch.load(scenario, _pairs(set_))
    folder = trace or Path()
    if plot or trace is not None:
        check_folder(folder)
    check_file(json_file, made=trace)
    result = anabranch.run(
        loaded, seed=seed, replication=replication, cell=cell, trace=plot or trace is not None
    )
    out = report.console()
    if loaded.cell_count > 1:
        out.print(f"cell {cell} of {loaded.cell_count}: {_key(loaded.cell_key(cell))}")
    out.print(report.summary(result.summary))
    written = []
    if trace is not None:
        from anabranch.store import write_tables  # noqa: PLC0415 - slow to import

        written += write_tables(trace, result.traces)
    if plot:
        from anabranch import plots  # noqa: PLC0415 - slow to import

        for name, figure in plots.of_run(result).items():
            written += plots.save(figure, folder / f"{loaded.name}-{name}")
    if json_file is not None:
        content = {
            "scenario": loaded.name,
            "scenario_hash": loaded.hash,
            "version": _engine.__version__,
            "seed": result.seed,
            "cell": cell,
            "replication": replication,
            "summary": result.summary,
        }
        write_atomically(json_file, (_json(content) + "\n").encode())
        written.append(json_file)
    for path in written:
        out.print(f"wrote {path}")


@app.command(
    help_epilogue="""\
Examples:
  anabranch sweep scenarios/rto-sweep.toml --out results/rto
  anabranch sweep scenarios/rto-sweep.toml --out results/rto --replications 100
  anabranch sweep my-sweep.toml --out mine --jobs 2 --metric call.loss_percent
Read the rows in Python with anabranch.read("results/rto")."""
)
def sweep(
    scenario: Path,
    /,
    *,
    out: Path,
    jobs: Whole | None = None,
    set_: Sets = (),
    replications: Whole | None = None,
    metric: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
) -> None:
    """Run every cell of a scenario's sweep, in parallel, into a study folder.

    Finished runs in the folder are never computed again: after Ctrl-C or a
    crash the same command continues, and more replications may be asked for
    later.

    Parameters
    ----------
    scenario
        A scenario file with a [sweep].
    out
        The study folder.
    jobs
        Threads; all cores if not given. Never changes a result.
    set_
        Change a value, PATH=VALUE; may be given several times.
    replications
        Runs of each cell, instead of what the sweep asks for.
    metric
        Print mean and 95 % interval of this scalar; every flow's MOS if not given.
    """
    loaded = anabranch.load(scenario, _pairs(set_))
    study = anabranch.Study(loaded, out, replications=replications, jobs=jobs)
    check_folder(out)
    with progress.shown(study.scenario.name, kept=True) as shown:
        study.run(shown)
    output = report.console()
    scalars = [name for name in study.frame().columns if "." in name]
    for name in metric or [name for name in scalars if name.endswith(".mos")]:
        output.print(report.cells(study.cells(name), study.axes, name))
    output.print(f"{study.total} runs in {out / 'rows'}")


@app.command(
    name="list",
    help_epilogue="""\
Examples:
  anabranch list
  anabranch list loss
  anabranch list codecs""",
)
def list_(category: str | None = None, /) -> None:
    """List what there is: models by category, codecs, templates and papers.

    Parameters
    ----------
    category
        One of the categories; all of them if not given.
    """
    models = dict(_engine.models())
    models["templates"] = library.described()
    models["papers"] = [(name, "anabranch reproduce " + name) for name in papers.names()]
    tables = {
        name: report.choices(rows, name, "what it is") for name, rows in models.items() if rows
    }
    codecs = _engine.codecs()
    tables["codecs"] = report.choices(
        [tuple(report.number(value) for value in codec.values()) for codec in codecs],  # type: ignore[misc]
        *(codecs[0] if codecs else ()),
    )
    if category is not None and category not in tables:
        raise AnabranchError(f"there is no category `{category}`; there are {', '.join(tables)}")
    out = report.console()
    for name, table in tables.items():
        if category in (None, name):
            out.print(table)


@app.command(
    help_epilogue="""\
Examples:
  anabranch new my-call
  anabranch new handover --template wifi-to-lte
  anabranch list templates"""
)
def new(name: Path, /, *, template: str = "two-path-call") -> None:
    """Write a scenario to start from; never over an existing file.

    Parameters
    ----------
    name
        Name or path of the new file; `.toml` is added.
    template
        Which scenario to copy; `anabranch list templates` shows them.
    """
    path = library.create(name, template)
    print(f"wrote {path}; run it with: anabranch run {path}")


@app.command(
    help_epilogue="""\
Examples:
  anabranch validate my-call.toml
  anabranch validate scenarios/*.toml"""
)
def validate(*scenarios: Path, set_: Sets = ()) -> int:
    """Check scenarios without running them.

    Parameters
    ----------
    scenarios
        Scenario files.
    set_
        Change a value, PATH=VALUE; may be given several times.
    """
    if not scenarios:
        raise AnabranchError("validate needs at least one scenario file")
    code = 0
    for path in scenarios:
        try:
            loaded = anabranch.load(path, _pairs(set_))
        except anabranch.ScenarioError as error:
            _complain(error)
            code = USER_ERROR
        else:
            runs = f"{loaded.cell_count} cells, {loaded.replications} replications"
            print(f"{path}: ok ({runs}, hash {loaded.hash})")
    return code


@app.command(
    help_epilogue="""\
Examples:
  anabranch emodel --codec g711+plc --delay 63ms --loss 2%
  anabranch emodel --codec g729a+vad --delay 150ms --loss 1% --form simplified
  anabranch emodel --ie 10 --bpl 19 --delay 0.2s --set A=10 --json"""
)
def emodel(
    *,
    codec: str | None = None,
    ie: float | None = None,
    bpl: float | None = None,
    delay: str = "0 ms",
    loss: str = "0 %",
    burst_ratio: float = 1.0,
    form: Literal["g107", "simplified", "g107_1"] = "g107",
    set_: Sets = (),
    as_json: Annotated[bool, Parameter(name="--json", negative="", show_default=False)] = False,
) -> None:
    """Compute the E-model (ITU-T G.107) and print every term.

    Parameters
    ----------
    codec
        A codec of the table (`anabranch list codecs`), or give --ie and --bpl.
    ie
        Equipment impairment factor Ie.
    bpl
        Packet-loss robustness factor Bpl.
    delay
        One-way delay from mouth to ear.
    loss
        Share of packets lost or late.
    burst_ratio
        Burst ratio BurstR: 1 for random losses, more for bursts.
    form
        G.107 complete, its simplified form, or wideband G.107.1.
    set_
        Any parameter of G.107 by its name there, NAME=VALUE; may be given several times.
    as_json
        Print JSON instead of a table.
    """
    terms: dict[str, float | str] = {
        "form": form,
        "delay_ms": milliseconds(delay),
        "loss": share(loss),
        "burst_ratio": burst_ratio,
    }
    chosen = {"codec": codec, "ie": ie, "bpl": bpl}
    terms |= {name: value for name, value in chosen.items() if value is not None}
    for name, value in _pairs(set_).items():
        try:
            terms[name] = float(value)
        except ValueError:
            raise AnabranchError(f"`{value}` for {name} is not a number") from None
    result = _engine.emodel(terms)
    if as_json:
        print(_json({name: value for name, value, _ in result}))
    else:
        report.console().print(report.emodel(result))


@app.command(
    help_epilogue="""\
Examples:
  anabranch schema > scenario.schema.json"""
)
def schema() -> None:
    """Print the JSON Schema of scenario files, for editors."""
    print(_engine.schema())


@app.command(
    help_epilogue="""\
Examples:
  anabranch reproduce voip-sctp --quick
  anabranch reproduce voip-sctp --full --jobs 8 --json verdicts.json
  anabranch reproduce sctp-handover --quick
  anabranch reproduce mptcp-aqm --full"""
)
def reproduce(
    paper: str,
    /,
    *,
    quick: Annotated[bool, Flag] = False,
    full: Annotated[bool, Flag] = False,
    jobs: Whole | None = None,
    out: Path | None = None,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
) -> int:
    """Repeat a published study: its numbers beside ours, a verdict for each claim.

    Parameters
    ----------
    paper
        Which one; `anabranch list papers` shows them.
    quick
        The cells that carry the claims, in minutes; what happens if --full is not given.
    full
        The whole study.
    jobs
        Threads; all cores if not given. Never changes a result.
    out
        Folder for rows and figures; `results/PAPER` if not given.
    json_file
        Write cells and claims with their verdicts to this file.
    """
    if quick and full:
        raise AnabranchError("--quick and --full exclude each other")
    found = papers.load(paper)
    folder = out or Path("results") / paper
    mode = "full" if full else "quick"
    return found.reproduce(mode, jobs, folder, json_file, report.console())


@app.command(
    help_epilogue="""\
Examples:
  anabranch compare linux-sctp --plot figures
  anabranch compare linux-tcp --plot figures
  anabranch compare linux-sctp --replications 100 --json deviations.json"""
)
def compare(
    oracle: Literal["linux-aqm", "linux-mptcp", "linux-sctp", "linux-tcp", "ns3-shared-queue"],
    /,
    *,
    replications: Whole | None = None,
    jobs: Whole | None = None,
    csv_file: Annotated[Path | None, Parameter(name="--csv")] = None,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
    plot: Annotated[Path | None, Parameter(name="--plot")] = None,
) -> None:
    """Put our numbers beside those of an independent implementation, row by row.

    Parameters
    ----------
    oracle
        Which one: Linux 6.12's queue disciplines, its MPTCP, the failover of its SCTP, or the
        goodput of its TCP, beside ns-3 too; or ns-3's flows that share a queue.
    replications
        Runs of each row; if not given 1000 for linux-sctp, 200 for linux-aqm, 100 for linux-tcp and
        linux-mptcp, 30 for ns3-shared-queue.
    jobs
        Threads; all cores if not given. Never changes a result.
    csv_file
        Write the rows to this file.
    json_file
        Write every value with its deviation, verdict and cause to this file.
    plot
        Write figures into this folder: the time to declare a path down over its closed form
        (linux-sctp), our congestion windows over the kernel's (linux-tcp), otherwise our numbers
        over theirs.
    """
    from anabranch import study  # noqa: PLC0415 - slow to import

    module = importlib.import_module(f"anabranch.oracles.{oracle.replace('-', '_')}")
    count = module.REPLICATIONS if replications is None else replications
    threads = study.threads(jobs)
    if count < 1:
        raise AnabranchError(f"replications is {count}; it must be at least 1")
    check_different(csv=csv_file, json=json_file)
    check_file(csv_file)
    check_file(json_file)
    if plot is not None:
        check_folder(plot)
    kernel = module.kernel_rows()
    rows = []
    with progress.steps(oracle, len(kernel), "rows") as step:
        for row in module.compare(kernel, count, threads):
            rows.append(row)
            step()
    out = report.console()
    lines = map(module.cells, rows)
    out.print(report.side_by_side(module.HEADS, lines, out.width, module.KEYS))
    for letter, text in module.CAUSES.items():
        out.print(f"{letter}: {text}")
    for line in module.summary(rows):
        out.print(line)
    contents = ((csv_file, module.as_csv(rows)), (json_file, _json(module.as_json(rows))))
    for path, content in contents:
        if path is not None:
            write_atomically(path, (content.rstrip("\n") + "\n").encode())
            out.print(f"wrote {path}")
    if plot is not None:
        from anabranch import plots  # noqa: PLC0415 - slow to import

        for name, figure in module.figures(rows).items():
            for path in plots.save(figure, plot / name):
                out.print(f"wrote {path}")


@app.command(
    help_epilogue="""\
Examples:
  anabranch explain scenarios/load-sharing.toml
  anabranch explain scenarios/load-sharing.toml --cell 3 --plot why.png
  anabranch explain my-transfer.toml --set flows.transfer.transport.receive_buffer='64 kB'"""
)
def explain(
    scenario: Path,
    /,
    *,
    set_: Sets = (),
    flow: str | None = None,
    seed: Natural | None = None,
    replication: Natural = 0,
    cell: Natural = 0,
    metric: str | None = None,
    no_alone: Annotated[bool, Flag] = False,
    plot: Path | None = None,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
) -> None:
    """Say where the time of a run went, path by path, and what to change.

    The scenario is run once, and once more over each path of the flow alone.

    Parameters
    ----------
    scenario
        A scenario file. With its seed and replication it says everything about a run, so the run
        need not have been kept.
    set_
        Change a value, PATH=VALUE; may be given several times.
    flow
        Which flow; the first one with several paths if not given.
    seed
        Instead of the scenario's seed.
    replication
        Which of the independent repetitions.
    cell
        Which cell, if the scenario has a sweep.
    metric
        What to compare the paths by, a scalar without the flow's name; MOS or goodput if not given.
    no_alone
        Do not try each path alone.
    plot
        Draw what held each path back over time into this file (.png, .svg or .pdf).
    json_file
        Write all numbers and sentences to this file.
    """
    from anabranch import explain as explaining  # noqa: PLC0415 - slow to import

    explaining.check_plot(plot)
    check_different(plot=plot, json=json_file)
    check_file(plot)
    check_file(json_file)
    found = explaining.explain(
        scenario,
        set=_pairs(set_),
        flow=flow,
        seed=seed,
        replication=replication,
        cell=cell,
        metric=metric,
        alone=not no_alone,
        steps=lambda count: progress.steps("each path alone", count),
    )
    out = report.console()
    out.print(found.tables(out.width))
    if plot is not None:
        from anabranch import plots  # noqa: PLC0415 - slow to import

        for path in plots.save(found.figure(), plot.with_suffix(""), [plot.suffix[1:]]):
            out.print(f"wrote {path}")
    if json_file is not None:
        write_atomically(json_file, (_json(found.as_json()) + "\n").encode())
        out.print(f"wrote {json_file}")


@app.command(
    name="bench-cc",
    help_epilogue="""\
Examples:
  anabranch bench-cc reno cubic bbr --quick
  anabranch bench-cc all --jobs 8
  anabranch bench-cc cubic --scenario lossy --scenario cellular
  anabranch bench-cc vegas --json vegas.json
  anabranch bench-cc vegas --baseline vegas.json --junit vegas.xml
Names of controls: anabranch list congestion_control""",
)
def bench_cc(
    *controls: str,
    scenario: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    profile: Literal["linux_6", "linux_2_6_20", "rfc"] = "linux_6",
    quick: Annotated[bool, Flag] = False,
    replications: Whole | None = None,
    jobs: Whole | None = None,
    out: Path = Path("results/bench-cc"),
    baseline: Path | None = None,
    junit: Path | None = None,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
) -> int:
    """Compare congestion controls of TCP in twelve scenarios: one table, figures and checks.

    The exit code is 1 if a check failed: a threshold of the scenario, or a
    comparison with --baseline. Finished runs in the folder are never computed
    again: after Ctrl-C the same command continues.

    Parameters
    ----------
    controls
        Names of congestion controls, or `all`.
    scenario
        Only this one; may be given several times.
    profile
        Of TCP, in all flows.
    quick
        3 replications instead of 10.
    replications
        Runs of each cell.
    jobs
        Threads; all cores if not given. Never changes a result.
    out
        Folder for rows and figures.
    baseline
        An earlier --json file: no metric may be worse beyond both 95 % intervals and 1 %.
    junit
        Write the checks to this file, as JUnit XML.
    json_file
        Write every mean with its interval, and the checks, to this file.
    """
    from anabranch import bench_cc as bench  # noqa: PLC0415 - slow to import

    if quick and replications is not None:
        raise AnabranchError("--quick and --replications exclude each other")
    count = bench.QUICK_REPLICATIONS if quick else bench.REPLICATIONS
    return bench.bench(
        controls,
        report.console(),
        out=out,
        only=scenario,
        profile=profile,
        replications=count if replications is None else replications,
        jobs=jobs,
        baseline_file=baseline,
        junit_file=junit,
        json_file=json_file,
    )


# Ctrl-C is heard in `main`, where it gets a sentence and its exit code.
app.meta.suppress_keyboard_interrupt = False


@app.meta.default
def _with_log_level(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    log_level: Literal["debug", "info", "warning", "error"] = "warning",
) -> object:
    """Set up what all commands share.

    Parameters
    ----------
    log_level
        What to say about the work on standard error.
    """
    logging.basicConfig(
        level=log_level.upper(), format="anabranch: %(levelname)s: %(message)s", force=True
    )
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    return app(tokens, exit_on_error=False, print_error=False, result_action="return_value")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns
    -------
    The exit code: 0, 1 if a check of bench-cc failed, 2 for a mistake, 130 after Ctrl-C, 143 after
    SIGTERM.
    """
    columns = shutil.get_terminal_size().columns
    if columns < NARROWEST or os.environ.get("COLUMNS") == "0":
        # Rich hangs on the narrowest, and takes 0, "unknown", literally.
        os.environ["COLUMNS"] = str(max(columns, NARROWEST))
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Where the locale has no dash or ±, a question mark is better than no result.
        sys.stdout.reconfigure(errors="replace")
    # Around the handlers: a signal may come as soon as the first is set.
    try:
        with _signals():
            return _run(arguments)
    except KeyboardInterrupt as interrupt:
        _say(f"stopped{f': {interrupt}' if interrupt.args else ''}")
        return TERMINATED if isinstance(interrupt, Terminated) else INTERRUPTED


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = app.meta(
            list(sys.argv[1:] if arguments is None else arguments),
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
        if sys.stdout is not None:
            sys.stdout.flush()
    except CycloptsError as error:
        return _complain(_usage(error))
    except (AnabranchError, anabranch.ScenarioError, anabranch.RunError) as error:
        return _complain(error)
    except BrokenPipeError:
        # The reader has gone; Python would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, UnicodeError) as error:
        return _complain(_sentence(error))
    return code if isinstance(code, int) else 0


@contextmanager
def _signals() -> Iterator[None]:
    """While it lasts, Ctrl-C and SIGTERM are exceptions, unless the caller ignores them."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def terminate(*_: object) -> None:
        raise Terminated

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        meant = {signal.SIGINT: interrupt, signal.SIGTERM: terminate}
        before = {
            number: signal.signal(number, handler)
            for number, handler in meant.items()
            if signal.getsignal(number) != signal.SIG_IGN
        }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _usage(error: CycloptsError) -> str:
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        return f"`{error.unused_tokens[0]}` is one argument too many"
    error.verbose = False
    return str(error)


def _sentence(error: OSError | UnicodeError) -> str:
    if isinstance(error, UnicodeError):
        return "an argument or a name is not valid UTF-8"
    where = f"{error.filename}: " if error.filename is not None else ""
    return f"{where}{error.strerror or error}"


def _complain(error: object) -> int:
    _say("error: " + " ".join(str(error).split()))
    return USER_ERROR


def _say(sentence: str) -> None:
    # The exit code says it, too, where standard error is closed or full.
    if sys.stderr is not None:
        with suppress(OSError):
            print(f"anabranch: {sentence}", file=sys.stderr, flush=True)


def _pairs(sets: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in sets:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise AnabranchError(f"`--set {text}` is not PATH=VALUE")
        pairs[name.strip()] = value.strip()
    return pairs


def _key(key: dict[str, float | str | bool]) -> str:
    return ", ".join(f"{name} = {report.number(value)}" for name, value in key.items())


def _json(content: object) -> str:
    """JSON, in which NaN does not exist: null stands for "no value"."""

    def clean(value: object) -> object:
        if isinstance(value, dict):
            return {key: clean(item) for key, item in value.items()}
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps(clean(content), indent=2, ensure_ascii=False, allow_nan=False)
