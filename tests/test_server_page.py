"""The page in a real browser with a real server: a stream, the inspection of a step, error locations, keys, phones."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from urllib.parse import urlsplit

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")
pytest.importorskip("playwright", reason="playwright is not installed: pip install 'guided-decoding[browser]'")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("there is no Chromium: apt-get install chromium", allow_module_level=True)

from playwright.sync_api import Browser, Page, Route, expect, sync_playwright  # noqa: E402

from guided.engine import Engine  # noqa: E402
from guided.server.app import create_app  # noqa: E402
from guided.server.settings import Settings  # noqa: E402
from tests.server_support import small_engine  # noqa: E402

POINT = {
    "type": "object",
    "properties": {
        "tag": {"enum": ["on", "off"]},
        "at": {
            "type": "array",
            "items": {"type": "integer", "minimum": 0, "maximum": 99},
            "minItems": 2,
            "maxItems": 3,
        },
        "note": {"type": "string", "minLength": 4, "maxLength": 9},
    },
    "required": ["tag", "at", "note"],
}
SCHEMA = json.dumps(POINT, indent=2)
ANSWERED = re.compile("complete|cut by max tokens|stopped")


@contextmanager
def served(**settings) -> Iterator[tuple[str, Engine]]:
    """A server on a socket: its address and its engine."""
    engine = small_engine()
    config = uvicorn.Config(create_app(engine, Settings(**settings)), port=0, log_level="error", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    started, startup = threading.Event(), server.startup

    async def start(sockets=None) -> None:
        await startup(sockets)
        started.set()

    server.startup = start
    thread.start()
    try:
        assert started.wait(30)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}", engine
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served() as (found, _):
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        expect.set_options(timeout=20_000)
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@contextmanager
def opened(browser: Browser, address: str, path: str = "/#empty", *, fails: bool = False, **context) -> Iterator[Page]:
    """The opened page. Afterwards checks that it used no other origin, and has no errors unless it `fails`."""
    inside = browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **context})
    page, wrong, asked = inside.new_page(), list[str](), list[str]()
    page.set_default_timeout(20_000)
    page.on("console", lambda message: message.type in ("error", "warning") and wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(f"a dialog: {dialog.message}"))
    page.on("request", lambda request: asked.append(request.url))
    try:
        page.goto(address + path)
        yield page
    finally:
        inside.close()
    assert {urlsplit(url).netloc for url in asked} == {urlsplit(address).netloc}
    assert fails or not wrong, wrong


def generate(page: Page, kind: str, spec: str, prompt: str = "Say", *, wait: bool = True, **numbers) -> None:
    page.select_option("#kind", kind)
    page.fill("#spec", spec)
    page.fill("#prompt", prompt)
    for name, value in ({"temperature": 1, "seed": 3} | numbers).items():
        page.fill(f"#{name}", str(value))
    page.keyboard.press("Control+Enter")
    if wait:
        expect(page.locator("#meta")).to_have_text(ANSWERED)


def written(page: Page) -> str:
    """The text of the tokens, without the symbols for invisible characters."""
    return page.locator("#tokens").evaluate("""box => {
        const copy = box.cloneNode(true);
        copy.querySelectorAll("i").forEach((each) => each.remove());
        return copy.textContent;
    }""")


@contextmanager
def paused(engine: Engine, after: int) -> Iterator[threading.Event]:
    """The engine stops after some steps, as if it were slow, until the event is set."""
    go, step, steps = threading.Event(), engine.driver.step, list[None]()

    def paced() -> bool:
        steps.append(None)
        return (len(steps) <= after or go.wait(30)) and step()

    engine.driver.step = paced
    try:
        yield go
    finally:
        go.set()
        engine.driver.step = step


def test_an_answer_streams_as_tokens_and_as_a_tree(browser: Browser):
    with served() as (address, engine), opened(browser, address) as page:
        body = {"messages": [{"role": "user", "content": "Say"}], "json_schema": SCHEMA, "seed": 3, "temperature": 1}
        fields = {**body, "max_tokens": 200, "return_token_ids": True}
        answer = httpx.post(f"{address}/v1/chat/completions", json=fields, timeout=60).json()
        tokens, text = answer["choices"][0]["tokens"], answer["choices"][0]["message"]["content"]
        found = json.loads(text)
        with paused(engine, 6) as go:
            generate(page, "schema", SCHEMA, wait=False)
            expect(page.locator("#tree-state")).to_have_text("being written")
            expect(page.locator("#tree .value").first).to_have_text(f'"{found["tag"]}"')
            assert 0 < page.locator(".token").count() < len(tokens) and page.locator("#tree .value").count() < 5
            go.set()
            expect(page.locator("#meta")).to_have_text(ANSWERED)
        kinds = [
            each.split()[1] for each in page.locator(".token").evaluate_all("all => all.map(each => each.className)")
        ]
        assert kinds == ["forced" if token["forced"] else "sampled" for token in tokens]
        assert {"forced", "sampled"} == set(kinds)
        assert written(page) == text
        assert page.locator("#legend li").all_text_contents()[0] == f"{kinds.count('sampled')} chosen by the model"
        expect(page.locator("#tree-state")).to_have_text("complete")
        leaves = page.locator("#tree .value").all_text_contents()
        assert [json.loads(leaf) for leaf in leaves[1:-1]] == found["at"]
        assert leaves[0] == f'"{found["tag"]}"' and leaves[-1] == f'"{found["note"]}"'


def test_a_click_shows_the_step_and_why_a_text_may_not_come(browser: Browser, address: str):
    with opened(browser, address) as page:
        generate(page, "regex", "x[a-f]{3}[0-9]{2}", max_tokens=50)
        page.locator(".token.sampled").nth(1).click()
        expect(page.locator(".facts dd").first).to_contain_text("6")
        expect(page.locator("#step-title")).to_contain_text("Step 3")
        assert page.locator(".facts dd").nth(2).text_content() == "48of 50 tokens"
        text = page.locator("#tokens").text_content()
        body = {"messages": [{"role": "user", "content": "Say"}], "regex": "x[a-f]{3}[0-9]{2}"}
        step = httpx.post(
            f"{address}/v1/grammars/step", json={**body, "tokens": list(text[:2].encode()), "max_tokens": 50, "top": 12}
        ).json()
        sides = page.locator(".bars")
        assert sides.nth(0).locator("li").count() == 12 and sides.nth(1).locator("li").count() == 6
        assert sides.nth(0).locator(".gone").count() == sum(not each["allowed"] for each in step["before"])
        assert sides.nth(1).locator(".chosen .word").text_content() == text[2]
        removed = page.locator(".facts dd").nth(1).text_content()
        assert abs(float(removed.split(" ")[0]) - 100 * step["removed"]["mass"]) < 0.06
        page.locator(".bars .gone button").first.click()
        expect(page.locator("#why-answer")).to_contain_text("expected a letter from a to f")
        page.fill("#why-text", "bz")
        page.keyboard.press("Enter")
        expect(page.locator("#why-answer")).to_contain_text("'bz' is not allowed from character 2 on")
        page.fill("#why-text", "bc")
        page.click("#why button")
        expect(page.locator("#why-answer")).to_have_attribute("data-state", "ok")
        page.click("#step-back")
        expect(page.locator("#step-title")).to_contain_text("Step 2")
        page.click("#step-back")
        expect(page.locator("#step")).to_contain_text("Forced: nothing else is allowed")
        assert page.locator("#step-back").is_disabled()


def test_several_answers_are_refused_since_they_would_be_shown_as_one(browser: Browser, address: str):
    with opened(browser, address) as page:
        page.locator("summary", has_text="More fields").click()
        page.fill("#more", '{"n": 2}')
        generate(page, "regex", "a[0-9]", wait=False)
        expect(page.locator("main")).to_contain_text("the page shows only one answer: remove n")
        page.fill("#more", '{"n": 1}')
        generate(page, "regex", "a[0-9]")


def test_an_error_of_a_specification_is_marked_in_place(browser: Browser, address: str):
    with opened(browser, address) as page:
        page.select_option("#kind", "schema")
        page.fill("#spec", SCHEMA)
        expect(page.locator("#verdict")).to_contain_text("Valid.")
        page.fill("#spec", SCHEMA.replace('"string"', '"strnig"'))
        expect(page.locator("#verdict")).to_contain_text("'strnig' is not a type")
        assert page.locator("#marks mark").text_content() == '"type": "strnig"'
        assert page.get_attribute("#spec", "aria-invalid") == "true"
        line = SCHEMA[: SCHEMA.index('"string"')].count("\n") + 1
        place = page.locator("#verdict button")
        assert place.text_content().startswith(f"Line {line}, ")
        place.click()
        selected = page.evaluate("() => spec.value.slice(spec.selectionStart, spec.selectionEnd)")
        assert selected == '"type": "strnig"'
        marked, typed = (page.locator(where).bounding_box() for where in ("#marks mark", "#spec"))
        assert typed["y"] <= marked["y"] <= typed["y"] + typed["height"]
        for kind, text, mark in (
            ("regex", "a😀(b", "("), ("lark", 'start: "a" other', "other"), ("gbnf", "root ::= b", "b"),
            ("schema", '{"type": "string",}', "}"), ("tag", '{"type": "structural_tag", "format": 3}', '"format": 3'),
        ):  # fmt: skip
            page.select_option("#kind", kind)
            page.fill("#spec", text)
            expect(page.locator("#marks mark")).to_have_text(mark)
        page.select_option("#kind", "regex")
        page.fill("#spec", "a+")
        expect(page.locator("#remarks")).to_contain_text("unbounded")
        expect(page.locator("#marks mark")).to_have_count(0)


def test_the_page_can_be_used_by_keyboard(browser: Browser, address: str):
    with opened(browser, address, color_scheme="light") as page:
        seen = dict[str, str]()
        for _ in range(40):
            page.keyboard.press("Tab")
            here = page.evaluate("""() => {
                const at = document.activeElement, style = getComputedStyle(at);
                const shown = at.type === "radio" ? getComputedStyle(at.nextElementSibling) : style;
                return [at.id || at.name || at.tagName, `${shown.outlineStyle} ${shown.outlineWidth}`];
            }""")
            if here[0] == "BODY":
                break
            seen[here[0]] = here[1]
        everything = {
            "share", "key-button", "theme", "help-button", "mode", "system", "prompt", "kind", "example", "spec",
            "max_tokens", "temperature", "top_p", "seed", "generate", "sample",
        }  # fmt: skip
        assert everything <= seen.keys()
        assert all(outline == "solid 2px" for name, outline in seen.items() if name in everything), seen
        page.locator("#prompt").focus()
        generate(page, "regex", "x[a-f]{3}[0-9]{2}")
        page.keyboard.press("Alt+a")  # to the most doubtful token
        page.keyboard.press("Home")
        for key, at in (("ArrowRight", "1"), ("ArrowRight", "2"), ("ArrowLeft", "1"), ("End", "5"), ("Home", "0")):
            page.keyboard.press(key)
            assert page.evaluate("document.activeElement.dataset.at") == at
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        expect(page.locator("#step-title")).to_contain_text("Step 2")
        expect(page.locator("#why")).to_be_visible()
        page.keyboard.press("Alt+w")
        page.keyboard.type("z")
        page.keyboard.press("Enter")
        expect(page.locator("#why-answer")).to_contain_text("'z' is not allowed")
        page.locator("#help-button").focus()
        page.keyboard.press("?")
        expect(page.locator("#help")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#help")).to_be_hidden()


def test_steps_match_the_request_and_texts_are_copied_without_a_clipboard(browser: Browser, address: str):
    with opened(browser, address) as page:
        page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
        page.locator(".more summary").click()
        for more, told in (('{"min_p": 0.01}', "Allowed"), ('{"documents": []}', "Steps of requests with documents")):
            page.fill("#more", more)
            generate(page, "regex", "[ab]{3}")
            page.locator(".token").first.click()
            expect(page.locator("#step")).to_contain_text(told)
        page.click("#copy")
        expect(page.locator("#copy")).to_have_text("Copied")
        page.fill("#prompt", "")
        page.press("#prompt", "Control+V")
        assert page.input_value("#prompt") == written(page)


# The lowest contrast of a visible text with its background, for WCAG's formula.
CONTRAST = """() => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
    const rgba = (colour) => {
        canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = (colour) => colour.slice(0, 3).map((v) => v / 255)
        .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
    const ground = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const colour = rgba(getComputedStyle(at).backgroundColor);
            if (colour[3] === 255) return colour;
        }
        return [255, 255, 255];
    };
    let worst = [99, ""];
    for (const element of document.querySelectorAll("body *")) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!own || !element.checkVisibility() || element.closest("#marks, .unseen, :disabled")) continue;
        const [a, b] = [light(rgba(getComputedStyle(element).color)), light(ground(element))].sort((x, y) => y - x);
        const contrast = (a + 0.05) / (b + 0.05);
        if (contrast < worst[0]) worst = [contrast, element.outerHTML.slice(0, 200)];
    }
    return worst;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_themes_can_be_read(browser: Browser, address: str, scheme: str):
    with opened(browser, address, color_scheme=scheme, reduced_motion="reduce") as page:
        ground = "() => getComputedStyle(document.body).backgroundColor"
        of = {"light": "rgb(246, 246, 243)", "dark": "rgb(18, 20, 25)"}
        assert page.evaluate(ground) == of[scheme]
        generate(page, "schema", SCHEMA)
        page.locator(".token.sampled").nth(3).click()
        page.locator(".bars .gone button").first.click()
        expect(page.locator("#why-answer")).not_to_be_empty()
        page.fill("#spec", "{")
        expect(page.locator("#verdict")).to_have_attribute("data-state", "bad")
        worst, where = page.evaluate(CONTRAST)
        assert worst >= 4.5, where
        page.click("#theme")
        page.click("#theme")
        assert page.evaluate(ground) == of["dark"]
        page.reload()
        assert page.evaluate(ground) == of["dark"], "the choice is remembered"
        page.click("#theme")
        assert page.evaluate(ground) == of[scheme], "as the system has it"


def test_a_phone_shows_all_of_it_without_scrolling_sideways(browser: Browser, address: str):
    phone = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    with opened(browser, address, **phone) as page:
        width = "() => document.documentElement.scrollWidth"
        assert page.evaluate(width) == 360
        generate(page, "regex", "x[a-f]{120}")
        assert page.evaluate(width) == 360
        page.locator(".token").nth(4).tap()
        expect(page.locator(".bars")).to_have_count(2)
        page.fill("#why-text", "z" * 80)
        page.locator("#why button").tap()
        expect(page.locator("#why-answer")).not_to_be_empty()
        page.select_option("#kind", "schema")
        page.fill("#spec", '{"a": ' + '"x' * 200)
        expect(page.locator("#verdict")).to_have_attribute("data-state", "bad")
        page.locator("#key-button").tap()
        assert page.evaluate(width) == 360
        outside = page.locator("button:visible, input:visible, select:visible, textarea:visible").evaluate_all(
            "all => all.map(each => each.getBoundingClientRect()).filter(box => box.left < 0 || box.right > 360).length"
        )
        assert outside == 0


def test_the_page_asks_for_a_key_and_keeps_it_in_the_tab(browser: Browser):
    with served(api_keys=("secret",)) as (address, _), opened(browser, address, fails=True) as page:
        expect(page.locator("#key-box")).to_be_visible()
        page.fill("#key", "wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#key-note")).to_contain_text("The API key is invalid")
        page.fill("#key", "secret")
        page.keyboard.press("Enter")
        expect(page.locator("#health")).to_contain_text("guided")
        expect(page.locator("#key-box")).to_be_hidden()
        generate(page, "regex", "[a-f]{3}")
        assert page.locator(".token").count() == 3
        assert page.evaluate("[sessionStorage.length, JSON.stringify(localStorage).includes('secret')]") == [1, False]
        page.reload()
        generate(page, "regex", "[a-f]{4}")
        assert page.locator(".token").count() == 4


def test_a_request_is_stopped_and_the_server_too(browser: Browser):
    with served() as (address, engine), opened(browser, address, fails=True) as page:
        with paused(engine, 30) as go:
            generate(page, "regex", "[a-z]{500}", wait=False, max_tokens=500)
            expect(page.locator(".token").nth(5)).to_be_visible()
            assert engine.scheduler
            page.keyboard.press("Escape")
            expect(page.locator("#meta")).to_have_text(re.compile("stopped"))
            expect(page.locator("#generate")).to_be_visible()
            go.set()
            while engine.scheduler:
                assert page.locator(".token").count() < 40
        page.locator(".token").nth(3).click()
        expect(page.locator(".facts dd").first).to_contain_text("26")
        expect(page.locator("#step-title")).to_contain_text("Step 4")


def test_a_server_that_is_busy_or_gone(browser: Browser):
    with served() as (address, _), opened(browser, address, fails=True) as page:
        page.select_option("#kind", "regex")
        page.fill("#spec", "[a-z]{3}")
        full = {"error": {"message": "256 outputs are already waiting", "code": "overloaded"}}
        page.route("**/v1/chat/completions", lambda route: route.fulfill(status=503, json=full))
        page.click("#generate")
        expect(page.locator("#banner")).to_contain_text("The server is busy")
        page.unroute("**/v1/chat/completions")
        page.click("#banner-retry")
        expect(page.locator("#meta")).to_have_text(ANSWERED)
        expect(page.locator("#banner")).to_be_hidden()
        page.context.set_offline(True)
        page.click("#generate")
        expect(page.locator("#banner")).to_contain_text("The server does not answer")
        expect(page.locator("#answer-error")).to_contain_text("The server does not answer")
        page.context.set_offline(False)
        page.click("#generate")
        expect(page.locator("#meta")).to_have_text(ANSWERED)


def test_broken_and_failed_streams_are_reported(browser: Browser, address: str):
    choice = {"index": 0, "delta": {"content": "a"}, "token_ids": [97]}
    begun = "data: " + json.dumps({"choices": [choice | {"tokens": [{"token": "a", "bytes": [97], "forced": False}]}]})
    failed = "data: " + json.dumps({"error": {"message": "internal error: a bug in the server", "code": "x"}})
    with opened(browser, address) as page:
        for body, told in ((f"{begun}\n\n", "ended before the answer"), (f"{begun}\n\n{failed}\n\n", "a bug")):
            answer = {"status": 200, "content_type": "text/event-stream", "body": body}
            page.route("**/v1/chat/completions", partial(Route.fulfill, **answer))
            page.click("#generate")
            expect(page.locator("#answer-error")).to_contain_text(told)
            assert page.locator(".token").count() == 1


def test_tokens_of_calls_and_of_thinking_have_kinds_of_their_own(browser: Browser, address: str):
    token = {"token": "a", "bytes": [97], "forced": False}
    call = {"tool_calls": [{"index": 0, "function": {"arguments": '{"a": [1'}}]}
    deltas = [{"reasoning": "a"}, {"content": "a"}, call]
    choices = [{"index": 0, "delta": delta, "token_ids": [97], "tokens": [token]} for delta in deltas]
    body = "".join(f"data: {json.dumps({'choices': [choice]})}\n\n" for choice in choices) + "data: [DONE]\n\n"
    with opened(browser, address) as page:
        answer = {"status": 200, "content_type": "text/event-stream", "body": body}
        page.route("**/v1/chat/completions", partial(Route.fulfill, **answer))
        page.click("#generate")
        for kind in ("reasoning", "sampled", "tool"):
            expect(page.locator(f".token.{kind}")).to_have_count(1)
        assert page.locator("#legend li").count() == 4
        page.locator(".token.tool").click()
        expect(page.locator("#step")).to_contain_text("not supported yet")


def test_the_output_of_a_model_is_shown_as_text(browser: Browser, address: str):
    evil = '<img src=x onerror="alert(1)"><script>alert(2)</script>'
    with opened(browser, address) as page:
        generate(page, "schema", json.dumps({"const": {evil: evil}}), prompt=evil)
        assert page.locator("#tokens").text_content() == json.dumps({evil: evil})
        assert evil in page.locator("#tree").text_content()
        page.locator(".token").first.click()
        expect(page.locator("#step")).to_contain_text("Shortest end")
        page.fill("#why-text", evil)
        page.click("#why button")
        expect(page.locator("#why-answer")).to_contain_text("<img")
        page.fill("#spec", json.dumps({evil: 1, "type": evil}))
        expect(page.locator("#verdict")).to_contain_text("is not a type")
        assert page.locator("main img, main script").count() == 0


def test_a_link_holds_the_request(browser: Browser, address: str):
    with opened(browser, address) as page:
        page.select_option("#kind", "regex")
        page.fill("#spec", "é[0-9]{2}\n")
        page.fill("#prompt", "Grüße 😀")
        page.locator("input[value=text]").check(force=True)
        page.fill("#seed", "11")
        page.click("#share")
        link = page.url
    with opened(browser, address, link.removeprefix(address)) as page:
        assert page.input_value("#spec") == "é[0-9]{2}\n" and page.input_value("#prompt") == "Grüße 😀"
        assert page.locator("input[value=text]").is_checked() and page.input_value("#seed") == "11"
        page.fill("#spec", "é[0-9]{2}")
        page.keyboard.press("Control+Enter")
        expect(page.locator("#meta")).to_contain_text("seed 11 · complete")
        assert re.fullmatch("é[0-9]{2}", page.locator("#tokens").text_content().replace("·", ""))
        page.click("#sample")
        expect(page.locator("#sentences li")).to_have_count(5)
        assert all(re.fullmatch("é[0-9]{2}", text) for text in page.locator("#sentences li").all_text_contents())
    with opened(browser, address, "/#r=bm9uc2Vuc2U") as page:
        expect(page.locator("#verdict")).to_contain_text("Valid.")
