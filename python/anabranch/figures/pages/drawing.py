"""The figures of a page: files, and SVG that stands in it."""

from collections.abc import Callable, Mapping
from pathlib import Path

from matplotlib.figure import Figure

from anabranch.figures import pages, plots
from anabranch.support import progress


def draw(figures: Mapping[str, Callable[[], Figure]], folder: Path) -> dict[str, str]:
    """Draws the figures into files; gives each as SVG to stand in the page."""
    drawn = {}
    with progress.steps("figures", len(figures), "figures") as step:
        for name, make in figures.items():
            figure = make()
            with plots.laid_out(figure):
                plots.save(figure, folder / name)
                drawn[name] = pages.responsive(figure, name)
            step()
    return drawn
