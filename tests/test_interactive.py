"""Figures and tables that answer: their data, and what a page makes of them in Chromium."""

import base64
import csv
import hashlib
import html
import io
import json
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats as scipy_stats

from anabranch import Scenario, Study, report, stats
from anabranch.figures import marks, pages, plots
from anabranch.figures.marks import Mark
from anabranch.figures.pages import cells, interactive
from anabranch.papers import plots as paper_plots
from anabranch.papers.intervals import Interval
from anabranch.support import wording
from conftest import CALL, ROOT, SWEEP, Command, one_error

AXE = ROOT / "lab/node_modules/axe-core/axe.min.js"

FORMULA = "=1+1</script><b>&\"'"
"""What a page, a script and a spreadsheet would each take for something else."""


def panel() -> tuple[Figure, Any]:
    return plots.panel(5, 3)


def read(figure: Figure) -> list[tuple[str, dict[str, str], float | str, float]]:
    """Quantity, names, value and half-width of the marks of a figure."""
    return [
        (one.quantity, dict(one.mark.names), one.mark.value, one.mark.half_width)
        for one in marks.of(figure)
    ]


def test_marks_of_points_with_intervals_are_read_from_what_is_drawn() -> None:
    with plots.style():
        figure, axes = panel()
        axes.errorbar([0.1, 1], [3, 4], yerr=[0.5, 0.25], label="udp")
        axes.set_xscale("log")
        axes.set(xlabel="RTO.Max (s)", ylabel="MOS")
    assert read(figure) == [
        ("MOS", {"series": "udp", "RTO.Max (s)": "0.1"}, 3, 0.5),
        ("MOS", {"series": "udp", "RTO.Max (s)": "1"}, 4, 0.25),
    ]


def test_marks_of_bars_have_the_interval_that_stands_on_them() -> None:
    with plots.style():
        figure, axes = panel()
        for place, value, width in ((0, 3.0, 0.5), (1, 4.0, 0.25)):
            axes.bar(place, value, color=plots.COLOURS[0])
            # One end is cut.
            axes.errorbar(place, value, yerr=[[width / 2], [width]], color="black")
        axes.set_xticks([0, 1], ["plain\nUDP", "SCTP"])
        axes.set_ylabel("MOS")
    assert read(figure) == [("MOS", {"at": "plain UDP"}, 3, 0.5), ("MOS", {"at": "SCTP"}, 4, 0.25)]


def test_marks_of_rows_know_their_names_in_every_panel() -> None:
    with plots.style():
        figure = plots.blank(6, 3)
        for axes, title in zip(figure.subplots(1, 2, sharey=True), ("2 %", "10 %"), strict=True):
            axes.errorbar([1.5, 2.5], [0, 1], xerr=[0.1, 0.2], fmt="o", color="black")
            axes.axvline(2)
            axes.set_yticks([0, 1], ["CUBIC", "BBR"])
            axes.set_title(title)
            axes.set_xlabel("Mbit/s")
    assert [names for _, names, _, _ in read(figure)] == [
        {"panel": title, "at": name} for title in ("2 %", "10 %") for name in ("CUBIC", "BBR")
    ]
    assert {quantity for quantity, *_ in read(figure)} == {"Mbit/s"}


def test_marks_of_lines_have_their_bands_and_the_names_of_legends() -> None:
    with plots.style():
        figure, axes = panel()
        ours = [Interval(2.0, 0.25, 5), Interval(3.0, 0.5, 5)]
        paper_plots.band(axes, [1, 2], ours, plots.COLOURS[0])
        (line,) = axes.plot([1, 2], [5, 6], color=plots.COLOURS[1])
        plots.label_ends(figure, axes, [(6, "ends here", line.get_color())])
        axes.plot(np.arange(marks.MOST_OF_LINE + 1), color="black")  # a curve of time
    found = read(figure)
    assert [half for *_, half in found[:2]] == [0.25, 0.5]
    assert [names for _, names, _, _ in found[2:]] == [
        {"series": "ends here", "at": "1"},
        {"series": "ends here", "at": "2"},
    ]
    assert len(found) == 4


def test_marks_of_heat_maps_are_their_cells() -> None:
    with plots.style():
        figure, axes = panel()
        image = plots.heat(axes, [[1, math.nan], [2, 3]], None, ["a", "b"], ["x", "y"])
        figure.colorbar(image, ax=axes, label="MOS")
        axes.set(xlabel="across", ylabel="down")
    assert [(names, value) for _, names, value, _ in read(figure)] == [
        ({"across": "a", "down": "x"}, 1),
        ({"across": "a", "down": "y"}, 2),
        ({"across": "b", "down": "y"}, 3),
    ]


def test_places_are_where_the_marks_are_drawn() -> None:
    with plots.style():
        figure, axes = panel()
        axes.plot([0, 1], [0, 1], "o", gid="dots")
    found = marks.of(figure)
    with plots.laid_out(figure):
        svg = pages.inline(figure, "it", found)
    own = [tuple(map(float, text.split(",")[1:3])) for text in at(svg)]
    drawn = re.findall(r'<use href="[^"]*" x="([\d.]+)" y="([\d.]+)"', svg)
    assert own == [pytest.approx(tuple(map(float, place)), abs=0.2) for place in drawn]


def at(svg: str) -> list[str]:
    found = re.search(r'data-at="([^"]*)"', svg)
    assert found is not None
    return found[1].split(" ")


def test_marks_say_what_verdicts_and_published_numbers_are() -> None:
    matrix = paper_plots.verdict_matrix({"1. It holds": ["reproduced", "open"]}, ["a", "b"])
    assert read(matrix)[0][:3] == ("verdict", {"claim": "1. It holds", "under": "a"}, "reproduced")
    points = [
        paper_plots.Point((name,), Interval(value, 0.5, 7), 3.5)
        for name, value in (("udp", 3.0), ("sctp", 4.0))
    ]
    (first, _) = marks.of(paper_plots.beside_published(points, ["the_way"], "MOS"))
    assert (first.quantity, first.mark.names, first.mark.value) == ("MOS", {"the way": "udp"}, 3)
    assert (first.mark.half_width, first.mark.n, first.mark.published) == (0.5, 7, 3.5)


def content(text: str, kind: str) -> list[Any]:
    found = re.findall(rf'<script type="application/json" class="{kind}"[^>]*>(.*?)</script>', text)
    return [json.loads(each) for each in found]


def test_data_cannot_end_their_element() -> None:
    text = interactive.of_marks([(FORMULA, Mark(0, 0, {FORMULA: FORMULA + "<!--"}, 1.5))])
    assert text.count("<") == 2
    (found,) = content(text, "marks")
    assert found["quantities"] == [FORMULA]
    assert found["texts"] == [FORMULA + "<!--"]


def test_numbers_that_are_none_are_not_data() -> None:
    mark = Mark(0, 0, {}, math.nan, math.inf, samples=[1.0, math.nan, 1e30])
    assert content(interactive.of_marks([("q", mark)]), "marks")[0]["marks"] == [
        {"k": [], "v": None, "s": [1, None, 1e30]}
    ]
    assert interactive.samples("s", [1], np.ones((1, 1))) == ""
    assert interactive.samples("s", [1], np.ones((1, interactive.MOST_SAMPLES + 1))) == ""


def rebuilt(study: dict[str, Any], cell: int) -> str:
    """As `interactive.js` puts a cell's scenario together."""
    if "values" in study:
        numbers, rest = set(), cell
        for axis, own in zip(study["axes"][::-1], study["values"][::-1], strict=True):
            rest, value = divmod(rest, len(axis["labels"]))
            numbers |= set(own[value])
    else:
        numbers = set(study["changes"][cell])
    lines = study["base"].split("\n")
    for at_, count, new in sorted(
        (study["edits"][number] for number in sorted(numbers)), key=lambda edit: -edit[0]
    ):
        lines[at_ : at_ + count] = new
    return "\n".join(lines)


LISTED = (
    CALL
    + """
[sweep]
where = ["pmr > 0 or rto_max > 0.5 s"]
[sweep.axes]
rto_max = { set = "flows.call.transport.rto_max", values = ["1 s", "0.1 s"] }
pmr = { set = "flows.call.transport.path_max_retrans", values = [0, 1] }
[sweep.axes.policy.cases]
one = { "flows.call.transport.policy" = { kind = "failover" } }
other = { "flows.call.transport.policy.kind" = "delay_centric", "links.second.delay" = "9 ms" }
"""
)
"""Not all combinations, and cells with more lines than others."""


@pytest.mark.parametrize("text", [SWEEP, LISTED, CALL])
def test_a_page_has_every_cell_as_the_engine_has_it(text: str) -> None:
    is_whole = text != LISTED
    scenario = Scenario.parse(text)
    study = cells.of_study(scenario)
    assert study is not None
    assert ("values" in study) == is_whole
    for cell in range(scenario.cell_count):
        assert rebuilt(study, cell) == scenario.cell_toml(cell)
    if not is_whole:
        for cell, key in enumerate(study["keys"]):
            labels = [axis["labels"][value] for axis, value in zip(study["axes"], key, strict=True)]
            names = [axis["name"] for axis in study["axes"]]
            named = dict(zip(names, labels, strict=True))
            assert (named["policy"], named["pmr"]) == (
                scenario.cell_key(cell)["policy"],
                f"{scenario.cell_key(cell)['pmr']:g}",
            )


def test_links_may_lead_to_another_lab(made: Path, anabranch: Command) -> None:
    for lab in ("https://example.org/lab/", "../site/"):
        done = anabranch("report", made / "study", "--out", made / "other.html", "--lab", lab)
        assert done.returncode == 0, done.stderr
        text = (made / "other.html").read_text("utf-8")
        assert content(text, "cells")[0]["lab"] == lab
        assert f"--lab {lab}" in text
    for wrong in ("javascript:alert(1)", "data:text/html,x", "http://a/#b", " "):
        said = one_error(anabranch("report", made / "study", "--lab", wrong))
        assert "is not the address of a lab" in said


def test_too_many_cells_are_left_to_the_command() -> None:
    many = SWEEP.replace("[0, 1]", str(list(range(200))))
    listed = Scenario.parse(many.replace("[sweep]", '[sweep]\nwhere = ["pmr > 1"]'))
    assert listed.cell_count > cells.MOST_LISTED
    assert cells.of_study(listed) is None
    text = cells.section({Path("it's here"): listed})
    assert "left to the command" in text
    assert "anabranch lab 'it'\"'\"'s here' --cell N" in html.unescape(text)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interactive")
    Study(SWEEP, folder / "study").run()
    report.write(folder / "study", folder / "report.html")
    return folder


def test_only_the_pages_own_script_may_run(made: Path) -> None:
    text = (made / "report.html").read_text("utf-8")
    (code,) = re.findall(r'<script type="module">(.*?)</script>', text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert f"script-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "connect-src" not in policy
    assert not re.search(r"\son[a-z]+=", re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL))


def test_the_same_study_is_the_same_page_and_weighs_little_more(made: Path) -> None:
    again = made / "again.html"
    report.write(made / "study", again)
    assert again.read_bytes() == (made / "report.html").read_bytes()
    text = again.read_text("utf-8")
    style = re.search(r"\n\.tools \{.*?\n\.lab [^\n]*", text, re.DOTALL)
    assert style is not None
    assert len(interactive.script()) + len(style[0]) < 60_000


def test_an_installation_without_the_script_has_still_pages(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interactive, "script", lambda: "")
    report.write(made / "study", made / "still.html")
    text = (made / "still.html").read_text("utf-8")
    assert "script-src 'none'" in text
    assert '<script type="module">' not in text


class Page:
    """A page in a browser, which must complain of nothing and load nothing."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.context = browser.new_context(accept_downloads=True, **options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        assert [url for url in self.asked if not url.startswith("blob:")] == [path.as_uri()]

    def close(self) -> None:
        self.context.close()
        assert self.complaints == []

    def figure(self, name: str) -> Any:
        figure = self.page.locator(f'figure:has(script[data-name="{name}"])')
        return figure.locator("svg.plot:visible")

    def rows(self, button: str) -> list[dict[str, str]]:
        with self.page.expect_download() as download:
            self.page.get_by_role("button", name=button, exact=True).click()
        text = Path(download.value.path()).read_text("utf-8")
        return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def page(browser: Any, made: Path) -> Iterator[Page]:
    found = Page(browser, made / "report.html", viewport={"width": 1280, "height": 900})
    yield found
    found.close()


def test_a_mark_answers_to_the_pointer(page: Page, made: Path) -> None:
    figure = page.figure("metric0-heat0")
    figure.scroll_into_view_if_needed()
    box = figure.bounding_box()
    first = [float(each) for each in str(figure.get_attribute("data-at")).split(" ")[0].split(",")]
    width, height = map(float, str(figure.get_attribute("viewBox")).split()[2:])
    x = box["x"] + (first[1] + first[3] / 2) / width * box["width"]
    y = box["y"] + (first[2] + first[4] / 2) / height * box["height"]
    page.page.mouse.move(x, y)
    tip = page.page.locator(".tip")
    known = Study(made / "study").cells("call.mos")
    mean, half = known.filter(rto_max=0.05, pmr=0).select("mean", "half_width").row(0)
    said = tip.inner_text()
    assert "rto_max 0.05 s, pmr 0" in said
    # With the digits that mean something, as everywhere on the page.
    assert f"call.mos: {' ± '.join(wording.rounded(mean, half))}, 6 runs" in said
    page.page.mouse.move(2, 2)
    assert not tip.is_visible()


def test_keys_go_through_marks_and_pin_two_of_them(page: Page, made: Path) -> None:
    figure = page.figure("metric0-heat0")
    figure.focus()
    keys = page.page.keyboard
    keys.press("Home")
    first = figure.get_attribute("aria-valuetext")
    keys.press("Enter")
    assert figure.get_attribute("aria-valuetext") == f"{first}, pinned as A"
    keys.press("ArrowRight")
    second = figure.get_attribute("aria-valuetext")
    keys.press("Enter")
    keys.press("ArrowDown")
    assert len({first, second, figure.get_attribute("aria-valuetext")}) == 3
    pins = page.page.locator(".pins")
    said = pins.locator(".difference").inner_text()
    # The same from the rows, without the page.
    rows = Study(made / "study").frame(columns=["call.mos"])
    a = rows.filter(rto_max=0.05, pmr=0).sort("replication")["call.mos"].to_numpy()
    b = rows.filter(rto_max=0.1, pmr=0).sort("replication")["call.mos"].to_numpy()
    apart = b - a
    half = scipy_stats.t.ppf(0.975, 5) * apart.std(ddof=1) / math.sqrt(6)
    found = re.match(r"B − A = ([+-][\d.]+) ± ([\d.]+) \(95 %\), run by run in 6 repl", said)
    assert found is not None, said
    assert float(found[1]) == pytest.approx(apart.mean(), abs=0.51 * 10 ** -digits(found[1]))
    assert float(found[2]) == pytest.approx(half, abs=0.51 * 10 ** -digits(found[2]))
    # The same cells elsewhere are marked, too.
    table = page.page.locator("table:has(tr.pinned)")
    assert table.locator("tr.pinned").count() == 2
    assert page.figure("metric0-boxes").locator(".rings rect.pin").count() == 2
    keys.press("Escape")
    assert not pins.is_visible()


def digits(text: str) -> int:
    return len(text.partition(".")[2])


def test_means_over_cells_are_compared_run_by_run_and_quantities_are_not(page: Page) -> None:
    figure = page.figure("metric0-effects")
    figure.focus()
    keys = page.page.keyboard
    for key in ("Home", "Enter", "End", "Enter"):
        keys.press(key)
    difference = page.page.locator(".pins .difference")
    assert "run by run in 6" in difference.inner_text()
    page.page.get_by_role("button", name="Take pin B away").click()
    page.figure("metric0-shares").focus()
    keys.press("Home")
    keys.press("Enter")
    assert difference.inner_text() == "Two different quantities have no difference."


def test_data_are_files(page: Page, made: Path) -> None:
    known = Study(made / "study").cells("call.mos").sort("rto_max", "pmr")
    rows = page.rows("Data (CSV) of metric0-heat0")
    assert len(rows) == known.height
    of_rows = sorted(float(row["value"]) for row in rows)
    assert of_rows == pytest.approx(sorted(known["mean"].to_list()), rel=1e-5)
    assert {row["runs"] for row in rows} == {"6"}
    assert {row["quantity"] for row in rows} == {"call.mos"}
    assert sorted(int(row["cell"]) for row in rows) == list(range(6))
    table = page.rows("Table (CSV): Cells by call.mos")
    assert [row["rank"].removesuffix(" ★") for row in table] == list("123456")


def decoded(href: str) -> str:
    lab, _, code = href.partition("#scenario=")
    assert lab == cells.LAB
    packed = base64.urlsafe_b64decode(code + "=" * (-len(code) % 4))
    return zlib.decompress(packed, -zlib.MAX_WBITS).decode()


def test_each_cell_has_a_link_to_the_lab(page: Page, made: Path) -> None:
    scenario = Study(made / "study").scenario
    for cell in range(6):
        link = page.page.get_by_role("link", name=f"Open cell {cell} in the lab").first
        assert decoded(str(link.get_attribute("href"))) == scenario.cell_toml(cell)
    chosen = page.page.locator(".lab .chosen")
    page.page.locator('.lab label:has-text("pmr") select').select_option("1")
    page.page.locator('.lab label:has-text("rto_max") select').select_option("0.05 s")
    command = chosen.locator("code").inner_text()
    assert command == f"anabranch lab {made / 'study'} --cell 5"
    href = chosen.locator("a[href]").get_attribute("href")
    assert decoded(str(href)) == scenario.cell_toml(5)


def test_without_script_the_page_is_the_same_with_still_pictures(browser: Any, made: Path) -> None:
    page = Page(browser, made / "report.html", java_script_enabled=False)
    assert page.page.locator("svg[role=img].plot").count() > 3
    assert page.page.locator("button").count() == 0
    assert "--cell N" in page.page.locator(".lab").inner_text()
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_nobody_is_left_out(browser: Any, made: Path, width: int, scheme: str) -> None:
    if not AXE.is_file():
        pytest.skip("needs axe-core: make lab")
    page = Page(
        browser,
        made / "report.html",
        bypass_csp=True,
        color_scheme=scheme,
        reduced_motion="reduce",
        viewport={"width": width, "height": 800},
    )
    page.figure("metric0-heat0").focus()
    for key in ("Home", "Enter", "End", "Enter", "ArrowLeft"):
        page.page.keyboard.press(key)
    assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.page.add_script_tag(path=str(AXE))
    found = page.page.evaluate("axe.run()")
    said = [(one["id"], one["nodes"][0]["html"][:200]) for one in found["violations"]]
    assert said == []
    assert page.page.evaluate("document.getAnimations().length") == 0
    page.close()


def test_hostile_names_stay_text(browser: Any, tmp_path: Path) -> None:
    text = SWEEP.replace(
        'pmr = { set = "flows.call.transport.path_max_retrans", values = [0, 1] }',
        f"pmr.cases.{json.dumps(FORMULA)} = {{ 'flows.call.transport.path_max_retrans' = 0 }}\n"
        "pmr.cases.plain = { 'flows.call.transport.path_max_retrans' = 1 }",
    )
    Study(text, tmp_path / "study").run()
    report.write(tmp_path / "study", tmp_path / "report.html")
    page = Page(browser, tmp_path / "report.html")
    rows = page.rows("Data (CSV) of metric0-heat0")
    assert {row["pmr"] for row in rows} == {f"'{FORMULA}", "plain"}
    figure = page.figure("metric0-heat0")
    figure.focus()
    page.page.keyboard.press("End")
    assert page.page.locator(".tip b b").count() == 0
    page.close()


def test_effects_have_their_replications(made: Path) -> None:
    study = Study(made / "study")
    text = (made / "report.html").read_text("utf-8")
    (own,) = [each for each in content(text, "marks") if each["texts"][:1] == ["0.05 s"]][:1]
    rows = stats.per_replication(study.frame(), ["rto_max"], "call.mos")
    known = rows.filter(rto_max=0.05).sort("replication")["call.mos"].to_list()
    assert own["marks"][0]["s"] == pytest.approx(known, rel=1e-5)
