"""What a reproduction found, as far as every paper has it."""

from dataclasses import dataclass
from typing import Any

from .verdicts import Finding, PublishedNumber, plain


@dataclass(frozen=True)
class PaperOutcome:
    """What terminal, page, record and JSON show of every paper."""

    mode: str
    version: str
    total_runs: int
    """Simulated runs behind all of this."""
    cells: list[PublishedNumber]
    """Every published number beside ours."""
    claims: list[Finding]
    """Every claim under each profile."""

    @property
    def is_smoke(self) -> bool:
        """Whether its numbers mean nothing, since it only shows that everything works."""
        return self.mode == "smoke"

    def as_json(self, paper: str) -> dict[str, Any]:
        """What `reproduce --json` writes."""
        return {
            "paper": paper,
            "mode": self.mode,
            "version": self.version,
            "cells": [plain(cell, "unit") for cell in self.cells],
            "claims": plain(self.claims),
        }
