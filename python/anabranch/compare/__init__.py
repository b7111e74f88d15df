"""Two studies or runs of one scenario side by side, whatever made them: what `compare A B` does.

`sides` says where runs are found, `outcome` compares them scalar by scalar, `overlays` lays their
traces over each other, `page` makes a page of both. Two settings within one study are compared, in
one scalar at a time, by `Study.compare` and the command `difference`.
"""

from .outcome import Cell, SideBySide, compare
from .sides import Side, side

__all__ = ["Cell", "Side", "SideBySide", "compare", "side"]
