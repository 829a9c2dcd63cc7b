"""A grammar with the lexer that Lark creates for it. In: `LoadedGrammar`. Out: a `Grammar` whose terminals are
`Special`, and the `Lexer` that finds them.

Order: Lark's lexer sorts terminals by priority, then by the length of their longest text, then by the length of their
pattern, all in descending order, then by name.

Keywords: a string terminal is a keyword of a regular expression of the same priority if the expression matches the
whole string. A lexeme of the expression that equals the string becomes the string terminal, if the parser can accept
it. If the expression has all flags of the string, the lexer does not try the string separately.

Source: lark/lexer.py, `BasicLexer` and `_create_unless`. Cost: each terminal is determinised once, unless it has large
counts, and each expression reads each string of its priority.
"""

from __future__ import annotations

import re._parser as parser  # type: ignore[import-not-found]
from typing import Final

from guided.errors import GuidedError, LimitExceeded, SpecError, UnsupportedError
from guided.frontends.common.regular_texts import Texts, has_no_dead_ends, keeps_counts
from guided.frontends.lark.dialect.expressions import determinise
from guided.frontends.regex.derivatives import TooLarge
from guided.ir.indentation import Indentation
from guided.ir.nodes import EPSILON, Alt, Grammar, Keyword, Lexer, Node, Ref, Repeat, Seq, Special, Terminal
from guided.limits import Limits
from guided.meter import spend

from .lalr import FIRST, Item, Rules, without_terminals
from .lexer_contexts import Marks, mark_positions
from .loader import LoadedGrammar, LoadedTerminal
from .rules import origin
from .terminal_texts import TerminalTexts, texts_of
from .terminals import node_of

__all__ = ["add_lexer"]

_MAX_TERMINALS: Final = 5_000
_MAX_SHORTEST_TEXT: Final = 20_000


def add_lexer(
    loaded: LoadedGrammar, indentation: Indentation | None, contextual: bool, limits: Limits
) -> tuple[Grammar, Lexer]:
    """See the module docstring.

    Raises:
        SpecError: a terminal matches the empty text. SpecError, UnsupportedError, LimitExceeded: see `terminal_node`.
    """
    if loaded.start not in loaded.rules:
        raise SpecError(f"the rule {loaded.start!r} generates nothing", text=loaded.text)
    for name in loaded.parts:
        reason = f"a lexer cannot find {origin(loaded, name)}"
        raise loaded.located(UnsupportedError(reason, hint='use semantics="scannerless"'), name)
    if indentation is not None and loaded.regions:
        name = next(iter(loaded.regions))
        reason = f"{origin(loaded, name)} is captured or has a temperature, which postlex does not support"
        raise loaded.located(UnsupportedError(reason, hint="remove the attribute, or postlex"), name)
    for terminal in loaded.terminals.values():
        if terminal.max_tokens is not None:
            reason = f"a lexer does not support max_tokens, which {origin(loaded, terminal.name)} has"
            error = UnsupportedError(reason, hint='use semantics="scannerless"')
            raise loaded.located(error, terminal.name)
    if not (loaded.initial_skip and loaded.final_skip) or loaded.skip_once:
        reason = "a lexer skips any number of ignored terminals everywhere"
        raise UnsupportedError(reason, hint='use semantics="scannerless", or remove the options')
    rules: Rules = loaded.rules
    always_tried = frozenset(loaded.ignored) | ({indentation.newline} if indentation is not None else set())
    used_names = always_tried | {
        name for each in rules.values() for symbols in each for name, is_term in symbols if is_term
    }
    if len(used_names) > _MAX_TERMINALS:
        hint = 'write one regular expression for many texts, or use semantics="scannerless"'
        raise LimitExceeded("nodes", len(used_names), _MAX_TERMINALS, fixed=True, hint=hint)
    terminals, texts = _terminals(
        loaded, [loaded.terminals[name] for name in used_names & loaded.terminals.keys()], limits
    )
    without_text = (used_names & loaded.terminals.keys()) - {each.name for each in terminals}
    if without_text:
        rules = without_terminals(rules, without_text)
    marks = mark_positions(rules, loaded.start, terminals, always_tried, texts) if contextual else Marks({}, {})
    nodes = _nodes(rules, marks)
    origins = {name: origin(loaded, name) for name in rules}
    start = loaded.start
    if mark := marks.by_item.get(FIRST):
        start = mark
        nodes[start] = Seq((Repeat(Special(mark), 0, 1), Ref(loaded.start)))
        origins[start] = origins[loaded.start]
    lexer = Lexer(terminals, frozenset(loaded.ignored), indentation, marks.contexts, contextual)
    return Grammar(nodes, start, origins, regions=loaded.regions), lexer


def _nodes(rules: Rules, marks: Marks) -> dict[str, Node]:
    """The nodes of rules. All occurrences of a symbol are one node."""
    symbols: dict[tuple[str, bool], Node] = {}
    marked = {(item.rule, item.alternative) for item in marks.by_item}
    out: dict[str, Node] = {}
    for name, alternatives in rules.items():
        items: list[Node] = []
        for number, each in enumerate(alternatives):
            parts: list[Node] = []
            for read, symbol in enumerate(each, 1):
                node = symbols.get(symbol)
                if node is None:
                    node = symbols[symbol] = Special(symbol[0]) if symbol[1] else Ref(symbol[0])
                parts.append(node)
                if (name, number) in marked and (mark := marks.by_item.get(Item(name, number, read))):
                    parts.append(Repeat(Special(mark), 0, 1))
            items.append(Seq(tuple(parts)) if parts else EPSILON)
        out[name] = items[0] if len(items) == 1 else Alt(tuple(items))
    return out


def _terminals(
    loaded: LoadedGrammar, terminals: list[LoadedTerminal], limits: Limits
) -> tuple[tuple[Terminal, ...], dict[str, TerminalTexts]]:
    """The terminals in the lexer's order, and their texts."""
    nodes = dict[str, Node]()
    for each in sorted(terminals, key=lambda each: each.name):
        spend()
        node = node_of(loaded, each.name, limits)
        if has_no_dead_ends(node) and keeps_counts(node):
            nodes[each.name] = node
            continue
        try:
            automaton = determinise(node, f"terminal {each.label or each.name}")
        except GuidedError as error:
            raise loaded.located(error, each.name) from None
        if any(accepts for accepts, _ in automaton.states):
            nodes[each.name] = automaton
    terminals = [each for each in terminals if each.name in nodes]  # the lexer never finds terminals without texts
    texts = {name: texts_of(node) for name, node in nodes.items()}
    length_bounds = {each.name: _length_bounds(each, nodes[each.name]) for each in terminals}
    for each in terminals:
        spend()
        if length_bounds[each.name][0] == 0:
            message = f"terminal {each.label} matches the empty text, but lexemes cannot be empty"
            hint = "let it match at least one character, and make it optional in the rules"
            raise loaded.located(SpecError(message, hint=hint), each.name)
        if length_bounds[each.name][0] > _MAX_SHORTEST_TEXT:  # the core could not find such a long text
            reason = f"terminal {each.label}: its shortest text has more than {_MAX_SHORTEST_TEXT} characters"
            hint = 'repeat less often, or use semantics="scannerless"'
            raise loaded.located(UnsupportedError(reason, hint=hint), each.name)
    terminals = sorted(
        terminals, key=lambda each: (-each.priority, -length_bounds[each.name][1], -len(each.value), each.name)
    )
    out, strings = [], [each for each in terminals if each.is_text]
    for each in terminals:
        spend(len(strings))
        candidates = [] if each.is_text else [string for string in strings if string.priority == each.priority]
        keywords = tuple(
            Keyword(string.name, nodes[string.name], string.flags <= each.flags)
            for string in _whole_matches(loaded, each, texts[each.name], candidates)
        )
        out.append(Terminal(each.name, nodes[each.name], keywords, origin(loaded, each.name)))
    return tuple(out), texts


def _whole_matches(
    loaded: LoadedGrammar, terminal: LoadedTerminal, texts: TerminalTexts, strings: list[LoadedTerminal]
) -> list[LoadedTerminal]:
    """The strings whose longest match by a terminal is the whole string."""
    if not isinstance(texts, Texts):
        return [each for each in strings if texts.longest_match(each.value) == len(each.value)]
    return [each for each in strings if _matches_whole(loaded, terminal, texts, each.value)]


def _matches_whole(loaded: LoadedGrammar, terminal: LoadedTerminal, texts: Texts, text: str) -> bool:
    spend()
    try:
        return texts.longest_match(text) == len(text)
    except TooLarge as error:
        reason = f"terminal {terminal.label}: reading {text[:40]!r} needs more than {error.limit} {error.what}"
        hint = "bound its repetitions by smaller counts"
        raise loaded.located(UnsupportedError(reason, hint=hint), terminal.name) from None


def _length_bounds(terminal: LoadedTerminal, node: Node) -> tuple[int, int]:
    """The least and the greatest length of the texts, as Lark computes them: all unbounded lengths are equal."""
    if terminal.node is not None:
        texts = Texts(node)
        return 0 if texts.accepts(texts.start) else 1, int(parser.MAXREPEAT)
    if terminal.is_text:
        return len(terminal.value), len(terminal.value)
    if terminal.width is not None:
        return terminal.width
    shortest, longest = parser.parse(terminal.source).getwidth()
    return int(shortest), int(longest)
