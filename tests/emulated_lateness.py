"""How late packets of an emulation are, by rate: the table of docs/emulate.md.

TCP of the kernel fills a link for some seconds, from Python to Python. Prints Markdown.
"""

import sys
from pathlib import Path

from anabranch.emulate import Emulator, scenario_text

sys.path.append(str(Path(__file__).parent.parent / "tools"))

from test_emulate import goodput

SECONDS = 4
RATES = (1, 10, 50, 100, 200, 500)
"""In Mbit/s."""


def main() -> None:
    """Measures rate by rate."""
    print("| link, Mbit/s | TCP, Mbit/s | packets | late p50, ms | p99, ms | max, ms |")
    print("|---|---|---|---|---|---|")
    for rate in RATES:
        # A queue of 20 ms.
        queue = max(20, rate * 20_000 // 12_000)
        text = scenario_text(delay="10ms", rate=f"{rate}Mbit/s", queue=queue)
        with Emulator(text) as emulator:
            carried = goodput(emulator, "here", "peer", SECONDS)
            summary = emulator.summary
        p50, p99, most = (
            summary[f"emulation.lateness_{name}_ms"] for name in ("p50", "p99", "max")
        )
        packets = summary["emulation.written_packets"]
        print(f"| {rate} | {carried:.2f} | {packets:.0f} | {p50:.3f} | {p99:.3f} | {most:.3f} |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
