"""How Python and notebooks show runs, studies and comparisons."""

import copy
import html
import pickle
import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from matplotlib.figure import Figure

import anabranch as package
from anabranch import Study, explain
from anabranch.errors import AnabranchError
from anabranch.support import progress
from conftest import CALL, SWEEP

UNTRACED = package.run(CALL)


@pytest.fixture(scope="module")
def study() -> Study:
    study = Study(SWEEP, replications=3)
    study.run()
    return study


def test_a_result_shows_what_a_person_wants() -> None:
    text = repr(UNTRACED)
    assert text.splitlines()[0].startswith("small: ")
    assert f"MOS {UNTRACED.summary['call.mos']:.2f}" in text
    page = UNTRACED._repr_html_()
    assert "call.sctp.a.timeouts" in page
    assert f"all {len(UNTRACED.summary)} scalars" in page
    assert "<pre" not in text


def test_a_result_draws_its_figures() -> None:
    result = package.run(CALL, trace=True)
    assert isinstance(result.plot(), Figure)
    assert result.plot("call-mos").axes[0].get_ylabel() == "MOS"
    with pytest.raises(AnabranchError, match="no figure `call-mso`; did you mean `call-mos`"):
        result.plot("call-mso")


def test_a_study_shows_what_is_finished(study: Study) -> None:
    fresh = Study(SWEEP, replications=3)
    assert repr(fresh) == (
        "Study small: 6 cells over rto_max, pmr; 0 of 18 runs finished; in memory"
    )
    assert "18 of 18 runs finished" in repr(study)
    assert "call.mos" in study._repr_html_()
    assert "± 95 %" in study._repr_html_()
    assert study._repr_html_().count("<svg") == 2  # means and network
    assert "± 95 %" not in fresh._repr_html_()
    assert "links.first.loss" not in fresh._repr_html_()
    assert "flows.call.transport.rto_max" in fresh._repr_html_()


def test_a_study_of_many_cells_shows_the_first_of_them() -> None:
    values = ", ".join(f'"{0.05 + i / 100:.2f} s"' for i in range(40))
    axis = f'rto = {{ set = "flows.call.transport.rto_max", values = [{values}] }}'
    study = Study(f"{CALL}\n[sweep.axes]\n{axis}\n")
    study.run()
    page = study._repr_html_()
    assert page.count("<tr>") == 1 + 24
    assert "16 more cells are in `cells(&#39;call.mos&#39;)`" in page
    assert "0.16 s and 28 more" in study.scenario._repr_html_()


def test_a_scenario_shows_its_network_and_its_sweep() -> None:
    page = package.load(SWEEP)._repr_html_()
    assert "Scenario small: 6 cells over rto_max, pmr, 6 replications each" in page
    assert "Network of small" in page
    assert '<td class="text">1 s, 0.1 s, 0.05 s</td>' in page
    assert "mean_bad = &#34;60 ms&#34;" in page
    # A drawing has the same colour for a path as the figures of a run.
    named = CALL.replace("p0", "wifi").replace("p1", "lte")
    lines = package.load(named)._repr_html_().partition('class="card"')
    assert "var(--orange)" in lines[0]
    assert "var(--blue)" in lines[2]


EVIL = "<img src=x onerror=alert(1)>&amp;"


def test_text_of_users_is_no_html() -> None:
    text = SWEEP.replace('name = "small"', f"name = {EVIL!r}\ndescription = {EVIL!r}")
    study = Study(text, replications=2)
    study.run()
    compared = study.compare({"pmr": 0}, {"pmr": 1}, "call.mos")
    object.__setattr__(compared, "names", (EVIL, "few"))
    result = package.run(study.scenario, trace=True)
    for shown in (study, study.scenario, result, compared, result.plot()):
        page = str(shown._repr_html_())
        assert "<img" not in page
        assert "&amp;amp;" in page
        assert "<script" not in page


def test_outputs_of_one_page_do_not_share_ids() -> None:
    first, second = (package.run(CALL, seed=seed, trace=True) for seed in (1, 2))
    pages = [shown._repr_html_() for shown in (first, second, first.scenario)]
    ids = [set(re.findall(r'\bid="([^"]*)"', page)) for page in pages]
    assert all(ids)
    assert not ids[0] & ids[1] - ids[2]  # the same network may be shown twice
    for page, own in zip(pages, ids, strict=True):
        used = set(re.findall(r'(?:href="|url\()#([^")]+)', page))
        assert used <= own
        assert not {name for name in own if not name.startswith("a")}


FRAMES = {
    "JupyterLab": '<body data-jp-theme-light="{light}">{page}</body>',
    "site": '<body data-theme="{theme}">{page}</body>',
    "VS Code": '<body class="vscode-{theme}">{page}</body>',
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("frame", FRAMES)
def test_all_text_can_be_read_in_light_and_dark(
    browser: Any, study: Study, frame: str, theme: str
) -> None:
    traced = package.run(CALL, trace=True)
    page = "".join(
        shown._repr_html_() for shown in (study, study.scenario, traced, Study(SWEEP))
    ).replace("<details>", "<details open>")
    # The notebook's theme counts, not that of the computer.
    tab = browser.new_page(color_scheme="light" if theme == "dark" else "dark")
    tab.set_content(
        FRAMES[frame].format(page=page, theme=theme, light=str(theme == "light").lower())
    )
    least, text = tab.evaluate(CONTRAST)
    assert least >= 4.5, text
    paper = tab.evaluate("getComputedStyle(document.querySelector('.anabranch')).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (theme == "light")
    tab.close()


CONTRAST = """() => {
  const light = colour => {
    const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(v => {
      const share = colour.startsWith('color(') ? +v : v / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (!/, 0\\)$|transparent/.test(colour)) return colour;
    }
  };
  const drawn = element => /^(text|tspan)$/.test(element.tagName);
  let worst = [99, ''];
  for (const element of document.querySelectorAll('.anabranch *')) {
    const own = [...element.childNodes].some(node => node.nodeType == 3 && node.data.trim());
    if (!own || /^(style|title|desc)$/i.test(element.tagName)) continue;
    if (element.closest('svg') && !element.closest('svg.network')) continue;
    const style = getComputedStyle(element);
    const pair = [light(drawn(element) ? style.fill : style.color), light(paper(element))];
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    if (ratio < worst[0]) worst = [ratio, `${element.tagName} ${element.textContent.slice(0, 40)}`];
  }
  return worst;
}"""


def test_a_study_draws_a_scalar(study: Study) -> None:
    figure = study.plot("call.mos")
    assert figure.axes[0].get_xlabel() == "rto_max (s)"
    assert any("pmr" in text.get_text() for text in figure.axes[0].texts)
    assert study.plot("call.mos", "pmr").axes[0].get_xlabel() == "pmr"
    with pytest.raises(AnabranchError, match="x: there is no axis `nothing`"):
        study.plot("call.mos", "nothing")


def test_a_comparison_shows_its_sentence(study: Study) -> None:
    found = study.compare({"pmr": 0}, {"pmr": 1}, "call.mos")
    assert repr(found).startswith(found.sentence)
    words = found.sentence.replace("`", "")
    assert f"<p>{html.escape(words)}</p>" in found._repr_html_()
    assert len(found.plot().axes) == 2


MISTAKES: dict[str, tuple[Any, str]] = {
    "replication": (lambda: package.run(CALL, replication=-1), "replication is -1; it must be"),
    "seed": (lambda: package.run(CALL, seed="a"), "seed is 'a'; it must be a whole number"),  # type: ignore[arg-type]
    "cell": (lambda: package.run(CALL, cell=-1), "cell is -1; it must be"),
    "scalar": (lambda: UNTRACED.summary["call.moss"], "no scalar `call.moss`; did you mean"),
    "trace": (lambda: UNTRACED.traces["frames"], "kept no traces: run it with `trace=True`"),
    "plot": (UNTRACED.plot, "kept no traces to draw: run it with `trace=True`"),
    "frame": (lambda: Study(SWEEP).frame(), "no run of the study is finished yet: call `run()`"),
    "cells": (lambda: Study(SWEEP).cells("call.mos"), "no run of the study is finished yet"),
    "traces": (lambda: Study(SWEEP).traces("frames"), "keeps no trace `frames` (it keeps none)"),
    "template": (lambda: package.load("md1-queue.toml"), "is a template of the package"),
    "metric": (lambda: explain.explain(CALL, metric="moss", alone=False), "there is no scalar"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_get_sentences_without_flags(mistake: str) -> None:
    act, words = MISTAKES[mistake]
    with pytest.raises(AnabranchError) as caught:
        act()
    assert words in str(caught.value)
    assert "--" not in str(caught.value)


def test_a_missing_name_is_a_key_error_too() -> None:
    with pytest.raises(KeyError):
        UNTRACED.summary["nothing"]
    assert UNTRACED.summary.get("nothing") is None
    for other in (copy.deepcopy(UNTRACED.summary), pickle.loads(pickle.dumps(UNTRACED.summary))):
        # NaN differs from itself.
        assert repr(other) == repr(UNTRACED.summary)
        with pytest.raises(AnabranchError, match="no scalar"):
            other["nothing"]


def test_a_notebook_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    def display(content: dict[str, str], **_: object) -> SimpleNamespace:
        shown.append(content["text/html"])
        return SimpleNamespace(update=display)

    shell = type("ZMQInteractiveShell", (), {})()
    fake = SimpleNamespace(get_ipython=lambda: shell, display=SimpleNamespace(display=display))
    assert not progress.in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", fake)
    Study(SWEEP, replications=1).run()
    assert '<progress value="0" max="6">' in shown[0]
    assert '<progress value="6" max="6">' in shown[-1]
    shown.clear()
    Study(SWEEP, replications=1).run(progress=False)
    assert shown == []
