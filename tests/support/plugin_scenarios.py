"""Scenarios with classes of Python."""

from pathlib import Path

from anabranch._engine import Scenario
from conftest import ROOT

NETWORK = """
seed = 7
run.duration = "20 s"
links.a.ends = ["x", "y"]
links.a.rate = "10 Mbit/s"
links.a.delay = "15 ms"
links.b = { ends = ["x", "y"], rate = "4 Mbit/s", delay = "30 ms" }
links.a.loss = { kind = "bernoulli", probability = 0.003 }
paths.p.via = ["a"]
paths.q.via = ["b"]
"""
FLOW = """
[flows.f]
from = "x"
to = "y"
paths = PATHS
app = APP
transport = TRANSPORT
"""
BULK = '{ kind = "bulk" }'
CONTROL = "from anabranch.plugins import CongestionControl\n\nclass Mine(CongestionControl):\n"
WINDOW = "    def limits(self):\n        return 20 * self.setup.mss\n"
ON_ACK = WINDOW + "    def on_ack(self, event):\n        "
QUEUE = """
from collections import deque
from anabranch.plugins import QueueDiscipline

class Fifo(QueueDiscipline):
    def __init__(self, setup, packets=50):
        super().__init__(setup)
        self.most, self.queue = packets, deque()
    def enqueue(self, now, packet, drops):
        if len(self.queue) < self.most:
            self.queue.append(packet)
        else:
            drops.overflow(packet)
    def dequeue(self, now, drops):
        return self.queue.popleft() if self.queue else None
    def clear(self, now, drops):
        self.queue.clear()

class Mine(Fifo):
"""


def flow(transport: str, paths: str = '["p"]', app: str = BULK) -> str:
    return FLOW.replace("TRANSPORT", transport).replace("PATHS", paths).replace("APP", app)


def scenario(text: str, folder: Path = ROOT) -> Scenario:
    return Scenario.parse(NETWORK + text, folder=str(folder))


def python(name: str, more: str = "") -> str:
    return f'{{ kind = "python", class = "{name}"{more} }}'


def own(folder: Path, body: str, more: str = "") -> Scenario:
    """A flow of TCP whose control is a class with this body, in a file beside the scenario."""
    (folder / "mine.py").write_text(CONTROL + body)
    return scenario(flow(f'{{ kind = "tcp", cc = {python("mine:Mine", more)} }}'), folder)


def own_queue(folder: Path, body: str, more: str = "") -> Scenario:
    """A flow of TCP over a link whose queue is a class with this body."""
    (folder / "mine.py").write_text(QUEUE + body)
    queue = f"links.a.queue = {python('mine:Mine', more)}\n"
    return scenario(queue + flow('{ kind = "tcp" }'), folder)


RENO = python("anabranch.plugins.examples:Reno")


CALL = """
seed = 7
run.duration = "20 s"
links.b.ends = ["x", "y"]
links.b.rate = "4 Mbit/s"
links.b.delay = "18 ms"
links.b.loss = { kind = "bernoulli", probability = 0.02 }
links.b.cross_traffic = [{ kind = "poisson", packet = "1500 B", mean_wait = "3 ms" }]
paths.p.via = ["a"]
paths.q.via = ["b"]
[links.a]
ends = ["x", "y"]
rate = "10 Mbit/s"
delay = "15 ms"
cross_traffic = [{ kind = "poisson", packet = "1500 B", mean_wait = "5 ms" }]
[links.a.loss]
kind = "gilbert"
clock = "slot"
slot = "5 ms"
mean_loss = "5 %"
mean_bad = "100 ms"
loss_in_bad = 0.85
"""
QUICK = (
    'hb_interval = "0.1 s", rto_min = "0.02 s", rto_max = "0.1 s", path_max_retrans = 1, '
    'send_buffer = "64 KiB"'
)
VOIP = '{ kind = "voip", duration = "18 s" }'


def two_paths(
    policy: str, profile: str = "rfc9260", app: str = VOIP, folder: Path = ROOT
) -> Scenario:
    """A call, or another flow of SCTP, over two paths of which one loses in bursts."""
    transport = f'{{ kind = "sctp", profile = "{profile}", {QUICK}, policy = {policy} }}'
    text = CALL + flow(transport, '["p", "q"]', app)
    return Scenario.parse(text, folder=str(folder))


def own_policy(folder: Path, body: str, more: str = "", profile: str = "rfc9260") -> Scenario:
    """A flow of SCTP whose path policy is a class with this body."""
    (folder / "mine.py").write_text(
        "from anabranch.plugins import HeartbeatPair, PathPolicy, Probe\n\n"
        f"class Mine(PathPolicy):\n{body}"
    )
    return two_paths(python("mine:Mine", more), profile, BULK, folder)
