"""A report in a browser."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from anabranch import Study, report
from conftest import SWEEP
from support.reports import SIZES
from synthetic import write_study

HOSTILE = """\
name = "<script>window.bad = 1<script> ünïcødé 你好 $x_1$"
description = "A <b>hostile</b> \\"text\\" & more: </style><img src=x onerror='window.bad = 1'>"

[run]
duration = "5 s"

[links.a-link-with-a-name-that-is-longer-than-its-card]
ends = ["a-host-with-quite-a-long-name", "<i>b&\\"'</i>"]
rate = "1 Mbit/s"
delay = "10 ms"

[paths.p0]
via = ["a-link-with-a-name-that-is-longer-than-its-card"]

[flows.call]
from = "a-host-with-quite-a-long-name"
to = "<i>b&\\"'</i>"
paths = ["p0"]
transport = { kind = "udp" }
app = { kind = "voip", codec = "g711+plc", start = "1 s", duration = "2 s" }

[sweep]
replications = 3

[sweep.axes]
an_axis_with_a_name_that_is_far_too_long_for_any_table_or_any_figure_to_show_in_one_line = \
{ set = "links.a-link-with-a-name-that-is-longer-than-its-card.delay", \
values = ["1 ms", "300 ms"] }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("report") / "study"
    write_study(made, SIZES, 30, 3)
    return made


@pytest.fixture(scope="module")
def made(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages by name."""
    out = tmp_path_factory.mktemp("pages")
    report.write(folder, out / "synthetic.html", ["call.mos", "call.loss_percent"])
    report.write(folder, out / "per.html", per=["loss", "pmr"])
    for name, text in (("hostile", HOSTILE), ("simulated", SWEEP)):
        Study(text, out / name).run()
        report.write(out / name, out / f"{name}.html")
    return {path.stem: path for path in out.glob("*.html")}


@pytest.mark.parametrize("name", ["synthetic", "per", "hostile", "simulated"])
@pytest.mark.parametrize("width", [360, 768, 1280])
def test_a_page_in_a_browser(browser: Any, made: dict[str, Path], name: str, width: int) -> None:
    grounds = {}
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
        page = context.new_page()
        said: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message, said=said: said.append(message.text))
        page.on("pageerror", lambda error, said=said: said.append(str(error)))
        page.on("dialog", lambda dialog, said=said: said.append(dialog.message))
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.goto(made[name].as_uri())
        assert asked == [made[name].as_uri()]
        assert said == []
        assert page.evaluate("window.bad") is None
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        grounds[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        # Every figure and table is there, and seen by those who do not see.
        assert page.locator("h1").count() == 1
        assert page.locator("h2").all_inner_texts()[0] == "What was run"
        # Those for wide and for narrow screens are not shown at once.
        drawings = page.locator('svg:is([role="img"], [role="slider"]):visible')
        assert drawings.count() >= 3
        assert page.locator("svg.narrow:visible").count() == 0 or width < 640
        for i in range(drawings.count()):
            box = drawings.nth(i).bounding_box()
            assert box is not None
            assert min(box["width"], box["height"]) > 40
        assert page.locator("svg:not([aria-label]):not([aria-labelledby])").count() == 0
        assert page.locator("table:not(:has(caption))").count() == 0
        context.close()
    assert grounds["light"] != grounds["dark"]


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2) of `rgb(r, g, b)`."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(browser: Any, made: dict[str, Path], scheme: str) -> None:
    page = browser.new_page(color_scheme=scheme)
    page.goto(made["synthetic"].as_uri())
    ground = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    for selector in ("h1", "h2", "p", "td", "figcaption", "nav a", "summary", "dt"):
        colour = luminance(
            page.locator(selector).first.evaluate("(element) => getComputedStyle(element).color")
        )
        light, dark = sorted((ground, colour), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, selector  # WCAG 2.2, 1.4.3
    page.close()


def test_it_prints(browser: Any, made: dict[str, Path]) -> None:
    page = browser.new_page(color_scheme="dark")
    page.goto(made["synthetic"].as_uri())
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    grounds = page.evaluate(
        "[...document.querySelectorAll('pre, tr')].map(e => getComputedStyle(e).backgroundColor)"
    )
    assert all(luminance(of) > 0.7 for of in grounds if not of.endswith(", 0)"))
    assert not page.locator("nav").is_visible()
    assert page.locator("details pre").bounding_box()["height"] > 500  # what is folded, unfolded
    printed = page.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 20
    page.close()


def test_names_are_text(browser: Any, made: dict[str, Path]) -> None:
    page = browser.new_page()
    page.goto(made["hostile"].as_uri())
    assert page.locator("h1").inner_text() == "<script>window.bad = 1<script> ünïcødé 你好 $x_1$"
    own = ':not([type="application/json"]):not([type="module"])'
    assert page.locator(f"script{own}, img, i, b").count() == 0
    assert page.locator('script[type="module"]').count() == 1
    assert "hostile</b>" in page.locator("header").inner_text()
    text = json.dumps(page.locator("svg.network").text_content())
    assert "<i>b&" in text
    page.close()
