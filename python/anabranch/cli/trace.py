"""`anabranch trace import`."""

import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from anabranch.errors import AnabranchError
from anabranch.support import progress, quantities, terminal
from anabranch.support.files import check_different, check_file
from anabranch.support.stdin import STANDARD, on_disk

from .app import UNDERSTAND, File, Flag, Texts, app, pairs

trace = App(
    name="trace",
    group=UNDERSTAND,
    sort_key=3,
    help="""How a path changes over time: logs become links of scenarios.

`anabranch profile` estimates what does not change of the same logs.""",
    help_format="plaintext",
)
app.command(trace)


@trace.command(
    name="import",
    help_epilogue="""\
Examples:
  anabranch trace import starlink.txt --out sky.toml --interval 100ms
  anabranch trace import irtt.json --out sky.toml --ends dish server
  anabranch trace import B_2019.12.14_10.16.30.csv --out road.toml \\
      --source https://github.com/uccmisl/5Gdataset --licence GPL-3.0
  anabranch trace import Lumos5G-v1.0.csv --where run_num=1 --out walk.toml
  anabranch trace import bus.log --out bus.toml --mahimahi
  anabranch trace import mine.csv --column time=when --column rate=down \\
      --rate-unit Mbit/s --out mine.toml""",
)
def import_(
    log: File,
    /,
    *,
    out: Path | None = None,
    name: str | None = None,
    ends: Annotated[tuple[str, str], Parameter(negative="")] = ("a", "b"),
    source: str | None = None,
    licence: str | None = None,
    column: Texts = (),
    where: Texts = (),
    time_unit: str | None = None,
    rate_unit: str | None = None,
    delay_unit: str | None = None,
    loss_unit: str | None = None,
    interval: str | None = None,
    window: str | None = None,
    take: Annotated[
        tuple[str, ...], Parameter(negative="", show_default=False, consume_multiple=True)
    ] = (),
    mahimahi: Annotated[bool, Flag] = False,
) -> None:
    """Turn a log into a link whose rate, delay and losses follow it over time.

    The link is a file that scenarios `include`; beside it a first scenario is
    written. Source and licence of the log are kept in the heads of the files.

    Parameters
    ----------
    log
        A log of ping, fping, mtr (--raw), irtt, iperf3 (--json), flent or mm-link; a table (CSV) of
        times and rates, delays or losses, as public sets have them; a packet-delivery trace
        (Mahimahi). `-` is standard input.
    out
        Write the link to this file, and a scenario and packet-delivery traces beside it; print the
        link if not given.
    name
        The name of the link and the path; the file's name if not given.
    ends
        The two nodes that the link joins: forward is from the first one, for pings the one that
        asked, for data the one that sent.
    source
        Who has measured the log, and where it is had.
    licence
        The licence of the log.
    column
        QUANTITY=HEADING: what a column of a table is. Quantities are time, rate, rate_back, rtt,
        delay, delay_back, loss, sequence, arrived and lost. Without headings a column has its
        number.
    where
        HEADING=VALUE: take only the rows of a table that have this value.
    time_unit
        The unit of times: s, ms, us or ns.
    rate_unit
        The unit of rates: bit/s, kbit/s, Mbit/s, Gbit/s, B/s, kB/s or MB/s.
    delay_unit
        The unit of round trips and delays: s, ms, us or ns.
    loss_unit
        The unit of losses: % or share.
    interval
        The time between packets or rows, such as 100ms, where the log has no times.
    window
        Average over windows of this length; if not given, each value counts by itself, and losses
        are shares of a second or of ten packets.
    take
        What to take of rate, delay and loss; all that go together if not given.
    mahimahi
        Write rates as packet-delivery traces.
    """
    from anabranch.profile import output as profile_output
    from anabranch.profile import traces

    options = traces.Options(
        columns=pairs(column, "--column QUANTITY=HEADING"),
        where=pairs(where, "--where HEADING=VALUE"),
        time_unit=time_unit,
        rate_unit=rate_unit,
        delay_unit=delay_unit,
        loss_unit=loss_unit,
        interval_s=_seconds(interval),
        window_s=_seconds(window),
        take=tuple(word.strip() for words in take for word in words.split(",")),
    )
    if out is not None and (out.is_dir() or out.suffix == ".trace"):
        is_what = "a folder" if out.is_dir() else "the name of a packet-delivery trace"
        raise AnabranchError(f"--out is `{out}`, {is_what}; give the link's file, such as sky.toml")
    if out is not None and not out.suffix:
        out = out.with_suffix(".toml")
    stem = "stdin" if log == STANDARD else log.stem
    named = name or traces.name_of(stem if out is None else out.stem)
    profile_output.check_names(named, ends)
    if out is None and mahimahi:
        raise AnabranchError("--mahimahi writes files: give --out")
    check_different(log, out=out)
    check_file(out)
    with on_disk(log) as file, progress.reading() as reading:
        found = traces.import_trace(file, options, reading)
    if out is None:
        print(traces.text(found, named, ends, source=source, licence=licence), end="")
        return
    run, *deliveries = traces.names(found, out, mahimahi=mahimahi)[1:]
    for each in (run, *deliveries):
        check_different(log, out=each)
        check_file(each)
    wrote = traces.write(
        found, out, name=named, ends=ends, source=source, licence=licence, mahimahi=mahimahi
    )
    console = terminal.console()
    console.print(found.title)
    for note in found.notes:
        console.print(note)
    console.print(terminal.choices(traces.summary(found), "what", "value"))
    for path in wrote:
        console.print(f"wrote {path}")
    if run not in wrote:
        console.print(f"{run} is there already, and stays as it is")
    console.print(f"try it with: anabranch run {shlex.quote(str(run))}")


def _seconds(text: str | None) -> float | None:
    return None if text is None else quantities.milliseconds(text) / 1e3
