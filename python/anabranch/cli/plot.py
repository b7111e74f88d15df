"""`anabranch plot`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import anabranch
from anabranch.support import terminal
from anabranch.support.files import check_file

from .app import STUDY, Formats, Texts, app, pairs


@app.command(
    group=STUDY,
    sort_key=3,
    help_epilogue="""\
Examples:
  anabranch plot results/rto
  anabranch plot results/rto --metric call.mos --x rto_max --by pmr
  anabranch plot results/rto --formats pdf,pgf --width 84mm --font serif
  anabranch plot results/rto --where 'rto_max<=1 s' --where pmr=0 --where pmr=1
  anabranch plot results/rto --label call.mos=MOS --label 'rto_max=RTO.Max (s)'""",
)
def plot(
    folder: Path,
    /,
    *,
    metric: str | None = None,
    x: str | None = None,
    by: str | None = None,
    panels: str | None = None,
    where: Texts = (),
    out: Path | None = None,
    formats: Formats = ("pdf", "svg"),
    width: str | None = None,
    height: str | None = None,
    font: str | None = None,
    font_size: Annotated[float | None, Parameter(name="--font-size")] = None,
    style: Texts = (),
    label: Texts = (),
) -> None:
    """Draw a scalar of a study against an axis, as a figure for a publication.

    Points are means, bars are 95 % intervals. An axis whose values were swept in
    ratios is logarithmic. Matplotlib's settings of yours hold: a matplotlibrc, and
    what --style names. The numbers lie beside the figure, as CSV and Parquet, and
    the last line is a caption.

    Parameters
    ----------
    folder
        A study folder, as `sweep --out` makes it.
    metric
        The scalar; the first MOS or goodput if not given.
    x
        The axis to draw it against; the one with the most numbers if not given.
    by
        The axis whose values have a line each; another one if not given.
    panels
        The axis whose values have a panel each; a third one if not given.
    where
        Draw only these cells: AXIS=VALUE, or with <, <=, >, >= or !=; in units as in the scenario.
        May be given several times; values that an axis equals are alternatives. study=NAME is one
        of several sub-studies.
    out
        The files' path without its ending, in a folder that is made; plots/METRIC in the study
        folder if not given.
    formats
        One or more of png, svg, pdf and pgf (for LaTeX; none is needed here), such as pdf,svg;
        these two if not given.
    width
        Such as 84mm, 3.3in or 240pt; 160mm if not given.
    height
        Such as 60mm; what suits the width if not given.
    font
        A family, serif or sans-serif, or a font's name.
    font_size
        In points; 9 if not given.
    style
        A style sheet of Matplotlib's: its name or a file; may be given several times.
    label
        NAME=TEXT: words for the scalar or an axis in the figure; may be given several times. A unit
        in brackets at the end, as in RTO.Max (s), is the one that its values get.
    """
    from anabranch import store
    from anabranch.figures import plots, study_plot
    from anabranch.studies import watch

    store.read_identity(folder)
    study = anabranch.Study(folder)
    metric = metric or watch.usual_of(folder)
    target = folder / "plots" / metric.replace(".", "-") if out is None else out
    files = [target.with_name(f"{target.name}.{kind}") for kind in (*formats, "csv", "parquet")]
    if out is not None:
        for file in files:
            check_file(file, made=out.parent)
    looks = study_plot.Looks(width, height, font, font_size, pairs(label, "--label NAME=TEXT"))
    with plots.sheets(style):
        picture = study_plot.chosen(study, metric, x, by, panels, where)
        figure = study_plot.drawn(picture, looks)
        for path in study_plot.written(picture, figure, target, formats):
            terminal.say(f"wrote {path}")
    terminal.say(study_plot.caption(picture))
