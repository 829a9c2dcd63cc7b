"""Compiles a grammar with a lexer with the native core.

In: rules over terminals, and the lexer that produces the terminals (`guided.ir.Lexer`). Out: the core's compiled
grammar.

How: each terminal's pattern is compiled as a separate grammar over the vocabulary; the core uses its automaton. The
rules are compiled over a second vocabulary, in which each terminal is a control token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from guided.automaton import _core
from guided.automaton.build import Target, add_hint, compile_native
from guided.errors import LimitExceeded, SpecError, UnsupportedError, VocabularyError
from guided.ir.indentation import Indentation
from guided.ir.nodes import Grammar, Lexer, Node
from guided.limits import Limits

__all__ = ["compile_lexed", "ids_of_terminals"]

_NO_TOKEN: Final = -1
_TABLE_BYTES: Final = 1 << 16
_MAX_TERMINALS: Final = 5000
_EMPTY_HINT: Final = "look for terminals that earlier ones shadow, and for rules that never end"


def compile_lexed(
    grammar: Grammar, lexer: Lexer, vocabulary: _core.TokenVocabulary, limits: Limits
) -> _core.CompiledLexer:
    """Compile a grammar's rules over terminals, and its lexer, for `vocabulary`.

    Raises:
        SpecError: the grammar or a terminal generates nothing, or a terminal is not in the lexer.
        UnsupportedError: the core does not support a terminal's pattern, or a part of the rules.
        VocabularyError: the vocabulary's tokens cannot write any text of a terminal.
        LimitExceeded: too many states or nodes, or too much work or time; `place` is the terminal or rule.
    """
    names = [terminal.name for terminal in lexer.terminals]
    if len(names) > _MAX_TERMINALS:
        raise LimitExceeded("nodes", len(names), _MAX_TERMINALS, fixed=True)
    ids = ids_of_terminals(lexer)
    terminal_numbers = {name: ids[name] for name in names}
    mark_names = set().union(*lexer.contexts)
    symbols = {name: id for name, id in ids.items() if name not in mark_names}
    marks = {name: id for name, id in ids.items() if name in mark_names}
    end_token = len(ids)
    terminal_vocabulary = _core.TokenVocabulary([None] * end_token, [end_token], end_token + 1, _TABLE_BYTES)
    target = Target(terminal_vocabulary, {name: [id] for name, id in ids.items()}, [end_token])
    parser = compile_native(replace(grammar, lexer=None), target, limits)
    terminal_rules = [
        _compile_terminal(terminal.name, terminal.item, vocabulary, limits) for terminal in lexer.terminals
    ]
    keywords = []
    for terminal_number, terminal in enumerate(lexer.terminals):
        for keyword in terminal.keywords:
            keyword_number = terminal_numbers[keyword.name]
            has_same_pattern = lexer.terminals[keyword_number].item == keyword.item
            keyword_rules = (
                terminal_rules[keyword_number]
                if has_same_pattern
                else _compile_terminal(keyword.name, keyword.item, vocabulary, limits)
            )
            keywords.append((terminal_number, keyword_number, keyword.embedded, keyword_rules))
    try:
        return _core.CompiledLexer(
            parser,
            terminal_rules,
            [name in lexer.ignored for name in names],
            keywords,
            [_NO_TOKEN] * len(names),
            [
                ([marks[mark] for mark in context], _numbers_of(terminals, terminal_numbers))
                for context, terminals in lexer.contexts.items()
            ],
            lexer.contextual,
            [
                (_numbers_of(row, terminal_numbers), _numbers_of(preceding, terminal_numbers))
                for row, preceding in lexer.rows.items()
            ],
            None if lexer.indentation is None else _to_native(lexer.indentation, terminal_numbers, symbols),
            vocabulary,
            limits.memory,
            limits.call_work,
        )
    except SpecError as error:
        error.hint = _EMPTY_HINT
        raise
    except UnsupportedError as error:
        add_hint(error)
        raise


def ids_of_terminals(lexer: Lexer) -> dict[str, int]:
    """The token ids in the rules' vocabulary, by name: first the terminals in order, then indentation, then marks."""
    ids = {terminal.name: i for i, terminal in enumerate(lexer.terminals)}
    if lexer.indentation is not None:
        for name in (lexer.indentation.indent, lexer.indentation.dedent):
            ids.setdefault(name, len(ids))
    for mark in sorted(set().union(*lexer.contexts)):
        ids[mark] = len(ids)
    return ids


def _numbers_of(names: Iterable[str], numbers: Mapping[str, int]) -> list[int]:
    return [numbers[name] for name in names if name in numbers]


def _to_native(
    indentation: Indentation, terminal_numbers: Mapping[str, int], symbols: Mapping[str, int]
) -> tuple[Any, ...]:
    """Convert the indentation to the core's form."""
    opening, closing = (
        _numbers_of(sorted(names), terminal_numbers) for names in (indentation.opening, indentation.closing)
    )
    return (
        terminal_numbers.get(indentation.newline, _NO_TOKEN), symbols[indentation.indent], symbols[indentation.dedent],
        opening, closing, indentation.tab, indentation.most_levels, indentation.most_width,
    )  # fmt: skip


def _compile_terminal(name: str, item: Node, vocabulary: _core.TokenVocabulary, limits: Limits) -> _core.CompiledRules:
    try:
        return compile_native(Grammar({"start": item}), Target(vocabulary), limits)
    except SpecError as error:
        raise SpecError(f"terminal {name}: {error.message}", hint=error.hint) from None
    except UnsupportedError as error:
        raise UnsupportedError(f"terminal {name}: {error.reason}", hint=error.hint) from None
    except VocabularyError:
        message = f"the vocabulary's tokens cannot write any text of terminal {name}"
        raise VocabularyError(message, hint='remove the terminal, or use semantics="scannerless"') from None
    except LimitExceeded as error:
        error.place = f"terminal {name}"
        raise
