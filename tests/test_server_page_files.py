"""The page's files: how they are served, what they must not contain, and their contrast; and the modules that compute,
in Node.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

from guided.server.app import create_app  # noqa: E402
from guided.server.settings import Settings  # noqa: E402
from tests.server_support import small_engine  # noqa: E402

PAGE = Path(__file__).parent.parent / "guided" / "server" / "page"
FILES = sorted(PAGE.iterdir())
TEXTS = ["", "abc", "a😀b\n", "é" * 3, "\U0001f468‍\U0001f469‍\U0001f467 x", "日本語 テキスト", "</script><b>&amp;"]


def test_files_are_served_with_their_types_and_nothing_else_is():
    async def whole():
        app = create_app(small_engine(), Settings(api_keys=("k",)))  # the page itself needs no key
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://t") as http:
            index = await http.get("/")
            assert index.status_code == 200 and index.headers["content-type"] == "text/html; charset=utf-8"
            assert index.content == (PAGE / "index.html").read_bytes()
            types = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
            for path in FILES:
                answer = await http.get(f"/page/{path.name}")
                assert answer.content == path.read_bytes()
                assert answer.headers["content-type"].startswith(types[path.suffix])
                assert answer.headers["x-content-type-options"] == "nosniff"
                policy = answer.headers["content-security-policy"]
                assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
                again = await http.get(f"/page/{path.name}", headers={"If-None-Match": answer.headers["etag"]})
                assert again.status_code == 304 and not again.content
            for name in ("settings.py", "../settings.py", "..%2fsettings.py", "%2e%2e/app.py", "nothing.js", ""):
                assert (await http.get(f"/page/{name}")).status_code == 404

    asyncio.run(whole())


def test_the_page_names_only_its_own_files():
    names = {path.name for path in FILES}
    found = set()
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        links = re.findall(r'(?:href|src)="([^"#]+)"', text) + re.findall(r'from "\./([^"]+)"', text)
        found |= {link.removeprefix("page/") for link in links}
        code = re.sub(r"(?m)^\s*//.*$|/\*.*?\*/|xmlns=\S+", "", text)
        assert not re.search(r"https?://|//[a-z]+\.[a-z]+/|@import|url\(", code), path
        assert text.count("\n") <= 420 and max(map(len, text.split("\n"))) <= 125, path
    assert found == names - {"index.html"}


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.suffix in (".js", ".html")], ids=lambda path: path.name
)
def test_text_never_becomes_code(path: Path):
    text = path.read_text(encoding="utf-8")
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|setHTML|DOMParser|srcdoc"
    assert not re.search(ways + r"|createContextualFragment|javascript:|\son[a-z]+=\"|<style|\sstyle=", text)


def luminance(colour: str) -> float:
    values = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_has_contrast(theme: int):
    """WCAG 2.2 AA: 4.5 for text, 3 for markers such as lines under tokens and the borders of controls."""
    text = (PAGE / "style.css").read_text(encoding="utf-8")
    colours = {name: pair[theme] for name, *pair in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", text)}
    grounds = ("ground", "card", "sunken")
    pairs = [(ink, ground, 4.5) for ink in ("ink", "soft", "accent", "good", "bad", "warn") for ground in grounds]
    pairs += [("ink", wash, 4.5) for wash in ("sampled", "forced", "tool", "reasoning", "accent-wash")]
    pairs += [("soft", "accent-wash", 4.5), ("soft", "bad-wash", 4.5), ("accent-ink", "accent", 4.5)]
    pairs += [("bad", "bad-wash", 4.5), ("warn", "warn-wash", 4.5), ("good", "sunken", 4.5)]
    pairs += [(f"{kind}-line", kind, 3) for kind in ("sampled", "forced", "tool", "reasoning")]
    for ink, ground, least in pairs:
        light, dark = sorted((luminance(colours[ink]), luminance(colours[ground])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= least, (ink, ground, (light + 0.05) / (dark + 0.05))


def test_modules_that_compute(tmp_path: Path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed: the page's modules are run in the browser alone")
    for path in FILES:
        if path.suffix == ".js":
            shutil.copy(path, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    rng = random.Random(5)
    cases = {
        "events": [
            {"text": "data: a\n\ndata: b\r\n\r\n: keep-alive\n\nevent: x\ndata: c\ndata:d\n\ndata: e",
             "events": [{"name": "message", "data": "a"}, {"name": "message", "data": "b"},
                        {"name": "x", "data": "c\nd"}]},
            {"text": "data:  two\rdata\r\rid: 4\nretry: 1\n\n",
             "events": [{"name": "message", "data": " two\n"}]},
        ],
        "json": [json.dumps(value(rng, 3), ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 1)))
                 for _ in range(150)],
        "noJson": ["x", '{"a" 1', "[1,]", "{,", '["\n', '{"a": 1,}', "[1 2", "nul1", "[]]", "{1", '"a" b', '["\\x"'],
        "tokens": [{"pieces": pieces(rng, text), "text": text} for text in TEXTS for _ in range(5)],
        "texts": TEXTS,
    }  # fmt: skip
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    script = Path(__file__).parent / "page" / "modules.mjs"
    command = [node, str(script), str(tmp_path), str(tmp_path / "cases.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert counts["prefixes"] > 1000 and counts["events"] > 50 and min(counts.values()) > 5, counts


def value(rng: random.Random, depth: int) -> object:
    kind = rng.randrange(7 if depth else 5)
    if kind < 5:
        text = "".join(rng.choice('ab"\\/\n\té😀\u2028 {[,:') for _ in range(rng.randrange(9)))
        return (text, rng.choice((0, -17, 3.25, 1e-9, 1e300)), True, None, False)[kind]
    inner = [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return inner if kind == 5 else {f"{n}" + rng.choice(["", '"', "\\", "é"]): each for n, each in enumerate(inner)}


def pieces(rng: random.Random, text: str) -> list[list[int]]:
    data, found = text.encode(), []
    while data:
        size = rng.randrange(1, 4)
        found.append(list(data[:size]))
        data = data[size:]
    return found
