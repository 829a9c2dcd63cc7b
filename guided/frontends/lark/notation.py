r"""Parses a Lark text as Lark's loader does, in time linear in the text. In: a text. Out: the tree of Lark's loader.

Problem. Lark cuts a text into tokens by regular expressions whose parts overlap, such as `"(\\"|\\\\|[^"\n])*?"`: a
backslash is also `[^"\n]`. Where no quotation mark follows, Python's `re` tries every way to read n backslashes, which
are 2^n, and holds the lock of the interpreter meanwhile. n line ends take n^2 steps.

How: the same grammar and the same parser, with these expressions written so that no part overlaps another. The text of
a token is the same. What `re` finds first, if backslashes are read in pairs and some delimiter is not escaped, is the
first branch. Otherwise it gives up pairs from the right, so the token ends at the last delimiter: the second branch.

Lexer and transformer are Lark's, and spend steps of the meter.

Source: lark/load_grammar.py, `_get_parser` and `_parse_grammar`.
"""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import Any, Final

from guided.meter import spend

from .lark_errors import lark_package

__all__ = ["LINEAR", "parse_notation"]

_FLAGS: Final = "imslux"
LINEAR: Final = {
    "STRING": r'"(?:(?:[^"\n\\]|\\["\\]?)*+"|[^\n]*")i?',
    "REGEXP": rf"/(?!/)(?:(?:[^/\\]|\\[/\\]?)*+/|(?s:.)*/)[{_FLAGS}]*",
    "_NL_OR": r"(?>(?:\r?\n)+\s*)\|",
}
"""Terminal of Lark's notation -> an expression that matches the same texts, without a choice to come back to."""


def parse_notation(text: str, name: str) -> Any:
    """The tree of a text, as Lark's `_parse_grammar` gives it. `name`: of the text, for errors.

    Raises:
        lark.exceptions.LarkError: as Lark does.
    """
    lark, parser = lark_package(), _parser()
    loader, errors = lark.load_grammar, lark.exceptions
    try:
        tree = parser.parse(text + "\n", "start")
    except errors.UnexpectedCharacters as error:
        place = f"Unexpected input at line {error.line} column {error.column} in {name}"
        raise loader.GrammarError(f"{place}: \n\n{error.get_context(text)}") from error
    except errors.UnexpectedToken as error:
        reason = loader._translate_parser_exception(parser.parse, error)
        if not reason:
            raise
        place = f"{reason}, at line {error.line} column {error.column}"
        raise loader.GrammarError(f"{place}\n\n{error.get_context(text)}") from error
    return _preparing()().transform(tree)


@cache
def _preparing() -> Any:
    """Lark's `PrepareGrammar`, metered: it spends a step for each subtree."""
    base: Any = lark_package().load_grammar.PrepareGrammar

    class Metered(base):  # type: ignore[misc]
        def _transform_children(self, children: Any) -> Any:
            spend()
            return super()._transform_children(children)

    return Metered


@cache
def _parser() -> Any:
    """Lark's parser of its notation, with another lexer, which spends a step for each token."""
    from lark.lexer import BasicLexer, PatternRE, TerminalDef  # an extra

    class Metered(BasicLexer):
        def next_token(self, *args: Any, **options: Any) -> Any:
            spend()
            return super().next_token(*args, **options)

    parser = copy(lark_package().load_grammar._get_parser())
    conf = copy(parser.lexer_conf)
    conf.terminals = [
        TerminalDef(each.name, PatternRE(LINEAR[each.name], each.pattern.flags), each.priority)
        if each.name in LINEAR
        else each
        for each in conf.terminals
    ]
    conf.skip_validation = True  # interegular does not read these expressions
    parser.lexer = Metered(conf)
    return parser
