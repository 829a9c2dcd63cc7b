"""A second judge of JSON values: ajv, on node.

In: a schema, its draft, and JSON texts. Out: a verdict for each text. ajv compares numbers as doubles, and of two
members with the same name it reads only the last. So texts should have ordinary numbers and unique names. It is not
part of the project: `npm install ajv ajv-draft-04` in `~/.cache/guided/ajv`, or in the folder that GUIDED_AJV names.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

__all__ = ["Ajv", "why_no_ajv"]

FOLDER = Path(os.environ.get("GUIDED_AJV", Path.home() / ".cache" / "guided" / "ajv"))
_SCRIPT = Path(__file__).with_name("ajv_judge.js")
_DRAFTS = {
    "http://json-schema.org/draft-04/schema#": "draft-04",
    "http://json-schema.org/draft-06/schema#": "draft-06",
    "http://json-schema.org/draft-07/schema#": "draft-07",
    "https://json-schema.org/draft/2019-09/schema": "2019-09",
}


def why_no_ajv() -> str:
    """Why ajv cannot be used; "" if it can."""
    if shutil.which("node") is None:
        return "node is not installed"
    if not (FOLDER / "node_modules" / "ajv-draft-04").is_dir():
        return f"ajv is not in {FOLDER}: npm install ajv ajv-draft-04 there"
    return ""


class Ajv:
    """A node process that judges; a context manager."""

    def __init__(self) -> None:
        node = shutil.which("node")
        assert node is not None
        command = [node, "--max-old-space-size=512", str(_SCRIPT), str(FOLDER)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Ajv:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def verdicts(self, schema: Any, texts: list[str]) -> list[bool] | None:
        """Whether each text satisfies the schema; None if ajv cannot compile it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        draft = _DRAFTS.get(schema.get("$schema", ""), "2020-12") if isinstance(schema, dict) else "2020-12"
        self._process.stdin.write(json.dumps({"draft": draft, "schema": schema, "texts": texts}) + "\n")
        self._process.stdin.flush()
        answer: list[bool] | dict[str, str] = json.loads(self._process.stdout.readline())
        return answer if isinstance(answer, list) else None
