"""Builds the lexer that Lark would create for a grammar. In: `LoadedGrammar`. Out: a `Grammar` whose terminals are
`Special` nodes, and the `Lexer` that finds them.

Order: Lark's lexer sorts terminals by priority, then by the length of their longest text, then by the length of their
pattern, all in descending order, then by name.

Keywords: a string terminal is a keyword of a regular expression with the same priority if the expression matches the
whole string. If a lexeme of the expression equals the string, and the parser can accept the string terminal, the lexeme
becomes this terminal. If the expression has all flags of the string, the lexer does not try the string separately.

Source: lark/lexer.py, `BasicLexer` and `_create_unless`. Cost: each terminal is determinised once, unless it has large
counts or needs many states. Each regular expression is matched against each string terminal of the same priority.
"""

from __future__ import annotations

import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from guided.errors import GuidedError, LimitExceeded, SpecError, UnsupportedError
from guided.frontends.common.regular_texts import TextAutomaton, has_no_dead_ends, keeps_counts
from guided.frontends.lark.dialect.expressions import determinise, make_size_error
from guided.frontends.regex.algebra import conj
from guided.frontends.regex.derivatives import TooLarge
from guided.ir.indentation import Indentation
from guided.ir.nodes import EPSILON, Alt, Chars, Grammar, Keyword, Lexer, Node, Ref, Repeat, Seq, Special, Terminal
from guided.ir.ranges import Ranges
from guided.limits import Limits
from guided.meter import spend

from .lalr import FIRST, Item, Rules, remove_terminals
from .lexer_contexts import Marks, mark_positions
from .loader import LoadedGrammar, LoadedTerminal
from .rules import describe_origin
from .terminal_texts import TerminalTexts, make_texts
from .terminals import build_named_terminal

__all__ = ["add_lexer"]

_MAX_TERMINALS: Final = 5_000
_MAX_SHORTEST_TEXT: Final = 20_000
_MAX_DETERMINISED_STATES: Final = 1_000


def add_lexer(
    loaded_grammar: LoadedGrammar,
    indentation: Indentation | None,
    contextual: bool,
    limits: Limits,
    alphabet: Ranges | None = None,
) -> tuple[Grammar, Lexer]:
    """See the module docstring.

    `alphabet`: the characters that the vocabulary can write; None: all. The result is exact for texts of them only. It
    lacks terminals that can match none of these texts, but the other terminals are tried where Lark tries them.

    Raises:
        SpecError: a terminal matches the empty string. UnsupportedError: a lexer does not support a part or option, or
            the alphabet lacks a terminal of a grammar without an LALR(1) table.
        SpecError, UnsupportedError, LimitExceeded: see `build_terminal_node`.
    """
    _check_support(loaded_grammar, indentation)
    rules: Rules = loaded_grammar.rules
    if contextual:  # Lark's contextual lexer neither tries nor checks the terminals of other rules
        rules = _find_reachable_rules(rules, loaded_grammar.start)
    always_tried = frozenset(loaded_grammar.ignored_terminals) | (
        {indentation.newline} if indentation is not None else set()
    )
    used_names = always_tried | {
        name for each in rules.values() for symbols in each for name, is_term in symbols if is_term
    }
    if len(used_names) > _MAX_TERMINALS:
        hint = 'write one regular expression for many texts, or use semantics="scannerless"'
        raise LimitExceeded("nodes", len(used_names), _MAX_TERMINALS, fixed=True, hint=hint)
    terminals, texts = _build_terminals(
        loaded_grammar,
        [loaded_grammar.terminals[name] for name in used_names & loaded_grammar.terminals.keys()],
        limits,
        alphabet,
    )
    empty_terminals = (used_names & loaded_grammar.terminals.keys()) - {each.name for each in terminals}
    if indentation is not None and indentation.newline in empty_terminals:
        empty_terminals |= {indentation.indent, indentation.dedent}
    if empty_terminals:
        rules = remove_terminals(rules, empty_terminals)
    marks = (
        mark_positions(rules, loaded_grammar.start, terminals, always_tried, texts) if contextual else Marks({}, {}, {})
    )
    if alphabet is not None and empty_terminals and contextual and not marks.rows:
        reason = "without Lark's table, the terminals that are tried are those of rules that the vocabulary can write"
        raise UnsupportedError(reason, hint='use semantics="scannerless", or lexer="basic"')
    nodes = _build_nodes(rules, marks)
    origins = {name: describe_origin(loaded_grammar, name) for name in rules}
    start = loaded_grammar.start
    if mark := marks.by_item.get(FIRST):
        start = mark
        nodes[start] = Seq((Repeat(Special(mark), 0, 1), Ref(loaded_grammar.start)))
        origins[start] = origins[loaded_grammar.start]
    rows = marks.rows if indentation is None else {}  # rows lack the states that an INDENT or DEDENT enters
    lexer = Lexer(terminals, frozenset(loaded_grammar.ignored_terminals), indentation, marks.contexts, contextual, rows)
    regions = {name: region for name, region in loaded_grammar.regions.items() if name in rules}
    return Grammar(nodes, start, origins, regions=regions), lexer


def _check_support(loaded_grammar: LoadedGrammar, indentation: Indentation | None) -> None:
    """Raise an error if a lexer does not support a part or option of the grammar."""
    if loaded_grammar.start not in loaded_grammar.rules:
        raise SpecError(f"the rule {loaded_grammar.start!r} generates nothing", text=loaded_grammar.text)
    for name in loaded_grammar.parts:
        reason = f"a lexer cannot find {describe_origin(loaded_grammar, name)}"
        raise loaded_grammar.locate(UnsupportedError(reason, hint='use semantics="scannerless"'), name)
    if indentation is not None and loaded_grammar.regions:
        name = next(iter(loaded_grammar.regions))
        reason = (
            f"{describe_origin(loaded_grammar, name)} is captured or has a temperature, which postlex does not support"
        )
        raise loaded_grammar.locate(UnsupportedError(reason, hint="remove the attribute, or postlex"), name)
    for terminal in loaded_grammar.terminals.values():
        if terminal.max_tokens is not None:
            reason = f"a lexer does not support max_tokens, which {describe_origin(loaded_grammar, terminal.name)} has"
            error = UnsupportedError(reason, hint='use semantics="scannerless"')
            raise loaded_grammar.locate(error, terminal.name)
    if not (loaded_grammar.initial_skip and loaded_grammar.final_skip) or loaded_grammar.skip_once:
        reason = "a lexer skips any number of ignored terminals everywhere, but the grammar has options against this"
        raise UnsupportedError(reason, hint='use semantics="scannerless", or remove the options')


def _find_reachable_rules(rules: Rules, start: str) -> Rules:
    """The rules that the start rule reaches, in their order."""
    todo = {start: None}
    out: dict[str, Sequence[Sequence[tuple[str, bool]]]] = {}
    while todo:
        name, _ = todo.popitem()
        spend()
        out[name] = rules[name]
        for symbols in rules[name]:
            todo |= {symbol: None for symbol, is_term in symbols if not is_term and symbol not in out}
    return {name: out[name] for name in rules if name in out}


def _build_nodes(rules: Rules, marks: Marks) -> dict[str, Node]:
    """The node of each rule, with the marks of `lexer_contexts.py`. All occurrences of a symbol share one node."""
    symbol_nodes: dict[tuple[str, bool], Node] = {}
    marked_alternatives = {(item.rule, item.alternative) for item in marks.by_item}
    out: dict[str, Node] = {}
    for name, alternatives in rules.items():
        branches: list[Node] = []
        for number, each in enumerate(alternatives):
            nodes: list[Node] = []
            for read, symbol in enumerate(each, 1):
                node = symbol_nodes.get(symbol)
                if node is None:
                    node = symbol_nodes[symbol] = Special(symbol[0]) if symbol[1] else Ref(symbol[0])
                nodes.append(node)
                if (name, number) in marked_alternatives and (mark := marks.by_item.get(Item(name, number, read))):
                    nodes.append(Repeat(Special(mark), 0, 1))
            branches.append(Seq(tuple(nodes)) if nodes else EPSILON)
        out[name] = branches[0] if len(branches) == 1 else Alt(tuple(branches))
    return out


def _build_terminals(
    loaded_grammar: LoadedGrammar, terminals: list[LoadedTerminal], limits: Limits, alphabet: Ranges | None
) -> tuple[tuple[Terminal, ...], dict[str, TerminalTexts]]:
    """(the terminals in the lexer's order, the texts of each terminal). Terminals that match no text of the alphabet
    are omitted.
    """
    nodes, texts = dict[str, Node](), dict[str, TerminalTexts]()
    for each in sorted(terminals, key=lambda each: each.name):
        spend()
        node = build_named_terminal(loaded_grammar, each.name, limits)
        label = f"terminal {each.label or each.name}"
        try:
            simplified = _simplify(node, label)
            if alphabet is not None and _simplify(conj(node, Repeat(Chars(alphabet), 0, None)), label) is None:
                continue
        except GuidedError as error:
            raise loaded_grammar.locate(error, each.name) from None
        if simplified is not None:
            nodes[each.name], texts[each.name] = simplified
    terminals = [each for each in terminals if each.name in nodes]  # the lexer never finds terminals without texts
    length_bounds = {each.name: _find_length_bounds(each, nodes[each.name]) for each in terminals}
    for each in terminals:
        spend()
        if length_bounds[each.name][0] == 0:
            message = f"terminal {each.label} matches the empty string, but lexemes cannot be empty"
            hint = "let it match at least one character, and make it optional in the rules"
            raise loaded_grammar.locate(SpecError(message, hint=hint), each.name)
        if length_bounds[each.name][0] > _MAX_SHORTEST_TEXT:  # the core could not find such a long text
            reason = f"terminal {each.label}: its shortest text has more than {_MAX_SHORTEST_TEXT} characters"
            hint = 'repeat less often, or use semantics="scannerless"'
            raise loaded_grammar.locate(UnsupportedError(reason, hint=hint), each.name)
    terminals = sorted(
        terminals, key=lambda each: (-each.priority, -length_bounds[each.name][1], -len(each.value), each.name)
    )
    out, strings = [], [each for each in terminals if each.is_string]
    for each in terminals:
        spend(len(strings))
        candidates = [] if each.is_string else [string for string in strings if string.priority == each.priority]
        keywords = tuple(
            Keyword(string.name, nodes[string.name], string.flags <= each.flags)
            for string in _find_whole_matches(loaded_grammar, each, texts[each.name], candidates)
        )
        out.append(Terminal(each.name, nodes[each.name], keywords, describe_origin(loaded_grammar, each.name)))
    return tuple(out), texts


def _simplify(node: Node, name: str) -> tuple[Node, TerminalTexts] | None:
    """A simpler node that generates the same texts, and an automaton for them. None if the node generates no text.

    The node is an automaton if it has few states. Otherwise it remains as it is: the core counts repetitions, and may
    need far fewer states.

    Raises:
        UnsupportedError: it takes too many states to find a text. The message refers to the node as `name`.
        LimitExceeded: it takes too much work.
    """
    if not (has_no_dead_ends(node) and keeps_counts(node)):
        with suppress(UnsupportedError):
            automaton = determinise(node, name, _MAX_DETERMINISED_STATES)
            has_text = any(accepts for accepts, _ in automaton.states)
            return (automaton, make_texts(automaton)) if has_text else None
    try:
        texts = TextAutomaton(node)
        return (node, texts) if has_no_dead_ends(node) or texts.has_text() else None
    except TooLarge as error:
        raise make_size_error(name, error) from None


def _find_whole_matches(
    loaded_grammar: LoadedGrammar, terminal: LoadedTerminal, texts: TerminalTexts, strings: list[LoadedTerminal]
) -> list[LoadedTerminal]:
    """The string terminals of which `terminal` matches the whole string."""
    if not isinstance(texts, TextAutomaton):
        return [each for each in strings if texts.longest_match(each.value) == len(each.value)]
    return [each for each in strings if _matches_whole(loaded_grammar, terminal, texts, each.value)]


def _matches_whole(loaded_grammar: LoadedGrammar, terminal: LoadedTerminal, texts: TextAutomaton, text: str) -> bool:
    spend()
    try:
        return texts.longest_match(text) == len(text)
    except TooLarge as error:
        reason = f"terminal {terminal.label}: reading {text[:40]!r} needs more than {error.limit} {error.unit}"
        hint = "bound its repetitions by smaller counts"
        raise loaded_grammar.locate(UnsupportedError(reason, hint=hint), terminal.name) from None


def _find_length_bounds(terminal: LoadedTerminal, node: Node) -> tuple[int, int]:
    """The minimum and maximum length of a terminal's texts, as Lark computes them: all unbounded lengths are equal."""
    if terminal.node is not None:
        texts = TextAutomaton(node)
        return 0 if texts.accepts(texts.start) else 1, int(parser.MAXREPEAT)
    if terminal.is_string:
        return len(terminal.value), len(terminal.value)
    if terminal.width is not None:
        return terminal.width
    shortest, longest = parser.parse(terminal.source).getwidth()
    return int(shortest), int(longest)
