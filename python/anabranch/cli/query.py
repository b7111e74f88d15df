"""`anabranch query`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from anabranch.errors import AnabranchError
from anabranch.support import terminal, wording
from anabranch.support.files import check_different, check_file
from anabranch.support.quantities import milliseconds

from .app import STUDY, Whole, app
from .messages import say

_SHOWN = 40
"""Rows of a result that are printed at most."""


@app.command(
    group=STUDY,
    sort_key=3,
    help_epilogue="""\
Examples:
  anabranch query results/rto
  anabranch query results/rto \\
      'select rto_max, avg("call.mos") from rows group by all order by 2'
  anabranch query results/rto 'select * from cells'
  anabranch query results/rto --csv rows.csv --arrow rows.arrow
  anabranch query results/rto 'select count(*) from rows a, rows b' \\
      --timeout 30s""",
)
def query(
    folder: Path,
    sql: str | None = None,
    /,
    *,
    csv_file: Annotated[Path | None, Parameter(name="--csv")] = None,
    arrow: Path | None = None,
    parquet: Path | None = None,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
    jobs: Whole = 1,
    timeout: str | None = None,
) -> None:
    """Ask a study folder in SQL, or export its rows.

    Tables: rows (a row for each finished run), cells (a row for each cell) and
    traces_NAME. A scalar has a dot in its name, so it needs double quotes,
    "call.mos"; NULL means "no value". Long values are cut on the screen, but
    complete in files. A query has no time limit unless --timeout gives one;
    Ctrl-C stops it.

    Parameters
    ----------
    folder
        A study folder, as `sweep --out` makes it.
    sql
        One SELECT in DuckDB's dialect; if not given, all rows are read.
    csv_file
        Write the result to this file.
    arrow
        Write the result to this file as Arrow IPC.
    parquet
        Write the result to this file as Parquet.
    json_file
        Write the result to this file as a JSON list of rows.
    jobs
        Threads; each may use 0.7 GB of memory.
    timeout
        Give up after this time, such as 30s.
    """
    seconds = None if timeout is None else milliseconds(timeout) / 1e3
    if seconds == 0:
        raise AnabranchError("`--timeout` is 0; a query needs more time")
    wanted = {"csv": csv_file, "arrow": arrow, "parquet": parquet, "json": json_file}
    files = {kind: path for kind, path in wanted.items() if path is not None}
    check_different(**wanted)
    for path in files.values():
        check_file(path)
    from anabranch.store.query import Tables

    out = terminal.console()
    with Tables(folder, jobs, timeout_s=seconds) as tables:
        if files:
            count = tables.save(sql, files)
            for path in files.values():
                # Not on standard output, which may be one of the files.
                say(f"wrote {path}: {wording.counted(count, 'row')}")
            return
        frame, total = tables.head(sql, _SHOWN)
    out.print(terminal.frame(frame, out.width, tables.columns["cells"]))
    if total > frame.height:
        out.print(f"the first {frame.height} of {total:,} rows; --csv FILE writes all")
