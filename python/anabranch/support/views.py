"""The interface through which results are shown in notebooks and drawn by modules further up.

Scenarios, results and comparisons are below the figures and do not import them. The package itself
registers the module that draws; it is loaded when something is first shown.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Views(Protocol):
    """The module that draws: `anabranch.figures.notebook`."""

    def of_result(self, result: Any) -> str:
        """A run as HTML."""

    def figure(self, result: Any, name: str | None) -> "Figure":
        """One of a run's figures."""

    def of_study(self, study: Any) -> str:
        """A study as HTML."""

    def of_scenario(self, scenario: Any) -> str:
        """A scenario as HTML."""

    def of_comparison(self, compared: Any) -> str:
        """A comparison as HTML."""

    def of_figure(self, figure: "Figure") -> str:
        """A figure as HTML, in the colours of the notebook's theme."""

    def figure_of_study(
        self, study: Any, metric: str, x: str | None, by: str | None, **looks: Any
    ) -> "Figure":
        """A scalar against an axis."""

    def figure_of_comparison(self, compared: Any) -> "Figure":
        """Both means and their difference."""


_modules: list[str] = []


def drawn_by(module: str) -> None:
    """Registers the module that draws, by its full name."""
    _modules[:] = [module]


def views() -> Views:
    """The module that draws."""
    return cast("Views", import_module(_modules[0]))
