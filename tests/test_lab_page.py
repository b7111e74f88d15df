"""The page of the lab in Chromium, and the server that hands it out."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch import lab, report
from anabranch.errors import AnabranchError
from conftest import COMMAND, ROOT, Command, one_error, written

FAILOVER = ROOT / "scenarios/failover.toml"
AXE = ROOT / "lab/node_modules/axe-core/axe.min.js"
WHOLE = "ANABRANCH_LAB_WHOLE" in os.environ

try:
    lab.files()
    IS_BUILT = True
except AnabranchError:
    IS_BUILT = False

needs_page = pytest.mark.skipif(not IS_BUILT, reason="needs the page of the lab: make lab")

MANY = """
run.duration = "60 s"
links.wan = { ends = ["a", "b"], rate = "1 Gbit/s", delay = "1 ms" }
paths.only.via = ["wan"]
[flows.f]
from = "a"
to = "b"
paths = ["only"]
count = 1000
transport.kind = "tcp"
app.kind = "bulk"
"""

LONG = MANY.replace("count = 1000\n", "").replace("60 s", "100 h")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with lab.serving(lab.files(), 0) as found:
        yield found.address


class Page:
    """A page of the lab, which must complain of nothing."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        # For a machine that has much else to do.
        page.set_default_timeout(120_000)
        page.on("console", lambda message: self._heard(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _heard(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.complaints.append(text)

    def until(self, holds: Callable[[], bool], what: str, most_s: float = 120.0) -> None:
        # Playwright's own waiting evaluates text, which the page's policy forbids.
        end = time.monotonic() + most_s
        while not holds():
            assert time.monotonic() < end, f"{what}: {self.complaints} {self.text('run-status')}"
            time.sleep(0.05)

    def text(self, name: str) -> str:
        text: str = self.page.inner_text(f"#{name}")
        return text

    def has_run(self) -> None:
        self.until(lambda: "packets in" in self.text("run-status"), "it has not run")

    def picture(self, name: str) -> str:
        script = "name => document.getElementById(name).toDataURL()"
        picture: str = self.page.evaluate(script, name)
        return picture

    def seconds(self) -> float:
        return float(self.text("clock").removesuffix(" s"))

    def open_text(self, text: str) -> None:
        self.page.click("#tab-text")
        self.page.fill("#toml", text)


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    found = Page(context.new_page())
    found.page.goto(address)
    found.has_run()
    yield found
    context.close()
    assert found.complaints == []


@needs_page
def test_a_story_plays(page: Page) -> None:
    at, picture = page.seconds(), page.picture("timeline")
    page.page.click("#play")
    page.until(lambda: page.seconds() > at + 0.005, "it does not play")
    page.page.click("#play")
    stands = page.seconds()
    time.sleep(0.2)
    assert page.seconds() == stands
    page.page.click("#next-event")
    assert page.seconds() > stands
    assert page.text("event")
    page.page.locator("#scrub").focus()
    page.page.keyboard.press("End")
    assert page.picture("timeline") != picture
    page.page.locator("body").press("Home")


@needs_page
def test_stories_load_and_play(page: Page) -> None:
    stories = page.page.eval_on_selector_all(
        "#story option:not([hidden])", "options => options.map(option => option.value)"
    )
    assert len(stories) >= 8
    for story in stories if WHOLE else stories[1:2]:
        page.page.evaluate("document.getElementById('run-status').textContent = ''")
        page.page.select_option("#story", story)
        page.has_run()
        assert page.page.locator("#plots figure").count() >= 2, story
        buttons = page.page.locator("#panel-story li button")
        assert buttons.count() >= 2, story
        buttons.first.click()
        at = page.seconds()
        page.until(lambda at=at: page.seconds() > at, f"{story} does not play")  # type: ignore[misc]
        if WHOLE:
            # A step's change must give a valid scenario.
            for index in range(buttons.count() - 1):
                page.page.evaluate(
                    "document.getElementById('run-status').textContent = 'packets in'"
                )
                buttons.nth(index).click()
                time.sleep(0.5)
                page.has_run()
                assert not page.page.locator("#alert").is_visible(), (story, index)


@needs_page
def test_a_slider_changes_the_picture(page: Page) -> None:
    page.page.click("#tab-compare")
    page.page.click("#ask")
    page.until(lambda: page.text("batch-status").startswith("20 of 20"), "no runs")
    before = page.picture("distribution")
    assert "call.mos: " in page.text("finding")
    slider = page.page.locator("#knob-2")
    slider.focus()
    for _ in range(3):
        page.page.keyboard.press("PageUp")
    page.until(lambda: "against the baseline" in page.text("finding"), "nothing is compared")
    assert page.picture("distribution") != before
    page.page.click("#keep")
    page.until(lambda: "path_max_retrans = 2" not in page.page.input_value("#toml"), "not kept")


@needs_page
def test_a_bad_edit_is_a_sentence_at_its_field(page: Page) -> None:
    page.page.locator("[data-link=first]").focus()
    page.page.keyboard.press("Enter")
    field = page.page.locator('[id="key-links.first.delay"]')
    sentence = page.page.locator('[data-path="links.first.delay"] .mistake')
    for nonsense in ("20 km", "-1 s", "{", "99999999999 h", "<b>"):
        field.fill(nonsense)
        field.press("Enter")
        page.until(lambda: sentence.count() == 1, nonsense)
        assert sentence.inner_text().startswith("links.first.delay: "), nonsense
        page.page.click("#undo")
        page.until(lambda: sentence.count() == 0, f"{nonsense} is not undone")
    field.fill("70 ms")
    field.press("Enter")
    page.until(lambda: 'delay = "70 ms"' in page.page.input_value("#toml"), "not in the text")
    # The other way round.
    page.open_text(page.page.input_value("#toml").replace("70 ms", "80 ms"))
    page.until(lambda: field.input_value() == "80 ms", "not in the form")
    page.open_text("links = 3")
    page.until(page.page.locator("#alert").is_visible, "nonsense passes")
    assert page.text("alert").startswith("links: ")


@needs_page
def test_what_would_take_long_is_asked_for_and_can_be_stopped(page: Page) -> None:
    page.open_text(MANY)
    page.until(lambda: "1000 flows" in page.text("run-status"), "it is not warned of")
    page.open_text(LONG)
    page.until(lambda: "360000 s" in page.text("run-status"), "it is not warned of")
    page.page.click("#run-status button")
    page.until(page.page.locator("#stop-run").is_visible, "it does not run")
    time.sleep(0.5)
    page.page.click("#stop-run")
    page.until(lambda: page.text("run-status") == "Stopped.", "it does not stop", most_s=2.0)
    page.page.select_option("#story", "dead-path")
    page.has_run()


@needs_page
def test_a_link_holds_the_scenario(browser: Any, address: str, tmp_path: Path) -> None:
    text = FAILOVER.read_text("utf-8").replace("60 s", "7 s") + "# é\n"
    context = browser.new_context()
    page = Page(context.new_page())
    page.page.goto(address + lab.fragment(written(tmp_path / "own.toml", text)))
    page.has_run()
    assert page.page.input_value("#toml") == text
    page.page.click("#share")
    page.until(lambda: "link" in page.text("run-status"), "no link")
    again = Page(context.new_page())
    again.page.goto(page.page.url)
    again.has_run()
    assert again.page.input_value("#toml") == text
    again.page.goto(address + "#scenario=AAAA")
    again.until(again.page.locator("#alert").is_visible, "a broken link passes")
    context.close()


@needs_page
@pytest.mark.skipif(not AXE.is_file(), reason="needs axe-core: make lab")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_it(browser: Any, address: str, scheme: str) -> None:
    for width in (360, 1280) if WHOLE else (1280,):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        page = Page(context.new_page())
        page.page.goto(address)
        page.has_run()
        wide = page.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, "it scrolls sideways"
        page.page.evaluate(AXE.read_text("utf-8"))
        for tab in ("story", "compare", "settings", "text"):
            page.page.click(f"#tab-{tab}")
            found = page.page.evaluate("axe.run().then(({ violations }) => violations)")
            shown = [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found]
            assert shown == [], (width, tab)
        context.close()


@needs_page
def test_the_server_hands_out_the_page_and_nothing_else(address: str) -> None:
    with urllib.request.urlopen(address) as answer:
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        policy = answer.headers["Content-Security-Policy"]
        page = answer.read().decode()
    # The page also states it, for people who serve it themselves.
    assert policy.removesuffix("; frame-ancestors 'none'") in page
    assert "default-src 'none'" in policy
    assert "'unsafe-inline'" not in policy

    def refused(path: str, **headers: str) -> int:
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(urllib.request.Request(address + path, headers=headers))
        error.value.close()
        return error.value.code

    assert refused("../__init__.py") == 404
    assert refused("%2e%2e/__init__.py") == 404
    assert refused("", Host="example.com") == 421
    port = int(address.rsplit(":", 1)[1].strip("/"))
    own = [found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None)]
    for other in {str(one) for one in own} - {"127.0.0.1", "127.0.1.1", "::1"}:
        with pytest.raises(OSError, match=r"refused|timed out"):
            socket.create_connection((other, port), timeout=2).close()


@needs_page
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_the_command_serves_until_it_is_interrupted() -> None:
    command = [*COMMAND, "lab", str(FAILOVER), "--no-browser"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        line = run.stdout.readline()
        address = line.removeprefix("The lab is at ").partition("#")[0]
        with urllib.request.urlopen(address) as answer:
            assert b"Anabranch lab" in answer.read()
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "Traceback" not in said


@needs_page
def test_the_page_can_be_written_for_any_server(process: Command, tmp_path: Path) -> None:
    done = process("lab", "--out", "site")
    assert done.returncode == 0, done.stderr
    written_files = {file.name: file.read_bytes() for file in (tmp_path / "site").iterdir()}
    assert written_files == lab.files()
    # Nothing in it names another place to load from.
    for name, content in written_files.items():
        if name.endswith((".html", ".css", ".js")):
            text = content.decode()
            assert 'src="http' not in text, name
            assert "url(http" not in text, name


def test_a_mistake_is_one_sentence(process: Command, tmp_path: Path) -> None:
    bad = written(tmp_path / "bad.toml", "links = 3")
    assert "links" in one_error(process("lab", bad))
    if IS_BUILT:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            message = one_error(process("lab", "--no-browser", "--port", str(port)))
        assert f"port {port}" in message
    else:
        assert "make lab" in one_error(process("lab", "--no-browser"))


@pytest.fixture
def handing(browser: Any, tmp_path: Path) -> Iterator[tuple[Page, lab.server.Served]]:
    """A page that can hand studies over to this computer."""

    def reported(folder: Path, file: Path, address: str) -> None:
        report.write(folder, file, lab=address)

    results = lab.Results(tmp_path / "results", reported, jobs=1)
    with lab.serving(lab.files(), 0, results) as served:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        found = Page(context.new_page())
        found.page.goto(served.opened(lab.fragment(FAILOVER)))
        found.has_run()
        found.until(lambda: found.page.locator("#local").is_visible(), "there is no panel")
        yield found, served
        context.close()
        assert found.complaints == []


@needs_page
def test_a_sweep_is_handed_over(handing: tuple[Page, lab.server.Served]) -> None:
    page, served = handing
    assert served.token not in page.page.url
    paths = page.page.locator("#local input.path")
    values = page.page.locator("#local input.values")
    # Without a setting, and with a wrong one, there is a sentence.
    page.page.click("#local-run")
    page.until(lambda: "Choose a setting" in page.text("local-sentence"), "nothing is said")
    paths.first.fill("flows.call.transport.path_max_retrans")
    values.first.fill("0, many")
    page.page.click("#local-run")
    page.until(lambda: "path_max_retrans" in page.text("local-sentence"), "nonsense passes")
    page.complaints.clear()  # the browser tells of the refusal, too
    values.first.fill("0, 1")
    paths.nth(1).fill("flows.call.transport.rto_max")
    values.nth(1).fill("1 s, 0.1 s")
    page.page.fill("#local-replications", "2")
    page.page.click("#local-run")
    done = page.page.locator("#local-studies li[data-state=done]")
    page.until(lambda: done.count() == 1, "it does not end")
    assert served.results is not None
    (one,) = served.results.all()
    assert (one.total, one.done) == (8, 8)
    # The report opens, answers, and its cells lead back to this lab.
    with page.page.context.expect_page() as opened:
        done.locator("a").click()
    shown = opened.value
    complaints: list[str] = []
    shown.on("console", lambda message: complaints.append(message.text))
    page.until(lambda: shown.locator("svg[role=slider]").count() > 3, "the report stays still")
    with shown.context.expect_page() as again:
        shown.get_by_role("link", name="Open cell 3 in the lab").first.click()
    lab_page = again.value
    status = lab_page.locator("#run-status")
    page.until(lambda: "packets in" in status.inner_text(), "the cell has not run")
    assert 'rto_max = "100 ms"' in lab_page.input_value("#toml")
    assert "path_max_retrans = 1" in lab_page.input_value("#toml")
    # That tab has no token.
    assert not lab_page.locator("#local").count()
    assert complaints == []


@needs_page
def test_a_sweep_that_runs_can_be_stopped(handing: tuple[Page, lab.server.Served]) -> None:
    page, served = handing
    many = "[sweep]\nreplications = 100000\n[sweep.axes]\n"
    many += 'pmr = { set = "flows.call.transport.path_max_retrans", values = [0, 1] }\n'
    page.open_text(FAILOVER.read_text("utf-8") + many)
    page.until(lambda: "2 cells, 100000 runs" in page.text("local-what"), "no sweep is seen")
    page.page.click("#local-run")
    assert served.results is not None
    stop = page.page.locator("#local-studies button")
    page.until(lambda: stop.count() == 1, "it does not run")
    assert page.page.locator("#local-run").is_disabled()
    results = served.results
    page.until(lambda: results.all()[0].done > 0, "nothing is computed")
    stop.click()
    ended = page.page.locator("#local-studies li[data-state=stopped]")
    page.until(lambda: ended.count() == 1 and ended.locator("a").count() == 1, "it goes on")
