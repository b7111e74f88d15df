"""What the tests share: the command line, and a scenario that takes milliseconds."""

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from anabranch import cli
from anabranch.emulate import Emulator, scenario_text
from anabranch.errors import LiveError
from anabranch.plugins import reload
from anabranch.virtual import kernel_file
from complaints import is_complaint

# A shell has its jobs in the background ignore SIGINT, `nohup` has its command ignore SIGHUP, and
# they have their children ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
if sys.platform != "win32":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Workers of pytest-xdist have it, and pipes would be as wide as it says.
os.environ.pop("COLUMNS", None)

DEVICES = "ANABRANCH_EMULATE_DEVICES"
"""The variable that names the kind of an emulation's devices."""

LONGEST_FIRST = (
    "test_store_damage.py",
    "interop/test_foreign_peers.py",
    "test_virtual_kernel.py",
    "test_mptcp_aqm.py",
    "test_report.py",
    "test_scenario_search.py",
    "test_emulate.py",
    "test_emulate_command.py",
    "test_advise.py",
    "test_smoke.py",
    "test_sctp_live.py",
    "test_sctp_commands.py",
    "test_tcp_wimax.py",
    "interop/test_kernel_mptcp.py",
    "interop/test_kernel_tcp.py",
    "interop/test_foreign_tcp.py",
    "interop/test_gvisor_tcp.py",
    "interop/test_sctp.py",
    "test_tutorials.py",
    "test_guides.py",
    "test_widths.py",
    "test_reference.py",
    "test_testbed.py",
    "test_voip_sctp.py",
    "test_sctp_handover.py",
    "test_cluster.py",
)
"""Modules whose tests take or wait longest: a module is one worker's, and the last one that begins
should not be the longest."""

BUILDS_S = 2400
"""The longest that a test with other stacks may take: the first one of all builds them, for which
others wait."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {ROOT / "tests" / name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))
    for item in items:
        if item.path.parent.name == "interop":
            item.add_marker(pytest.mark.timeout(BUILDS_S))


def pytest_xdist_auto_num_workers() -> int | None:
    """For `--numprocesses auto`: many tests wait for clocks and for other processes."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    cores = os.cpu_count() or 1
    return min(2 * cores, cores + 4)


# A case may wait for its turn for longer than it takes.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")

ROOT = Path(__file__).parent.parent
SCENARIOS = sorted((ROOT / "scenarios").glob("*.toml"))


def no_emulation() -> str | None:
    """Why this machine cannot emulate, in a sentence; None if it can."""
    if not sys.platform.startswith("linux"):
        return "namespaces are Linux's"
    try:
        with Emulator(scenario_text(delay="1ms")):
            return None
    except LiveError as error:
        return str(error)


def no_kernel() -> str | None:
    """Why there is no virtual kernel here, in a sentence; None if there is one."""
    try:
        kernel_file()
    except LiveError as error:
        return str(error)
    return None


Completed = subprocess.CompletedProcess[str]
Command = Callable[..., Completed]

CALL = """\
name = "small"
seed = 3

[run]
duration = "20 s"

[links.first]
ends = ["caller", "callee"]
rate = "1 Mbit/s"
delay = "20 ms"
queue = { kind = "drop_tail", packets = 50 }

[links.first.loss]
kind = "gilbert"
clock = "slot"
slot = "5 ms"
sharing = "shared"
mean_loss = "5 %"
loss_in_bad = 0.8
mean_bad = "60 ms"

[links.second]
ends = ["caller", "callee"]
rate = "1 Mbit/s"
delay = "30 ms"

[paths.p0]
via = ["first"]

[paths.p1]
via = ["second"]

[flows.call]
from = "caller"
to = "callee"
paths = ["p0", "p1"]

[flows.call.app]
kind = "voip"
codec = "g711+plc"
start = "1 s"
duration = "4 s"
jitter_buffer = { kind = "fixed", depth = "100 ms" }

[flows.call.transport]
kind = "sctp"
profile = "rfc9260"
hb_interval = "0.1 s"
rto_min = "0.02 s"
rto_max = "0.1 s"
path_max_retrans = 1
policy = { kind = "delay_centric" }
"""

SWEEP = (
    CALL
    + """
[sweep]
replications = 6

[sweep.axes]
rto_max = { set = "flows.call.transport.rto_max", values = ["1 s", "0.1 s", "0.05 s"] }
pmr = { set = "flows.call.transport.path_max_retrans", values = [0, 1] }
"""
)


@pytest.fixture(autouse=True)
def unchanged_environment() -> Iterator[None]:
    """No test leaves a variable behind, which the next test of its process would find."""

    def variables() -> dict[str, str]:
        # pytest's own says which test runs; those of libraries come when they are first imported.
        own = ("PYTEST_CURRENT_TEST", "_")
        return {name: value for name, value in os.environ.items() if not name.startswith(own)}

    before = variables()
    yield
    assert variables() == before


@pytest.fixture(params=["tun", "veth"])
def devices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The nodes' devices; a test with this fixture runs with either kind."""
    kind = str(request.param)
    if kind == "tun" and not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("left out, since /dev/net/tun cannot be opened")
    monkeypatch.setenv(DEVICES, kind)
    return kind


@pytest.fixture
def fresh_sources() -> None:
    """Plug-ins are read from their files again."""
    reload()


@pytest.fixture
def call_file(tmp_path: Path) -> Path:
    """A scenario of one short call."""
    return written(tmp_path / "call.toml", CALL)


@pytest.fixture
def sweep_file(tmp_path: Path) -> Path:
    """The same scenario with a sweep of 6 cells and 6 replications."""
    return written(tmp_path / "sweep.toml", SWEEP)


@pytest.fixture
def anabranch(tmp_path: Path) -> Command:
    """Runs the command line in an empty folder, within this process: a new one takes a second."""

    def command(*arguments: str | Path) -> Completed:
        words = [str(each) for each in arguments]
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with (
            contextlib.chdir(tmp_path),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = cli.main(words)
        texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
        return Completed(words, code, *texts)

    return command


@pytest.fixture
def process(tmp_path: Path) -> Command:
    """Runs the command line as a process, in an empty folder."""

    def command(*arguments: str | Path) -> Completed:
        done = subprocess.run(
            limited([*COMMAND, *map(str, arguments)]),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANGS_S,
        )
        if sys.platform != "win32" and done.returncode == -signal.SIGXCPU:
            pytest.fail(f"it took more than {CPU_S} s of processor time: {done.stderr}")
        return done

    return command


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, where it is installed; with `ANABRANCH_BROWSER=firefox`, Firefox.

    It ends with its module: while Playwright is there, no other test of the process can have an
    event loop of asyncio.
    """
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with api.sync_playwright() as playwright:
        if os.environ.get("ANABRANCH_BROWSER") == "firefox":
            started = firefox(playwright, api.Error)
        else:
            known = shutil.which("chromium") or shutil.which("chromium-browser")
            try:
                started = playwright.chromium.launch(
                    executable_path=known, args=["--no-sandbox"], timeout=PATIENCE_MS
                )
            except api.Error:
                pytest.skip("needs Chromium")
        yield Patient(started)
        started.close()


PATIENCE_MS = 300_000


class Patient:
    """A browser whose pages wait for a machine that has much else to do."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser

    def new_context(self, **options: Any) -> Any:
        context = self._browser.new_context(**options)
        context.set_default_timeout(PATIENCE_MS)
        return context

    def new_page(self, **options: Any) -> Any:
        return self.new_context(**options).new_page()


def firefox(playwright: Any, error: type[Exception]) -> Any:
    """Playwright's own Firefox, or else the system's, which not every Playwright can drive."""
    known = shutil.which("firefox-esr") or shutil.which("firefox")
    choices: list[dict[str, Any]] = [{}]
    if known:
        choices.append({"channel": "moz-firefox", "executable_path": known})
    for choice in choices:
        try:
            started = playwright.firefox.launch(timeout=PATIENCE_MS, **choice)
            started.new_context().close()
        except error:
            continue
        return started
    pytest.skip("needs a Firefox that Playwright can drive: playwright install firefox")


COMMAND = [sys.executable, "-m", "anabranch"]

CPU_S = 60
"""Processor time that a command may take, all its threads together: what else a machine does makes
it wait for its turn, and hardly changes this."""

HANGS_S = 1200
"""After so long a process waits for what never comes: that takes no processor time. Far longer than
any takes on a busy machine."""


def limited(command: list[str]) -> list[str]:
    """The same command; SIGXCPU ends it when it has taken `CPU_S`."""
    if sys.platform == "win32":
        return command
    return ["/bin/sh", "-c", f'ulimit -S -t {CPU_S}; exec "$@"', "sh", *command]


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def one_error(result: Completed) -> str:
    """The message of a command that must have failed as every mistake fails."""
    assert result.returncode == 2, (result.returncode, result.stdout, result.stderr)
    assert is_complaint(result.stderr.splitlines()), result.stderr
    return result.stderr.rstrip("\n")


@pytest.fixture
def cell(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Names the cell of docs/interop.md that a test is, and how fast data went."""

    def record(feature: str, peer: object, mb_per_s: float | None = None) -> None:
        record_property("feature", feature)
        record_property("peer", str(peer))
        if mb_per_s is not None:
            record_property("mb_per_s", mb_per_s)

    return record
