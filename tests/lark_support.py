"""Reads Lark grammars into the IR, with one kind of semantics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from guided.frontends.lark import LarkOptions, read_lark
from guided.ir.nodes import Grammar, Lexer
from guided.limits import Limits


def lark_to_grammar(text: str, *, limits: Limits | None = None, **options: Any) -> Grammar:
    """The grammar with "scannerless" semantics. `options`: fields of `LarkOptions`. Errors: see `read_lark`."""
    return read_lark(text, LarkOptions(semantics="scannerless", **options), limits)


def lark_to_lexed(text: str, **options: Any) -> tuple[Grammar, Lexer]:
    """(rules in which terminals are `Special(name)`, the lexer that finds the terminals). Errors: see `read_lark`."""
    grammar = read_lark(text, LarkOptions(semantics="lexer", **options))
    assert grammar.lexer is not None
    return replace(grammar, lexer=None), grammar.lexer
