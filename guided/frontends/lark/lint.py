"""Finds likely mistakes in a Lark text. In: a text. Out: findings about its terminals and rules.

Terminals collide if they match a common text at a position where Lark may try both. The one that Lark tries first takes
the text, so the other one never matches it. The examples are shortest common texts of the lexer's automata, found by a
breadth-first search over pairs of states (Hopcroft and Ullman 1979, section 3.2), which gives up beyond `_MAX_STATES`
pairs.

Terminals are compared if they share a row of the LALR(1) table. If the grammar has no such table, or the lexer is
Lark's basic lexer, all pairs are compared. Without a lexer, nothing collides.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from guided.errors import LimitExceeded
from guided.frontends.common.lint_finding import LintFinding
from guided.frontends.common.regular_texts import Texts
from guided.frontends.common.rule_lint import lint_rules, reachable_rules, unused_finding
from guided.frontends.regex.derivatives import TooLarge
from guided.ir.nodes import Alt, Node, Ref, Seq, Special
from guided.ir.ranges import Ranges, intersect
from guided.limits import Limits
from guided.meter import fail_if_exhausted, spend

from . import LarkOptions, load_lark, read_lark
from .lalr import Rules, terminal_states
from .loader import LoadedGrammar, LoadedTerminal
from .rules import origin
from .terminal_texts import common_edges

__all__ = ["common_text", "lint_lark"]

_MAX_PAIRS: Final = 2_000
_MAX_STATES: Final = 50_000  # pairs of states in the search for a common text
_READABLE: Ranges = ((ord("a"), ord("z")), (ord("A"), ord("Z")), (ord("0"), ord("9")), (33, 126), (32, 32))


def lint_lark(text: str, options: LarkOptions, limits: Limits | None = None) -> list[LintFinding]:
    """See the module docstring.

    Raises:
        SpecError, UnsupportedError, LimitExceeded: see `read_lark`.
    """
    loaded = load_lark(text, options, limits)
    nodes = {name: _node(alternatives) for name, alternatives in loaded.rules.items()}
    rules = {name: loaded.rules[name] for name in reachable_rules(nodes, loaded.start)}
    lexer = read_lark(text, options, limits, findings=[]).lexer
    lexed_nodes = {} if lexer is None else {each.name: each.item for each in lexer.terminals}
    shapes = lint_rules(nodes, loaded.start, lambda name: origin(loaded, name))
    return [*shapes, *_unused(loaded, rules), *_collisions(loaded, rules, lexed_nodes, options.lexer == "contextual")]


def _node(alternatives: Iterable[Sequence[tuple[str, bool]]]) -> Node:
    """The alternatives of a rule as a node in which terminals are `Special` symbols."""
    return Alt(tuple(Seq(tuple(Special(name) if term else Ref(name) for name, term in each)) for each in alternatives))


def _unused(loaded: LoadedGrammar, rules: Rules) -> Iterator[LintFinding]:
    used_names = {name for each in rules.values() for symbols in each for name, _ in symbols} | {
        *loaded.ignored,
        loaded.start,
    }
    template_names = _templates(rules)
    words = Counter(re.findall(r"\w+", loaded.text))
    for name, line in loaded.lines.items():
        is_terminal = name.lstrip("_")[:1].isupper()
        if name in used_names or name in template_names:
            continue
        parts = re.findall(r"\w+", name)  # a name with hyphens has several
        may_be_used = min(words[part] for part in parts) > 1  # by another terminal
        if not (is_terminal and may_be_used):
            yield unused_finding("terminal" if is_terminal else "rule", f"{name} (line {line})")


def _templates(rules: Rules) -> set[str]:
    """Possible names of templates and repeated rules, from which Lark creates rules `NAME{...}` and `__NAME_...`."""
    names = {rule.partition("{")[0] for rule in rules if "{" in rule}
    for rule in rules:
        if rule.startswith("__"):
            names |= {rule[2:at] for at, character in enumerate(rule) if character == "_" and at > 2}
    return names


def _collisions(
    loaded: LoadedGrammar, rules: Rules, nodes: Mapping[str, Node], contextual: bool
) -> Iterator[LintFinding]:
    """`nodes`: the terminals in the order in which a lexer tries them."""
    order = list(nodes)
    states = terminal_states(rules, loaded.start) if contextual else None
    rows = [nodes.keys()] if states is None else [state.terminals | {*loaded.ignored} for state in states]
    later = _later_in_shared_rows(order, rows)
    all_pairs = ((order[at], order[to]) for at, each in enumerate(later) for to in _set_bits(each))
    count = sum(each.bit_count() for each in later)
    for first, second in islice(all_pairs, _MAX_PAIRS):
        try:
            example = common_text(nodes[first], nodes[second])
        except LimitExceeded as error:
            fail_if_exhausted()
            message = f"not compared with {origin(loaded, second)}: {error}"
            yield LintFinding("not-compared", origin(loaded, first), message, matters=False)
            continue
        if example is not None:
            yield _collision(loaded, loaded.terminals[first], loaded.terminals[second], example)
    if count > _MAX_PAIRS:
        message = f"{count - _MAX_PAIRS} pairs of terminals were not compared"
        yield LintFinding("not-compared", origin(loaded, loaded.start), message, matters=False)


def _later_in_shared_rows(order: Sequence[str], rows: Iterable[Collection[str]]) -> list[int]:
    """For each name, the later names that share a row with it, as a bit set of their positions."""
    positions = {name: at for at, name in enumerate(order)}
    later = [0] * len(order)
    for row in {frozenset(row) for row in rows}:
        in_row = [positions[name] for name in row if name in positions]
        together = sum(1 << at for at in in_row)
        for at in in_row:
            later[at] |= together
    return [each >> (at + 1) << (at + 1) for at, each in enumerate(later)]


def _set_bits(bits: int) -> Iterator[int]:
    """The positions of the set bits, lowest first."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _collision(loaded: LoadedGrammar, first: LoadedTerminal, second: LoadedTerminal, example: str) -> LintFinding:
    """The finding for two terminals that match `example`; Lark tries `first` first."""
    names = {each.name: origin(loaded, each.name) for each in (first, second)}
    if first.is_text != second.is_text and first.priority == second.priority:
        text, other = (first, second) if first.is_text else (second, first)
        message = f"is a keyword: where it is allowed, {example!r} is not {names[other.name]}"
        return LintFinding("keyword", names[text.name], message, "", example, False)
    by_priority = first.priority != second.priority  # the author set it, so it is intended
    reason = "a higher priority" if by_priority else "the order of Lark's lexer"
    message = f"{names[second.name]} also matches {example!r}, which is read as {names[first.name]} because of {reason}"
    name = "NAME" if second.name.startswith("__") else second.name
    hint = "" if by_priority else f"let one of them exclude the other, or set a priority, such as {name}.2"
    return LintFinding("collision", names[first.name], message, hint, example, not by_priority)


def common_text(first: Node, second: Node) -> str | None:
    """A shortest text that both nodes generate, preferably of letters and digits, or None. Raises LimitExceeded."""
    try:
        return _search_common(Texts(first), Texts(second))
    except TooLarge as error:
        raise LimitExceeded("states", error.limit + 1, error.limit, fixed=True) from None


def _search_common(first: Texts, second: Texts) -> str | None:
    start = (first.start, second.start)
    before: dict[tuple[int, int], tuple[tuple[int, int], int] | None] = {start: None}
    todo = [start]
    for pair in todo:  # grows during the loop
        spend()
        if first.accepts(pair[0]) and second.accepts(pair[1]):
            return _text(before, pair)
        for overlap, to in common_edges(first.edges(pair[0]), second.edges(pair[1])):
            if to not in before:
                before[to] = pair, _most_readable(overlap)
                todo.append(to)
        if len(before) > _MAX_STATES:
            hint = "too many states were visited to find a text that both match"
            raise LimitExceeded("states", len(before), _MAX_STATES, fixed=True, hint=hint)
    return None


def _most_readable(bounds: tuple[int, int]) -> int:
    return next((overlap[0][0] for part in _READABLE if (overlap := intersect((part,), (bounds,)))), bounds[0])


def _text(before: dict[tuple[int, int], tuple[tuple[int, int], int] | None], pair: tuple[int, int]) -> str:
    out = []
    while (step := before[pair]) is not None:
        pair, code = step
        out.append(chr(code))
    return "".join(reversed(out))
