"""`python tools/lab_picture.py docs/lab.png` draws the picture that the README begins with.

It needs the page (`make lab`) and a Chromium that Playwright can drive.
"""

import shutil
import sys
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from anabranch import lab

_STORY = "slow-second-path"
_AT_S = 2.31
"""The window is full: data of the fast path waits for a piece that is on the slow one."""
_WAIT_S = 120.0


def main() -> None:
    """Opens the story, goes to its moment, and takes the picture."""
    with lab.serving(lab.files(), 0) as served, sync_playwright() as playwright:
        known = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=known, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 720}, color_scheme="light")
        page.goto(f"{served.address}#{_STORY}")
        end = time.monotonic() + _WAIT_S
        while "packets in" not in page.inner_text("#run-status"):
            if time.monotonic() > end:
                raise SystemExit(f"the story {_STORY} has not run within {_WAIT_S:g} s")
            time.sleep(0.1)
        page.locator("#scrub").evaluate(
            "(scrub, at) => { scrub.value = at; scrub.dispatchEvent(new Event('input')); }", _AT_S
        )
        page.wait_for_timeout(300)
        page.screenshot(path=Path(sys.argv[1]))
        browser.close()


if __name__ == "__main__":
    main()
