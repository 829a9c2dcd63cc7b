"""Reads the description of indentation from a Lark `Indenter`. In: the option `postlex`. Out: an `Indentation`.

    class Blocks(lark.indenter.Indenter):
        NL_type = "_NL"
        INDENT_type, DEDENT_type = "_INDENT", "_DEDENT"
        OPEN_PAREN_types, CLOSE_PAREN_types = ["LPAR"], ["RPAR"]
        tab_len = 8

Only the attributes are read; the object's methods are not called. Subclasses that override methods are not supported,
and neither are other post-lexers. "python" means Lark's `PythonIndenter`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from guided.errors import SpecError, UnsupportedError, brief
from guided.ir.indentation import Indentation

from .lark_errors import import_lark

__all__ = ["INDENTERS", "read_indenter"]

INDENTERS: Final = ("python",)
"""The names of Lark's own indenters."""
_METHODS: Final = ("process", "_process", "handle_NL", "always_accept")


def read_indenter(postlex: object) -> Indentation:
    """See the module docstring.

    Raises:
        UnsupportedError: `postlex` is not a `lark.indenter.Indenter`, or overrides its methods. SpecError: an attribute
            is missing or has a wrong type.
    """
    import_lark()
    from lark.indenter import Indenter, PythonIndenter

    if isinstance(postlex, str) and postlex in INDENTERS:
        postlex = PythonIndenter()
    if not isinstance(postlex, Indenter):
        remark = " create an instance of it" if postlex is Indenter or isinstance(postlex, type) else ""
        raise UnsupportedError(
            f'postlex must be "python" or an instance of lark.indenter.Indenter, not {brief(postlex)};{remark}'.rstrip(
                ";"
            ),
            hint="derive it from lark.indenter.Indenter; masks cannot predict what other post-lexers do",
        )
    for name in _METHODS:
        if getattr(type(postlex), name) is not getattr(Indenter, name):
            raise UnsupportedError(
                f"{type(postlex).__name__} overrides {name} of lark.indenter.Indenter",
                hint="describe the indentation only by NL_type, INDENT_type, DEDENT_type, OPEN_PAREN_types, "
                "CLOSE_PAREN_types and tab_len",
            )
    return Indentation(
        _read_name(postlex, "NL_type"),
        _read_name(postlex, "INDENT_type"),
        _read_name(postlex, "DEDENT_type"),
        _read_names(postlex, "OPEN_PAREN_types"),
        _read_names(postlex, "CLOSE_PAREN_types"),
        _read_tab_length(postlex),
    )


def _read_name(postlex: object, attribute: str) -> str:
    value = getattr(postlex, attribute, None)
    if not isinstance(value, str):
        raise SpecError(f"{attribute} of postlex must be the name of a terminal, not {brief(value)}")
    return value


def _read_names(postlex: object, attribute: str) -> frozenset[str]:
    value = getattr(postlex, attribute, None)
    if isinstance(value, str) or not isinstance(value, Collection) or not all(isinstance(each, str) for each in value):
        raise SpecError(f"{attribute} of postlex must be a list of terminal names, not {brief(value)}")
    return frozenset(value)


def _read_tab_length(postlex: object) -> int:
    value = getattr(postlex, "tab_len", None)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SpecError(f"tab_len of postlex must be a positive number of spaces, not {brief(value)}")
    return value
