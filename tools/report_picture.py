"""`python tools/report_picture.py docs/report.png` draws the picture of `docs/report.md`.

It is the report of `scenarios/rto-sweep.toml`: its beginning in the light, its figures in the dark.
It needs a Chromium that Playwright can drive, and takes some seconds.
"""

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

_ROOT = Path(__file__).parents[1]
_SIZE = (600, 1155)
_BEGINS = {"light": "", "dark": "What each axis does"}
"""The heading that each half begins with; none for the beginning of the page."""


def main() -> None:
    """Runs the sweep, writes its report, and takes both halves."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        for words in (
            ["sweep", str(_ROOT / "scenarios/rto-sweep.toml"), "--out", "results/rto"],
            ["report", "results/rto"],
        ):
            subprocess.run(
                [sys.executable, "-m", "anabranch", *words],
                cwd=folder,
                check=True,
                stdout=subprocess.DEVNULL,
            )
        known = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=known, args=["--no-sandbox"])
        picture = Image.new("RGB", (2 * _SIZE[0], _SIZE[1]))
        for place, (theme, heading) in enumerate(_BEGINS.items()):
            page = browser.new_page(viewport={"width": _SIZE[0], "height": _SIZE[1]})
            page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
            page.goto((Path(folder) / "results/rto/report.html").as_uri())
            if heading:
                page.get_by_role("heading", name=heading).evaluate("one => one.scrollIntoView()")
            half = Image.open(io.BytesIO(page.screenshot()))
            picture.paste(half, (place * _SIZE[0], 0))
        browser.close()
        picture.quantize(128).save(Path(sys.argv[1]), optimize=True)


if __name__ == "__main__":
    main()
