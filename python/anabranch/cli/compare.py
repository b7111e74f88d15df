"""`anabranch compare`."""

import importlib
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from anabranch import oracles
from anabranch.errors import AnabranchError
from anabranch.support import cores, progress, terminal
from anabranch.support.files import check_different, check_file, check_folder, write_atomically

from .app import Whole, app, json_text


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
        Write a page, index.html, and its figures into this folder: our failover times over the
        kernel's, and over the closed form (linux-sctp), our congestion windows over the kernel's
        (linux-tcp), otherwise our numbers over theirs.
    """
    module = importlib.import_module(f"anabranch.oracles.{oracle.replace('-', '_')}")
    count = module.REPLICATIONS if replications is None else replications
    threads = cores.threads(jobs)
    if count < 1:
        raise AnabranchError(f"replications is {count}; it must be at least 1")
    check_different(csv=csv_file, json=json_file, plot=plot)
    check_file(csv_file)
    check_file(json_file)
    if plot is not None:
        check_folder(plot)
    kernel = module.kernel_rows()
    rows = []
    progress.announce("this computes for a minute or more, on all cores unless --jobs says less")
    with progress.steps(oracle, len(kernel), "rows") as step:
        for row in module.compare(kernel, count, threads):
            rows.append(row)
            step()
    out = terminal.console()
    for line in module.notes(rows) if hasattr(module, "notes") else ():
        out.print(line)
    for title, heads, part in oracles.tables(module, rows):
        lines = [module.cells(row) for row in part]
        shown = terminal.side_by_side(heads, lines, out.width, module.KEYS)
        out.print(*([title] if title else []), shown, sep="\n")
    for letter, text in module.CAUSES.items():
        out.print(f"{letter}: {text}")
    for line in module.summary(rows):
        out.print(line)
    contents = ((csv_file, module.as_csv(rows)), (json_file, json_text(module.as_json(rows))))
    for path, content in contents:
        if path is not None:
            write_atomically(path, (content.rstrip("\n") + "\n").encode())
            out.print(f"wrote {path}")
    if plot is not None:
        from anabranch.oracles import page  # noqa: PLC0415 - slow to import

        for path in page.write(module, rows, count, plot):
            out.print(f"wrote {path}")
