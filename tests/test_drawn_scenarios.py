"""Drawings of scenarios."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import anabranch as package
from anabranch.figures.diagram import Diagram
from conftest import SCENARIOS

SVG = "{http://www.w3.org/2000/svg}"


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
