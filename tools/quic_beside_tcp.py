"""TCP and QUIC over the same links: a bulk transfer, and pages of the web.

`python tools/quic_beside_tcp.py FOLDER` writes the generated part of `quic.md` there. This takes
some minutes.
"""

import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import anabranch
import marked
from anabranch.stats import mean_interval

SEEDS = 10
BULK_S = 30
PAGES = 10

_BEGIN = "<!-- generated: python tools/quic_beside_tcp.py docs -->"
_END = "<!-- end of generated -->"

LINKS = {
    "10 Mbit/s, 20 ms, a queue of 50 packets": (
        'rate = "10 Mbit/s", delay = "20 ms", queue = { kind = "drop_tail", packets = 50 }'
    ),
    "50 Mbit/s, 10 ms, 0.5 % lost at random": (
        'rate = "50 Mbit/s", delay = "10 ms", queue = { kind = "drop_tail", packets = 200 }, '
        'loss = { kind = "bernoulli", probability = "0.5 %" }'
    ),
    "20 Mbit/s, 150 ms, 1 % lost in bursts": (
        'rate = "20 Mbit/s", delay = "150 ms", queue = { kind = "drop_tail", packets = 500 }, '
        'loss = { kind = "gilbert", clock = "slot", slot = "5 ms", mean_loss = "1 %", '
        'loss_in_bad = 0.8, mean_bad = "20 ms" }'
    ),
}
CONTROLS = ("cubic", "bbr3")
TRANSPORTS = {
    "TCP": 'kind = "tcp", profile = "linux_6", send_buffer = "16 MiB", receive_buffer = "16 MiB"',
    "QUIC": (
        'kind = "quic", send_buffer = "16 MiB", max_data = "16 MiB", max_stream_data = "16 MiB", '
        'max_datagram = "1472 B"'
    ),
}
"""With packets of the same size, 1500 B, and room for any window."""


@dataclass(frozen=True)
class Case:
    """What is compared: a link, a control and a transport."""

    link: str
    control: str
    transport: str

    def scenario(self) -> str:
        """A bulk transfer, or pages, one after the other, by themselves."""
        control = f'cc = {{ kind = "{self.control}" }}'
        return f"""
run.duration = "{BULK_S} s"
links.wan = {{ ends = ["server", "client"], {LINKS[self.link]} }}
paths.down.via = ["wan"]

[flows.flow]
from = "client"
to = "server"
paths = ["down"]
transport = {{ {TRANSPORTS[self.transport]}, {control} }}
app = {{ kind = "bulk", direction = "b_to_a" }}
"""

    def run(self, file: Path) -> list[tuple[float, float, float, float]]:
        """Goodput in Mbit/s, % sent again, the last round-trip time in ms, a page's time in s."""
        file.write_text(self.scenario())
        pages = {
            "flows.flow.app": f'{{ kind = "web", pages = {PAGES}, think_time = "1 s" }}',
            "run.duration": "600 s",
        }
        found = []
        for seed in range(SEEDS):
            bulk = anabranch.run(file, replication=seed).summary
            web = anabranch.run(file, set=pages, replication=seed).summary
            server = {
                name.removeprefix(f"flow.{self.transport.lower()}.b."): value
                for name, value in bulk.items()
            }
            found.append(
                (
                    bulk["flow.goodput_kbit_per_s"] / 1e3,
                    100 * self.sent_again(server),
                    server["srtt_ms"],
                    web["flow.mean_page_load_ms"] / 1e3,
                )
            )
        return found

    def sent_again(self, server: Mapping[str, float]) -> float:
        """The share of the server's segments, or of its bytes, that were sent before."""
        if self.transport == "TCP":
            return server["data_segments_retransmitted"] / server["packets_sent"]
        again = server["bytes_retransmitted"]
        return again / (server["bytes_sent"] + again)


def table() -> str:
    """The means with their 95 % intervals, a row for each case."""
    cases = [
        Case(link, control, transport)
        for link in LINKS
        for control in CONTROLS
        for transport in TRANSPORTS
    ]
    with TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        files = [Path(folder) / f"{number}.toml" for number in range(len(cases))]
        runs = list(pool.map(lambda case, file: case.run(file), cases, files))
    lines = [
        "| link | control | transport | goodput, Mbit/s | sent again, % | last RTT, ms | page, s |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for case, found in zip(cases, runs, strict=True):
        values = [_with_interval(list(column)) for column in zip(*found, strict=True)]
        lines.append(f"| {case.link} | {case.control} | {case.transport} | {' | '.join(values)} |")
    return "\n".join(lines)


def _with_interval(values: list[float]) -> str:
    mean, half_width, _ = mean_interval(values)
    return f"{mean:.2f} ± {half_width:.2f}"


def main() -> int:
    """Writes the page."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs") / "quic.md"
    text = marked.replaced(path.read_text("utf-8"), _BEGIN, _END, table())
    path.write_text(text, encoding="utf-8")
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
