"""Scenarios in real time: any program over the links of a scenario, each node a network namespace.

>>> from anabranch.emulate import Emulator
>>> with Emulator("scenarios/wifi-to-lte.toml") as emulator:
...     server = emulator.start("server", ["iperf3", "-s", "-1"])
...     emulator.run("phone", ["iperf3", "-c", "server"])
...     emulator.set("lte", rate="2 Mbit/s")

Linux only, as root or where users may make namespaces.
"""

from .emulator import Emulator, Interface, LinkCounters
from .oneliner import scenario_text

__all__ = ["Emulator", "Interface", "LinkCounters", "scenario_text"]
