"""Scenarios in real time: any program over the links of a scenario, each node a network namespace.

>>> import sys
>>> from anabranch.emulate import Emulator
>>> ask = "import socket; print(socket.gethostbyname('server'))"
>>> with Emulator("scenarios/wifi-to-lte.toml") as emulator:
...     print(*(interface.device for interface in emulator.nodes["phone"]))
...     emulator.set("lte", rate="2 Mbit/s")
...     done = emulator.run("phone", [sys.executable, "-c", ask], capture_output=True)
wifi lte
>>> done.stdout.split()
[b'10.177.0.2']

`emulator.start("server", ["iperf3", "-s", "-1"])` and `emulator.run("phone", ["iperf3", "-c",
"server"])` measure what a program gets over the links. The scenario's own flows run on the kernel's
TCP, Multipath TCP, UDP and SCTP with `anabranch.emulate.testbed.run`.

Linux only, as root or where users may make namespaces.
"""

from .emulator import Emulator, Interface, LinkCounters
from .oneliner import scenario_text

__all__ = ["Emulator", "Interface", "LinkCounters", "scenario_text"]
