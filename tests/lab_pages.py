"""The page of the lab as tests have it: built, served, opened, and complaining of nothing."""

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from anabranch import lab
from anabranch.errors import AnabranchError
from conftest import ROOT

AXE = ROOT / "lab/node_modules/axe-core/axe.min.js"
WHOLE = "ANABRANCH_LAB_WHOLE" in os.environ

try:
    lab.files()
    IS_BUILT = True
except AnabranchError:
    IS_BUILT = False


def is_outdated() -> bool:
    """Whether the page was built before its sources changed: then it lacks what is tested here."""
    built = ROOT / "python/anabranch/lab/static/lab.js"
    sources = (ROOT / "lab/src").rglob("*.*")
    return any(file.stat().st_mtime > built.stat().st_mtime for file in sources)


needs_page = pytest.mark.skipif(
    not IS_BUILT or is_outdated(), reason="needs the page of the lab, as it is now: make lab"
)


class Page:
    """A page of the lab, which must complain of nothing."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", lambda message: self._heard(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _heard(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.complaints.append(text)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        # Playwright's own waiting evaluates text, which the page's policy forbids.
        end = time.monotonic() + 300
        while not holds():
            assert time.monotonic() < end, f"{what}: {self.complaints} {self.text('run-status')}"
            time.sleep(0.05)

    def text(self, name: str) -> str:
        text: str = self.page.inner_text(f"#{name}")
        return text

    def has_run(self) -> None:
        self.until(lambda: "packets in" in self.text("run-status"), "it has not run")

    def picture(self, name: str) -> str:
        script = "name => document.getElementById(name).toDataURL()"
        picture: str = self.page.evaluate(script, name)
        return picture

    def colours(self, left: float, right: float) -> list[list[float]]:
        """Where the stage has the colour of the first path, between two parts of its width."""
        found: list[list[float]] = self.page.evaluate(
            """([left, right]) => {
                const canvas = document.querySelector("#stage canvas");
                const style = getComputedStyle(document.documentElement);
                const hex = style.getPropertyValue("--blue").trim().slice(1);
                const ink = [0, 2, 4].map(at => parseInt(hex.slice(at, at + 2), 16));
                const { width, height } = canvas;
                const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
                const ratio = width / canvas.clientWidth;
                const places = [];
                for (let y = 0; y < height; y++)
                    for (let x = Math.floor(left * width); x < right * width; x++) {
                        const at = 4 * (y * width + x);
                        if (pixels[at + 3] === 255 && ink.every((one, i) => pixels[at + i] === one))
                            places.push([x / ratio, y / ratio]);
                    }
                return places;
            }""",
            [left, right],
        )
        return found

    def seconds(self) -> float:
        return float(self.text("clock").removesuffix(" s"))

    def open_text(self, text: str) -> None:
        self.page.click("#tab-text")
        self.page.fill("#toml", text)
