"""Finds likely mistakes in a Lark grammar. In: a text. Out: findings about its terminals and rules.

Terminals collide if they match a common string at a position where Lark may try both. The terminal that Lark tries
first takes the string, so the other one never matches it. The examples are shortest common strings of the lexer's
automata, found by a breadth-first search over pairs of states (Hopcroft and Ullman 1979, section 3.2), which gives up
beyond `_MAX_STATES` pairs.

Terminals are compared if they share a row of the LALR(1) table. If the grammar has no such table, or the lexer is
Lark's basic lexer, all pairs are compared. With scannerless semantics, nothing collides.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from guided.errors import LimitExceeded
from guided.frontends.common.lint_finding import LintFinding
from guided.frontends.common.regular_texts import TextAutomaton
from guided.frontends.common.rule_lint import lint_rules, reachable_rules, unused_finding
from guided.frontends.regex.derivatives import TooLarge
from guided.frontends.regex.doubtful_sets import lint_pattern
from guided.ir.nodes import Alt, Node, Ref, Seq, Special
from guided.ir.ranges import Ranges, intersect
from guided.limits import Limits
from guided.meter import fail_if_exhausted, spend

from . import LarkOptions, load_lark, read_lark
from .lalr import Rules, find_terminal_states
from .loader import LoadedGrammar, LoadedTerminal
from .rules import describe_origin
from .terminal_texts import find_common_edges

__all__ = ["find_common_text", "lint_lark"]

_MAX_PAIRS: Final = 2_000
_MAX_STATES: Final = 50_000  # pairs of states in the search for a common string
_READABLE_CHARS: Ranges = ((ord("a"), ord("z")), (ord("A"), ord("Z")), (ord("0"), ord("9")), (33, 126), (32, 32))


def lint_lark(text: str, options: LarkOptions, limits: Limits | None = None) -> list[LintFinding]:
    """See the module docstring.

    Raises:
        SpecError, UnsupportedError, LimitExceeded: see `read_lark`.
    """
    loaded_grammar = load_lark(text, options, limits)
    nodes = {name: _build_node(alternatives) for name, alternatives in loaded_grammar.rules.items()}
    rules = {name: loaded_grammar.rules[name] for name in reachable_rules(nodes, loaded_grammar.start)}
    lexer = read_lark(text, options, limits, findings=[]).lexer
    lexed_nodes = {} if lexer is None else {each.name: each.item for each in lexer.terminals}
    rule_findings = lint_rules(nodes, loaded_grammar.start, lambda name: describe_origin(loaded_grammar, name))
    return [
        *rule_findings,
        *_find_unused(loaded_grammar, rules),
        *_find_collisions(loaded_grammar, rules, lexed_nodes, options.lexer == "contextual"),
        *_find_doubtful_sets(loaded_grammar),
    ]


def _find_doubtful_sets(loaded_grammar: LoadedGrammar) -> Iterator[LintFinding]:
    for terminal in loaded_grammar.terminals.values():
        if not terminal.is_string and "x" not in terminal.flags:
            yield from lint_pattern(terminal.value, describe_origin(loaded_grammar, terminal.name))


def _build_node(alternatives: Iterable[Sequence[tuple[str, bool]]]) -> Node:
    """The node of a rule, in which terminals are `Special` nodes."""
    return Alt(
        tuple(Seq(tuple(Special(name) if is_term else Ref(name) for name, is_term in each)) for each in alternatives)
    )


def _find_unused(loaded_grammar: LoadedGrammar, rules: Rules) -> Iterator[LintFinding]:
    used_names = {name for each in rules.values() for symbols in each for name, _ in symbols} | {
        *loaded_grammar.ignored_terminals,
        loaded_grammar.start,
    }
    template_names = _find_template_names(rules, loaded_grammar.lines)
    words = Counter(re.findall(r"\w+", loaded_grammar.text))
    for name, line in loaded_grammar.lines.items():
        is_terminal = name.lstrip("_")[:1].isupper()
        if name in used_names or name in template_names:
            continue
        words_of_name = re.findall(r"\w+", name)  # a name with hyphens has several words
        may_be_used = min(words[word] for word in words_of_name) > 1  # perhaps in another terminal
        if not (is_terminal and may_be_used):
            yield unused_finding("terminal" if is_terminal else "rule", f"{name} (line {line})")


def _find_template_names(rules: Rules, names: Iterable[str]) -> set[str]:
    """The names that may be names of templates and of rules with repetitions. Lark creates rules `NAME{...}` and
    `__NAME_...` for them.
    """
    sorted_rules = sorted(rules)

    def has_rule(prefix: str) -> bool:
        index = bisect_left(sorted_rules, prefix)
        return index < len(sorted_rules) and sorted_rules[index].startswith(prefix)

    return {name for name in names if has_rule(f"{name}{{") or has_rule(f"__{name}_")}


def _find_collisions(
    loaded_grammar: LoadedGrammar, rules: Rules, nodes: Mapping[str, Node], contextual: bool
) -> Iterator[LintFinding]:
    """Collisions of terminals. `nodes`: the terminals in the order in which a lexer tries them."""
    order = list(nodes)
    table = find_terminal_states(rules, loaded_grammar.start) if contextual else None
    rows = (
        [nodes.keys()]
        if table is None
        else [state.terminals | {*loaded_grammar.ignored_terminals} for state in table.states]
    )
    later_sets = _find_later_in_shared_rows(order, rows)
    all_pairs = ((order[i], order[j]) for i, later in enumerate(later_sets) for j in _list_set_bits(later))
    count = sum(each.bit_count() for each in later_sets)
    for first, second in islice(all_pairs, _MAX_PAIRS):
        try:
            example = find_common_text(nodes[first], nodes[second])
        except LimitExceeded as error:
            fail_if_exhausted()
            message = f"not compared with {describe_origin(loaded_grammar, second)}: {error}"
            yield LintFinding("not-compared", describe_origin(loaded_grammar, first), message, matters=False)
            continue
        if example is not None:
            yield _make_collision_finding(
                loaded_grammar, loaded_grammar.terminals[first], loaded_grammar.terminals[second], example
            )
    if count > _MAX_PAIRS:
        message = f"{count - _MAX_PAIRS} pairs of terminals were not compared"
        yield LintFinding("not-compared", describe_origin(loaded_grammar, loaded_grammar.start), message, matters=False)


def _find_later_in_shared_rows(order: Sequence[str], rows: Iterable[Collection[str]]) -> list[int]:
    """For each name, the later names that share a row with it, as a bit set of their indices."""
    indices = {name: index for index, name in enumerate(order)}
    shared_bits = [0] * len(order)
    for row in {frozenset(row) for row in rows}:
        row_indices = [indices[name] for name in row if name in indices]
        row_bits = sum(1 << index for index in row_indices)
        for index in row_indices:
            shared_bits[index] |= row_bits
    return [bits >> (index + 1) << (index + 1) for index, bits in enumerate(shared_bits)]


def _list_set_bits(bits: int) -> Iterator[int]:
    """The indices of the bits that are 1, lowest first."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _make_collision_finding(
    loaded_grammar: LoadedGrammar, first: LoadedTerminal, second: LoadedTerminal, example: str
) -> LintFinding:
    """The finding for two terminals that match `example`. Lark tries `first` before `second`."""
    names = {each.name: describe_origin(loaded_grammar, each.name) for each in (first, second)}
    if first.is_string != second.is_string and first.priority == second.priority:
        string, other = (first, second) if first.is_string else (second, first)
        message = f"is a keyword: where it is allowed, {example!r} is not {names[other.name]}"
        return LintFinding("keyword", names[string.name], message, "", example, False)
    has_priority = first.priority != second.priority  # the author set it, so it is intended
    reason = "a higher priority" if has_priority else "the order of Lark's lexer"
    message = f"{names[second.name]} also matches {example!r}, which is read as {names[first.name]} because of {reason}"
    name = "NAME" if second.name.startswith("__") else second.name
    hint = "" if has_priority else f"let one of them exclude the other, or set a priority, such as {name}.2"
    return LintFinding("collision", names[first.name], message, hint, example, not has_priority)


def find_common_text(first: Node, second: Node) -> str | None:
    """A shortest string that both nodes generate, preferably of letters and digits. None if there is none.

    Raises:
        LimitExceeded: the search takes too many states.
    """
    try:
        return _search_common(TextAutomaton(first), TextAutomaton(second))
    except TooLarge as error:
        raise LimitExceeded("states", error.limit + 1, error.limit, fixed=True) from None


def _search_common(first: TextAutomaton, second: TextAutomaton) -> str | None:
    start = (first.start, second.start)
    predecessors: dict[tuple[int, int], tuple[tuple[int, int], int] | None] = {start: None}
    todo = [start]
    for pair in todo:  # grows during the loop
        spend()
        if first.accepts(pair[0]) and second.accepts(pair[1]):
            return _read_back(predecessors, pair)
        for overlap, target in find_common_edges(first.edges(pair[0]), second.edges(pair[1])):
            if target not in predecessors:
                predecessors[target] = pair, _choose_readable(overlap)
                todo.append(target)
        if len(predecessors) > _MAX_STATES:
            hint = "the search for a string that both match visited too many states"
            raise LimitExceeded("states", len(predecessors), _MAX_STATES, fixed=True, hint=hint)
    return None


def _choose_readable(bounds: tuple[int, int]) -> int:
    overlaps = (intersect((readable_range,), (bounds,)) for readable_range in _READABLE_CHARS)
    return next((overlap[0][0] for overlap in overlaps if overlap), bounds[0])


def _read_back(predecessors: dict[tuple[int, int], tuple[tuple[int, int], int] | None], pair: tuple[int, int]) -> str:
    out = []
    while (step := predecessors[pair]) is not None:
        pair, code = step
        out.append(chr(code))
    return "".join(reversed(out))
