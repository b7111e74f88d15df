"""Reports: their numbers, their drawings, and the page in a real browser."""

import json
import math
import re
import shutil
from itertools import product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl
import polars.selectors as cs
import pytest

import anabranch as package
from anabranch import AnabranchError, Study, report, stats
from anabranch.figures.diagram import Diagram
from anabranch.papers import studies
from anabranch.report import figures, page
from anabranch.report.analysis import Analysis
from anabranch.report.environments import Environments, divisions
from anabranch.report.sensitivity import sobol_indices
from anabranch.stats.labels import label_table
from anabranch.stats.verdicts import NOTHING, Matters
from anabranch.store import shard_files
from conftest import CALL, SCENARIOS, SWEEP, Command, one_error, written
from synthetic import write_study

SIZES = {"delay": 4, "loss": 3, "pmr": 2}
SVG = "{http://www.w3.org/2000/svg}"

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
def analysis(folder: Path) -> Analysis:
    study = Study(folder)
    return Analysis(study.frame(), "call.mos", label_table(study.scenario.axes))


def rows_of(values: np.ndarray, axes: dict[str, list[Any]]) -> pl.DataFrame:
    """Rows of cells (lines) and replications (columns); NaN stays a run without a value."""
    cells, replications = values.shape
    columns = {name: np.repeat(np.array(of), replications) for name, of in axes.items()}
    return pl.DataFrame(
        {
            "cell": np.repeat(np.arange(cells, dtype=np.uint32), replications),
            "replication": np.tile(np.arange(replications, dtype=np.uint32), cells),
            **columns,
            "call.mos": values.ravel(),
        }
    )


def test_main_effects_are_means_over_the_other_axes(folder: Path, analysis: Analysis) -> None:
    rows = Study(folder).frame()
    for axis in analysis.axes:
        means = stats.per_replication(rows, [axis.name], "call.mos")
        known = stats.cells(means, [axis.name], "call.mos").sort(axis.name)
        found = [effect.interval for effect in analysis.effects(axis)]
        assert [i.mean for i in found] == pytest.approx(known["mean"].to_list())
        assert [i.half_width for i in found] == pytest.approx(known["half_width"].to_list())
    assert analysis.axes[0].labels == ["1 ms", "2 ms", "3 ms", "4 ms"]


def test_shares_of_a_full_factorial_are_those_of_the_model(analysis: Analysis) -> None:
    # The model's cells: 3 + a - b / 2 + a b with a in thirds and b in halves, pmr does nothing.
    a, b, _ = np.array(list(product([0, 1 / 3, 2 / 3, 1], [0, 0.5, 1], [0, 1]))).T
    cells = 3 + a - b / 2 + a * b
    of_a, of_b = 1.5 * (a - a.mean()), (a.mean() - 0.5) * (b - b.mean())
    both = cells - cells.mean() - of_a - of_b
    known = {"delay": of_a, "loss": of_b, "delay × loss": both}
    found = {share.name: share.share for share in analysis.shares}
    assert analysis.is_factorial
    assert sum(found.values()) == pytest.approx(1)
    for name, part in known.items():
        assert found[name] == pytest.approx(np.var(part) / np.var(cells), abs=0.01)
    assert found["pmr"] < 0.01
    assert [axis.name for axis in analysis.pairs[0]] == ["delay", "loss"]
    assert 0 < analysis.noise < 0.02


def test_what_may_be_the_best_is_framed_where_a_pair_is_a_cell() -> None:
    random = np.random.default_rng(3)
    axes: dict[str, list[Any]] = {"a": [1, 1, 2, 2, 3, 3], "b": ["x", "y"] * 3}
    means = np.array([1.0, 2.0, 3.0, 4.0, 2.5, 4.0])
    values = means[:, None] + 0.1 * random.standard_normal((6, 20))
    found = Analysis(rows_of(values, axes), "call.mos", {})
    figure = figures.heat_map(found, *found.axes)
    frames: list[Any] = [one for one in figure.axes[0].patches if one.get_gid() == "best"]
    places = {(round(one.get_x() + 0.46), round(one.get_y() + 0.44)) for one in frames}
    # Two cells are alike: the second and the third value of one axis with the second of the other.
    assert places == {(1, 1), (2, 1)}
    equal = Analysis(rows_of(np.full((6, 3), 1.0), axes), "call.mos", {})
    assert not figures.heat_map(equal, *equal.axes).axes[0].patches


def test_parts_of_the_variance_are_drawn_from_0_to_1() -> None:
    figure = figures.bars(["a", "b"], {"first order": [(0.97, 0.2), (0.02, 0.1)]})
    (axes,) = figure.axes
    lines: list[Any] = list(axes.collections)
    ends = [end for one in lines for line in one.get_segments() for end in line[:, 0]]
    assert min(ends) == pytest.approx(0)
    assert max(ends) == pytest.approx(1)


@pytest.mark.parametrize("value", [4.1, 0.1, 3.3])
def test_equal_cells_have_no_shares(value: float) -> None:
    """Whatever rounding makes of their variance."""
    axes: dict[str, list[Any]] = {"a": [1, 1, 2, 2, 3, 3], "b": ["x", "y"] * 3}
    found = Analysis(rows_of(np.full((6, 3), value), axes), "call.mos", {})
    assert found.is_factorial
    assert (found.shares, found.indices, found.pairs) == ([], [], [])
    assert math.isnan(found.noise)
    # Means of 3 and of 7 equal values may differ in the last digit.
    few = np.full((6, 7), value)
    few[::2, 3:] = math.nan
    assert Analysis(rows_of(few, axes), "call.mos", {}).shares == []


def test_what_replications_do_to_all_cells_is_no_part_of_the_variance() -> None:
    random = np.random.default_rng(5)
    axes = {"a": list(range(10)) * 10, "b": [i // 10 for i in range(100)]}
    own, shared = random.normal(0, 1, (100, 8)), random.normal(0, 100, 8)
    # Without any effect, noise is all of the variance, whatever the cells share.
    effects = 3 * np.arange(100)[:, np.newaxis]
    lacking = np.where(random.random((100, 8)) < 0.1, math.nan, own)

    def noise(values: np.ndarray) -> float:
        return Analysis(rows_of(values, axes), "call.mos", {}).noise

    assert noise(own) == pytest.approx(1, abs=0.3)
    assert noise(own + shared) == pytest.approx(noise(own))
    known = 1 / 8 / np.var(effects)
    assert noise(own + shared + effects) == pytest.approx(known, rel=0.3)
    assert noise(lacking + effects) == pytest.approx(known / 0.9, rel=0.3)


def test_cells_that_are_no_full_factorial(analysis: Analysis) -> None:
    values = np.arange(12.0).reshape(3, 4)
    found = Analysis(rows_of(values, {"a": [1, 1, 2], "b": ["x", "y", "x"]}), "call.mos", {})
    assert not found.is_factorial
    assert found.shares == []
    assert [e.interval.mean for e in found.effects(found.axes[0])] == [3.5, 9.5]
    assert found.indices == []
    assert analysis.indices == []  # exact ones are there


def test_axes_that_advance_together_do_not_interact() -> None:
    values = np.array([[1.0, 2], [2, 3], [4, 5]])
    together = Analysis(rows_of(values, {"a": [1, 2, 3], "b": [5, 6, 7]}), "call.mos", {})
    assert together.pairs == []
    crossed = Analysis(rows_of(values, {"a": [1, 1, 2], "b": [5, 6, 6]}), "call.mos", {})
    assert len(crossed.pairs) == 1


def test_runs_without_a_value_and_of_unequal_number() -> None:
    nan = math.nan
    values = np.array([[1, 2, 3, nan], [2, nan, nan, 4], [nan] * 4, [5, 5, 5, 5.0]])
    found = Analysis(rows_of(values, {"a": [1, 1, 2, 2]}), "call.mos", {})
    first, second = (effect.interval for effect in found.effects(found.axes[0]))
    assert first.mean == 2.5  # of the cells' means 2 and 3
    assert first.n == 2
    assert second == (5.0, 0.0, 4)
    assert found.ranking["n"].to_list() == [4, 2, 3, 0]
    assert found.runs == 9
    nothing = Analysis(rows_of(values * nan, {"a": [1, 1, 2, 2]}), "call.mos", {})
    assert nothing.runs == 0
    assert page.section(nothing, None, 0).finding == "No run has a value of call.mos."


def test_close_values_of_axes_do_not_look_alike() -> None:
    close = [0.1234561, 0.1234562, 0.5]
    axes = [{"name": "rto", "values": close, "labels": [f"{value} s" for value in close]}]
    labels = label_table(axes)
    shown = ["0.1234561 s", "0.1234562 s", "0.5 s"]
    assert list(labels["rto"].values()) == shown
    assert list(
        label_table([axes[0] | {"values": close[1:], "labels": ["0.1234562 s", "0.5 s"]}])[
            "rto"
        ].values()
    ) == ["0.1235 s", "0.5 s"]
    rows = pl.DataFrame({"cell": [0, 1, 2], "replication": 0, "rto": close, "call.mos": close})
    for known in (labels, {}):
        analysis = Analysis(rows, "call.mos", known)
        found = [
            effect.labels[0].removesuffix(" s") for effect in analysis.effects(analysis.axes[0])
        ]
        assert found == [text.removesuffix(" s") for text in shown]
        assert len({figures.box_name(analysis, row) for row in rows.iter_rows(named=True)}) == 3
    many = [0.1 + i * 1e-6 for i in range(40)]
    rows = pl.DataFrame({"cell": range(40), "replication": 0, "rto": many, "call.mos": many})
    groups = Analysis(rows, "call.mos", {}).axes[0].labels
    assert len(set(groups)) == len(groups) > 1
    assert all(len(set(group.split("–"))) == 2 for group in groups)


def test_of_many_cells_only_the_first_are_screened(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).normal(0, 1, (40, 5))
    rows = rows_of(values, {"a": list(range(40))})
    whole = Analysis(rows, "call.mos", {}).ranking
    monkeypatch.setattr("anabranch.report.analysis.MOST_SCREENED", 10)
    found = Analysis(rows, "call.mos", {}).ranking
    for column in ("cell", "mean", "half_width", "n", "rank"):
        assert found[column].to_list() == whole[column].to_list()
    assert 0 < found["best"].sum() <= 10
    assert not found["best"][10:].any()
    less = Analysis(
        rows.rename({"call.mos": "call.mean_delay_ms"}), "call.mean_delay_ms", {}
    ).ranking
    assert less["mean"].to_list() == pytest.approx(sorted(values.mean(axis=1)))
    values[3] = math.nan
    assert Analysis(rows_of(values, {"a": list(range(40))}), "call.mos", {}).ranking["n"][-1] == 0


def test_an_axis_of_many_values_is_shown_in_groups() -> None:
    random = np.random.default_rng(1)
    delay = random.uniform(0.001, 0.1, 200)
    labels = {"delay": {str(value): f"{1000 * value:.10f} ms" for value in delay}}
    rows = rows_of(delay[:, np.newaxis] + random.normal(0, 1e-4, (200, 3)), {"delay": list(delay)})
    found = Analysis(rows, "call.mos", labels)
    [axis] = found.axes
    effects = found.effects(axis)
    assert axis.grouped
    assert sum(effect.cells for effect in effects) == 200
    assert all(effect.cells == 40 for effect in effects)
    for effect in effects:
        low, high = map(float, re.findall(r"[0-9.]+", effect.labels[0]))
        assert low < 1000 * effect.interval.mean < high
        assert effect.labels[0].endswith(" ms")


def test_sobol_indices_of_a_latin_hypercube() -> None:
    pytest.importorskip("SALib", reason="needs the extra anabranch[sensitivity]")
    from scipy.stats import qmc  # noqa: PLC0415 - slow to import

    x = qmc.LatinHypercube(3, rng=1).random(512)
    # y = 3 x0 + x1 + 4 (x1 - 1/2) (x2 - 1/2): variances 9/12, 1/12 and 16/144.
    y = 3 * x[:, 0] + x[:, 1] + 4 * (x[:, 1] - 0.5) * (x[:, 2] - 0.5)
    total = 9 / 12 + 1 / 12 + 1 / 9
    found = sobol_indices({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2]}, y)
    assert found[0].name == "a"
    known = {"a": 9 / 12 / total, "b": 1 / 12 / total, "c": 0}
    for index in found:
        assert index.first_order == pytest.approx(known[index.name], abs=0.06)
        assert 0 < index.half_width < 0.15
    y[5] = math.nan
    assert len(sobol_indices({"a": x[:, 0]}, y)) == 1
    assert sobol_indices({"a": x[:20, 0]}, y[:20]) == []
    assert sobol_indices({"a": x[:, 0]}, np.ones(512)) == []


def boxes(root: ElementTree.Element, style: str) -> list[tuple[float, ...]]:
    found = [rect for rect in root.iter(f"{SVG}rect") if rect.get("class") == style]
    return [
        tuple(float(rect.get(key, "")) for key in ("x", "y", "width", "height")) for rect in found
    ]


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_scenario_is_drawn(path: Path) -> None:
    scenario = package.load(path)
    diagram = Diagram(scenario)
    root = ElementTree.fromstring(diagram.svg())
    text = ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]
    links, hosts = boxes(root, "card"), boxes(root, "host")
    toml = scenario.to_toml()
    names = re.findall(r"^\[links\.([\w-]+)\]", toml, re.MULTILINE)
    assert len(links) == len(names)
    for name in names:
        assert name in text
    assert len(hosts) == len(
        set(re.findall(r'"([^"]+)"', " ".join(re.findall(r"ends = (\[[^]]*])", toml))))
    )
    width, height = map(float, root.get("viewBox", "").split()[2:])
    both = links + hosts
    for i, (x, y, w, h) in enumerate(both):
        assert 0 <= x < x + w <= width
        assert 0 <= y < y + h <= height
        for left, top, wide, high in both[i + 1 :]:
            apart = x + w <= left or left + wide <= x or y + h <= top or top + high <= y
            assert apart, "two boxes of the drawing overlap"
    for axis in scenario.axes:
        assert any(axis["name"] in line for line in text), "what is varied is said"


def test_a_drawing_of_a_ring_and_of_a_link_past_a_host() -> None:
    links = {
        "ab": ("a", "b"),
        "bc": ("b", "c"),
        "ac": ("a", "c"),
        "cd": ("c", "d"),
        "da": ("d", "a"),
    }
    root = drawn(links, {"p": ["ab", "bc"], "q": ["ac"]}, "c")
    cards, hosts = boxes(root, "card"), boxes(root, "host")
    assert len(cards) == 5
    assert len(hosts) == 4
    assert len({(x, y) for x, y, *_ in cards}) == 5


def drawn(
    links: dict[str, tuple[str, str]], paths: dict[str, list[str]], goal: str
) -> ElementTree.Element:
    """The drawing of a network with a flow from `a`."""
    text = 'name = "drawn"\n[run]\nduration = "1 s"\n'
    for name, (first, second) in links.items():
        text += f'[links.{name}]\nends = ["{first}", "{second}"]\nrate = "1 Mbit/s"\n'
    for name, via in paths.items():
        text += f"[paths.{name}]\nvia = {json.dumps(via)}\n"
    text += f'[flows.f]\nfrom = "a"\nto = "{goal}"\npaths = {json.dumps(list(paths))}\n'
    text += 'transport = { kind = "sctp" }\napp = { kind = "bulk" }\n'
    return ElementTree.fromstring(Diagram(package.load(text)).svg())


def test_a_drawing_of_diamonds_and_of_a_long_chain() -> None:
    """Between the ends of 60 diamonds in a row are 2^60 ways; of 1500 hosts the way is long."""
    diamonds = {"first": ("a", "h0")}
    for i in range(60):
        for side in "uv":
            diamonds[f"{side}{i}"] = (f"h{i}", f"{side}{i}")
            diamonds[f"{side}{i}-on"] = (f"{side}{i}", f"h{i + 1}")
    diamonds["beside"] = ("b", "h0")  # what leads to where all ways begin
    root = drawn(diamonds, {"p": ["first"]}, "h0")
    columns = sorted({x for x, *_ in boxes(root, "host")})
    assert len(columns) == 2 + 2 * 60
    assert len(boxes(root, "host")) == 2 + 61 + 2 * 60
    chain = {"first": ("a", "h0")} | {f"l{i}": (f"h{i}", f"h{i + 1}") for i in range(1500)}
    chain["beside"] = ("b", "h0")
    chain["back"] = ("h1500", "a")  # a ring does not turn the drawing around
    root = drawn(chain, {"p": ["first"]}, "h0")
    assert len({x for x, *_ in boxes(root, "host")}) == 1502


def test_scalars_that_say_how_good_a_cell_is(folder: Path, tmp_path: Path) -> None:
    assert report.write(folder, tmp_path / "mos.html").metrics == ["call.mos"]
    both = ["call.loss_percent", "call.s2"]
    assert report.write(folder, tmp_path / "two.html", both).metrics == both
    page = (tmp_path / "two.html").read_text(encoding="utf-8")
    assert re.search('class="finding">.* from it after .* replications', page)  # less is better
    assert "call.s2 is highest with" in page  # nobody knows
    assert "call.mos" not in re.sub(r"<details>.*</details>", "", page, flags=re.DOTALL)


def test_scalars_without_any_value_are_left_out(folder: Path, tmp_path: Path) -> None:
    """Such as those of cells that only an earlier definition has."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    for path in list((copy / "rows").iterdir()):
        rows = pl.read_parquet(path).rename({"call.mos": "call.goodput_kbit_per_s"})
        path.unlink()
        shard_files.write(copy / "rows", rows.with_columns(pl.lit(math.nan).alias("call.mos")))
    assert report.write(copy, tmp_path / "page.html").metrics == ["call.goodput_kbit_per_s"]
    assert report.write(copy, tmp_path / "page.html", ["call.mos"]).metrics == ["call.mos"]
    assert "No run has a value of call.mos." in (tmp_path / "page.html").read_text(encoding="utf-8")
    few = {f"a{i}.mos": pl.lit(math.nan) for i in range(5)} | {f"b{i}.mos": 4.0 for i in range(5)}
    for path in list((copy / "rows").iterdir()):
        rows = pl.read_parquet(path).with_columns(**few)
        path.unlink()
        shard_files.write(copy / "rows", rows)
    assert report.write(copy, tmp_path / "page.html").metrics == [f"b{i}.mos" for i in range(4)]


def test_the_table_has_the_cells_means(folder: Path, tmp_path: Path) -> None:
    report.write(folder, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    lines = re.findall(r'<tr class="[^"]*"><td>(.*?)</td></tr>', page)
    found = {}
    for line in lines:
        *_, mean, half_width, _, _, n, cell = line.split("</td><td>")
        found[int(cell)] = (float(mean), float(half_width), int(n))
    known = {row[0]: row[-3:] for row in Study(folder).cells("call.mos").rows()}
    assert set(found) == set(known)
    for cell, (mean, half_width, n) in found.items():
        assert mean == pytest.approx(known[cell][0], abs=0.005)
        assert half_width == pytest.approx(known[cell][1], abs=0.005)
        assert n == known[cell][2]
    assert "is not finished" not in page


def test_a_study_of_many_cells_has_short_tables(tmp_path: Path) -> None:
    write_study(tmp_path / "study", {"delay": 10, "loss": 10, "rto_max": 5}, 3, 2)
    report.write(tmp_path / "study", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "The first 25 and the last 5 of 500 cells" in page
    assert page.count("<tr class=") == 30
    assert "anabranch query" in page


def test_what_was_asked_for_and_is_missing_is_said(sweep_file: Path, tmp_path: Path) -> None:
    def said(study: Study, rows: int) -> str:
        study.run()
        out = tmp_path / "out"
        for path in (out / "rows").glob("*.parquet"):
            kept = pl.read_parquet(path).sort("replication").head(rows)
            path.unlink()
            shard_files.write(out / "rows", kept)
        report.write(out, tmp_path / "report.html")
        return (tmp_path / "report.html").read_text(encoding="utf-8")

    page = said(Study(sweep_file, tmp_path / "out", replications=2), 99)
    assert "Asked for: 12 runs, 2 of each cell; the scenario itself asks for 36." in page
    assert "not finished" not in page
    page = said(Study(sweep_file, tmp_path / "out", replications=2), 4)
    assert "4 simulated runs of 4 of 6 cells, 1 replication each" in page
    assert "not finished: 8 of the runs asked for are missing" in page
    page = said(Study(sweep_file, tmp_path / "out"), 35)
    assert "Asked for" not in page
    assert "not finished: 1 of the runs asked for is missing" in page


def test_what_was_asked_of_some_cells_is_said(tmp_path: Path) -> None:
    """The axes that papers use whose quick study has only the cells that carry the claims."""
    few = studies.Work(
        name="few",
        title="few",
        scenario=package.load(SWEEP),
        replications=lambda key: 2 if key["pmr"] else 0,
        columns=("call.mos",),
    )
    studies.compute(few, tmp_path, studies.simulated(2), lambda _: None)
    report.write(tmp_path / "studies" / "few", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Asked for: 6 runs, 0 to 2 of each cell; the scenario itself asks for 36." in page
    assert "6 simulated runs of 3 of 6 cells" in page
    assert "not finished" not in page
    identity = tmp_path / "studies" / "few" / "study.json"
    identity.write_text(identity.read_text().replace('"replications": [', '"replications": [7, '))
    with pytest.raises(AnabranchError, match=r"damaged \(its `replications` is \[7, 0"):
        report.write(tmp_path / "studies" / "few", tmp_path / "report.html")


def test_a_stopping_rule_is_said(tmp_path: Path) -> None:
    text = CALL + (
        "[sweep]\nreplications = 2\n"
        'until = { metric = "call.mos", half_width = 0.5, least = 3, most = 6 }\n'
    )
    Study(text, tmp_path / "out").run()
    report.write(tmp_path / "out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<code>call.mos</code> was ± 0.5, from 3 to 6 times" in page
    assert "is not finished" not in page
    # A number of replications overrules it.
    Study(text, tmp_path / "fixed", replications=2).run()
    report.write(tmp_path / "fixed", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "2 of each cell; the scenario itself asks for at least 3." in page
    assert "cell was repeated until" not in page


def test_sub_studies_have_sections_of_their_own(tmp_path: Path) -> None:
    text = CALL + (
        "[sweep]\nreplications = 2\n"
        "[sweep.studies.timers.axes]\n"
        'rto_max = { set = "flows.call.transport.rto_max", values = ["1 s", "0.1 s"] }\n'
        "[sweep.studies.network.axes]\n"
        'loss = { set = "links.first.loss.mean_loss", values = ["1 %", "5 %"] }\n'
    )
    Study(text, tmp_path / "out").run()
    report.write(tmp_path / "out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", page) == [
        "What was run",
        "call.mos in timers",
        "call.mos in network",
        "A cell in the lab",
        "Provenance",
    ]
    assert re.search(r"In network: loss = [15] % has the best mean of call.mos: ", page)
    assert re.search(r"loss = [15] % cannot be told from it after 2 replications", page)


def test_a_study_of_one_run(tmp_path: Path) -> None:
    Study(CALL, tmp_path / "out").run()
    report.write(tmp_path / "out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "1 simulated run of 1 cell" in page
    assert page.count("<svg") == 1


def test_the_command(folder: Path, tmp_path: Path, anabranch: Command) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    done = anabranch("report", copy)
    assert done.returncode == 0, done.stderr
    assert f"wrote {copy / 'report.html'}: call.mos" in done.stdout
    assert (copy / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "is not a study folder" in one_error(anabranch("report", tmp_path))
    assert "a folder, not a file" in one_error(anabranch("report", copy, "--out", copy))


def test_mistakes_are_one_sentence(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    with pytest.raises(AnabranchError, match=r"no scalar `call.moss`; did you mean `call.mos`"):
        report.write(copy, tmp_path / "report.html", ["call.moss"])
    for shard in (copy / "rows").iterdir():
        shard.unlink()
    with pytest.raises(AnabranchError, match="copy has no rows yet: `anabranch sweep` computes"):
        report.write(copy, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("replications", [2, None])
def test_the_commands_of_a_report_make_it_again(
    replications: int | None,
    tmp_path: Path,
    anabranch: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    parts = (
        "[sweep.studies.less]\nreplications = 2\n"
        "axes.pmr = { set = 'flows.call.transport.path_max_retrans', values = [1, 2] }\n"
    )
    Study(written(Path("parts.toml"), SWEEP + parts), "study", replications=replications).run()
    report.write(Path("study"), Path("report.html"))
    page = Path("report.html").read_text(encoding="utf-8")
    [commands] = re.findall(r"<pre[^>]*>(anabranch .*?)</pre>", page, re.DOTALL)
    sweep, again = (command.split()[1:] for command in commands.strip().splitlines())
    assert anabranch(*sweep).returncode == 0
    assert Study("NEW").frame().equals(Study("study").frame())
    assert anabranch(*again).returncode == 0


def test_figures_of_pages_keep_their_ids_apart(folder: Path, tmp_path: Path) -> None:
    report.write(folder, tmp_path / "report.html", ["call.mos", "call.loss_percent"])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    targets = set(re.findall(r'href="#([^"]+)"', page)) | set(re.findall(r"url\(#([^)]+)\)", page))
    assert targets <= set(ids)


def test_a_part_with_one_cell_a_value_is_ranked_as_a_whole(tmp_path: Path) -> None:
    two = 'loss = { set = "links.first.loss.mean_loss", values = ["1 %", "9 %"] }\n'
    points = """
[sweep.studies.points]
replications = 2
design = { kind = "latin_hypercube", points = 64 }

[sweep.studies.points.axes]
loss = { set = "links.first.loss.mean_loss", range = { from = "1 %", to = "9 %" } }
pmr = { set = "flows.call.transport.path_max_retrans", range = { from = 1, to = 3 } }
"""
    study, out = tmp_path / "study", tmp_path / "report.html"
    Study(written(tmp_path / "parts.toml", SWEEP + two + points), study).run()
    report.write(study, out, ["call.mos"], per=["loss"])
    assert out.read_text(encoding="utf-8").count("Best for each loss") == 1


def test_the_best_cells_of_each_value_of_an_axis(folder: Path, tmp_path: Path) -> None:
    report.write(folder, tmp_path / "report.html", per=["loss"])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    # The model: the longest delay is best at every loss, pmr does nothing.
    assert re.search(
        r'class="finding">delay = 4 ms, pmr = [12] may be best in call.mos, or within 0.1 of the'
        r" best, at each of 3 values of loss; 1 other choice may be as well\.<",
        page,
    )
    tables = re.findall(r"<caption><span><b>(.*?)</b>: (\d) of 8 (.*?)</table>", page, re.S)
    assert [title for title, *_ in tables] == ["loss = 1 %", "loss = 2 %", "loss = 3 %"]
    known = Study(folder).best_set("call.mos", per=["loss"])
    for (_, count, table), ranking in zip(tables, known.partition_by("loss"), strict=True):
        lines = re.findall(r'<tr class="(.*?)"><td>(.*?)</td></tr>', table)
        cells = [line.split("</td><td>") for _, line in lines]
        first = ranking.head(5)
        good = ranking["verdict"].is_in(["best", "equal"])
        assert int(count) == good.sum()
        marked = ranking["verdict"].head(5) != "worse"
        assert [kind == "best" for kind, _ in lines] == marked.to_list()
        assert [float(cell[3]) for cell in cells] == pytest.approx(first["mean"], abs=0.005)
        assert [float(c[5]) for c in cells[1:]] == pytest.approx(first["behind"][1:], abs=0.006)
        assert [cell[1] for cell in cells] == [f"{1e3 * delay:g} ms" for delay in first["delay"]]
    assert "--per loss" in page
    report.write(folder, tmp_path / "without.html")
    assert "Best for each" not in (tmp_path / "without.html").read_text(encoding="utf-8")


def cells_with(rows: pl.DataFrame) -> pl.DataFrame:
    """The cells of `rows_of`."""
    return rows.drop("replication", cs.contains(".")).unique(maintain_order=True)


def finding(
    values: list[float], per: list[str], metric: str = "call.mos", matters: Matters | None = None
) -> str:
    """The finding on cells with loss 1 and 2, each with rto 1 and 2, with these means."""
    noise = np.random.default_rng(1).normal(0, 0.01, (4, 10))
    axes = {"loss": [1, 1, 2, 2], "rto": [1, 2, 1, 2]}
    rows = rows_of(np.array(values)[:, np.newaxis] + noise, axes).rename({"call.mos": metric})
    division = divisions(cells_with(rows), per)[None]
    return Environments.of(rows, Analysis(rows, metric, {}, matters=matters), division).finding


def test_which_choice_is_best_everywhere_is_said() -> None:
    nan = math.nan
    assert finding([1, 2, 3, 4], ["loss"]) == (
        "call.mos is best with rto = 2 at each of 2 values of loss."
    )
    assert finding([1, 2, 4, 3], ["loss"]) == (
        "No choice is best in call.mos at each of 2 values of loss: it depends on loss."
    )
    assert finding([2, 2, 3, 4], ["loss"]) == (
        "call.mos is best, or within 0.1 of the best, with rto = 2 at each of 2 values of loss."
    )
    assert finding([2, 2, 3, 3], ["loss"]).endswith("of loss; so it is with 1 other choice.")
    assert finding([2, 2, 3, 4], ["loss"], matters=NOTHING) == (
        "rto = 2 may be best in call.mos at each of 2 values of loss; no other choice may be."
    )
    assert finding([1, 2, 3, 4], ["loss"], "call.loss_percent") == (
        "call.loss_percent is best with rto = 1 at each of 2 values of loss."
    )
    assert finding([1, 2, nan, nan], ["loss"]) == "call.mos is best with rto = 2 at loss = 1."
    assert finding([nan] * 4, ["loss"]) == "No run has a value of call.mos."
    assert finding([1, 2, 3, 4], ["loss"], "call.s2") == (
        "Whether more of call.s2 is better is not known, so none is best."
    )


def test_tables_of_values_have_the_same_columns(tmp_path: Path) -> None:
    """Also where a condition leaves one value of an axis, and without axes of `per`."""
    text = CALL + (
        '[sweep]\nreplications = 2\nzip = [["loss", "bad"]]\n'
        "where = ['loss < 4 % or rto_max < 0.5 s']\n"
        "[sweep.axes]\n"
        'loss = { set = "links.first.loss.mean_loss", values = ["1 %", "5 %"] }\n'
        'bad = { set = "links.first.loss.mean_bad", values = ["30 ms", "60 ms"] }\n'
        'rto_max = { set = "flows.call.transport.rto_max", values = ["1 s", "0.1 s"] }\n'
        'pmr = { set = "flows.call.transport.path_max_retrans", values = [0, 1] }\n'
    )
    Study(text, tmp_path / "out").run()
    report.write(tmp_path / "out", tmp_path / "report.html", per=["loss"])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    tables = re.findall(r"<b>loss = [15] %</b>.*?</thead>", page, re.S)
    heads = [re.findall(r'<th scope="col">(.*?)</th>', table) for table in tables]
    assert heads == [["rank", "rto_max", "pmr", "mean", "±", "behind", "±"]] * 2
    assert "rto_max = " in re.findall(r'class="finding">(.*?)<', page)[0]


def test_a_choice_that_has_no_value_everywhere_is_best_nowhere() -> None:
    """As with a condition that leaves cells out."""
    values = np.random.default_rng(1).normal(0, 1, (4, 5)) + np.array([[3], [2], [1], [0]])
    rows = rows_of(values, {"loss": [1, 1, 2, 2], "rto": [1, 2, 1, 3]})

    def said(rows: pl.DataFrame) -> str:
        division = divisions(cells_with(rows), ["loss"])[None]
        return Environments.of(rows, Analysis(rows, "call.mos", {}), division).finding

    assert "rto = 1" in said(rows)
    without = rows.filter(pl.col("cell") != 2)
    assert said(without) == "No choice has a value of call.mos at each of 2 values of loss."


def test_only_sub_studies_that_leave_a_choice_are_divided() -> None:
    def cells(study: str, **axes: list[Any]) -> pl.DataFrame:
        return pl.DataFrame({"study": study, **axes})

    grid = cells("grid", loss=[1, 1, 2, 2], burst=[5, 5, 9, 9], rto=[1, 2, 1, 2])
    parts = [
        grid,
        cells("without", rto=[1, 2, 3]),
        cells("alone", loss=[1, 2, 3]),
        cells("points", loss=[1.1, 1.2, 1.3], rto=[1, 2, 3]),
        cells("some", loss=[None, None, 1], rto=[1, 2, 3]),
        cells("many", loss=list(range(61)) * 2, rto=[1] * 61 + [2] * 61),
    ]

    def of(parts: list[pl.DataFrame], *per: str) -> dict[Any, Any]:
        cells = pl.concat(parts, how="diagonal_relaxed").with_row_index("cell")
        return {
            name: (division.per, division.choice, division.combinations)
            for name, division in divisions(cells, per).items()
        }

    some = (["loss"], ["rto"], 2)
    assert of(parts, "loss") == {"grid": some, "some": some}
    assert of(parts, "burst") == {"grid": (["burst"], ["rto"], 2)}
    both = (["loss", "burst"], ["rto"], 2)
    assert of([grid.drop("study")], "burst", "loss") == {None: both}
    assert of(parts) == {}
    with pytest.raises(AnabranchError, match="there are 61 values of loss: a report has the best"):
        of(parts[-1:], "loss")
    for per in (["loss", "rto"], ["rto", "burst"], ["loss", "burst", "rto"]):
        with pytest.raises(AnabranchError, match=f"one cell for each {' and '.join(per)}: none is"):
            of(parts[:4], *per)


def test_mistakes_about_axes_are_one_sentence(folder: Path, anabranch: Command) -> None:
    said = one_error(anabranch("report", folder, "--per", "los"))
    assert said == "anabranch: error: there is no axis `los`: the axes are delay, loss, pmr"
    every = [word for axis in SIZES for word in ("--per", axis)]
    said = one_error(anabranch("report", folder, *every))
    assert said.endswith("one cell for each delay and loss and pmr: none is left to choose")


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
