"""The lab: a page for playing with a network, which the engine computes in the browser.

It is made from `lab/` at the top of the sources; `make lab` puts it into `static` here.
"""

import base64
import contextlib
import tomllib
import zlib
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import anabranch._engine as engine
from anabranch.errors import AnabranchError
from anabranch.support.files import write_atomically

_STATIC = Path(__file__).parent / "static"

_TYPES = {
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
"""The same policy as in the page itself, and who may frame it, which a page cannot say."""


def files() -> dict[str, bytes]:
    """The files of the page, by name.

    Raises
    ------
    AnabranchError
        If the page has not been built.
    """
    found = sorted(_STATIC.iterdir()) if _STATIC.is_dir() else []
    page = {file.name: file.read_bytes() for file in found if file.suffix in _TYPES}
    if not {"index.html", "engine.wasm"} <= page.keys():
        raise AnabranchError(
            "the page of the lab is not part of this installation; `make lab` builds it"
        )
    return page


def fragment(scenario: Path) -> str:
    """The fragment of an address of the page that makes it open this scenario.

    Files that the scenario includes become a part of it.

    Raises
    ------
    ScenarioError
        If it is not a valid scenario.
    """
    checked = engine.Scenario.load(str(scenario), [])
    text = scenario.read_text("utf-8")
    if "include" in tomllib.loads(text):
        text = checked.to_toml()
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = deflate.compress(text.encode()) + deflate.flush()
    return "#scenario=" + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def write_site(folder: Path) -> list[Path]:
    """Writes the page as a static site; returns its files."""
    page = files()
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in page.items():
        write_atomically(folder / name, content)
    return [folder / name for name in page]


@contextlib.contextmanager
def serving(port: int = 0) -> Iterator[str]:
    """Serves the page to programs on this machine while the context lasts; gives its address.

    Parameters
    ----------
    port
        The TCP port; 0 for any free port.

    Raises
    ------
    AnabranchError
        If the page has not been built, or the port is not available.
    """
    page = files()

    class Handler(_Handler):
        content = page
        names: frozenset[str] = frozenset()

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise AnabranchError(f"port {port} of 127.0.0.1 cannot be had: {error.strerror}") from error
    server.daemon_threads = True
    own = int(server.server_address[1])
    Handler.names = frozenset({f"127.0.0.1:{own}", f"localhost:{own}"})
    thread = Thread(target=server.serve_forever, name="lab", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{own}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    """Hands out the files of the page, and nothing else."""

    content: dict[str, bytes]
    names: frozenset[str]
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        """Sends a file, or the page itself for `/`."""
        self._answer(with_content=True)

    def do_HEAD(self) -> None:
        """Sends the same headers without the content."""
        self._answer(with_content=False)

    def _answer(self, *, with_content: bool) -> None:
        # Refuses requests by another name, such as one that someone else has pointed at this
        # machine.
        if self.headers.get("Host") not in self.names:
            return self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
        name = urlsplit(self.path).path.removeprefix("/") or "index.html"
        content = self.content.get(name)
        if content is None:
            return self.send_error(HTTPStatus.NOT_FOUND)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", _TYPES[Path(name).suffix])
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if with_content:
            self.wfile.write(content)
        return None

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Logs nothing."""
