"""What all pages share: colours that everybody can tell apart, in the light and in the dark."""

import math
from itertools import combinations

import numpy as np
import pytest

from anabranch import pages, plots
from anabranch.explain import figure as explain_figure

VISIONS = {
    "all colours": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
"""What each makes of linear RGB (Machado, Oliveira and Fernandes 2009, severity 1)."""

XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
"""Of linear sRGB under D65 (IEC 61966-2-1)."""

LEAST = 15.0
"""Between two colours of series in CIELAB: Okabe and Ito's are 16 apart where they are closest."""


def linear(colour: str) -> np.ndarray:
    shares = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def lab(colour: str, vision: str) -> np.ndarray:
    """CIE 1976 L*a*b* of a colour as somebody sees it."""
    seen = np.clip(VISIONS[vision] @ linear(colour), 0, 1)
    share = XYZ @ seen / XYZ.sum(axis=1)
    f = np.where(share > 216 / 24389, np.cbrt(share), (24389 / 27 * share + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def themed(colours: dict[str, str], theme: str) -> dict[str, str]:
    """The colours of figures as a page has them in the light or in the dark."""
    return {
        name: pages.THEME[pages.INK[colour.lower()]][theme == "dark"]
        for name, colour in colours.items()
    }


SERIES = {str(i): colour for i, colour in enumerate(plots.COLOURS)} | {"quiet": plots.QUIET}
SETS = {"series": SERIES, "explain": explain_figure.COLOURS}


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("theme", ["file", "light", "dark"])
@pytest.mark.parametrize("name", SETS)
def test_series_differ_for_everybody(name: str, theme: str, vision: str) -> None:
    colours = SETS[name] if theme == "file" else themed(SETS[name], theme)
    distances = {
        (one, other): float(np.linalg.norm(lab(a, vision) - lab(b, vision)))
        for (one, a), (other, b) in combinations(colours.items(), 2)
    }
    closest = min(distances, key=distances.__getitem__)
    assert distances[closest] >= LEAST, (closest, distances[closest])


def test_simulated_blindness_leaves_grey_as_it_is() -> None:
    for matrix in VISIONS.values():
        assert matrix.sum(axis=1) == pytest.approx([1, 1, 1], abs=1e-5)
    assert lab("#ffffff", "all colours") == pytest.approx([100, 0, 0], abs=1e-3)
    # Red and green of one brightness: far apart, and nearly one for who does not see red.
    red, green = ("#c00000", "#4d6a00")
    apart = {vision: math.dist(lab(red, vision), lab(green, vision)) for vision in VISIONS}
    assert apart["all colours"] > 60
    assert apart["deuteranopia"] < 30


def test_every_colour_of_figures_has_a_twin_in_the_dark() -> None:
    used = {*plots.COLOURS, plots.ACCENT, plots.QUIET, plots.FAILED, *explain_figure.WAITING}
    used |= set(explain_figure.COLOURS.values())
    assert {colour.lower() for colour in used} <= set(pages.INK)
    assert set(pages.INK.values()) <= set(pages.THEME)
    assert all(light != dark for light, dark in pages.THEME.values())
