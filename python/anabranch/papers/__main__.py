"""`python -m anabranch.papers PAPER RECORD [OUT]`: the long validation, its golden record."""

import os
import sys
from pathlib import Path

from . import load

name, record = sys.argv[1], Path(sys.argv[2])
out = Path(sys.argv[3] if len(sys.argv) > 3 else f"results/{name}-validation")
paper = load(name)
found = paper.compute("validate", paper.efforts["validate"], out, os.cpu_count() or 1)
record.write_text(paper.record(found), encoding="utf-8")
print(f"wrote {record}")
