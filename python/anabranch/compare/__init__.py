"""Two studies or runs of one scenario side by side, whatever made them: the command `compare A B`.

`sides` finds the runs, `outcome` compares them scalar by scalar, `overlays` lays their traces over
each other, `page` makes a page of both. Two settings within one study are compared, in one scalar
at a time, by `Study.compare` and `anabranch compare DIR --a --b`.
"""

from .outcome import Cell, SideBySide, compare
from .sides import Side, side

__all__ = ["Cell", "Side", "SideBySide", "compare", "side"]
