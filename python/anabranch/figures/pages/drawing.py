"""The figures of a page, as files and as SVG within the page."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from anabranch.figures import pages, plots
from anabranch.support import progress


def draw(
    figures: Mapping[str, Callable[[], Figure]],
    folder: Path,
    formats: Sequence[str] = plots.FORMATS,
) -> dict[str, str]:
    """Writes the figures as files of these formats; gives each as SVG for the page."""
    drawn = {}
    with progress.steps("figures", len(figures), "figures") as step:
        for name, make in figures.items():
            figure = make()
            with plots.laid_out(figure):
                plots.save(figure, folder / name, formats)
                drawn[name] = pages.responsive(figure, name)
            step()
    return drawn
