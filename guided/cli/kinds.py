"""The options of each kind of specification: their names in Python and on the command line.

`as_flags` turns advice that is worded for Python into advice for the command line: in the text of an error,
`draft='draft4'` becomes `--draft draft4`, and `start= names the first rule` becomes `--start names the first rule`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from guided.frontends.json_schema.options import JsonSchemaKeywords

__all__ = ["OPTIONS_OF", "as_flags", "flag"]

OPTIONS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "schema": (*JsonSchemaKeywords.__annotations__, "registry"),
    "regex": ("dialect", "search", "classes"),
    "lark": ("start", "semantics", "lexer", "postlex", "grammars", "allow_special_tokens"),
    "gbnf": ("root", "allow_special_tokens"),
    "structural_tag": ("allow_special_tokens", *JsonSchemaKeywords.__annotations__),
}
"""The options of each kind of specification that has some."""
_NAMES: Final = frozenset(name for names in OPTIONS_OF.values() for name in names)
_OTHERS: Final = {
    "eos_token_ids": "--eos ID,ID",
    "import_paths": "the folder of the file for --lark",
    "grammars": "--grammars FILE",
    "registry": "--registry FILE",
}
"""What stands for an argument and its value, where that is not the flag and the same value."""
_VALUE: Final = r"""'([^'\n]*)'|"([^"\n]*)"|(\w+)|\[[^\]\n]*\]|\{[^}\n]*\}|(?= )"""
_ADVICE: Final = re.compile(rf"\b({'|'.join(sorted(_NAMES | _OTHERS.keys()))})=(?:{_VALUE})")


def flag(name: str, value: object = None) -> str:
    """The command line's name of an option, without its value."""
    if name == "additional_properties":
        return "--open" if value in (True, "True") else "--closed"
    return f"--{name.replace('_', '-')}"


def as_flags(text: str) -> str:
    """A message in which recommended options are written as on the command line, see the module docstring.

    Indented lines are unchanged: they quote the specification.
    """
    return "\n".join(line if line.startswith("    ") else _ADVICE.sub(_as_flag, line) for line in text.split("\n"))


def _as_flag(found: re.Match[str]) -> str:
    name = found[1]
    if name in _OTHERS:
        return _OTHERS[name]
    value = next((each for each in found.groups()[1:] if each is not None), "")
    if value in ("True", "False"):
        return flag(name, value)
    return f"{flag(name)} {value}".rstrip()
