"""The beginning of a JSON text, completed: the shortest valid JSON that says what is sure.

    {"city": "Os            ->   {"city": "Os"}
    {"days": 1              ->   {}                 the number may go on
    {"days": 12, "to        ->   {"days": 12}

A string that is not complete stands as far as it was written; a name without its value, and a number, `true`, `false`
or `null` that may go on, are left out. Cost: linear in the text.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["completed_json", "json_end"]

_TOKEN: Final = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+)', re.DOTALL)
_WHOLE_CHARACTERS: Final = re.compile(
    r'"(?:[^"\\]|\\[^u]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4})*'
)


def completed_json(text: str) -> str:
    """The text completed; "" if nothing is sure yet."""
    closers: list[str] = []
    sure, at, is_name = 0, 0, False
    sure_closers: list[str] = []
    while (found := _TOKEN.match(text, at)) is not None:
        token, at = found[1], found.end()
        if token in ("{", "["):
            closers.append("}" if token == "{" else "]")
            is_name = token == "{"
        elif token == ",":
            is_name = closers[-1:] == ["}"]
            continue
        elif token == ":":
            is_name = False
            continue
        elif token in ("}", "]"):
            del closers[-1:]
        elif is_name or (at == len(text) and not token.startswith('"')):
            continue
        sure, sure_closers = at, list(closers)
        is_name = token == "{"
    rest = text[at:].lstrip()
    if rest.startswith('"') and not is_name:
        return text[:at] + text[at : len(text) - len(rest)] + _closed(rest) + "".join(reversed(closers))
    return text[:sure] + "".join(reversed(sure_closers)) if sure else ""


def _closed(string: str) -> str:
    """A string that is not closed, without an escape that is not complete."""
    found = _WHOLE_CHARACTERS.match(string)
    assert found is not None
    return found[0] + '"'


def json_end(text: str, start: int) -> int:
    """Where the object, array or string that begins at `start` ends; -1 if it has not ended, or is neither."""
    depth, at = 0, start
    while (found := _TOKEN.match(text, at)) is not None:
        token, at = found[1], found.end()
        if token in ("{", "["):
            depth += 1
        elif token in ("}", "]"):
            depth -= 1
        elif depth == 0 and not token.startswith('"'):
            return -1
        if depth == 0:
            return at
    return -1
