"""Every story of the lab, by keys alone and at every size: what is read, reached and told apart."""

from collections.abc import Iterator
from typing import Any

import pytest

from anabranch import lab
from conftest import ROOT
from lab_pages import Page, needs_page

MEASURES = (ROOT / "tests/lab_measures.js").read_text("utf-8")
SIZES = [(360, 740), (1280, 720), (1920, 1080)]
THEMES = ["light", "dark"]
MOST_TABS = 120
"""Of one page: more would be no way for anybody."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with lab.serving(lab.files(), 0) as found:
        yield found.address


@pytest.fixture(scope="module")
def measured(browser: Any, address: str) -> Iterator[Page]:
    context = browser.new_context(reduced_motion="reduce")
    page = Page(context.new_page())
    page.page.add_init_script(MEASURES)
    page.page.goto(address)
    page.has_run()
    yield page
    context.close()
    assert page.complaints == []


def told(page: Page, story: str) -> None:
    """The page tells the story, from the address alone."""
    if page.page.input_value("#story") != story:
        page.page.evaluate("document.getElementById('run-status').textContent = ''")
        page.page.evaluate("story => { location.hash = '#' + story }", story)
    page.has_run()
    assert page.page.input_value("#story") == story


STORIES = [
    "dead-path",
    "bufferbloat",
    "game-and-download",
    "train",
    "lifo-codel",
    "slow-second-path",
    "leaving-home",
    "unnoticed-handover",
    "measured-handover",
    "shared-bottleneck",
    "frozen-loss-clock",
    "slow-start",
    "fading-radio",
]


@needs_page
@pytest.mark.parametrize("story", STORIES)
def test_a_story_is_whole_at_every_size(measured: Page, story: str) -> None:
    page = measured
    told(page, story)
    wrong: list[str] = []
    for width, height in SIZES:
        page.page.set_viewport_size({"width": width, "height": height})
        for theme in THEMES:
            page.page.emulate_media(color_scheme=theme)
            # Two pictures later everything has been drawn anew; a key makes the focus visible.
            page.page.evaluate(
                "() => new Promise(done => requestAnimationFrame("
                "() => requestAnimationFrame(() => setTimeout(done, 30))))"
            )
            page.page.keyboard.press("Shift")
            for tab in ("story", "compare", "settings", "text"):
                page.page.locator(f"#tab-{tab}").dispatch_event("click")
                found = page.page.evaluate("measured.page()")
                wrong += [f"{width}, {theme}, {tab}: {one}" for one in found]
            page.page.locator("#tab-story").dispatch_event("click")
        if width >= 1280:
            # The network is what one sees first, and the plots without scrolling.
            bottom = page.page.evaluate("measured.bottom()")
            if bottom > height:
                wrong.append(f"{width}: the plots end at {bottom} px of {height}")
    assert wrong == []


def focused(page: Page) -> str:
    script = "() => document.activeElement.id || document.activeElement.textContent.trim()"
    name: str = page.page.evaluate(script)
    return name


def tab_to(page: Page, name: str) -> None:
    """Presses Tab until something has the focus."""
    for _ in range(MOST_TABS):
        if focused(page) == name:
            return
        page.page.keyboard.press("Tab")
    pytest.fail(f"Tab does not lead to {name}")


@needs_page
def test_all_stories_are_played_by_keys_alone(browser: Any, address: str) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    page = Page(context.new_page())
    page.page.goto(address)
    page.has_run()
    keys = page.page.keyboard
    for number, story in enumerate(STORIES):
        page.page.evaluate("document.activeElement.blur(); getSelection().removeAllRanges()")
        page.page.locator("h1").evaluate(
            "title => { title.tabIndex = -1; title.focus(); title.removeAttribute('tabindex') }"
        )
        tab_to(page, "story")
        if number:
            page.page.evaluate("document.getElementById('run-status').textContent = ''")
            keys.press("ArrowDown")
            page.has_run()
        assert page.page.input_value("#story") == story
        tab_to(page, "play")
        at = page.seconds()
        keys.press("Enter")
        page.until(lambda: page.text("play") == "Pause", f"{story} does not play")
        assert page.text("said").startswith("Playing")
        page.until(lambda at=at: page.seconds() > at, f"{story} stands still")  # type: ignore[misc]
        keys.press("Space")
        assert page.text("play") == "Play", f"{story} goes on"
        assert page.text("said").startswith("Paused. At ")
        at = page.seconds()
        keys.press("ArrowRight")
        stepped = page.seconds()
        assert stepped > at, story
        assert page.text("said").startswith(f"At {page.text('clock')}."), story
        keys.press("ArrowLeft")
        assert page.seconds() < stepped
        keys.press("e")
        assert page.text("event"), f"{story} has no event"
        assert page.text("said").endswith(page.text("event").partition(" · ")[2]), story
        keys.press("n")
        if page.page.locator("#packet").is_visible():
            # It can be left by the key that leaves everything.
            keys.press("Escape")
            assert not page.page.locator("#packet").is_visible()
        buttons = page.page.locator("#panel-story li button").all_inner_texts()
        assert len(buttons) >= 2, story
        for label in buttons:
            page.page.evaluate("document.getElementById('run-status').textContent = ''")
            tab_to(page, label)
            keys.press("Enter")
            if label == buttons[-1]:
                page.until(
                    lambda: "runs, " in page.text("batch-status"), f"{story}: no runs are computed"
                )
                # The focus is not lost with the panel that it was in.
                assert focused(page) == "tab-compare", story
            else:
                page.until(lambda: page.text("play") == "Pause", f"{story}: {label}")
                assert not page.page.locator("#alert").is_visible(), (story, label)
                page.until(
                    lambda: page.text("said").startswith("Playing"), f"{story}: {label} is not said"
                )
    context.close()
    assert page.complaints == []


FAULTS = """() => {
    const add = (text, style, name = 'p') => {
        const element = document.createElement(name);
        element.textContent = text;
        Object.assign(element.style, style);
        document.getElementById('panel-story').prepend(element);
        return element;
    };
    add('pale', { color: '#999', background: '#eee' });
    add('far too long to be read', { width: '40px', whiteSpace: 'nowrap', overflow: 'hidden' });
    add('below', { height: '24px', margin: 0 });
    add('above', { height: '24px', margin: '0 0 -24px' });
    add('x', { width: '12px', height: '12px', minHeight: 0, padding: 0 }, 'button');
    add('dull', { outline: 'none' }, 'button');
    add('wide', { position: 'absolute', left: '1300px', width: '100px' });
    const canvas = add('', { width: '50px', height: '20px' }, 'canvas');
    const context = canvas.getContext('2d');
    context.fillText('beyond the edge', canvas.width - 10, 10);
    context.fillText('squeezed into nothing', 0, 10, 20);
    document.getElementById('timeline').style.marginLeft = '5px';
    document.querySelector('.host-name').textContent = 'a name wider than any host';
}"""
FOUND = [
    '"pale" has a contrast of ',
    '"far too long to be read" is cut',
    '"below" lies over "above"',
    'button "x" has 12 x 12 px',
    'button "dull" does not show its focus',
    "the page is ",
    '"beyond the edge" is cut on a canvas',
    '"squeezed into nothing" is squeezed to ',
    "a plot is from ",
    "is wider than what it stands in",
]


@needs_page
def test_the_measures_find_what_is_wrong(browser: Any, address: str) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    page = Page(context.new_page())
    page.page.add_init_script(MEASURES)
    page.page.goto(address)
    page.has_run()
    page.page.keyboard.press("Shift")
    assert page.page.evaluate("measured.page()") == []
    page.page.evaluate(FAULTS)
    found = page.page.evaluate("measured.page()")
    context.close()
    assert [each for each in FOUND if not any(each in one for one in found)] == [], found
