"""`anabranch profile`."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from anabranch.errors import AnabranchError
from anabranch.support import progress, terminal
from anabranch.support.files import check_different, check_file, check_folder, write_atomically
from anabranch.support.stdin import STANDARD, on_disk

from .app import UNDERSTAND, File, app, write_json

if TYPE_CHECKING:
    from anabranch.profile import Profile


@app.command(
    group=UNDERSTAND,
    sort_key=3,
    help_epilogue="""\
Examples:
  ping -D -i 0.2 -c 3000 example.org > wifi.txt
  anabranch profile wifi.txt --out wifi.toml --plot figures
  anabranch profile capture.pcapng --name lte
  anabranch profile sender.pcapng receiver.pcapng --json path.json
  anabranch run my-call.toml --pcap call.pcapng --pcap-at all
  anabranch profile call.pcapng --interface wifi@phone wifi@server
  ssh host tcpdump -i eth0 -s 128 -U -w - | anabranch profile -""",
)
def profile(
    *files: File,
    name: str | None = None,
    ends: Annotated[tuple[str, str], Parameter(negative="")] = ("a", "b"),
    interface: Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=True)] = (),
    out: Path | None = None,
    plot: Path | None = None,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
) -> None:
    """Estimate a path from a measurement, for scenarios and for tc-netem.

    The profile has delay, jitter, rate, queue and a model of the losses, each
    with a 95 % interval, as far as the measurement allows.

    Parameters
    ----------
    files
        A capture (pcap, pcapng); a log of ping, fping, mtr (--raw, --json), irtt, iperf3 (--json),
        flent, ss -ti or mm-link; a table (CSV) of pings, or of times and rates; a packet-delivery
        trace (Mahimahi); or two captures of the same traffic, the sender's first. `-` is standard
        input.
    name
        The name of the link and the path; the file's name if not given.
    ends
        The two nodes that the link joins: first the one that sent the data or the pings.
    interface
        Selects packets of a capture (pcapng) of several interfaces: the name of one interface, or
        of two that saw the same traffic, the sender's first.
    out
        Write the profile to this file, which scenarios `include`; print it if not given.
    plot
        Draw figures into this folder.
    json_file
        Write all numbers to this file.
    """
    from anabranch import profile as profiling
    from anabranch.profile import output

    if not files:
        raise AnabranchError("profile needs a measurement: a capture, pings or a trace")
    if name is None:
        stem = "stdin" if files[0] == STANDARD else files[0].stem
        name = "".join(c if c.isalnum() and c.isascii() else "-" for c in stem)[:100] or "path"
    output.check_names(name, ends)
    check_different(*files, out=out, json=json_file, plot=plot)
    check_file(out)
    check_file(json_file)
    if plot is not None:
        check_folder(plot)
    if list(files).count(STANDARD) > 1:
        raise AnabranchError("`-` is standard input, which is one file: name the other one")
    with ExitStack() as kept, progress.reading() as reading:
        on_disks = [kept.enter_context(on_disk(file)) for file in files]
        measured = profiling.measure(on_disks, reading, interface)
    estimated = profiling.estimate(measured)
    text = output.toml(estimated, name, ends, out)
    wrote = []
    if out is not None:
        # The file is written before anything is printed: a reader such as `head` may close the pipe
        # early.
        write_atomically(out, text.encode())
        wrote.append(out)
    if json_file is not None:
        write_json(json_file, output.as_json(estimated, name))
        wrote.append(json_file)
    wrote += _figures(estimated, plot, name)
    console = terminal.console()
    said = [estimated.measurement.title, *estimated.measurement.notes, *output.missing(estimated)]
    if (directions := output.direction(estimated, ends)) is not None:
        said.append(directions)
    for line in said:
        console.print(line)
    heads = ("what", "value", "95 % interval", "how")
    console.print(terminal.choices(output.rows(estimated), *heads))
    if estimated.fits:
        models = output.model_heads(estimated), output.model_rows(estimated)
        console.print(terminal.side_by_side(*models, console.width, 1))
        console.print("* chosen: the least BIC, or too few losses for more")
    for line in output.netem(estimated, ends):
        print(line)
    if out is None:
        print(f"\n{text}", end="")
    for path in wrote:
        console.print(f"wrote {path}")


def _figures(profile: "Profile", folder: Path | None, name: str) -> list[Path]:
    if folder is None:
        return []
    from anabranch.figures import plots
    from anabranch.profile import figures

    return [
        file
        for kind, figure in figures.of_profile(profile).items()
        for file in plots.save(figure, folder / f"{name}-{kind}", ["png"])
    ]
