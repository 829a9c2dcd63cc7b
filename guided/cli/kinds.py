"""The options of each kind of specification: their names in Python and on the command line.

`as_flags` turns advice for Python into advice for the command line: in an error message, `draft='draft4'` becomes
`--draft draft4`, and `start= names the first rule` becomes `--start names the first rule`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from guided.frontends.json_schema.options import JsonSchemaKeywords

__all__ = ["OPTIONS_OF", "as_flags", "to_flag"]

OPTIONS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "schema": (*JsonSchemaKeywords.__annotations__, "registry", "documents"),
    "regex": ("dialect", "search", "classes"),
    "lark": ("start", "semantics", "lexer", "postlex", "grammars", "allow_special_tokens"),
    "gbnf": ("root", "allow_special_tokens"),
    "structural_tag": ("allow_special_tokens", *JsonSchemaKeywords.__annotations__),
}
"""Kind of specification -> its options. Kinds without options are left out."""
_NAMES: Final = frozenset(name for names in OPTIONS_OF.values() for name in names)
_REPLACEMENTS: Final = {
    "eos_token_ids": "--eos ID,ID",
    "import_paths": "the folder of the file for --lark",
    "grammars": "--grammars FILE",
    "registry": "--registry FILE",
    "documents": "--documents FILE",
}
"""Argument -> the text that replaces it and its value, if the value has another form on the command line."""
_VALUE: Final = r"""'([^'\n]*)'|"([^"\n]*)"|(\w+)|\[[^\]\n]*\]|\{[^}\n]*\}|(?= )"""
_ADVICE: Final = re.compile(rf"\b({'|'.join(sorted(_NAMES | _REPLACEMENTS.keys()))})=(?:{_VALUE})")


def to_flag(name: str, value: object = None) -> str:
    """The flag of an option, without its value."""
    if name == "additional_properties":
        return "--open" if value in (True, "True") else "--closed"
    return f"--{name.replace('_', '-')}"


def as_flags(text: str) -> str:
    """Rewrite the options that a message recommends as flags; see the module docstring.

    Indented lines are left unchanged, since they quote the specification.
    """
    return "\n".join(line if line.startswith("    ") else _ADVICE.sub(_as_flag, line) for line in text.split("\n"))


def _as_flag(match: re.Match[str]) -> str:
    name = match[1]
    if name in _REPLACEMENTS:
        return _REPLACEMENTS[name]
    value = next((group for group in match.groups()[1:] if group is not None), "")
    if value in ("True", "False"):
        return to_flag(name, value)
    return f"{to_flag(name)} {value}".rstrip()
