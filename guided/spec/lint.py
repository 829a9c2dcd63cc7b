"""What may go wrong in generation with a grammar that is valid. In: a grammar of the IR. Out: remarks.

A small model that once repeats itself does so until something stops it. So every repetition without a bound is told
with its place, but for white space.

What it does not do: it knows no costs; the command `guided lint` measures these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from guided.ir.nodes import Alt, Automaton, Chars, Grammar, MaxTokens, Node, Ref, Repeat, Text
from guided.ir.serial import ByIdentity
from guided.spec.rule_table import children

__all__ = ["BOUNDS", "Remark", "lint_grammar"]

BOUNDS: Final = {
    "schema": "give maxLength, maxItems or a pattern with a bound, or the options max_string, max_items, max_digits",
    "regex": "write {0,n} for *, and {1,n} for +",
    "lark": "write ~0..n for *, and ~1..n for +; in a regular expression {0,n} and {1,n}",
    "gbnf": "write {0,n} for *, and {1,n} for +",
    "structural_tag": "give max_chars, and bounds in the schemas",
}
"""Kind of specification -> how to bound a repetition in it."""
_TOO_LONG: Final = "{} without a bound, which small models may go on with until the budget ends"


@dataclass(frozen=True, slots=True)
class Remark:
    """One finding.

    Attributes:
        kind: "unbounded", "recursion", "collision", "keyword", "not-compared", "empty-rule", "unused" or "cycle".
        place: the part of the specification, as a name with a line, or a JSON Pointer.
        message: what is there, and what it does.
        hint: what to write instead ("" if there is nothing to say).
        example: a text that shows it ("" if there is none).
        matters: whether output may get worse by it; else it is worth knowing only.
    """

    kind: str
    place: str
    message: str
    hint: str = ""
    example: str = ""
    matters: bool = True


def lint_grammar(grammar: Grammar, kind: str) -> list[Remark]:
    """The repetitions without a bound, and the rules that contain themselves.

    Args:
        kind: of the specification, a key of `BOUNDS` or another word.
    """
    out: dict[tuple[str, str], Remark] = {}
    limited = set().union(*map(_limited, grammar.rules.values()))
    rules = [(name, node) for name, node in grammar.rules.items() if name not in limited]
    items = [(grammar.origins.get(name, name), node) for name, node in rules]
    skipped: frozenset[str] = frozenset()
    if grammar.lexer is not None:
        skipped = grammar.lexer.ignored
        items += [(each.origin or each.name, each.item) for each in grammar.lexer.terminals if each.name not in skipped]
    for place, node in items:
        for what in _unbounded(node):
            hint = BOUNDS.get(kind, "bound it")
            out.setdefault((place, what), Remark("unbounded", place, _TOO_LONG.format(what), hint))
    for name in _recursive(grammar):
        place = grammar.origins.get(name, name)
        if name.removeprefix("rule ").startswith("__"):  # Lark's own, for + and *
            message = _TOO_LONG.format("a repetition")
            out.setdefault((place, "a repetition"), Remark("unbounded", place, message, BOUNDS["lark"]))
        else:
            out.setdefault((place, ""), Remark("recursion", place, "it contains itself, to any depth", matters=False))
    return list(out.values())


def _limited(node: Node) -> set[str]:
    """The rules whose texts are limited to some tokens."""
    met: ByIdentity[Any, None] = ByIdentity()
    work: list[Any] = [node]
    out = set[str]()
    while work:
        item = work.pop()
        if item not in met:
            met[item] = None
            if isinstance(item, MaxTokens) and isinstance(item.item, Ref):
                out.add(item.item.name)
            work += children(item)
    return out


def _unbounded(node: Node) -> Iterator[str]:
    met: ByIdentity[Any, None] = ByIdentity()
    work: list[Any] = [node]
    while work:
        item = work.pop()
        if item in met:
            continue
        met[item] = None
        if isinstance(item, Automaton):
            if _loops(item):
                yield "text"
        elif isinstance(item, Repeat) and item.max is None and not _is_space(item.item):
            yield "text" if isinstance(item.item, Chars | Text | Alt) else "a repetition"
        if not isinstance(item, MaxTokens):
            work += children(item)


def _is_space(node: Node) -> bool:
    match node:
        case Chars(ranges):
            return all(chr(code).isspace() for low, high in ranges for code in range(low, min(high, low + 40) + 1))
        case Text(text):
            return text.isspace()
        case Alt(items):
            return all(map(_is_space, items))
    return False


def _loops(automaton: Automaton) -> bool:
    """Whether its texts may be of any length, white space aside."""
    states = automaton.states
    before: dict[int, set[int]] = {}
    for at, (_, edges) in enumerate(states):
        for low, high, to in edges:
            if not _is_space(Chars(((low, high),))):
                before.setdefault(to, set()).add(at)
    live = {at for at, (accepts, _) in enumerate(states) if accepts}
    work = list(live)
    while work:
        for at in before.get(work.pop(), ()):
            if at not in live:
                live.add(at)
                work.append(at)
    # States without a way on are taken away, again and again: what is left leads to a cycle.
    ahead = {at: {to for low, high, to in states[at][1] if to in live and at in before.get(to, ())} for at in live}
    work = [at for at in live if not ahead[at]]
    gone = set(work)
    while work:
        at = work.pop()
        for source in before.get(at, set()) & live - gone:
            ahead[source].discard(at)
            if not ahead[source]:
                gone.add(source)
                work.append(source)
    return bool(live - gone)


def _recursive(grammar: Grammar) -> list[str]:
    """The rules that contain themselves, by way of others or directly."""
    calls: dict[str, set[str]] = {}
    for name, node in grammar.rules.items():
        work: list[Any] = [node]
        calls[name] = set()
        met: ByIdentity[Any, None] = ByIdentity()
        while work:
            item = work.pop()
            if item in met:
                continue
            met[item] = None
            if isinstance(item, Ref):
                calls[name].add(item.name)
            work += children(item)
    out = []
    for name, called in calls.items():
        reached, todo = set(called), list(called)
        while todo and name not in reached:
            more = calls.get(todo.pop(), set()) - reached
            reached |= more
            todo += more
        if name in reached:
            out.append(name)
    return out
