"""The recipes of docs/guides/clients.md, as they are written there, against the small engine behind a socket."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from guided.server.app import create_app  # noqa: E402
from guided.server.settings import Settings  # noqa: E402
from tests.document_support import ROOT  # noqa: E402
from tests.server_support import small_engine  # noqa: E402

TEXT = (ROOT / "docs" / "guides" / "clients.md").read_text("utf-8")
OBJECT = r"""name=['\"].*['\"] kilometres=-?\d+"""


@pytest.fixture(scope="module")
def address():
    app = create_app(small_engine(), Settings(model_name="smollm2-135m-instruct"))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(60)


def blocks(section: str, language: str, address: str) -> list[str]:
    part = TEXT.split(f"\n## {section}\n")[1].split("\n## ")[0]
    assert "http://127.0.0.1:8000" in part
    found = re.findall(rf"```{language}\n(.*?)```", part, re.DOTALL)
    return [block.replace("127.0.0.1:8000", address) for block in found]


def printed(section: str, address: str, *needed: str) -> str:
    """What the blocks of Python print, one after another in a process of their own."""
    for module in needed:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    code = "\n".join(blocks(section, "python", address))
    environment = os.environ | {"PYTHONIOENCODING": "utf-8", "NO_PROXY": "*"}
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(address):
    ran = [
        subprocess.run(["sh", "-c", block], capture_output=True, encoding="utf-8", timeout=60, check=True).stdout
        for block in blocks("curl", "sh", address)
    ]
    chosen, stream, refused = ran
    assert json.loads(chosen)["choices"][0]["message"]["content"] in ("yes", "no")
    events = [line.removeprefix("data: ") for line in stream.splitlines() if line]
    assert events[-1] == "[DONE]"
    date = "".join(json.loads(event)["choices"][0]["text"] for event in events[:-1])
    assert re.fullmatch("[0-9]{4}-[01][0-9]-[0-3][0-9]", date)
    assert json.loads(refused)["error"]["param"] == "regex"


def test_the_client_of_openai(address):
    said = printed("OpenAI's client", address, "openai")
    found = re.fullmatch(
        rf"{OBJECT}\n\s*{{.*}}{OBJECT}\n(?:Nile|Rhine|Ganges)(?: and (?:Nile|Rhine|Ganges))?\n"
        rf"[1-9][0-9]?(?:\+[1-9][0-9]?){{1,4}}\nregex unterminated character set.*\n"
        rf"\[River\({OBJECT.replace(' ', ', ')}\), River\({OBJECT.replace(' ', ', ')}\)\]\n",
        said,
        re.DOTALL,
    )
    assert found, said


def test_langchain(address):
    said = printed("LangChain", address, "langchain_openai")
    assert re.fullmatch(rf"{OBJECT}\n[A-Z][a-z]{{2,9}}\n[A-Z][a-z]{{2,9}}", said), said


def test_instructor(address):
    assert re.fullmatch(rf"{OBJECT}\n", said := printed("instructor", address, "instructor", "openai")), said
