"""`anabranch emulate`: real programs over the links of a scenario, in real time."""

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from anabranch.errors import AnabranchError
from anabranch.support.files import check_different, check_file

from . import emulate_work
from .app import REAL, Flag, Natural, Sets, app, pairs

emulate = App(
    name="emulate",
    group=REAL,
    sort_key=1,
    help="Run programs over the links of a scenario, in real time.",
    help_format="plaintext",
    help_epilogue="""\
Examples:
  anabranch emulate wifi-to-lte.toml
  anabranch emulate two-path-call.toml -- ping -c 5 office
  anabranch emulate lte.toml --in server --pcap packets.pcapng \\
      -- python3 -m http.server
  anabranch emulate --delay 20ms --rate 10Mbit/s --loss 1% -- iperf3 -c peer
  anabranch emulate --delay 40ms --trace Verizon-LTE-driving.down -- bash
  anabranch emulate --delay 20ms --kernel virtual -- ping -c 5 peer
While it runs, from another terminal:
  anabranch emulate exec server iperf3 -s
  anabranch emulate set wan rate=2Mbit/s loss=1%
More in docs/emulate.md""",
)
app.command(emulate)

_Words = Annotated[str, Parameter(allow_leading_hyphen=True)]


@emulate.default
def start(
    *words: str,
    in_: Annotated[str | None, Parameter(name="--in")] = None,
    set_: Sets = (),
    duration: float | None = None,
    pcap: Path | None = None,
    json: Path | None = None,
    replication: Natural = 0,
    delay: str | None = None,
    jitter: str | None = None,
    reorder: Annotated[bool, Flag] = False,
    duplicate: str | None = None,
    rate: str | None = None,
    loss: str | None = None,
    queue: Natural | None = None,
    trace: Path | None = None,
    kernel: Literal["host", "virtual"] = "host",
    quiet: Annotated[bool, Flag] = False,
) -> int:
    """Make a network of a scenario's links and paths, and run a command in one of its nodes.

    Each node at the end of a path is a network of its own, in which the other
    nodes can be reached by their names. Without a command the network runs
    until Ctrl-C, and other commands can join it. If options describe a link
    instead of a scenario, the link lies between the nodes `here` and `peer`.
    Everything is removed at the end; the exit status is that of the command.

    Parameters
    ----------
    words
        The scenario file, unless options describe a link, and the command, after `--`.
    in_
        The node in which the command runs; by default, the first node of the first path.
    set_
        Change one value of the scenario, PATH=VALUE; may be given several times.
    duration
        End after this many seconds.
    pcap
        Write the packets that nodes send and receive to this file, as pcapng.
    json
        Write the scalars that a simulated run has, and the lateness, to this file.
    replication
        The replication, which selects the random numbers.
    delay
        One-way delay of the link, such as 20ms.
    jitter
        Random part of the delay, uniform from 0 to this, such as 5ms. netem's `delay D J` is
        uniform from D - J to D + J: --delay D-J --jitter 2J.
    reorder
        Let packets overtake each other where their delays differ, as netem does without a rate.
    duplicate
        Probability that a packet arrives twice, such as 1%.
    rate
        Rate of the link, such as 10Mbit/s.
    loss
        Probability of loss on the link, such as 1%.
    queue
        Packets that may wait in front of the link.
    trace
        A trace in Mahimahi's format instead of a rate: a line for each 1500 bytes, with its time in
        ms.
    kernel
        Where to run: on this system, or in the virtual kernel that `make kernel` builds, in virtual
        time. There, only files that the command writes to the current folder are kept.
    quiet
        Print nothing about the links at the end.
    """
    if duration is not None and not 0 < duration < 1e9:
        raise AnabranchError(
            f"--duration is {duration}; it must be from more than 0 to 1e9 seconds"
        )
    check_different(*([] if trace is None else [trace]), pcap=pcap, json=json)
    for file in (pcap, json):
        if file is not None:
            check_file(file)

    link = {
        "delay": delay, "jitter": jitter, "reorder": reorder or None, "duplicate": duplicate,
        "rate": rate, "loss": loss, "queue": queue, "trace": trace,
    }  # fmt: skip
    described = {name: value for name, value in link.items() if value is not None}
    if not described and (sentence := misplaced(words)):
        raise AnabranchError(sentence)
    scenario = None if described else _scenario(words)
    wanted = emulate_work.Wanted(
        scenario=scenario,
        link=described,
        command=words if described else words[1:],
        node=in_,
        sets=pairs(set_),
        duration=duration,
        pcap=pcap,
        json=json,
        replication=replication,
        is_quiet=quiet,
    )
    return emulate_work.start_virtual(wanted) if kernel == "virtual" else emulate_work.start(wanted)


_FLAGS = {"--reorder", "--no-reorder", "--quiet", "--no-quiet"}
"""Options without a value."""


def misplaced(words: Sequence[str]) -> str:
    """What to say if a program stands where only a scenario or options can, or nothing."""
    at = _program_at(words)
    if at is None or (at > 0 and "-" not in "".join(word[:1] for word in words)):
        return ""
    before = shlex.join(words[:at]) or "SCENARIO.toml"
    command = shlex.join(words[at:])
    link = "" if at else f", or with a link instead of a scenario: --delay 20ms -- {command}"
    is_there = shutil.which(words[at]) is not None
    what = "a program" if is_there else "no scenario file, and no program of this name is installed"
    return (
        f"`{words[at]}` is {what}; `--` stands before what runs in the network: "
        f"anabranch emulate {before} -- {command}{link}"
    )


def _program_at(words: Sequence[str]) -> int | None:
    """The place of the first word that is neither an option, nor its value, nor a scenario."""
    at = 0
    has_scenario = False
    while at < len(words):
        word = words[at]
        if word.startswith("-"):
            at += 1 if word in _FLAGS or "=" in word else 2
        elif not has_scenario and (word.endswith(".toml") or Path(word).exists()):
            has_scenario = True
            at += 1
        else:
            return at
    return None


def _scenario(words: tuple[str, ...]) -> Path:
    if not words:
        raise AnabranchError(
            "emulate needs a scenario file, or a link: --delay, --jitter, --reorder, --duplicate, "
            "--rate, --loss, --queue or --trace"
        )
    return Path(words[0])


@emulate.command(
    name="exec",
    help_epilogue="""\
Examples:
  anabranch emulate exec server iperf3 -s
  anabranch emulate exec phone -- ping -c 5 server""",
)
def exec_(node: str, /, *command: _Words, pid: Natural | None = None) -> int:
    """Run a command in a node of a running emulation.

    Parameters
    ----------
    node
        The node.
    command
        The command; put it after `--` if it has options that are also ours.
    pid
        The process id of the emulation, needed if several run.
    """
    if not command:
        raise AnabranchError("exec needs a command behind the node")

    return emulate_work.join(node, command, pid)


@emulate.command(
    name="set",
    help_epilogue="""\
Examples:
  anabranch emulate set wan rate=2Mbit/s
  anabranch emulate set wan delay=80ms loss=1% reverse.rate=500kbit/s""",
)
def set_link(link: str, /, *values: str, pid: Natural | None = None) -> None:
    """Change rate, delay or loss of a link of a running emulation.

    Parameters
    ----------
    link
        The link.
    values
        KEY=VALUE with the keys rate, delay and loss, and reverse.rate and so on for the reverse
        direction.
    pid
        The process id of the emulation, needed if several run.
    """
    if not values:
        raise AnabranchError("set needs KEY=VALUE behind the link, such as rate=2Mbit/s")

    emulate_work.change(link, pairs(values, "set KEY=VALUE"), pid)
