"""Checks of the JSON and the page of every paper."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from anabranch.figures import plots

VERDICTS = {"enum": ["reproduced", "partly", "not_reproduced", "open"]}


def schema(paper: str, key: str, profiles: Iterable[str]) -> dict[str, Any]:
    """The schema of a paper's JSON: every cell has `key`; `profiles` are those of its claims."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["paper", "mode", "version", "cells", "claims"],
        "properties": {
            "paper": {"const": paper},
            "mode": {"enum": ["smoke", "quick", "full", "validate"]},
            "version": {"type": "string"},
            "cells": {
                "type": "array",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["table", "key", "published", "measured", "half_width", "verdict"],
                    "properties": {
                        "table": {"type": "string"},
                        "key": {"type": "object", "required": [key]},
                        "published": {"type": "number"},
                        "measured": {"type": ["number", "null"]},
                        "half_width": {"type": ["number", "null"]},
                        "verdict": VERDICTS,
                    },
                },
            },
            "claims": {
                "type": "array",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["id", "text", "profile", "verdict", "evidence"],
                    "properties": {
                        "id": {"type": "string"},
                        "text": {"type": "string"},
                        "profile": {"enum": list(profiles)},
                        "verdict": VERDICTS,
                        "evidence": {"type": "string", "minLength": 20},
                    },
                },
            },
        },
    }


QUICK = ("svg",)
"""What the tests of most papers draw beside the page: each format takes as long again. Those of
voip-sctp and the smoke run draw all of them, as do the smoke runs of `make validate`."""


def check_page(folder: Path, figures: int, formats: Sequence[str] = plots.FORMATS) -> None:
    """The page is whole, has so many figures, and needs nothing from elsewhere.

    Each figure has links to all formats; those that were drawn are there.
    """
    text = (folder / "index.html").read_text(encoding="utf-8")
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    targets = set(re.findall(r'href="#([^"]+)"', text)) | set(re.findall(r"url\(#([^)]+)\)", text))
    assert targets <= set(ids)
    links = [Path(link) for link in re.findall(r'<a href="([^"#]+)"', text)]
    for path in links:
        is_drawn = path.suffix[1:] in formats or path.suffix[1:] not in plots.FORMATS
        assert (folder / (path if is_drawn else path.with_suffix(f".{formats[0]}"))).is_file(), path
    for suffix in plots.FORMATS:
        assert sum(path.suffix == f".{suffix}" for path in links) >= figures
    assert not re.search(r'(src|href)="(https?:)?//', text.replace("http://www.w3.org", ""))
    assert text.count("<figure>") == figures
    # Wide ones once more for narrow screens, with panels stacked and heat maps in parts.
    stacked = text.count('class="plot narrow"')
    assert 0 < text.count('class="plot wide"') <= min(stacked, figures)
    assert text.count("<svg") == text.count("</svg>") == figures + stacked
    # All colours are the page's, but for text on heat maps, whose colours do not change.
    assert set(re.findall(r"(?:fill|stroke): ?(#\w+)", text)) <= {
        colour.lower() for colour in (plots.ON_DARK, plots.ON_LIGHT)
    }
    assert "nan" not in re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL).lower().split()
