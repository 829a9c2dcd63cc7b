"""Takes the screenshots for the guide to the inspector. In: the address of a server. Out: docs/img/inspector-*.png.

    guided serve & python scripts/inspector_screenshots.py http://127.0.0.1:8000

It needs `pip install 'guided-decoding[browser]'` and Chromium.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

OUT = Path(__file__).parent.parent / "docs" / "img"


def open_step(page: Page, seed: int = 7) -> None:
    """Take screenshots of an answer, of one of its steps, and of the reason why a token is not allowed there."""
    expect(page.locator("#verdict")).to_contain_text("Valid")
    page.fill("#seed", str(seed))
    page.keyboard.press("Control+Enter")
    expect(page.locator("#meta")).to_have_text(re.compile("complete"), timeout=60_000)
    page.locator(".token.sampled").nth(6).click()
    page.locator(".bars .gone button").first.click()
    expect(page.locator("#why-answer")).not_to_be_empty()


def main(address: str) -> None:
    """Take all screenshots."""
    OUT.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, size, scheme in (
            ("light", (1280, 900), "light"),
            ("dark", (1280, 900), "dark"),
            ("phone", (360, 740), "light"),
        ):
            viewport = {"width": size[0], "height": size[1]}
            page = browser.new_context(viewport=viewport, color_scheme=scheme, reduced_motion="reduce").new_page()
            page.goto(address)
            open_step(page)
            if name == "phone":
                page.locator("#answer-title").scroll_into_view_if_needed()
                page.evaluate("document.getElementById('answer-title').parentElement.parentElement.scrollIntoView()")
            page.screenshot(path=OUT / f"inspector-{name}.png", full_page=name != "phone")
        page = browser.new_context(viewport={"width": 560, "height": 620}, color_scheme="light").new_page()
        page.goto(address)
        page.fill("#spec", page.input_value("#spec").replace('"integer"', '"integr"'))
        expect(page.locator("#verdict")).to_contain_text("is not a type")
        page.locator("#spec").evaluate("box => box.blur()")
        page.locator("#spec").evaluate("box => { box.scrollTop = 0; box.scrollLeft = 0; }")
        page.locator("section:has(#spec)").screenshot(path=OUT / "inspector-error.png")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
