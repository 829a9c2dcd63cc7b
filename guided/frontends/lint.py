"""Lint for valid grammars: finds parts that may go wrong in generation. In: a grammar of the IR. Out: findings.

Once a small model repeats itself, it continues until something stops it. So every unbounded repetition except
whitespace is reported with its location. Repetitions with a high bound and recursive rules are informational.

It does not measure costs; the command `guided lint` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from guided.frontends.common.finite import FiniteValues
from guided.frontends.common.lint_finding import LintFinding
from guided.frontends.common.regular_texts import TextAutomaton
from guided.frontends.common.rule_lint import find_cyclic, reachable_rules, recursive_rules
from guided.frontends.common.rule_table import children, parts_of
from guided.ir.nodes import Alt, And, Automaton, Chars, Distinct, Grammar, Length, MaxTokens, Node, Ref, Repeat, Text
from guided.ir.serial import ByIdentity
from guided.meter import spend

__all__ = ["BOUNDS", "lint_grammar"]

BOUNDS: Final = {
    "schema": "set maxLength, maxItems or a pattern with a bound, or the options max_string, max_items, max_digits",
    "regex": "write {0,n} for *, and {1,n} for +",
    "lark": "write ~0..n for *, and ~1..n for +; in a regular expression {0,n} and {1,n}",
    "gbnf": "write {0,n} for *, and {1,n} for +",
    "structural_tag": "set max_chars, and bounds in the schemas",
}
"""Kind of specification -> how to bound a repetition in it."""
_LONG_REPETITION: Final = 500
_UNBOUNDED_MESSAGE: Final = "{} without a bound, which small models may continue until the budget ends"


def lint_grammar(grammar: Grammar, kind: str) -> list[LintFinding]:
    """The unbounded repetitions, and the rules that contain themselves.

    Args:
        kind: the kind of specification, which is a key of `BOUNDS` or another word.
    """
    out: dict[tuple[str, str], LintFinding] = {}
    limited_rules = set().union(*map(_rules_with_token_limit, grammar.rules.values()))
    used_rules = reachable_rules(grammar.rules, grammar.start)
    rules = [(name, grammar.rules[name]) for name in used_rules if name not in limited_rules]
    is_single = len(grammar.rules) == 1  # then the name of its rule, such as that of a regular expression, is internal
    items = [(grammar.origins.get(name, "" if is_single else name), node) for name, node in rules]
    skipped_terminals: frozenset[str] = frozenset()
    if grammar.lexer is not None:
        skipped_terminals = grammar.lexer.ignored
        items += [
            (each.origin or each.name, each.item)
            for each in grammar.lexer.terminals
            if each.name not in skipped_terminals
        ]
    values = FiniteValues(grammar.rules)
    for place, node in items:
        for what, bound in _repetitions(node, values):
            hint = BOUNDS.get(kind, "bound it")
            if bound is None:
                out.setdefault((place, what), LintFinding("unbounded", place, _UNBOUNDED_MESSAGE.format(what), hint))
            elif bound > _LONG_REPETITION:
                message = f"{what} up to {bound:,} times, all of which small models may use"
                out.setdefault((place, f"long {what}"), LintFinding("long", place, message, hint, matters=False))
    used_names = set(used_rules)
    for name in recursive_rules(grammar.rules):
        if name not in used_names:
            continue
        place = grammar.origins.get(name, name)
        if name.removeprefix("rule ").startswith("__"):  # Lark generates these for + and *
            message = _UNBOUNDED_MESSAGE.format("a repetition")
            out.setdefault((place, "a repetition"), LintFinding("unbounded", place, message, BOUNDS["lark"]))
        else:
            out.setdefault((place, ""), LintFinding("recursion", place, "it is recursive, to any depth", matters=False))
    return list(out.values())


def _rules_with_token_limit(node: Node) -> set[str]:
    """The rules whose texts have a token limit."""
    limits = (part for part in parts_of(node) if isinstance(part, MaxTokens))
    return {limit.item.name for limit in limits if isinstance(limit.item, Ref)}


def _repetitions(node: Node, values: FiniteValues) -> Iterator[tuple[str, int | None]]:
    """What the node repeats, in words, and the maximum count of each repetition; None: unbounded."""
    seen: ByIdentity[Any, None] = ByIdentity()
    work: list[tuple[Any, bool]] = [(node, False)]  # (node, whether the values of its entries must differ)
    while work:
        item, must_differ = work.pop()
        if item in seen:
            continue
        spend()
        seen[item] = None
        if isinstance(item, Automaton):
            yield ("text", None) if _has_unbounded_texts(item) else ("characters", _longest_text(item))
        elif isinstance(item, Repeat) and not _is_space(item.item):
            is_text = isinstance(item.item, Chars | Text | Alt)
            bound = item.max
            if bound is None and must_differ:
                bound = _count_or_none(values.max_entries, item.item)
            yield ("text" if is_text and bound is None else "characters" if is_text else "a repetition"), bound
        elif isinstance(item, Length) and item.max is not None:
            yield "characters", item.max
            continue
        if isinstance(item, And) and _count_or_none(values.count, item) is not None:
            work += [(each, must_differ) for each in item.items if _count_or_none(values.count, each) is not None]
        elif not isinstance(item, MaxTokens):
            work += [(each, must_differ or isinstance(item, Distinct)) for each in children(item)]


def _count_or_none(count: Callable[[Any], int | None], node: Any) -> int | None:
    try:
        return count(node)
    except RecursionError:  # the node nests too deeply
        return None


def _is_space(node: Node) -> bool:
    match node:
        case Chars(ranges):
            return all(chr(code).isspace() for low, high in ranges for code in range(low, min(high, low + 40) + 1))
        case Text(text):
            return text.isspace()
        case Alt(items):
            return all(map(_is_space, items))
    return False


def _has_unbounded_texts(automaton: Automaton) -> bool:
    """Whether the texts of the automaton may have any length, ignoring whitespace."""
    texts = TextAutomaton(automaton)
    successors = {
        state: {to for low, high, to in edges if texts.is_live(to) and not _is_space(Chars(((low, high),)))}
        for state, (_, edges) in enumerate(automaton.states)
    }
    return bool(find_cyclic(successors))


def _longest_text(automaton: Automaton) -> int:
    """The length of the automaton's longest text. Its only cycles are whitespace, which does not count."""
    lengths: dict[int, int] = {}
    todo: list[tuple[int, bool]] = [(automaton.start, False)]
    entered_states: set[int] = set()
    while todo:
        state, is_leaving = todo.pop()
        edges = [(to, not _is_space(Chars(((low, high),)))) for low, high, to in automaton.states[state][1]]
        if is_leaving:
            lengths[state] = max((lengths.get(to, 0) + counts for to, counts in edges), default=0)
        elif state not in entered_states:
            entered_states.add(state)
            todo += [(state, True), *((to, False) for to, _ in edges)]
    return lengths[automaton.start]
