"""Reads the grammars and regular expressions inside a structural tag. In: a format. Out: a part of a specification.

A `grammar` is written in one of two notations, its `syntax`: GBNF ("ebnf", xgrammar's name for it), or Lark, with
"scannerless" semantics. Errors have the location of the text in the structural tag.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from guided.errors import Finding, SpecError, UnsupportedError
from guided.frontends.combinators import Expr, ReadPart
from guided.frontends.gbnf import gbnf_to_grammar
from guided.frontends.gbnf.patterns import regex_node
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.frontends.lark import LarkOptions
from guided.frontends.structural_tag.formats import Format, relocate_error
from guided.ir.nodes import Grammar, Node
from guided.limits import Limits

__all__ = ["ReadLark", "lower_grammar", "lower_regex"]

ReadLark: TypeAlias = Callable[[str, LarkOptions, Limits, JsonSchemaOptions, list[Finding]], Grammar]
"""A function with the parameters of `read_lark`."""


def lower_grammar(fmt: Format, read_lark: ReadLark, *, allow_special_tokens: bool, refuse_empty: bool) -> Expr:
    """A part for the texts of a grammar. The arguments are those of `Lowering`."""
    text, pointer = fmt["grammar"], f"{fmt.pointer}/grammar"
    lark_options = LarkOptions(semantics="scannerless", allow_special_tokens=allow_special_tokens)

    def read(limits: Limits, options: JsonSchemaOptions, findings: list[Finding]) -> Grammar:
        try:
            if fmt["syntax"] == "ebnf":
                return gbnf_to_grammar(
                    text, allow_special_tokens=allow_special_tokens, limits=limits, findings=findings,
                    refuse_empty=refuse_empty,
                )  # fmt: skip
            return read_lark(text, lark_options, limits, options, findings)
        except (SpecError, UnsupportedError) as error:
            raise relocate_error(error, pointer) from None

    return ReadPart(read)


def lower_regex(fmt: Format) -> Expr:
    """A part for the matches of a regular expression."""

    def read(limits: Limits, options: JsonSchemaOptions, _: list[Finding]) -> Node:
        try:
            return regex_node(fmt["pattern"], limits, classes=options.classes)
        except (SpecError, UnsupportedError) as error:
            raise relocate_error(error, f"{fmt.pointer}/pattern") from None

    return ReadPart(read, "regex")
