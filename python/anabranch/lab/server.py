"""The lab's page on the loopback address, and the studies that it hands over to this computer.

Whoever runs a browser here can be led to a page that sends requests to this address. So a request
counts only with the host's own name, a study only with a token that no other page and no other user
of the machine knows: it is in the address that is printed, behind `#`, which is never sent.
"""

import contextlib
import json
import re
import secrets
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from anabranch import _engine
from anabranch.errors import AnabranchError
from anabranch.support import cores

from .results import BusyError, Results

_LARGEST_PORT = 65_535
PORT = 8417
"""Where the lab is unless that port is taken; links in reports lead there."""

MOST_BYTES = 1_000_000
"""Of a request's content."""

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".wasm": "application/wasm",
}

_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; "
    "connect-src 'self'; worker-src 'self'; img-src 'self' data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""As in the page itself; a page cannot say who may frame it."""

_OF_REPORT = (
    "sandbox allow-scripts allow-downloads allow-popups allow-popups-to-escape-sandbox; "
    "frame-ancestors 'none'"
)
"""A report says the rest itself. In a sandbox it is of no origin, so it could not reach studies."""


@dataclass(frozen=True)
class Served:
    """A lab that is being served."""

    address: str
    results: Results | None
    """Where studies go, if it takes any."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    def opened(self, fragment: str = "") -> str:
        """The address to open, with the token if there is something to use it for.

        `fragment` begins with `#`, if it is not empty.
        """
        if self.results is None:
            return self.address + fragment
        rest = f"&{fragment.removeprefix('#')}" if fragment else ""
        return f"{self.address}#engine={self.token}{rest}"


@contextlib.contextmanager
def serving(
    page: Mapping[str, bytes], port: int | None = None, results: Results | None = None
) -> Iterator[Served]:
    """While it lasts, the page is on the loopback address, for programs on this machine.

    In the end a study that is under way is stopped; what is finished of it is kept.

    Parameters
    ----------
    page
        Its files, by name.
    port
        Of TCP; 0 for one that is free. `PORT` if not given, or a free one if that is taken.
    results
        Where studies go; without it there are none.

    Raises
    ------
    AnabranchError
        If the port cannot be had.
    """
    server = _listening(port)
    own = int(server.server_address[1])
    server.served = Served(f"http://127.0.0.1:{own}/", results)
    if results is not None:
        results.address = server.served.address
    server.page = page
    server.names = frozenset({f"127.0.0.1:{own}", f"localhost:{own}"})
    thread = Thread(target=server.serve_forever, name="lab", daemon=True)
    thread.start()
    try:
        yield server.served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        if results is not None:
            results.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    """Connections that wait for their thread; a browser opens several at once."""
    served: Served
    page: Mapping[str, bytes]
    names: frozenset[str]
    """What a browser on this machine calls it."""

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves in the middle of an answer is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def _listening(port: int | None) -> _Server:
    if port is not None and port > _LARGEST_PORT:
        raise AnabranchError(f"port = {port} is out of range; allowed are 0 to {_LARGEST_PORT}")
    for each in (PORT, 0) if port is None else (port,):
        try:
            return _Server(("127.0.0.1", each), _Handler)
        except OSError as error:
            if port is None and each:
                continue
            raise AnabranchError(
                f"port {each} of 127.0.0.1 cannot be had: {error.strerror}"
            ) from error
    raise AssertionError("a port is free")


class _RefusedError(Exception):
    """A request that is not answered."""

    def __init__(self, status: HTTPStatus, sentence: str = "") -> None:
        super().__init__(sentence or status.phrase)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    """Hands out the page, and takes studies; nothing that a request says is a path of a file."""

    server: _Server
    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"
    """Of a request that is none: an answer without headers would lack those that protect."""
    timeout = 60
    is_answered = False

    def handle_one_request(self) -> None:
        """A request, which has an answer whatever becomes of it."""
        self.is_answered = False
        try:
            super().handle_one_request()
        except BaseException as error:
            # The page is told of a fault of ours, and the trace is for the terminal.
            if not self.is_answered and not isinstance(error, ConnectionError):
                self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR)
            raise

    def do_GET(self) -> None:
        """A file of the page, which is itself at `/`, a report, or what the studies are doing."""
        self._answer(self._get)

    def do_HEAD(self) -> None:
        """The same without the content."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """A study to start, or to stop."""
        self._answer(self._post)

    def _answer(self, answer: Any) -> None:
        try:
            # A name that somebody else has pointed at this machine is not how this is reached.
            if self.headers.get("Host") not in self.server.names:
                raise _RefusedError(HTTPStatus.MISDIRECTED_REQUEST)
            answer(self._path())
        except _RefusedError as refused:
            self.send_error(refused.status, str(refused))

    def _path(self) -> str:
        try:
            return urlsplit(self.path).path
        except ValueError:  # such as `http://[`
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "the address is none") from None

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Any error, also of what is no request: a sentence, with the headers of every answer."""
        # What is left of its content would be taken for the next request.
        self.close_connection = True
        status = HTTPStatus(code)
        self._send_json({"error": message or explain or status.phrase}, status)

    def _get(self, path: str) -> None:
        if path == "/api/studies" or path.startswith("/api/studies/"):
            results = self._results()
            if path == "/api/studies":
                return self._send_json(self._state(results))
            return self._send_json(self._study(results, path, "").as_json())
        if match := re.fullmatch(r"/results/([A-Za-z0-9_-]{16,64})/report\.html", path):
            return self._send_report(match[1])
        name = path.removeprefix("/") or "index.html"
        content = self.server.page.get(name)
        if content is None:
            raise _RefusedError(HTTPStatus.NOT_FOUND)
        return self._send(content, TYPES[Path(name).suffix], _POLICY)

    def _post(self, path: str) -> None:
        results = self._results()
        if path == "/api/studies":
            text = self._content().get("scenario")
            if not isinstance(text, str):
                raise _RefusedError(HTTPStatus.BAD_REQUEST, "`scenario` must be a scenario's text")
            try:
                one = results.start(text)
            except BusyError as error:
                raise _RefusedError(HTTPStatus.CONFLICT, str(error)) from None
            except AnabranchError as error:
                raise _RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None
            return self._send_json(one.as_json(), HTTPStatus.CREATED)
        one = self._study(results, path, "/stop")
        self._content()
        if one.state == "running":
            results.stop()
        return self._send_json(one.as_json())

    def _state(self, results: Results) -> dict[str, Any]:
        return {
            "version": _engine.__version__,
            "folder": str(results.folder),
            "cores": cores.threads(None),
            "studies": [one.as_json() for one in results.all()],
        }

    def _study(self, results: Results, path: str, end: str) -> Any:
        match = re.fullmatch(rf"/api/studies/([0-9]{{1,9}}){end}", path)
        one = results.find(int(match[1])) if match else None
        if one is None:
            raise _RefusedError(HTTPStatus.NOT_FOUND)
        return one

    def _results(self) -> Results:
        """Where studies go, for a request that may ask about them."""
        results = self.server.served.results
        if results is None:
            raise _RefusedError(HTTPStatus.NOT_FOUND)
        origin = self.headers.get("Origin")
        origins = {f"http://{name}" for name in self.server.names}
        # A browser says it with whatever is no plain GET of the page itself.
        if origin not in origins and (origin is not None or self.command == "POST"):
            raise _RefusedError(HTTPStatus.FORBIDDEN, "the request is of another page")
        given = self.headers.get("Authorization", "").encode("latin-1", "replace")
        if not secrets.compare_digest(given, f"Bearer {self.server.served.token}".encode()):
            raise _RefusedError(
                HTTPStatus.UNAUTHORIZED,
                "the page lacks this lab's token: open the address that `anabranch lab` printed",
            )
        return results

    def _content(self) -> dict[str, Any]:
        """The request's content, a JSON object."""
        if self.headers.get_content_type() != "application/json":
            raise _RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        length = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or not re.fullmatch(r"[0-9]{1,9}", length):
            raise _RefusedError(HTTPStatus.LENGTH_REQUIRED)
        if int(length) > MOST_BYTES:
            raise _RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request has at most {MOST_BYTES:,} bytes"
            )
        try:
            content = json.loads(self.rfile.read(int(length)).decode())
        except TimeoutError:
            raise _RefusedError(HTTPStatus.REQUEST_TIMEOUT) from None
        except (ValueError, RecursionError):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "the content is not JSON") from None
        if not isinstance(content, dict):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "the content is no JSON object")
        return content

    def _send_report(self, key: str) -> None:
        results = self.server.served.results
        path = results.report_of(key) if results else None
        if path is None:
            raise _RefusedError(HTTPStatus.NOT_FOUND)
        self._send(path.read_bytes(), TYPES[".html"], _OF_REPORT)

    def _send_json(self, content: object, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._send(json.dumps(content).encode(), "application/json", "default-src 'none'", status)

    def _send(
        self, content: bytes, kind: str, policy: str, status: HTTPStatus = HTTPStatus.OK
    ) -> None:
        self.is_answered = True
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Says nothing."""
