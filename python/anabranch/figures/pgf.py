"""Writes a figure as PGF, a picture for LaTeX documents, on a machine without TeX.

Matplotlib's own writer asks TeX how wide texts are. Here they are as wide as in the other formats,
which the layout has assumed anyway; the document's font then stands at the same places.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import matplotlib as mpl
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.backends.backend_pgf import RendererPgf
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.path import Path
from matplotlib.transforms import Affine2D

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    **{letter: f"\\{letter}" for letter in "{}$&#_"},
}
"""What stands for itself in a name, but not in TeX; Matplotlib does the same for `%` and `^`."""

_HEAD = """\
% A figure of Anabranch. The document needs \\usepackage{{pgf}} and reads it with \\input.
\\begingroup
\\makeatletter
\\begin{{pgfpicture}}
\\pgfpathrectangle{{\\pgfpointorigin}}{{\\pgfqpoint{{{width:f}in}}{{{height:f}in}}}}%
\\pgfusepath{{use as bounding box, clip}}%
"""
_FOOT = """\
\\end{pgfpicture}
\\makeatother
\\endgroup
"""


class _Renderer(RendererPgf):
    def __init__(self, figure: Figure, file: Any) -> None:
        super().__init__(figure, file)  # type: ignore[no-untyped-call]
        self._measure: Any = RendererAgg(1, 1, figure.dpi)  # type: ignore[no-untyped-call]

    def draw_text(  # noqa: PLR0917 - as Matplotlib calls it
        self,
        gc: Any,
        x: float,
        y: float,
        s: str,
        prop: Any,
        angle: float,
        ismath: Any = False,  # noqa: FBT002 - as Matplotlib calls it
        mtext: Any = None,
    ) -> None:
        text = "".join(_SPECIAL.get(letter, letter) for letter in s)
        with mpl.rc_context({"pgf.rcfonts": False}):  # the document's fonts
            draw: Any = super().draw_text
            draw(gc, x, y, text, prop, angle, ismath, mtext)

    def option_scale_image(self) -> bool:
        return True

    def draw_image(self, gc: Any, x: float, y: float, im: Any, transform: Any = None) -> None:
        """Draws the cells of a heat map as rectangles: PGF has no images."""
        height, width = im.shape[:2]
        draw: Any = self.draw_path
        of_cell = Affine2D().scale(1 / width, 1 / height) + transform + Affine2D().translate(x, y)
        outline = self.new_gc()
        outline.copy_properties(gc)
        outline.set_linewidth(0)
        for (row, column), (red, green, blue, alpha) in _pixels(im):
            place = Affine2D().translate(column, row) + of_cell
            draw(outline, Path.unit_rectangle(), place, (red, green, blue, alpha))

    def get_text_width_height_descent(
        self, s: str, prop: Any, ismath: Any
    ) -> tuple[float, float, float]:
        size: tuple[float, float, float]
        size = self._measure.get_text_width_height_descent(s, prop, ismath)
        return size


def _pixels(image: Any) -> Iterator[tuple[tuple[int, int], tuple[float, ...]]]:
    for row, line in enumerate(image):
        for column, pixel in enumerate(line):
            yield (row, column), tuple(float(part) / 255 for part in pixel)


def write(figure: Figure, file: BinaryIO) -> None:
    """Writes a figure that has been laid out.

    Fonts are those of the document; only sizes and families (serif, sans serif) are kept.
    """
    width, height = figure.get_size_inches()
    text = io.StringIO()
    text.write(_HEAD.format(width=width, height=height))
    with _unsampled(figure):
        figure.draw(_Renderer(figure, text))
    text.write(_FOOT)
    file.write(text.getvalue().encode())


@contextmanager
def _unsampled(figure: Figure) -> Iterator[None]:
    """Within this context images come to the writer as they are, a pixel for each cell."""
    images = figure.findobj(AxesImage)
    before = [image.get_interpolation() for image in images]
    for image in images:
        image.set_interpolation("none")
    try:
        yield
    finally:
        for image, name in zip(images, before, strict=True):
            image.set_interpolation(name)
