"""Programs that the tests of emulation run."""

import subprocess
import sys
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

PING = """
import socket, sys, time
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.settimeout(2)
for number in range(int(sys.argv[2])):
    began = time.perf_counter()
    line.sendto(b"x" * 56, (sys.argv[1], 7))
    line.recv(100)
    print((time.perf_counter() - began) * 1000)
    time.sleep(0.01)
"""


def python(text: str, *words: object) -> list[str]:
    return [sys.executable, "-c", text, *map(str, words)]


def anabranch(*words: object, **options: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "anabranch", *map(str, words)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, **options)


def of_paths(count: int) -> str:
    """Two nodes with this many paths between them."""
    one = "links.l{0} = {{ ends = ['a', 'b'], delay = '1 ms' }}\npaths.p{0}.via = ['l{0}']\n"
    return "".join(one.format(number) for number in range(count))
