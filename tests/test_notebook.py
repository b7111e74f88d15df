"""How Python and notebooks show runs, studies and comparisons."""

import copy
import pickle
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
    assert "call.sctp.a.t3_expiries" in page
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
    assert "<table" not in fresh._repr_html_()


def test_a_study_draws_a_scalar(study: Study) -> None:
    figure = study.plot("call.mos")
    assert figure.axes[0].get_xlabel() == "rto_max"
    assert any("pmr" in text.get_text() for text in figure.axes[0].texts)
    assert study.plot("call.mos", "pmr").axes[0].get_xlabel() == "pmr"
    with pytest.raises(AnabranchError, match="x: there is no axis `nothing`"):
        study.plot("call.mos", "nothing")


def test_a_comparison_shows_its_sentence(study: Study) -> None:
    found = study.compare({"pmr": 0}, {"pmr": 1}, "call.mos")
    assert repr(found).startswith(found.sentence)
    assert found._repr_html_().startswith("<p>")
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
    "metric": (lambda: explain.explain(CALL, metric="moss", alone=False), "metric: there is no"),
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
