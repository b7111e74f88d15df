"""The page of the lab in Chromium or Firefox (`ANABRANCH_BROWSER=firefox`), and its server."""

import base64
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import lab, report
from conftest import COMMAND, HANGS_S, ROOT, Command, one_error, written
from lab_pages import AXE, IS_BUILT, WHOLE, Page, needs_page

FAILOVER = ROOT / "scenarios/failover.toml"
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

# About 400 packets are on their way at once.
BUSY = MANY.replace("count = 1000\n", "").replace("1 Gbit/s", "50 Mbit/s")
BUSY = BUSY.replace('"1 ms"', '"100 ms", queue = { kind = "drop_tail", packets = 800 }')

LONG = MANY.replace("count = 1000\n", "").replace("60 s", "100 h")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with lab.serving(lab.files(), 0) as found:
        yield found.address


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
    assert len(stories) == 13
    for story in stories:
        page.page.evaluate("document.getElementById('run-status').textContent = ''")
        page.page.select_option("#story", story)
        page.has_run()
        assert page.page.locator("#plots figure").count() >= 2, story
        buttons = page.page.locator("#panel-story li button")
        assert buttons.count() >= 2, story
        buttons.first.click()
        at = page.seconds()
        page.until(lambda at=at: page.seconds() > at, f"{story} does not play")  # type: ignore[misc]
        page.page.keyboard.press("e")
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
def test_a_video_is_what_the_engine_measures(page: Page) -> None:
    page.page.evaluate("document.getElementById('run-status').textContent = ''")
    page.page.select_option("#story", "train")
    page.has_run()
    page.page.evaluate("document.getElementById('run-status').textContent = ''")
    page.page.click("#panel-story li button >> nth=1")
    page.has_run()
    page.page.keyboard.press(" ")
    page.page.locator("#scrub").press("End")
    scenario = (ROOT / "lab/src/stories/train.toml").read_text("utf-8")
    copies = {"flows.call.transport.scheduler": "redundant"}
    of = anabranch.run(scenario, set=copies).summary
    in_time, late, lost = (
        round(of[f"call.{name}"]) for name in ("frames_shown", "frames_late", "frames_lost")
    )
    frozen = of["call.frozen_percent"] / 100 * 29
    north, south = (of[f"call.rtp.a.path{path}.wire_bytes_sent"] / 1e6 for path in (0, 1))
    said = (
        f"Frames: {in_time - late} in time, {late} late, {lost} lost · {of['call.freezes']:.0f} "
        f"freezes, {frozen:.2f} s · p99 {of['call.p99_frame_delay_ms']:.0f} ms · "
        f"sent {north:.3g} MB on north, {south:.3g} MB on south"
    )
    assert page.text("film") == said
    # By keys: the next event from the start is a freeze, which is said with what was seen so far.
    page.page.locator("#scrub").press("Home")
    page.page.click("#stage-title")
    for _ in range(5):
        page.page.keyboard.press("e")
        if "stands still" in page.text("event"):
            break
    assert "the picture stands still for" in page.text("said")
    assert "Frames: " in page.text("said")
    # A scenario without a video has no frames below its network.
    page.page.evaluate("document.getElementById('run-status').textContent = ''")
    page.page.select_option("#story", "slow-start")
    page.has_run()
    assert not page.page.locator("#film").is_visible()


@needs_page
def test_a_packet_tells_its_story(page: Page) -> None:
    story = page.page.locator("#tab-story[aria-selected=true]")
    box = page.page.locator("#stage").bounding_box()
    # Hosts have the colour of its path, too.
    places = page.colours(0.2, 0.8)
    while not places:
        page.page.click("#step")
        places = page.colours(0.2, 0.8)
    x, y = places[len(places) // 2]
    page.page.mouse.click(box["x"] + x, box["y"] + y)
    page.until(page.page.locator("#packet").is_visible, "a click on a packet tells nothing")
    assert story.count() == 1, "a click on a packet opens the settings of its link"
    page.until(lambda: "SCTP common header, 12 B" in page.text("packet"), "it has no headers")
    first = page.text("packet")
    assert " on p0 at " in first
    # The number that the trace says is one of the packet's own.
    number = first.split(",")[0].split()[-1]
    assert number.isdigit()
    assert f"TSN {number}" in first.partition("SCTP common header")[2]
    # By keyboard alone.
    page.page.locator("#stage-title").focus()
    page.page.keyboard.press("n")
    page.until(lambda: page.text("packet") != first, "there is no next packet")
    page.page.keyboard.press("b")
    page.until(lambda: page.text("packet") == first, "there is no way back")


@needs_page
def test_hosts_show_windows_and_what_waits(page: Page) -> None:
    page.page.evaluate("document.getElementById('run-status').textContent = ''")
    page.page.select_option("#story", "slow-second-path")
    page.has_run()
    page.page.click("#panel-story li button >> nth=0")
    page.until(lambda: page.seconds() > 3.0, "it does not play")
    page.page.click("#play")
    assert page.colours(0.0, 0.07), "no window is drawn in the sender"


@needs_page
def test_the_form_says_units_and_ranges(page: Page) -> None:
    page.page.locator("[data-link=first]").focus()
    page.page.keyboard.press("Enter")

    def about(key: str) -> str:
        text: str = page.page.inner_text(f'[id="key-links.first.{key}-about"]')
        return text

    for key in ("delay", "jitter"):
        assert "from 0 to 1e9 s (units: ns," in about(key), key
    for key in ("duplicate", "corrupt"):
        assert "from 0 to 1 (0 % to 100 %)" in about(key), key
    page.open_text(page.page.input_value("#toml").replace("[links.first]", LOSSY_FIRST))
    page.until(lambda: page.page.locator('[id="key-links.first.loss.mean_loss"]').count() == 1, "")
    assert "from 0 to 1 (0 % to 100 %)" in page.page.text_content(
        '[id="key-links.first.loss.mean_loss-about"]'
    )


LOSSY_FIRST = """[links.first]
loss = { kind = "gilbert", mean_loss = "1 %", mean_bad = "50 ms" }"""


@needs_page
def test_parts_are_added_named_and_taken_away(page: Page) -> None:
    text = page.page.input_value("#toml")

    def until_text(holds: Callable[[str], bool], what: str) -> None:
        page.until(lambda: holds(page.page.input_value("#toml")), what)
        assert not page.page.locator("#alert").is_visible(), page.text("alert")

    page.page.click("#tab-settings")
    page.page.click("text=Add a link")
    until_text(lambda now: "link1" in now, "no link is added")
    page.page.fill("#part-name", "satellite")
    page.page.press("#part-name", "Enter")
    until_text(lambda now: "satellite" in now and "link1" not in now, "it has no other name")
    page.page.click("text=Remove link satellite")
    until_text(lambda now: "satellite" not in now, "it is not removed")
    # A name that others use.
    page.page.locator("[data-link=first]").focus()
    page.page.keyboard.press("Enter")
    page.page.fill("#part-name", "air")
    page.page.press("#part-name", "Enter")
    until_text(lambda now: '"air"' in now and "[links.air]" in now, "paths have the old name")
    page.page.click("text=Remove link air")
    until_text(lambda now: "air" not in now, "a path over it is left")
    for _ in range(5):
        page.page.click("#undo")
        time.sleep(0.1)
    until_text(lambda now: now == text, "not all is undone")
    # A flow by its host, a path by its name below.
    page.page.locator("[data-flow] >> nth=0").focus()
    page.page.keyboard.press("Enter")
    assert page.page.input_value("#part") == "flow/call"
    page.page.click("#legend button >> nth=1")
    assert page.page.input_value("#part") == "path/p1"


@needs_page
def test_words_are_compared_and_swept(page: Page) -> None:
    page.page.evaluate("document.getElementById('run-status').textContent = ''")
    page.page.select_option("#story", "slow-start")
    page.has_run()
    page.page.click("#tab-compare")
    for _ in range(3):
        page.page.click("#knobs button >> nth=0")
    page.page.locator("[data-link=path]").focus()
    page.page.keyboard.press("Enter")
    page.page.click("[aria-label='Make links.path.queue a slider']")
    knob = page.page.locator("#knob-0")
    page.until(lambda: knob.count() == 1 and knob.input_value().startswith("{"), "no word")
    assert "130" in knob.input_value(), "the setting's own numbers are lost"
    page.page.click("#knobs button >> nth=0")
    page.page.locator("[data-flow] >> nth=0").focus()
    page.page.keyboard.press("Enter")
    slow_start = "[aria-label='Make flows.download.transport.cc.slow_start a slider']"
    page.page.locator(slow_start).dispatch_event("click")
    page.until(lambda: knob.count() == 1 and knob.input_value() == "standard", "no word")
    page.until(lambda: page.text("batch-status").startswith("20 of 20"), "no runs")
    page.page.click("#run-sweep")
    page.until(page.page.locator("#sweep").is_visible, "no sweep")
    page.until(lambda: page.text("sweep-finding").startswith("download."), "it does not end")
    assert "means of 10 runs: most" in page.text("sweep-finding")
    picture = page.picture("sweep")
    page.page.click("#run-sweep")
    page.until(lambda: "cells" in page.text("sweep-finding"), "it does not say how far it is")
    page.until(lambda: page.picture("sweep") != picture, "it shows the old picture")
    page.page.click("#stop-batch")
    page.until(lambda: "stopped" in page.text("sweep-finding"), "it does not stop")


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
    assert page.text("alert").startswith("3 mistakes\nline 1: links: ")


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
    page.until(lambda: page.text("run-status") == "Stopped.", "it does not stop")
    page.page.click("#tab-compare")
    page.page.click("#ask")
    page.until(lambda: "all the same" in page.text("batch-status"), "a batch is not warned of")
    page.page.select_option("#story", "dead-path")
    page.has_run()


@needs_page
def test_reading_can_be_stopped(page: Page, tmp_path: Path) -> None:
    rows = ",\n".join(f'["{second} s", "{second % 90 + 1} Mbit/s"]' for second in range(300_000))
    text = BUSY.replace('"50 Mbit/s"', f"{{ timetable = [{rows}] }}")
    page.page.set_input_files("#file", written(tmp_path / "huge.toml", text))
    page.until(lambda: "Reading" in page.text("run-status"), "it does not say that it reads")
    page.page.click("#stop-run")
    page.until(lambda: "Stopped" in page.text("alert"), "it does not stop")
    page.page.select_option("#story", "dead-path")
    page.has_run()


@needs_page
def test_it_is_quick(page: Page) -> None:
    # Pictures in a second with 200 packets in view, and how long the script takes for each.
    page.page.evaluate("document.getElementById('run-status').textContent = ''")
    page.open_text(BUSY.replace("60 s", "4 s"))
    page.has_run()
    page.page.locator("#scrub").evaluate(
        "scrub => { scrub.value = 2; scrub.dispatchEvent(new Event('input')); }"
    )
    page.page.select_option("#speed", "0.05")
    page.page.click("#play")
    seen = page.page.evaluate(
        """() => new Promise(done => {
            const stage = document.querySelector("#stage canvas");
            const own = window.requestAnimationFrame;
            let [frames, script, least, start] = [0, 0, Infinity, performance.now()];
            window.requestAnimationFrame = call => own(now => {
                const before = performance.now();
                call(now);
                script += performance.now() - before;
                frames += 1;
                least = Math.min(least, Number(stage.dataset.packets));
            });
            setTimeout(() => {
                window.requestAnimationFrame = own;
                done({ frames, script, least, wall: performance.now() - start });
            }, 4000);
        })"""
    )
    rate = 1e3 * seen["frames"] / seen["wall"]
    each = seen["script"] / max(1, seen["frames"])
    print(f"{rate:.0f} pictures a second, {each:.1f} ms of script each, {seen['least']} packets")
    assert seen["least"] >= 200
    assert each < 50
    # From a slider to its picture, of 50 calls of 60 s.
    page.page.evaluate("document.getElementById('run-status').textContent = ''")
    page.page.select_option("#story", "dead-path")
    page.has_run()
    page.open_text(
        page.page.input_value("#toml").replace('"30 s"', '"60 s"').replace('"60 s"', '"80 s"', 1)
    )
    page.until(lambda: " in 61." in page.text("run-status"), "the call is not of 60 s")
    page.page.click("#tab-compare")
    page.page.select_option("#replications", "50")
    page.until(lambda: page.text("batch-status").startswith("50 of 50"), "no runs")
    slider = page.page.locator("#knob-1")
    took = []
    for _ in range(5):
        start = time.monotonic()
        slider.focus()
        page.page.keyboard.press("ArrowRight")
        page.until(lambda: not page.text("batch-status").startswith("50 of 50"), "no runs")
        page.until(lambda: page.text("batch-status").startswith("50 of 50"), "no runs")
        took.append(float(page.text("batch-status").split(", ")[1].removesuffix(" s")))
        assert time.monotonic() - start < 60
    print(f"slider to picture of 50 calls of 60 s: {min(took):.2f} to {max(took):.2f} s")
    assert min(took) < 15


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
    again.page.evaluate("location.hash = '#scenario=AAAA'")
    again.until(again.page.locator("#alert").is_visible, "a broken link passes")
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    bomb = deflate.compress(b"#" * 100_000_000) + deflate.flush()
    code = base64.urlsafe_b64encode(bomb).decode().rstrip("=")
    again.page.goto(f"{address}?again#scenario={code}")
    again.until(again.page.locator("#alert").is_visible, "a hundred megabytes pass")
    assert "holds no scenario" in again.text("alert")
    context.close()


@needs_page
def test_the_address_keeps_what_was_changed(page: Page) -> None:
    def ends(with_: str) -> bool:
        return bool(page.page.evaluate("end => location.hash.endsWith(end)", with_))

    page.page.click("text=RTO.Max = 60 s")
    page.until(lambda: ends("&story=dead-path"), "the address stays the same")
    page.page.reload()
    page.has_run()
    assert 'rto_max = "60 s"' in page.page.input_value("#toml")
    assert page.page.input_value("#story") == "dead-path"
    page.page.click("text=Start the story over")
    page.until(lambda: ends("#dead-path"), "the address keeps the change")
    assert 'rto_max = "1 s"' in page.page.input_value("#toml")
    page.page.evaluate("location.hash = '#no-such-story'")
    page.until(page.page.locator("#alert").is_visible, "a wrong name is not said")


@needs_page
def test_a_mistake_leads_to_its_line(page: Page) -> None:
    text = page.page.input_value("#toml")
    marked = """() => {
        const toml = document.getElementById("toml");
        return toml.value.slice(toml.selectionStart, toml.selectionEnd);
    }"""
    for wrong in ("delay = 20 ms", 'delay = "20 km"'):
        page.open_text(text.replace('delay = "20 ms"', wrong))
        go = page.page.locator("#alert button")
        page.until(lambda go=go: go.count() == 1, f"{wrong}: no line")  # type: ignore[misc]
        assert "without a mistake" in page.text("alert")
        page.page.click("#tab-story")
        go.click()
        assert page.page.evaluate(marked) == wrong
        page.open_text(text)
        page.until(lambda go=go: go.count() == 0, "it stays")  # type: ignore[misc]


@needs_page
@pytest.mark.skipif(not AXE.is_file(), reason="needs axe-core: make lab")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_it(browser: Any, address: str, scheme: str) -> None:
    for width in (360, 768, 1280, 1920) if WHOLE else (360, 1280):
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


@pytest.mark.skipif(not AXE.is_file(), reason="needs the page's tools: make lab")
def test_modules_do_what_they_say() -> None:
    npm = shutil.which("npm")
    assert npm is not None
    command = [npm, "run", "--silent", "test"]
    done = subprocess.run(command, cwd=ROOT / "lab", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


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
        try:
            line = run.stdout.readline()
            address = line.removeprefix("The lab is at ").partition("#")[0]
            with urllib.request.urlopen(address) as answer:
                assert b"Anabranch lab" in answer.read()
            run.send_signal(signal.SIGINT)
            _, said = run.communicate(timeout=HANGS_S)
        finally:
            run.kill()
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
        assert not found.page.locator("#local-run").is_visible(), "it is folded at first"
        found.page.click("#local-title")
        yield found, served
        context.close()
        assert found.complaints == []


@needs_page
def test_a_sweep_is_handed_over(handing: tuple[Page, lab.server.Served]) -> None:
    page, served = handing
    assert served.token not in page.page.url
    panel, plots = (page.page.locator(name).bounding_box() for name in ("#local", "#plots"))
    assert panel["y"] >= plots["y"] + plots["height"], "it is the last on the page"
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
