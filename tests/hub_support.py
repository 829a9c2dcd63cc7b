"""A small Hugging Face hub on this machine: the routes that `huggingface_hub` uses, with files in memory."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

__all__ = ["COMMITS", "Hub", "library_asks", "running_hub"]

COMMITS = {"main": "a" * 40, "v1": "b" * 40, "refs/pr/1": "c" * 40}


class Hub:
    """Repositories: name -> revision -> file -> bytes. `gated` ones are refused. `asked`: the requests so far."""

    def __init__(self, repositories: Mapping[str, Mapping[str, Mapping[str, bytes]]]) -> None:
        self.repositories = {name: dict(revisions) for name, revisions in repositories.items()}
        self.gated: set[str] = set()
        self.asked: list[str] = []
        self.url = ""

    def answer(self, method: str, target: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body."""
        path = unquote(urlsplit(target).path).strip("/")
        self.asked.append(path)
        if path.startswith("api/models/"):
            name, _, rest = self._named(path.removeprefix("api/models/"))
            kind, _, revision = rest.partition("/")
            return self._listed(name, kind, revision)
        name, _, rest = self._named(path)
        revision, _, file = self._revision(rest.removeprefix("resolve/"))
        return self._file(name, revision, file)

    def _named(self, path: str) -> tuple[str, str, str]:
        organisation, model, *rest = path.split("/", 2)
        return f"{organisation}/{model}", "/", rest[0] if rest else ""

    def _revision(self, path: str) -> tuple[str, str, str]:
        known = sorted((*COMMITS, *COMMITS.values()), key=len, reverse=True)
        found = next((one for one in known if path.startswith(f"{one}/")), path.partition("/")[0])
        return found, "/", path[len(found) + 1 :]

    def _files(self, name: str, revision: str) -> tuple[int, dict[str, str], Mapping[str, bytes], str]:
        if name not in self.repositories:
            return 401, {"X-Error-Code": "RepoNotFound"}, {}, ""
        if name in self.gated:
            return 403, {"X-Error-Code": "GatedRepo"}, {}, ""
        branch = next((one for one, commit in COMMITS.items() if revision in (one, commit)), revision)
        if branch not in self.repositories[name]:
            return 404, {"X-Error-Code": "RevisionNotFound"}, {}, ""
        return 200, {}, self.repositories[name][branch], COMMITS[branch]

    def _listed(self, name: str, kind: str, revision: str) -> tuple[int, dict[str, str], bytes]:
        status, headers, files, commit = self._files(name, revision or "main")
        data: Any = {"error": headers.get("X-Error-Code")}
        if status == 200 and kind == "tree":
            data = [
                {"type": "file", "path": path, "size": len(text), "oid": hashlib.sha1(text).hexdigest()}
                for path, text in files.items()
            ]
        elif status == 200:
            data = {"id": name, "sha": commit, "siblings": [{"rfilename": path} for path in files]}
        return status, headers | {"Content-Type": "application/json"}, json.dumps(data).encode()

    def _file(self, name: str, revision: str, file: str) -> tuple[int, dict[str, str], bytes]:
        status, headers, files, commit = self._files(name, revision)
        if status != 200 or file not in files:
            return (404, {"X-Error-Code": "EntryNotFound"}, b"") if status == 200 else (status, headers, b"")
        etag = hashlib.sha1(files[file]).hexdigest()
        return 200, {"ETag": f'"{etag}"', "X-Repo-Commit": commit}, files[file]


@contextmanager
def running_hub(hub: Hub) -> Iterator[Hub]:
    """The hub while it is listening; `hub.url` is its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            status, headers, body = hub.answer(self.command, self.path)
            self.send_response(status)
            for name, value in (headers | {"Content-Length": str(len(body))}).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = _answer

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def library_asks(hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """The running hub, as the only one that `huggingface_hub` uses. The library's cache and token are in `folder`."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    constants = "huggingface_hub.constants"
    monkeypatch.setattr(f"{constants}.HF_HUB_CACHE", str(folder / "hub"))
    monkeypatch.setattr(f"{constants}.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(f"{constants}.HF_TOKEN_PATH", str(folder / "token"))
    with running_hub(hub):
        monkeypatch.setattr(f"{constants}.ENDPOINT", hub.url)
        template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(f"{constants}.HUGGINGFACE_CO_URL_TEMPLATE", template)
        yield hub
