"""SCTP over UDP from the command line."""

import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from anabranch import sctp
from conftest import HANGS_S
from support.live import LOOPBACK, deserted_port, run
from support.processes import killed_at_the_end


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "anabranch", "sctp", *words]


@contextmanager
def waiting(
    *words: str, stdin: int = subprocess.DEVNULL
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A command that waits for a peer, and its port of UDP, which the system chooses."""
    whole = command(*words, "--address", LOOPBACK, "--udp", "0")
    pipe = subprocess.PIPE
    started = subprocess.Popen(whole, stdin=stdin, stdout=pipe, stderr=pipe, text=True)
    with killed_at_the_end(started) as process:
        assert process.stderr
        said = process.stderr.readline()
        found = re.fullmatch(r"anabranch: waits at port 5001, UDP port ([1-9]\d*)\n", said)
        assert found, said
        yield process, found[1]


def test_a_file_goes_through_the_command_line(tmp_path: Path) -> None:
    source, copy, counted = tmp_path / "source", tmp_path / "copy", tmp_path / "counted.json"
    source.write_bytes(bytes(range(256)) * 4_000)
    with waiting("receive", "5001", str(copy)) as (receiving, udp):
        sent = subprocess.run(
            command(
                *("send", LOOPBACK, "5001", str(source), "--remote-udp", udp, "--size", "60000"),
                *("--set", "rto_min='200 ms'", "--json", str(counted)),
            ),
            check=False,
            capture_output=True,
            text=True,
            timeout=HANGS_S,
        )
        assert sent.returncode == 0, sent.stderr
        assert "sent 1024000 bytes" in sent.stderr
        assert receiving.wait(HANGS_S) == 0
    assert copy.read_bytes() == source.read_bytes()
    assert json.loads(counted.read_text())["sctp.data_chunks_sent"] >= 700


async def said_to(udp: str, *messages: bytes) -> None:
    """An end that says this and shuts down."""
    async with sctp.connect(LOOPBACK, 5001, udp_port=int(udp)) as association:
        for message in messages:
            await association.send(message)


def test_who_waits_without_anything_to_say_hears() -> None:
    with waiting("listen", "5001") as (listening, udp):
        run(lambda: said_to(udp, b"one\n", b"two\n"))
        out, _ = listening.communicate(timeout=HANGS_S)
    assert (listening.returncode, out) == (0, "one\ntwo\n")


def test_a_process_ends_although_standard_input_does_not() -> None:
    """Python aborts with SIGABRT if a thread reads from its own standard input."""
    with waiting("listen", "5001", stdin=subprocess.PIPE) as (listening, udp):
        run(lambda: said_to(udp, b"bye\n"))
        assert listening.wait(HANGS_S) == 0


def test_peers_that_vanish_do_not_end_who_keeps_listening() -> None:
    async def aborts(udp: str) -> None:
        async with sctp.connect(LOOPBACK, 5001, udp_port=int(udp)) as association:
            await association.abort()

    with waiting("listen", "5001", "--keep") as (listening, udp):
        run(lambda: aborts(udp))
        run(lambda: said_to(udp, b"next\n"))
        assert listening.stdout
        assert listening.stdout.readline() == "next\n"
        listening.send_signal(signal.SIGTERM)
        _, err = listening.communicate(timeout=HANGS_S)
    assert "the association has been aborted" in err
    assert "Traceback" not in err


def test_what_was_not_received_whole_is_no_file(tmp_path: Path) -> None:
    async def aborts(udp: str) -> None:
        async with sctp.connect(LOOPBACK, 5001, udp_port=int(udp)) as association:
            await association.send(b"half")
            await association.abort()

    with waiting("receive", "5001", str(tmp_path / "copy")) as (receiving, udp):
        run(lambda: aborts(udp))
        assert receiving.wait(HANGS_S) == 2
    assert not list(tmp_path.iterdir())


VANISHES = """
import asyncio, sys, time
from anabranch import sctp

async def main():
    async with sctp.connect("127.0.0.1", 5001, udp_port=int(sys.argv[1])) as association:
        await association.send(b"half")
        print("said", flush=True)
        await asyncio.sleep(8)  # an idle peer is not given up
        print("idle", flush=True)
        await asyncio.sleep(1000)

asyncio.run(main())
"""


ICMP = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of ICMP messages")
REFUSED = "the association has been aborted: nobody has the UDP port there (ICMP)"


@ICMP
def test_a_sender_that_was_killed_is_gone(tmp_path: Path) -> None:
    """The system answers for a port that nobody has any more."""
    with waiting("receive", "5001", str(tmp_path / "copy")) as (receiving, udp):
        sends = [sys.executable, "-c", VANISHES, udp]
        with subprocess.Popen(sends, stdout=subprocess.PIPE, text=True) as sending:
            assert sending.stdout
            assert sending.stdout.readline() == "said\n"
            sending.kill()
        _, said = receiving.communicate(timeout=HANGS_S)
    assert receiving.returncode == 2
    assert REFUSED in said, said
    assert not list(tmp_path.iterdir())


@ICMP
def test_who_connects_hears_that_nobody_has_the_port() -> None:
    for address in (LOOPBACK, "::1"):
        with deserted_port(address) as port:
            words = command("connect", address, "5001", "--remote-udp", str(port))
            done = subprocess.run(
                words, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
            )
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"anabranch: error: {REFUSED}\n"


def test_who_connects_says_what_it_waits_for() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind((LOOPBACK, 0))
        udp = str(silent.getsockname()[1])
        words = command(*("connect", LOOPBACK, "5001", "--remote-udp", udp, "--patience", "2.5"))
        began = time.monotonic()
        done = subprocess.run(
            words, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        assert time.monotonic() - began > 2.5
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"anabranch: waits for an answer from {LOOPBACK}, port 5001, UDP port {udp}: 2.5 s"
        " (--patience)",
        "anabranch: error: the peer has not answered within 2.5 s",
    ]


def test_a_sender_that_is_silent_is_given_up(tmp_path: Path) -> None:
    words = ["receive", "5001", str(tmp_path / "copy"), "--patience", "7"]
    with waiting(*words) as (receiving, udp):
        sends = [sys.executable, "-c", VANISHES, udp]
        with subprocess.Popen(sends, stdout=subprocess.PIPE, text=True) as sending:
            assert sending.stdout
            assert sending.stdout.readline() == "said\n"
            assert sending.stdout.readline() == "idle\n"
            # It has its port still, so that the system does not answer for it.
            sending.send_signal(signal.SIGSTOP)
            began = time.monotonic()
            assert receiving.stderr
            said = receiving.stderr.readline()
            assert said.startswith(
                f"anabranch: nothing has come from {LOOPBACK} for 5 s; it is given"
            ), said
            said = receiving.stderr.readline()
            assert "the peer is gone: nothing has come from it for 7 s (--patience)" in said, said
            assert receiving.wait(HANGS_S) == 2
            assert time.monotonic() - began > 2
            sending.kill()
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_sender_hears_that_the_disk_is_full() -> None:
    async def ends(udp: str) -> None:
        async with sctp.connect(LOOPBACK, 5001, udp_port=int(udp)) as association:
            with suppress(sctp.AssociationClosedError):
                while True:
                    await association.send(bytes(100_000))
            await association.ended()
            assert association.reason == "aborted"

    with waiting("receive", "5001", "/dev/full") as (receiving, udp):
        run(lambda: ends(udp))
        _, err = receiving.communicate(timeout=HANGS_S)
    assert (receiving.returncode, err.count("\n")) == (2, 1)
    assert "/dev/full: " in err


@pytest.mark.parametrize("redirection", ["<&-", ">&-"])
def test_streams_that_are_closed(redirection: str) -> None:
    words = shlex.join(command("connect", LOOPBACK, "5001"))
    done = subprocess.run(
        ["/bin/sh", "-c", f"exec {words} {redirection}"],
        check=False,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "is closed" in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["listen", "0"], "port is 0; it must be from 1 to 65535"),
        (["listen", "5001", "--raw", "--udp", "9"], "--raw and --udp are both given"),
        (["listen", "5001", "--tun", "t0=192.0.2.1", "--raw"], "--tun and --raw are both given"),
        (["listen", "5001", "--tun", "t0"], "tun = t0 is not NAME=ADDRESS[,ADDRESS]"),
        (["send", "no.such.name.invalid", "5001"], "is neither an address nor a known name"),
        (["connect", LOOPBACK, "5001", "--set", "rto_max=soon"], "rto_max"),
        (["call"], "a call needs either HOST and PORT, or --listen PORT"),
        (["send", LOOPBACK, "5001", "--size", "0"], "--size is 0; it must be at least 1"),
        (["connect", LOOPBACK, "5001", "--patience", "0"], "--patience is 0.0; it must be more"),
        (
            ["send", LOOPBACK, "5001", "-", "--stream", "65536"],
            "stream is 65536; it must be from 0",
        ),
        (["receive", "5001", "--out"], "unknown option: `--out`"),
        (
            ["call", LOOPBACK, "5001", "--duration", "nan"],
            "--duration is nan; it must be more than",
        ),
        (["call", LOOPBACK, "5001", "--app", "codec=tin"], "unknown variant `tin`"),
        (["listen", "5001", "--set", "rto_min=nan"], "rto_min = nan: settings are texts"),
    ],
)
def test_mistakes_on_the_command_line(words: list[str], sentence: str) -> None:
    done = subprocess.run(command(*words), check=False, capture_output=True, text=True, input="")
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
