"""The initial content of the page, and the colours of its editor."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: pip install 'guided-decoding[browser]'")
pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")

from playwright.sync_api import Browser, expect

from tests.test_server_page import ANSWERED, SCHEMA, address, browser, opened  # noqa: F401 (fixtures)


def test_a_first_visit_shows_an_example_with_its_answer_and_a_step(browser: Browser, address: str):  # noqa: F811
    with opened(browser, address, "/") as page:
        expect(page.locator("#meta")).to_have_text(ANSWERED)
        expect(page.locator("#prompt")).to_have_value(re.compile("Marta Lindqvist"))
        expect(page.locator("#verdict")).to_have_attribute("data-state", "ok")
        expect(page.locator("#tokens .token.sampled[aria-selected=true]")).to_have_count(1)
        expect(page.locator("#step-title")).to_have_text(re.compile("Step [0-9]+"))
        expect(page.locator("#step .facts")).to_contain_text("Removed")


def test_a_visitor_who_chooses_a_step_keeps_it(browser: Browser, address: str):  # noqa: F811
    with opened(browser, address, "/") as page:
        page.locator("#tokens .token").first.click()
        expect(page.locator("#meta")).to_have_text(ANSWERED)
        page.wait_for_timeout(500)
        expect(page.locator("#step-title")).to_have_text(re.compile("Step 1 "))


@pytest.mark.parametrize(
    "text", [SCHEMA, '{"a": "b\\"c", "d": [1.5e3, true, null, "open', "", '"', "plain text", '{"\u20ac": "\U0001f600"}']
)
def test_the_coloured_copy_is_the_text(browser: Browser, address: str, text: str):  # noqa: F811
    with opened(browser, address) as page:
        page.locator("#spec").fill(text)
        expect(page.locator("#marks")).to_have_text(re.compile(re.escape(text) + "\\s*"), use_inner_text=False)
        assert page.locator("#marks").evaluate("element => element.textContent").rstrip("\n ") == text.rstrip("\n ")
        if text == SCHEMA:
            for kind, some in (("key", '"properties"'), ("string", '"object"'), ("number", "99")):
                expect(page.locator(f"#marks .of-{kind}").filter(has_text=some).first).to_be_visible()
