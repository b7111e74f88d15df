"""SCTP, MPTCP or Multipath QUIC: the same schedulers over the same 200 random pairs of paths.

`python tools/which_multipath.py FOLDER` writes the generated part of `which-multipath.md` and its
figure `which-multipath.png` there. This takes about ten minutes on two cores.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from scipy.stats import qmc

import marked
from anabranch import _engine
from anabranch.figures import plots
from anabranch.stats import mean_interval
from anabranch.support import progress
from anabranch.support.toml_text import inline

PAIRS = 200
REPLICATIONS = 3
SEED = 1
SCHEDULERS = ("min_rtt", "blest", "ecf", "redundant", "round_robin")
ALIKE = 0.05
"""Times that differ by no more are the same here."""

_BEGIN = "<!-- generated: python tools/which_multipath.py docs -->"
_END = "<!-- end of generated -->"

_BUFFER = "8 MiB"
"""What every transport may have on its way, so that no default of a buffer decides."""
_RENO = {"kind": "reno"}
TRANSPORTS: dict[str, dict[str, Any]] = {
    "SCTP": {"kind": "sctp", "send_buffer": _BUFFER, "receive_buffer": _BUFFER},
    "MPTCP": {
        "kind": "mptcp",
        "profile": "linux_6",
        "cc": _RENO,
        "send_buffer": _BUFFER,
        "receive_buffer": _BUFFER,
    },
    "MP-QUIC": {
        "kind": "quic",
        "multipath": True,
        "cc": _RENO,
        "max_datagram": "1452 B",
        "send_buffer": _BUFFER,
        "max_data": _BUFFER,
        "max_stream_data": _BUFFER,
    },
}
"""Reno's window on each path, which is all that SCTP has, and a scheduler. MPTCP is Linux's."""
CUBIC = ("MPTCP", "MP-QUIC")
"""What is also there with CUBIC."""
SINGLE = {
    "kind": "tcp",
    "cc": _RENO,
    "send_buffer": _BUFFER,
    "receive_buffer": _BUFFER,
}
"""What uses one path alone."""


@dataclass(frozen=True)
class Question:
    """Something that people ask of two paths."""

    name: str
    title: str
    app: dict[str, Any]
    scalar: str
    dies_at_s: float | None = None
    """When the first path goes away, if it does."""


QUESTIONS = (
    Question(
        "download",
        "a download of 10 MB: time",
        {"kind": "requests", "response_size": "10 MB", "count": 1},
        "get.max_completion_ms",
    ),
    Question(
        "small",
        "100 requests for 10 kB: 95th percentile of their times",
        {
            "kind": "requests",
            "response_size": "10 kB",
            "count": 100,
            "think_time": {"kind": "exponential", "mean": "50 ms"},
        },
        "get.p95_completion_ms",
    ),
    Question(
        "failure",
        "the first path dies under a request every 20 ms: longest time",
        {
            "kind": "requests",
            "request_size": "160 B",
            "response_size": "160 B",
            "count": 300,
            "think_time": "20 ms",
            "start": {"from": "0 s", "to": "0.1 s"},
        },
        "get.max_completion_ms",
        dies_at_s=3.0,
    ),
)


def pairs() -> list[dict[str, float]]:
    """The pairs: of both paths the rate, the round trip, the queue and the loss, spread evenly.

    Rates from 1 to 100 Mbit/s, round trips from 5 to 200 ms, queues from 10 to 300 ms and losses
    from 0.01 to 1 % are spread on logarithmic scales; every second pair has no losses.
    """
    points = qmc.LatinHypercube(8, rng=SEED).random(PAIRS)

    def spread(share: float, low: float, high: float) -> float:
        return float(low * (high / low) ** share)

    found = []
    for number, point in enumerate(points):
        pair: dict[str, float] = {}
        for n, own in ((1, point[:4]), (2, point[4:])):
            pair[f"rate{n}"] = round(spread(own[0], 1, 100), 2)
            pair[f"rtt{n}"] = round(spread(own[1], 5, 200), 1)
            pair[f"queue{n}"] = round(spread(own[2], 10, 300), 1)
            pair[f"loss{n}"] = 0.0 if number % 2 else round(spread(own[3], 0.01, 1), 4)
        found.append(pair)
    return found


def _links(pair: dict[str, float], question: Question) -> dict[str, Any]:
    links: dict[str, Any] = {}
    for n, name in ((1, "first"), (2, "second")):
        rate = pair[f"rate{n}"]
        packets = max(10, round(rate * 1e6 * pair[f"queue{n}"] / 1e3 / 8 / 1500))
        links[f"links.{name}.rate"] = f"{rate} Mbit/s"
        links[f"links.{name}.delay"] = f"{pair[f'rtt{n}'] / 2} ms"
        links[f"links.{name}.queue"] = {"kind": "drop_tail", "packets": packets}
        links[f"links.{name}.loss"] = {"kind": "bernoulli", "probability": f"{pair[f'loss{n}']} %"}
    if question.dies_at_s is not None:
        links["links.first.up"] = {"timetable": [["0 s", True], [f"{question.dies_at_s} s", False]]}
    return links


def ways(question: Question) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Transport, scheduler and settings: each transport with each scheduler, each path alone."""
    for name, transport in TRANSPORTS.items():
        for scheduler in SCHEDULERS:
            own = {**transport, "scheduler": scheduler}
            if name == "SCTP":
                own = {**transport, "load_sharing": {"scheduler": scheduler}}
            yield name, scheduler, {"flows.get.transport": own}
    for name in CUBIC:
        own = {**TRANSPORTS[name], "cc": {"kind": "cubic"}, "scheduler": "min_rtt"}
        yield name, "min_rtt, CUBIC", {"flows.get.transport": own}
    if question.dies_at_s is None:
        for path in ("first", "second"):
            yield path, "", {"flows.get.paths": [path], "flows.get.transport": SINGLE}


def scenario(question: Question) -> _engine.Scenario:
    """All pairs and ways of a question, as cells."""
    lines = [
        'name = "which-multipath"',
        "[run]",
        'duration = "2000 s"',
        "[paths.first]",
        'via = ["first"]',
        "[paths.second]",
        'via = ["second"]',
    ]
    for name in ("first", "second"):
        lines += [
            f"[links.{name}]",
            'ends = ["client", "server"]',
            'rate = "1 Mbit/s"',
            'delay = "1 ms"',
        ]
    lines += [
        "[flows.get]",
        'from = "client"',
        'to = "server"',
        'paths = ["first", "second"]',
        'transport = { kind = "tcp" }',
        f"app = {inline(question.app)}",
        "[sweep]",
        f"metrics = {inline([question.scalar, 'get.completed'])}",
        "[sweep.axes.pair.cases]",
    ]
    for number, pair in enumerate(pairs()):
        lines.append(f"{inline(str(number))} = {inline(_links(pair, question))}")
    lines.append("[sweep.axes.way.cases]")
    for name, scheduler, settings in ways(question):
        lines.append(f"{inline(f'{name} {scheduler}'.strip())} = {inline(settings)}")
    return _engine.Scenario.parse("\n".join(lines) + "\n", ())


def measured(question: Question) -> pl.DataFrame:
    """Pair, way and the mean over the replications; none where a request was not answered."""
    asked = scenario(question)
    cells = asked.cell_count
    jobs = [(cell, replication) for cell in range(cells) for replication in range(REPLICATIONS)]
    parts = []
    with progress.shown("runs") as shown:
        step = 20 * len(list(ways(question))) * REPLICATIONS
        for begin in range(0, len(jobs), step):
            part = jobs[begin : begin + step]
            batch = _engine.run_batch(asked, part, os.cpu_count() or 1)
            parts.append(
                pl.DataFrame(
                    {name: batch[name] for name in ("cell", "get.completed", question.scalar)}
                )
            )
            shown(progress.Status(begin + len(part), len(jobs)))
    keys = [asked.cell_key(cell) for cell in range(cells)]
    count = question.app["count"]
    return (
        pl.concat(parts)
        .with_columns(
            pair=pl.Series([int(keys[int(cell)]["pair"]) for cell in pl.concat(parts)["cell"]]),
            way=pl.Series([str(keys[int(cell)]["way"]) for cell in pl.concat(parts)["cell"]]),
        )
        .group_by("pair", "way")
        .agg(
            pl.when(pl.col("get.completed").min() == count)
            .then(pl.col(question.scalar).mean())
            .alias("ms")
        )
        .sort("pair", "way")
    )


def _ratio(values: Sequence[float]) -> str:
    """The geometric mean of ratios with its interval, from their logarithms."""
    mean, half_width, _ = mean_interval(values)
    low, middle, high = np.exp([mean - half_width, mean, mean + half_width])
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def table(question: Question, found: pl.DataFrame) -> str:
    """Every transport and scheduler of a question, as Markdown."""
    wide = found.pivot("way", index="pair", values="ms").sort("pair")
    reference = wide["MPTCP min_rtt"]
    multi = [f"{name} {scheduler}" for name, scheduler, _ in ways(question) if scheduler]
    best = wide.select(pl.min_horizontal(multi)).to_series()
    alone = None
    if question.dies_at_s is None:
        alone = wide.select(pl.min_horizontal("first", "second")).to_series()
    lines = [
        f"**{question.title[:1].upper()}{question.title[1:]}**",
        "",
        "| transport | scheduler | over that of MPTCP with `min_rtt` | over that of the better "
        "path alone | among the best |",
        "|---|---|---:|---:|---:|",
    ]
    for way in multi:
        name, _, scheduler = way.partition(" ")
        beside = _ratio((wide[way] / reference).log().drop_nulls().to_list())
        single = "–"
        if alone is not None:
            single = _ratio((wide[way] / alone).log().drop_nulls().to_list())
        good = (wide[way] <= (1 + ALIKE) * best).sum() / PAIRS
        lines.append(f"| {name} | `{scheduler}` | {beside} | {single} | {100 * good:.0f} % |")
    return "\n".join(lines)


def figure(results: dict[str, pl.DataFrame]) -> Figure:
    """For each question the distribution of times over MPTCP's, all with `min_rtt`."""
    with plots.style():
        drawn = plots.blank(10, 3.6)
        panels = drawn.subplots(1, len(QUESTIONS), sharey=True)
        for axes, question in zip(panels, QUESTIONS, strict=True):
            wide = results[question.name].pivot("way", index="pair", values="ms")
            for name, colour in zip(("SCTP", "MP-QUIC"), plots.COLOURS, strict=False):
                ratio = np.sort((wide[f"{name} min_rtt"] / wide["MPTCP min_rtt"]).drop_nulls())
                shares = np.arange(1, len(ratio) + 1) / len(ratio)
                axes.step(ratio, shares, where="post", color=colour, label=name)
            axes.axvline(1, color=plots.QUIET, linewidth=0.8, linestyle=(0, (4, 3)))
            plots.logarithmic(axes.xaxis)
            axes.set_xlim(0.2, 5)
            axes.set_xticks([0.2, 0.5, 1, 2, 5], ["0.2", "0.5", "1", "2", "5"])
            axes.minorticks_off()
            plots.titled(axes, question.title.partition(":")[0])
            axes.set_xlabel("time over MPTCP's")
        panels[0].set_ylabel("share of the pairs")
        plots.legend(drawn, panels[0].get_lines()[:2])
    return drawn


def main() -> int:
    """Writes the page and its figure."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs")
    path = folder / "which-multipath.md"
    results = {question.name: measured(question) for question in QUESTIONS}
    content = "\n\n".join(table(question, results[question.name]) for question in QUESTIONS)
    path.write_text(marked.replaced(path.read_text("utf-8"), _BEGIN, _END, content), "utf-8")
    print(f"wrote {path}")
    for written in plots.save(figure(results), folder / "which-multipath", ("png",)):
        print(f"wrote {written}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
