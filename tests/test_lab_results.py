"""Studies that the lab's page hands over: the server that takes them, and what it refuses."""

import http.client
import json
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from anabranch import Study, lab, report
from anabranch.errors import AnabranchError
from anabranch.lab import server
from anabranch.lab.results import check_without_files
from conftest import CALL, HANGS_S, SWEEP, Command, one_error, written
from support.processes import until

PAGE = {"index.html": b"<!doctype html><title>The lab</title>"}

LONG = SWEEP.replace("replications = 6", "replications = 100000")
"""Of minutes, if nothing stops it."""


def reported(folder: Path, file: Path, address: str) -> None:
    report.write(folder, file, lab=address)


@dataclass
class Lab:
    """A lab that is served, and requests to it."""

    served: server.Served
    port: int

    def ask(
        self, method: str, path: str, content: object = None, **changed: str | None
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, content and headers; None takes a header away."""
        body = None if content is None else json.dumps(content)
        headers: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.port}",
            "Origin": f"http://127.0.0.1:{self.port}",
            "Authorization": f"Bearer {self.served.token}",
        }
        if body is not None:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        headers |= {name.replace("_", "-"): value for name, value in changed.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANGS_S)
        connection.putrequest(method, path, skip_host=True)
        for name, value in headers.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(body.encode() if body is not None else None)
        response = connection.getresponse()
        text = response.read()
        found = dict(response.getheaders())
        connection.close()
        is_json = response.getheader("Content-Type") == "application/json"
        return response.status, json.loads(text) if is_json else text, found

    def start(self, text: str) -> dict[str, Any]:
        status, one, _ = self.ask("POST", "/api/studies", {"scenario": text})
        assert status == 201, one
        assert isinstance(one, dict)
        return one

    def until(self, one: dict[str, Any], holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        end = time.monotonic() + HANGS_S
        while True:
            _, now, _ = self.ask("GET", f"/api/studies/{one['id']}")
            if holds(now):
                return dict(now)
            assert time.monotonic() < end, now
            time.sleep(0.05)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Lab]:
    results = lab.Results(tmp_path / "results", reported, jobs=1)
    with lab.serving(PAGE, 0, results) as found:
        yield Lab(found, int(found.address.rsplit(":", 1)[1].strip("/")))


def is_over(one: dict[str, Any]) -> bool:
    return one["state"] not in {"running", "reporting"}


def test_a_sweep_is_computed_and_reported(served: Lab, tmp_path: Path) -> None:
    one = served.start(SWEEP)
    assert (one["state"], one["total"], one["report"]) == ("running", 36, None)
    one = served.until(one, is_over)
    assert (one["state"], one["done"]) == ("done", 36)
    folder = tmp_path / "results" / "001-small"
    assert one["folder"] == str(folder)
    # The same rows as without the page.
    known = Study(SWEEP)
    known.run()
    assert Study(folder).frame().equals(known.frame())
    status, page, headers = served.ask("GET", one["report"], Origin=None, Authorization=None)
    assert status == 200
    assert b"call.mos" in page
    assert served.served.address.encode() in page  # cells lead to this lab
    assert "sandbox" in headers["Content-Security-Policy"]
    assert "allow-same-origin" not in headers["Content-Security-Policy"]
    second = served.start(CALL)
    assert second["folder"].endswith("002-small")
    served.until(second, is_over)
    _, state, _ = served.ask("GET", "/api/studies")
    assert [each["id"] for each in state["studies"]] == [2, 1]


def test_a_design_has_its_points(served: Lab) -> None:
    text = CALL + (
        '[sweep]\nreplications = 1\ndesign = { kind = "sobol", points = 4, seed = 1 }\n'
        "[sweep.axes]\n"
        'rto = { set = "flows.call.transport.rto_max", range = { from = "0.1 s", to = "1 s" } }\n'
    )
    one = served.until(served.start(text), is_over)
    assert (one["state"], one["done"]) == ("done", 4)


def test_one_at_a_time_and_stopping_keeps_what_is_finished(served: Lab, tmp_path: Path) -> None:
    one = served.start(LONG)
    assert served.ask("POST", "/api/studies", {"scenario": SWEEP})[0] == 409
    served.until(one, lambda now: now["done"] > 0)
    assert served.ask("POST", f"/api/studies/{one['id']}/stop", {})[0] == 200
    one = served.until(one, is_over)
    assert one["state"] == "stopped"
    assert 0 < one["done"] < one["total"]
    assert one["report"] is not None
    assert Study(Path(one["folder"])).frame().height == one["done"]
    # A stop that comes late ends nothing else.
    assert served.ask("POST", f"/api/studies/{one['id']}/stop", {})[1]["state"] == "stopped"
    two = served.until(served.start(SWEEP), is_over)
    assert two["state"] == "done"
    again = lab.Results(tmp_path / "results", reported)
    assert [(each.number, each.state) for each in again.all()] == [(2, "done"), (1, "done")]


def test_the_end_of_the_lab_stops_a_study(tmp_path: Path) -> None:
    results = lab.Results(tmp_path, reported, jobs=1)
    with lab.serving(PAGE, 0, results):
        one = results.start(LONG)
        while one.done == 0:
            time.sleep(0.01)
    assert one.was_cut
    assert one.report is None
    assert Study(one.folder).frame().height == one.done


@pytest.mark.parametrize(
    "changed",
    [
        {"Authorization": None},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic YTpi"},
        {"Authorization": "Bearer \xff"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": None},
        {"Host": "evil.example"},
        {"Host": None},
        {"Content_Type": "text/plain"},
        {"Content_Type": None},
        {"Content_Length": str(server.MOST_BYTES + 1)},
        {"Content_Length": "-1"},
        {"Content_Length": "1e3"},
        {"Transfer_Encoding": "chunked"},
    ],
    ids=str,
)
def test_requests_of_others_start_nothing(served: Lab, changed: dict[str, str | None]) -> None:
    status, said, headers = served.ask("POST", "/api/studies", {"scenario": CALL}, **changed)
    assert 400 <= status < 500
    assert said["error"]
    assert headers["Connection"] == "close"
    assert not any(name.lower().startswith("access-control") for name in headers)
    assert served.ask("GET", "/api/studies")[1]["studies"] == []


def test_reading_needs_the_token_too(served: Lab) -> None:
    assert served.ask("GET", "/api/studies", Authorization=None)[0] == 401
    assert served.ask("GET", "/api/studies", Origin="http://evil.example")[0] == 403
    # Browsers name no origin with a page's own GET.
    assert served.ask("GET", "/api/studies", Origin=None)[0] == 200
    assert served.ask("OPTIONS", "/api/studies")[0] == 501
    assert served.ask("PUT", "/api/studies", {"scenario": CALL})[0] == 501
    assert served.served.token.encode() not in served.ask("GET", "/")[1]


@pytest.mark.parametrize(
    "content",
    [[], "text", {}, {"scenario": 3}, {"scenario": ["a"]}, {"scenario": None}],
    ids=str,
)
def test_content_that_is_none_is_refused(served: Lab, content: object) -> None:
    assert served.ask("POST", "/api/studies", content)[0] == 400


def test_nonsense_is_a_sentence(served: Lab) -> None:
    for text in (
        "",
        "[",
        "links = 3",
        CALL + "[sweep]\nreplications = 0\n",
        "/etc/passwd",
        "..",
        "\0",
        "# \ud800",
        "a=" + "[" * 5000,
        "a." * 3000 + "a=1",
    ):
        status, said, _ = served.ask("POST", "/api/studies", {"scenario": text})
        assert status == 422, text
        assert said["error"]
    raw = socket.create_connection(("127.0.0.1", served.port), timeout=HANGS_S)
    lines = [
        "POST /api/studies HTTP/1.1",
        f"Host: 127.0.0.1:{served.port}",
        f"Origin: http://127.0.0.1:{served.port}",
        f"Authorization: Bearer {served.served.token}",
        "Content-Type: application/json",
    ]
    deep = b"[" * 100_000
    raw.sendall("\r\n".join([*lines, f"Content-Length: {len(deep)}", "", ""]).encode() + deep)
    assert b" 400 " in raw.recv(1000).split(b"\r\n")[0]
    raw.close()


@pytest.mark.parametrize(
    "text",
    [
        ".".join("a" * 300_000) + " = 1",
        "[" + ".".join("a" * 300_000) + "]",
        "a = " + "[" * 600_000,
        "[[a]]\n" * 100_000,
        "".join(f"a.b{number} = 1\n" for number in range(40_000)),
        "".join(f"[links.a{number}]\n" for number in range(30_000)),
        SWEEP.replace('"flows.call.transport.path_max_retrans"', f'"{".".join("a" * 300_000)}"'),
        SWEEP.replace('"flows.call.transport.path_max_retrans"', f"""'{'"a".' * 100_000}a'"""),
    ],
    ids=["dotted", "table", "lists", "array", "table of many", "links", "set", "quoted set"],
)
def test_no_text_keeps_the_lab_busy(served: Lab, text: str) -> None:
    begun = time.process_time()
    status, said, _ = served.ask("POST", "/api/studies", {"scenario": text})
    assert status == 422
    assert len(said["error"]) < 1000
    # A text of this length that is a scenario takes as long.
    assert time.process_time() - begun < 8


def raw(served: Lab, text: str) -> bytes:
    """The whole answer to this request."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=HANGS_S) as line:
        line.sendall(text.encode("latin-1"))
        line.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: line.recv(65536), b""))


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET http://[ HTTP/1.1", 400),
        ("GET //[ HTTP/1.1", 404),
        ("GET http://[x]y/ HTTP/1.1", 400),
        ("GET /\x00\xff HTTP/1.1", 404),
        ("POST http://[ HTTP/1.1", 400),
        ("HEAD http://[ HTTP/1.1", 400),
        ("GET / HTTP/9.9", 505),
        ("GET / HTTP/x", 400),
        ("GET / / / HTTP/1.1", 400),
        ("BREW / HTTP/1.1", 501),
        ("PUT / HTTP/1.1", 501),
        ("POST /", 400),
        ("nonsense", 400),
        ("GET /" + "a" * 70_000 + " HTTP/1.1", 414),
        ("GET / HTTP/1.1\r\nX: " + "a" * 70_000, 431),
        ("GET / HTTP/1.1" + "\r\nX: y" * 200, 431),
        ("GET / HTTP/1.1\r\nHost: evil.example", 421),
    ],
)
def test_every_error_has_an_answer_that_protects(
    served: Lab, capfd: pytest.CaptureFixture[str], request_line: str, status: int
) -> None:
    host = "" if "Host:" in request_line else f"Host: 127.0.0.1:{served.port}\r\n"
    head, _, content = raw(served, f"{request_line}\r\n{host}\r\n").partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    assert lines[0].startswith(f"HTTP/1.1 {status} ")
    found = dict(line.split(": ", 1) for line in lines[1:])
    assert found["Content-Security-Policy"] == "default-src 'none'"
    assert found["X-Content-Type-Options"] == "nosniff"
    assert found["Referrer-Policy"] == "no-referrer"
    assert found["Connection"] == "close"
    assert found["Content-Type"] == "application/json"
    assert request_line.startswith("HEAD") or json.loads(content)["error"]
    assert "Traceback" not in capfd.readouterr().err


class _Fault(BaseException):
    """As a panic of the engine is, no `Exception`."""


@pytest.mark.parametrize("fault", [_Fault, ValueError, OSError])
def test_a_fault_is_an_answer(
    served: Lab, monkeypatch: pytest.MonkeyPatch, fault: type[BaseException]
) -> None:
    answering = []

    def fails(*_: object) -> None:
        answering.append(threading.current_thread())
        raise fault

    monkeypatch.setattr(server._Handler, "_state", fails)
    monkeypatch.setattr(server._Server, "handle_error", lambda *_: None)
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    status, said, headers = served.ask("GET", "/api/studies")
    assert (status, said["error"]) == (500, "Internal Server Error")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert served.ask("GET", "/")[0] == 200
    for thread in answering:
        thread.join(HANGS_S)


def test_many_connections_at_once_have_an_answer(served: Lab) -> None:
    """More than wait while the server accepts none, as with a computation that holds the lock."""
    held = threading.Event()
    accept = server._Server.get_request

    def later(self: Any) -> Any:
        held.wait()
        return accept(self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(server._Server, "get_request", later)
        lines = []
        try:
            for _ in range(60):
                line = socket.socket()
                line.settimeout(0)
                line.connect_ex(("127.0.0.1", served.port))
                lines.append(line)
            until(lambda: all(map(_is_connected, lines)))
        finally:
            held.set()
            for line in lines:
                line.close()


def _is_connected(line: socket.socket) -> bool:
    try:
        line.getpeername()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    "path",
    [
        "/api/studies/1",
        "/api/studies/../../etc/passwd",
        "/api/studies/99999999999999999999",
        "/api/studies/1/stop/",
        "/api/",
        "/results/",
        "/results/x/report.html",
        "/results/aaaaaaaaaaaaaaaaaaaaaa/report.html",
        "/results/aaaaaaaaaaaaaaaaaaaaaa/study.json",
        "/results/../../../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "//etc/passwd",
    ],
)
def test_no_path_of_a_request_is_one_of_a_file(served: Lab, path: str) -> None:
    assert served.ask("GET", path)[0] == 404
    assert served.ask("POST", path, {})[0] == 404


FILES = {
    "a program": CALL + "flows.call.transport.cc = { kind = 'python', class = 'os:system' }\n",
    "a swept program": SWEEP
    + "class = { set = 'flows.call.transport.cc.class', values = ['a:B'] }\n",
    "a program of a case": SWEEP
    + "cc = { set = 'flows.call.transport.cc', values = [{ kind = 'python', class = 'a:B' }] }\n",
    "include": 'include = ["other.toml"]\n' + CALL,
    "rate": CALL.replace('rate = "1 Mbit/s"', 'rate = { mahimahi = "/etc/passwd" }', 1),
    "loss": CALL + '\n[links.second.loss]\nkind = "trace"\nfile = "/etc/passwd"\n',
    "axis": SWEEP.replace("flows.call.transport.path_max_retrans", "links.first.loss.file"),
    "axes": SWEEP.replace(
        '"flows.call.transport.path_max_retrans"', '["links.first.delay", "links.first.loss.file"]'
    ),
    "quoted": SWEEP.replace(
        '"flows.call.transport.path_max_retrans"', "'links.first.loss.\"fi\\u006ce\"'"
    ),
    "value": SWEEP.replace("[0, 1]", '[{ kind = "trace", file = "/etc/passwd" }]'),
    "case": SWEEP.replace(
        'pmr = { set = "flows.call.transport.path_max_retrans", values = [0, 1] }',
        'pmr = { cases = { a = { "links.first.loss.file" = "/etc/passwd" } } }',
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_scenario_that_names_files_is_refused(served: Lab, name: str) -> None:
    status, said, _ = served.ask("POST", "/api/studies", {"scenario": FILES[name]})
    assert status == 422
    assert "reads no files" in said["error"]


def test_every_other_scenario_is_taken() -> None:
    check_without_files(SWEEP)
    check_without_files(SWEEP.replace('name = "small"', 'name = "file"'))


def test_without_results_there_is_no_engine() -> None:
    with lab.serving(PAGE, 0) as found:
        assert found.opened("#x") == f"{found.address}#x"
        port = int(found.address.rsplit(":", 1)[1].strip("/"))
        assert Lab(found, port).ask("GET", "/api/studies")[0] == 404


def test_a_folder_of_a_study_that_came_to_nothing_is_left(served: Lab, tmp_path: Path) -> None:
    for left in ("001-call", "007-something"):
        (tmp_path / "results" / left).mkdir(parents=True)
    status, said, _ = served.ask("POST", "/api/studies", {"scenario": SWEEP})
    assert status < 300, said
    assert [one.name[:4] for one in sorted((tmp_path / "results").iterdir())] == [
        "001-",
        "007-",
        "008-",
    ]


def test_a_client_that_leaves_is_no_error(served: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(20):
        raw = socket.create_connection(("127.0.0.1", served.port), timeout=HANGS_S)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n\r\n".encode())
        raw.close()
    assert served.ask("GET", "/api/studies")[0] == 200
    assert "Traceback" not in capfd.readouterr().err


def test_the_usual_port_may_be_taken() -> None:
    with lab.serving(PAGE) as one, lab.serving(PAGE) as two:
        assert one.address != two.address


def test_a_cell_can_be_opened(anabranch: Command, sweep_file: Path, tmp_path: Path) -> None:
    study = Study(SWEEP, tmp_path / "study")
    study.run()
    whole = lab.fragment(sweep_file)
    cell = lab.fragment(sweep_file, 5)
    assert lab.fragment(tmp_path / "study", 5) == cell != lab.fragment(sweep_file, 4)
    assert whole.startswith("#scenario=")
    with pytest.raises(AnabranchError, match=r"--cell 6: the sweep of .* has cells 0 to 5"):
        lab.fragment(sweep_file, 6)
    assert one_error(anabranch("lab", "--cell", "3")).endswith("whose cell it is")


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path) -> None:
    """The whole command, served without the page's files: those are not built everywhere."""
    program = (
        "import sys; from pathlib import Path; from anabranch import cli, lab;"
        "lab.files = lambda: {'index.html': b'page'};"
        "sys.exit(cli.main(['lab', '--no-browser', '--port', '0', '--results', 'kept']))"
    )
    command = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert command.stdout is not None
    said = command.stdout.readline()
    found = re.fullmatch(r"The lab is at (http://127\.0\.0\.1:(\d+)/)#engine=([\w-]+)\n", said)
    assert found is not None, said
    own = Lab(server.Served(found[1], None, found[3]), int(found[2]))
    one = own.start(LONG)
    own.until(one, lambda now: now["done"] > 0)
    command.send_signal(signal.SIGINT)
    _, errors = command.communicate(timeout=HANGS_S)
    assert command.returncode == 130
    assert "finished runs are kept; `anabranch sweep kept/001-small/scenario.toml" in errors
    assert Study(tmp_path / one["folder"]).frame().height > 0


def test_the_folder_must_be_one(anabranch: Command, tmp_path: Path) -> None:
    written(tmp_path / "file", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lab, "files", lambda: PAGE)
        said = one_error(anabranch("lab", "--no-browser", "--results", "file"))
        port = one_error(anabranch("lab", "--no-browser", "--port", 99999))
    assert "not a folder" in said
    assert "port = 99999 is out of range" in port
