"""`python -m anabranch.papers.tcp_wimax RECORD [OUT]`: the long validation, its golden record."""

import os
import sys
from pathlib import Path

from . import compute, document
from .studies import EFFORTS

record = Path(sys.argv[1])
out = Path(sys.argv[2] if len(sys.argv) > 2 else "results/tcp-wimax-validation")
document.write(compute("validate", EFFORTS["validate"], out, os.cpu_count() or 1), record)
print(f"wrote {record}")
