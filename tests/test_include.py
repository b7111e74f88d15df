"""`include`: links and paths of other files, such as path profiles."""

from pathlib import Path

import pytest

import anabranch
from conftest import CALL, written


@pytest.fixture
def split(tmp_path: Path) -> Path:
    """The small call with its second link in a file of its own."""
    head, _, rest = CALL.partition("[links.second]\n")
    link, _, rest = rest.partition("[paths.p0]")
    (tmp_path / "profiles").mkdir()
    written(tmp_path / "profiles" / "second.toml", f"[links.second]\n{link}")
    text = f'include = ["profiles/second.toml"]\n{head}[paths.p0]{rest}'
    return written(tmp_path / "call.toml", text)


def test_an_included_link_is_as_one_written_here(split: Path) -> None:
    whole = anabranch.load(CALL)
    assert anabranch.load(split).hash == whole.hash
    assert repr(anabranch.run(split).summary) == repr(anabranch.run(whole).summary)  # with NaN
    slower = anabranch.load(split, {"links.second.delay": "31 ms"})
    assert slower.hash == anabranch.load(CALL, {"links.second.delay": "31 ms"}).hash != whole.hash


def test_a_mistake_in_an_included_file_names_that_file(split: Path) -> None:
    written(split.parent / "profiles" / "second.toml", '[links.second]\nends = ["a"]')
    with pytest.raises(
        anabranch.ScenarioError, match=r"include, `profiles/second.toml`: line 2: links.second.ends"
    ):
        anabranch.load(split)
