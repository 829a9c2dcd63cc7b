"""The front end for Lark's grammars. In: a text. Out: a grammar of the IR.

    start: greeting ("," greeting)*
    greeting: /[A-Z][a-z]+/ | "hello"i
    %ignore " "

How: Lark's own loader reads the text (`loader.py`), so that imports, templates, `%extend` and all other directives mean
what they mean in Lark. Terminals become regular nodes (`terminals.py`), rules become rules (`rules.py`).

The language is the grammar as written: every way to cut a text into terminals counts, as in Lark's Earley parser with
`lexer="dynamic_complete"`. Ignored terminals may stand before, between and after all others, any number of them.

What it does not do yet: the semantics of a lexer, which takes the longest match whatever follows.
"""

from __future__ import annotations

from collections.abc import Sequence

from guided.errors import SpecError, brief
from guided.grammar.ir import Grammar
from guided.limits import Limits

from .loader import load
from .rules import scannerless

__all__ = ["lark_to_grammar"]


def lark_to_grammar(
    text: str, *, start: str = "start", import_paths: Sequence[str] = (), limits: Limits | None = None
) -> Grammar:
    """The grammar of a Lark text.

    Args:
        start: the rule to begin with.
        import_paths: folders in which `%import` may find files. Without it, a text can import Lark's own grammars only
            (`common`, `unicode`, `python`, `lark`).

    Raises:
        SpecError: the text is malformed, or a rule or terminal is not defined.
        UnsupportedError: a terminal is not regular, or depends on what stands around it.
        LimitExceeded: its length, its number of rules, or the size of a terminal.
    """
    if not isinstance(text, str):
        raise SpecError(f"a Lark grammar is a text, not {brief(text)}", hint='write it as text, as start: "yes" | "no"')
    limits = Limits() if limits is None else limits
    return scannerless(load(text, start, tuple(import_paths), limits), limits)
