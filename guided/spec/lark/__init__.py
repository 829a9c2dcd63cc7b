"""The front end for Lark's grammars. In: a text. Out: a grammar of the IR.

    start: greeting ("," greeting)*
    greeting: /[A-Z][a-z]+/ | "hello"i
    %ignore " "

How: Lark's own loader reads the text (`loader.py`), so that imports, templates, `%extend` and all other directives mean
what they mean in Lark. Terminals become regular nodes (`terminals.py`), rules become rules (`rules.py`).

`lark_to_grammar` counts every way to cut a text into terminals, as Lark's Earley parser does with
`lexer="dynamic_complete"`. Ignored terminals may stand before, between and after all others, any number of them.

`lark_to_lexed` keeps the lexer apart (`lexing.py`), for what Lark's LALR parser does with its contextual lexer: the
longest match of a terminal is taken, whatever follows. It can have a lexer that knows indentation (`indentation.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from guided.errors import SpecError, brief
from guided.ir.lexer import Lexer
from guided.ir.nodes import Grammar
from guided.limits import Limits

from .indentation import read_indenter
from .lexing import lexed
from .loader import Loaded, load
from .rules import scannerless

__all__ = ["lark_to_grammar", "lark_to_lexed", "read_lark"]


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
    limits = Limits() if limits is None else limits
    return scannerless(_loaded(text, start, import_paths, limits), limits)


def lark_to_lexed(
    text: str,
    *,
    start: str = "start",
    import_paths: Sequence[str] = (),
    postlex: object = None,
    limits: Limits | None = None,
) -> tuple[Grammar, Lexer]:
    """The grammar of a Lark text, `Special(name)` for each terminal, and the lexer that finds them.

    Args:
        start, import_paths: as of `lark_to_grammar`.
        postlex: an instance of `lark.indenter.Indenter`, for terminals that come from the width of lines' beginnings.
            The grammar declares them (`%declare _INDENT _DEDENT`).

    Raises:
        SpecError: as of `lark_to_grammar`; a terminal matches the empty text; `postlex` lacks an attribute.
        UnsupportedError: as of `lark_to_grammar`; `postlex` is something else.
        LimitExceeded: as of `lark_to_grammar`.
    """
    limits = Limits() if limits is None else limits
    indentation = None if postlex is None else read_indenter(postlex)
    produced = frozenset() if indentation is None else frozenset({indentation.indent, indentation.dedent})
    return lexed(_loaded(text, start, import_paths, limits, produced), indentation, limits)


def read_lark(
    text: str, start: str, semantics: str, import_paths: tuple[str, ...], postlex: object, limits: Limits
) -> Grammar:
    """The grammar of a Lark text with one of the two semantics; see `GrammarCompiler.compile_lark`.

    Raises:
        ValueError: there are no such semantics, or `postlex` has no meaning in them. Others as of the functions above.
    """
    if semantics not in ("lexer", "scannerless"):
        raise ValueError(f"semantics is 'lexer' or 'scannerless', not {brief(semantics)}")
    if semantics == "lexer":
        rules, lexer = lark_to_lexed(text, start=start, import_paths=import_paths, postlex=postlex, limits=limits)
        return replace(rules, lexer=lexer)
    if postlex is not None:
        raise ValueError('postlex changes lexemes: it needs semantics="lexer"')
    return lark_to_grammar(text, start=start, import_paths=import_paths, limits=limits)


def _loaded(
    text: str, start: str, import_paths: Sequence[str], limits: Limits, produced: frozenset[str] = frozenset()
) -> Loaded:
    if not isinstance(text, str):
        raise SpecError(f"a Lark grammar is a text, not {brief(text)}", hint='write it as text, as start: "yes" | "no"')
    return load(text, start, tuple(import_paths), limits, produced)
