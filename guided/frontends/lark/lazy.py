"""Finds which terminals must not extend over lazy terminals. In: rules, and the names of lazy terminals. Out: for each
LR item before a terminal (`lalr.py`), the lazy terminals over which this terminal must not extend.

    start: (call | TEXT)*        TEXT: /(.|\\n)*/
    call: head "(" ")"           head[lazy]: TEXT "<call"

A lazy terminal ends at its first match. Wherever it can be tried, the text up to that point belongs to it: no other
terminal may take this text and continue. So the TEXT in `start` contains no `<call`, although its pattern allows it,
and `<call` is followed by `(`. Two lazy terminals may match the same text.

How: terminals compete if a state of the LR(0) automaton has items before both. Items after rules that may be empty
count, too. If an item competes with different lazy terminals in different states, its rule is copied: in
`start: lazy | "c" t | t`, only the last `t` avoids `lazy`. A copy is a rule together with the state in which it
begins; copies that avoid the same terminals everywhere are one rule.

Source: llguidance, docs/syntax.md, "Lazy lexemes" and "Tool calling".

Not exact: a position after a rule that may be empty also counts as the position before it, even if the rule was not
empty. If there are more than `_MAX_COPIES` copies, an item avoids the lazy terminals of all its states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from .lalr import FIRST, ROOT, Item, Rules, find_lr0_kernels, find_nullable

__all__ = ["LazyContexts", "find_lazy_contexts"]

_MAX_COPIES: Final = 5_000

Kernel: TypeAlias = frozenset[Item]
_Copy: TypeAlias = tuple[Kernel, str, frozenset[Kernel]]
"""The state in which a rule begins, its name, and the states that share the place in the text with this state, because
all that was read between them is empty."""


class LazyContexts(NamedTuple):
    """The rules, in which some are copied.

    Attributes:
        avoided: LR item before a terminal -> the lazy terminals over which it must not extend.
        sources: name of a copied rule -> the name of the rule in the grammar.
    """

    rules: Rules
    avoided: Mapping[Item, frozenset[str]]
    sources: Mapping[str, str]


def find_lazy_contexts(rules: Rules, start: str, lazy_names: frozenset[str]) -> LazyContexts:
    """See the module docstring. If the automaton is too large, no terminal may extend over any lazy one."""
    if not lazy_names:
        return LazyContexts(rules, {}, {})
    rules_with_root = {ROOT: [[(start, False)]], **rules}
    all_kernels = find_lr0_kernels(rules, start)
    if all_kernels is None:
        all_kernels = [
            frozenset(Item(name, number, 0) for name, each in rules_with_root.items() for number in range(len(each)))
        ]
    nullable_rules = find_nullable(rules_with_root)
    sets_by_item: dict[Item, set[frozenset[str]]] = {}
    for kernel in all_kernels:
        items = list(_find_terminal_items(rules_with_root, kernel, nullable_rules))
        competing_names = lazy_names & {_get_next_symbol(rules_with_root, item) for item in items}
        for item in items:
            avoided_names = competing_names - {_get_next_symbol(rules_with_root, item)}
            sets_by_item.setdefault(item, set()).add(avoided_names)
    if any(len(sets) > 1 for sets in sets_by_item.values()):
        copies = _Copies(rules_with_root, lazy_names, nullable_rules)
        if (contexts := copies.make(start)) is not None:
            return contexts
    return LazyContexts(rules, {item: frozenset().union(*sets) for item, sets in sets_by_item.items()}, {})


def _get_next_symbol(rules: Rules, item: Item) -> str:
    return rules[item.rule][item.alternative][item.read][0]


def _find_terminal_items(rules: Rules, kernel: Kernel, nullable_rules: set[str]) -> Iterator[Item]:
    """The items before terminals that a parser reaches from `kernel` without reading anything."""
    todo = list(kernel or {FIRST})
    seen: set[str] = set()
    for item in todo:  # grows during the loop
        symbols = rules[item.rule][item.alternative]
        for read in range(item.read, len(symbols)):
            name, is_terminal = symbols[read]
            if is_terminal:
                yield Item(item.rule, item.alternative, read)
                break
            if name not in seen:
                seen.add(name)
                todo += [Item(name, number, 0) for number in range(len(rules[name]))]
            if name not in nullable_rules:
                break


class _Copies:
    """Copies the rules of a grammar, one for each `_Copy`, and merges the copies that are alike."""

    def __init__(self, rules: Rules, lazy_names: frozenset[str], nullable_rules: set[str]) -> None:
        self._rules, self._lazy_names, self._nullable_rules = rules, lazy_names, nullable_rules
        self._competing: dict[Kernel, frozenset[str]] = {}
        self._next_kernels: dict[Kernel, dict[tuple[str, bool], Kernel]] = {}
        # For each copy: its alternatives, in which a rule is a copy, and the lazy terminals that each symbol avoids.
        self._alternatives: dict[_Copy, list[list[tuple[_Copy | str, frozenset[str]]]]] = {}

    def make(self, start: str) -> LazyContexts | None:
        """The copied rules; None if there are too many copies."""
        kernel = frozenset({FIRST})
        first: _Copy = (kernel, start, frozenset({kernel}))
        todo = [first]
        for copy in todo:  # grows during the loop
            if copy in self._alternatives:
                continue
            if len(self._alternatives) >= _MAX_COPIES:
                return None
            self._alternatives[copy] = [self._annotate(copy, symbols) for symbols in self._rules[copy[1]]]
            todo += [each for symbols in self._alternatives[copy] for each, _ in symbols if not isinstance(each, str)]
        return self._write(self._merge(), first)

    def _annotate(self, copy: _Copy, symbols: Sequence[tuple[str, bool]]) -> list[tuple[_Copy | str, frozenset[str]]]:
        kernel, _, places = copy
        out = list[tuple[_Copy | str, frozenset[str]]]()
        for name, is_terminal in symbols:
            if is_terminal:
                out.append((name, frozenset().union(*map(self._find_competing, places)) - {name}))
            else:
                out.append(((kernel, name, places), frozenset()))
            kernel = self._find_next_kernels(kernel)[name, is_terminal]
            may_be_empty = not is_terminal and name in self._nullable_rules
            places = places | {kernel} if may_be_empty else frozenset({kernel})
        return out

    def _find_competing(self, kernel: Kernel) -> frozenset[str]:
        if kernel not in self._competing:
            items = _find_terminal_items(self._rules, kernel, self._nullable_rules)
            self._competing[kernel] = self._lazy_names & {_get_next_symbol(self._rules, item) for item in items}
        return self._competing[kernel]

    def _find_next_kernels(self, kernel: Kernel) -> dict[tuple[str, bool], Kernel]:
        """The transitions of a state of the LR(0) automaton."""
        if kernel not in self._next_kernels:
            items, seen, targets = list(kernel), set[str](), dict[tuple[str, bool], set[Item]]()
            for item in items:  # grows during the loop
                symbols = self._rules[item.rule][item.alternative]
                if item.read == len(symbols):
                    continue
                name, is_terminal = symbol = symbols[item.read]
                targets.setdefault(symbol, set()).add(item._replace(read=item.read + 1))
                if not is_terminal and name not in seen:
                    seen.add(name)
                    items += [Item(name, number, 0) for number in range(len(self._rules[name]))]
            self._next_kernels[kernel] = {symbol: frozenset(target) for symbol, target in targets.items()}
        return self._next_kernels[kernel]

    def _merge(self) -> dict[_Copy, int]:
        """The class of each copy: copies of one rule that avoid the same terminals, also in the rules that they use.

        Partition refinement (Moore 1956): O(copies) for each round.
        """
        classes = dict.fromkeys(self._alternatives, 0)
        count = 0
        while True:
            numbers = dict[object, int]()
            new_classes = {
                copy: numbers.setdefault(
                    (
                        copy[1],
                        classes[copy],
                        *(
                            tuple(
                                (each if isinstance(each, str) else classes[each], avoided) for each, avoided in symbols
                            )
                            for symbols in alternatives
                        ),
                    ),
                    len(numbers),
                )
                for copy, alternatives in self._alternatives.items()
            }
            classes = new_classes
            if len(numbers) == count:
                return classes
            count = len(numbers)

    def _write(self, classes: Mapping[_Copy, int], first: _Copy) -> LazyContexts:
        names = {classes[first]: first[1]}  # the first copy of a rule keeps its name
        counts = {first[1]: 1}
        for copy, number in classes.items():
            if number not in names:
                count = counts[copy[1]] = counts.get(copy[1], 0) + 1
                names[number] = copy[1] if count == 1 else f"{copy[1]}/{count}"
        rules, avoided, sources = dict[str, list[list[tuple[str, bool]]]](), dict[Item, frozenset[str]](), {}
        for copy, alternatives in self._alternatives.items():
            name = names[classes[copy]]
            if name in rules:
                continue
            sources[name] = copy[1]
            rules[name] = [
                [(each, True) if isinstance(each, str) else (names[classes[each]], False) for each, _ in symbols]
                for symbols in alternatives
            ]
            for number, symbols in enumerate(alternatives):
                avoided |= {Item(name, number, read): each for read, (_, each) in enumerate(symbols)}
        return LazyContexts(rules, avoided, sources)
