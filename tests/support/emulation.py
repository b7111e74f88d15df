"""Programs that the tests of emulation run."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from conftest import no_emulation

LACKS = no_emulation()


ECHO = """
import socket, sys
line = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
line.bind(("::", 7))
print("ready", flush=True)
while True:
    data, where = line.recvfrom(65535)
    line.sendto(data, where)
"""

# Round trips in ms, to a peer; so many, and until one takes less than the third number. On a busy
# machine the program itself is late, so only the quickest tells. The fourth is its patience in s.
PING = """
import socket, sys, time
count, enough, patience = map(float, (*sys.argv[2:], *("inf", "100")[len(sys.argv) - 3:]))
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.settimeout(patience)
took = []
while len(took) < count or (min(took) >= enough and len(took) < 2000):
    began = time.perf_counter()
    line.sendto(b"x" * 56, (sys.argv[1], 7))
    line.recv(100)
    took.append((time.perf_counter() - began) * 1000)
    print(took[-1])
    time.sleep(0.01)
"""

IN_VAIN = ("1", "inf", "2")
"""What `PING` is told where nobody answers."""


def python(text: str, *words: object) -> list[str]:
    return [sys.executable, "-c", text, *map(str, words)]


@contextmanager
def anabranch(*words: object, **options: Any) -> Iterator["subprocess.Popen[str]"]:
    """The command line as a process; where the test fails, it is not waited for."""
    command = [sys.executable, "-m", "anabranch", *map(str, words)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, **options) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def stop(process: "subprocess.Popen[str]") -> None:
    """Has a process stop, and waits until all of its threads have."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


def of_paths(count: int) -> str:
    """Two nodes with this many paths between them."""
    one = "links.l{0} = {{ ends = ['a', 'b'], delay = '1 ms' }}\npaths.p{0}.via = ['l{0}']\n"
    return "".join(one.format(number) for number in range(count))
