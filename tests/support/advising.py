"""What the tests of advice share."""

from pathlib import Path

from anabranch.advise import search

SMALL = search.Effort(screened=32, first=3, last=24)


def written(folder: Path, text: str) -> Path:
    path = folder / "paths.toml"
    path.write_text(text)
    return path
