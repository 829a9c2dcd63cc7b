r"""Parses a Lark grammar like Lark's loader, but in linear time. In: the grammar. Out: the tree of Lark's loader.

Problem: Lark tokenizes a grammar with ambiguous regular expressions, such as `"(\\"|\\\\|[^"\n])*?"`: a backslash also
matches `[^"\n]`. If no quotation mark follows, Python's `re` tries all 2^n ways to read n backslashes, and holds the
GIL meanwhile. n line ends take n^2 steps.

How: use the same grammar and the same parser, but with unambiguous expressions that match the same tokens. The first
branch of STRING and REGEXP reads each escaped character as a unit, and ends at the first delimiter that is not escaped.
If there is none, the original expression backtracks to the last delimiter. The second branch goes there directly.

The lexer and the transformer are Lark's, extended to charge steps to the meter.

Source: lark/load_grammar.py, `_get_parser` and `_parse_grammar`.
"""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import Any, Final

from guided.meter import spend

from .lark_errors import import_lark

__all__ = ["LINEAR_PATTERNS", "parse_grammar"]

_FLAGS: Final = "imslux"
LINEAR_PATTERNS: Final = {
    "STRING": r'"(?:(?:[^"\n\\]|\\["\\]?)*+"|[^\n]*")i?',
    "REGEXP": rf"/(?!/)(?:(?:[^/\\]|\\[/\\]?)*+/|(?s:.)*/)[{_FLAGS}]*",
    "_NL_OR": r"(?>(?:\r?\n)+\s*)\|",
}
"""Terminal of Lark's notation -> an expression that matches the same strings without backtracking."""


def parse_grammar(text: str, name: str) -> Any:
    """The tree of a grammar, as Lark's `_parse_grammar` returns it. `name`: the grammar's name, for errors.

    Raises:
        lark.exceptions.LarkError: as in Lark.
    """
    lark, parser = import_lark(), _make_parser()
    loader, errors = lark.load_grammar, lark.exceptions
    try:
        tree = parser.parse(text + "\n", "start")
    except errors.UnexpectedCharacters as error:
        message = f"Unexpected input at line {error.line} column {error.column} in {name}"
        raise loader.GrammarError(f"{message}: \n\n{error.get_context(text)}") from error
    except errors.UnexpectedToken as error:
        reason = loader._translate_parser_exception(parser.parse, error)
        if not reason:
            raise
        message = f"{reason}, at line {error.line} column {error.column}"
        raise loader.GrammarError(f"{message}\n\n{error.get_context(text)}") from error
    return _make_metered_transformer()().transform(tree)


@cache
def _make_metered_transformer() -> Any:
    """A subclass of Lark's `PrepareGrammar` that also charges one step to the meter per subtree."""
    base: Any = import_lark().load_grammar.PrepareGrammar

    class Metered(base):  # type: ignore[misc]
        def _transform_children(self, children: Any) -> Any:
            spend()
            return super()._transform_children(children)

    return Metered


@cache
def _make_parser() -> Any:
    """Lark's parser for its notation, with a lexer that charges one step to the meter per token."""
    from lark.lexer import BasicLexer, PatternRE, TerminalDef  # an extra

    class Metered(BasicLexer):
        def next_token(self, *args: Any, **options: Any) -> Any:
            spend()
            return super().next_token(*args, **options)

    parser = copy(import_lark().load_grammar._get_parser())
    conf = copy(parser.lexer_conf)
    conf.terminals = [
        TerminalDef(each.name, PatternRE(LINEAR_PATTERNS[each.name], each.pattern.flags), each.priority)
        if each.name in LINEAR_PATTERNS
        else each
        for each in conf.terminals
    ]
    conf.skip_validation = True  # interegular does not support these expressions
    parser.lexer = Metered(conf)
    return parser
