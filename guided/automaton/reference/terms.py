"""The terms of a grammar: decides which are nullable and productive, and expands them into other terms.

A *term* is a part of a rule for the parser (`language.py`): an IR node, or the rest of a node that has been partly
read. The rest of a regular node is a `Run`, and the rest of a permutation is a `Members`. `Mark` and `OpenScope` terms
say where uniqueness scopes and their entries begin and end (`uniqueness.py`).

In: a `Grammar` and the live bytes, which occur in some token. Out, for each term:

- whether it is *nullable*: its language contains the empty text;
- whether it is *productive*: its language contains some text of live bytes and control tokens;
- the sequences of terms into which it expands.

How: nullable and productive rules are least fixpoints, found by iterating over all rules until nothing changes.
`Distinct` is ignored here, because its effect depends on the text.

Cost: each fact is decided once per term and round. Nodes may nest at most `MAX_DEPTH` deep. `Encoded` inside `And`,
`Not`, `Length` or another `Encoded` is not supported: combine the items first, then encode the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from guided.automaton.reference.regular import MAX_DEPTH, Run, Spelling, in_bounds, regular
from guided.automaton.reference.token_limits import LimitedRun
from guided.automaton.reference.uniqueness import Mark, OpenScope
from guided.errors import LimitExceeded, SpecError
from guided.ir.conditions import AllOf, AnyOf, Condition, NoneOf, Written
from guided.ir.encodings import UTF8, Encoding
from guided.ir.nodes import (
    Alt,
    And,
    Automaton,
    Chars,
    Dispatch,
    Distinct,
    Encoded,
    Entry,
    Grammar,
    Length,
    MaxTokens,
    Node,
    Not,
    Permutation,
    Ref,
    Repeat,
    Seq,
    Special,
    Substrings,
    Text,
)
from guided.ir.serial import serial
from guided.meter import spend

__all__ = ["Members", "Rest", "Term", "Terms"]


@dataclass(frozen=True)
class Members:
    """The rest of a `Permutation`.

    `seen`: the written members that affect what may follow. `count`: how many members have been written, up to a limit
    (see `choices`).
    """

    permutation: Permutation
    seen: frozenset[int] = frozenset()
    count: int = 0

    @property
    def may_stop(self) -> bool:
        """Whether the permutation may end here."""
        required = {i for i, member in enumerate(self.permutation.members) if member.required}
        meets_bounds = (
            required <= self.seen and self.count >= self.permutation.min and in_bounds(self.count, self.permutation.max)
        )
        return meets_bounds and (self.permutation.condition is None or holds(self.permutation.condition, self.seen))

    def allows_member(self, i: int) -> bool:
        """Whether member `i` may come next: its slot (see `Permutation`) must be free, and the order must allow it."""
        members, slots = self.permutation.members, self.permutation.slots or range(len(self.permutation.members))
        if members[i].repeatable:
            return True
        if any(slots[j] == slots[i] for j in self.seen):
            return False
        return not self.permutation.ordered or all(slots[j] < slots[i] and not members[j].repeatable for j in self.seen)

    def choices(self) -> Iterator[tuple[int, Members]]:
        """The members that may come next, each with the rest after it."""
        permutation = self.permutation
        if permutation.max is not None and self.count >= permutation.max:
            return
        # Facts that cannot matter later are not stored, to keep the number of states small. Without an upper bound,
        # counts above the lower bound are equivalent to it. Only 0 always differs from 1, since a separator precedes
        # all members except the first. A repeatable member is recorded only if it is required, or a condition or an
        # order depends on it.
        max_count = max(permutation.min, 1) if permutation.max is None else permutation.max
        for i, member in enumerate(permutation.members):
            if self.allows_member(i):
                is_irrelevant = (
                    permutation.condition is None
                    and not permutation.ordered
                    and member.repeatable
                    and not member.required
                )
                yield (
                    i,
                    Members(
                        permutation, self.seen if is_irrelevant else self.seen | {i}, min(self.count + 1, max_count)
                    ),
                )

    def item(self, i: int) -> Node:
        """The node of member `i`, preceded by the separator unless it is the first."""
        item = self.permutation.members[i].item
        return Seq((self.permutation.separator, item)) if self.count else item


def holds(condition: Condition, written_members: frozenset[int]) -> bool:
    """Whether a condition holds after exactly these members have been written."""
    match condition:
        case Written(members):
            return bool(written_members.intersection(members))
        case AllOf(items):
            return all(holds(item, written_members) for item in items)
        case AnyOf(items):
            return any(holds(item, written_members) for item in items)
        case NoneOf(items):
            return not any(holds(item, written_members) for item in items)


Term: TypeAlias = Node | Run | LimitedRun | Members | Mark | OpenScope
Rest: TypeAlias = tuple[Term, ...]


class Terms:
    """The terms of one grammar. `live`: the bytes that occur in some token.

    Raises:
        SpecError: a reference to a missing rule, or an empty item where the IR forbids it.
        LimitExceeded: nodes are nested too deeply.
    """

    def __init__(self, grammar: Grammar, live: frozenset[int]) -> None:
        self.rules, self._live = grammar.rules, live
        self._spellings: dict[Encoding, Spelling] = {}
        self._runs: dict[int, Run] = {}  # by serial number of the node
        self._productive_cache: dict[Term, bool] = {}
        self._nullable_rules: set[str] = set()
        self._productive_rules: set[str] = set()
        self._check()
        self._add_least_fixpoint(self.nullable, self._nullable_rules)
        self._check_empty()
        self._add_least_fixpoint(self.productive, self._productive_rules)
        self.control_tokens = frozenset(node.token for node in self._nodes() if isinstance(node, Special))
        """The control tokens that the grammar names."""
        self.has_uniqueness = any(isinstance(node, Distinct) for node in self._nodes())
        """Whether the grammar has a `Distinct`."""
        self.limits = list(self._reachable_limits(grammar.start))
        """The `MaxTokens` nodes that some output can reach."""

    def expand(self, head: Term) -> Iterator[Rest]:
        """The sequences of terms into which `head` expands. The union of their languages is the language of `head`."""
        match head:
            case Seq(items):
                yield items
            case Alt(items):
                yield from ((item,) for item in items)
            case Permutation():
                yield (Members(head),)
            case Members():
                if head.may_stop:
                    yield ()
                yield from ((head.item(i), after) for i, after in head.choices())
            case MaxTokens(item, max_tokens):
                if self.nullable(item):
                    yield ()
                if max_tokens:
                    yield (LimitedRun(self.run(item), max_tokens),)
            case Distinct(item, names):
                yield (OpenScope(frozenset(names)), item, Mark.CLOSE)
            case Entry(item):
                yield (Mark.BEGIN, item, Mark.END)
            case Dispatch(automaton, _, items):
                yield (self.run(automaton),)
                yield from (
                    (self.run(before), item) for before, item in zip(_texts_before_items(head), items, strict=True)
                )
            case Text() | Chars() | Automaton() | Substrings() | And() | Not() | Length() | Encoded():
                yield (self.run(head),)

    def _reachable_limits(self, start: str) -> Iterator[MaxTokens]:
        todo: list[Node] = [Ref(start)]
        seen_nodes = set[Node]()
        for node in todo:  # grows during the loop
            if node in seen_nodes:
                continue
            seen_nodes.add(node)
            if not self.productive(node):
                continue
            match node:
                case MaxTokens(_, max_tokens) if max_tokens:
                    yield node
                case Ref(name):
                    todo.append(self.rules[name])
                case Seq(items) | Alt(items) | Dispatch(_, _, items):
                    todo += items
                case Repeat(item, _, high) if high != 0:
                    todo.append(item)
                case Distinct(item) | Entry(item):
                    todo.append(item)
                case Permutation(members, separator):
                    todo += (separator, *(member.item for member in members))

    # ---- facts

    def _add_least_fixpoint(self, has_property: Callable[[Node], bool], names: set[str]) -> None:
        """Compute a least fixpoint: add rules to `names` until no other rule has the property, which reads `names`."""
        has_grown = True
        while has_grown:
            self._productive_cache.clear()
            new_names = {name for name, node in self.rules.items() if name not in names and has_property(node)}
            names |= new_names
            has_grown = bool(new_names)

    def nullable(self, term: Term) -> bool:
        """Whether the language of `term` contains the empty text."""
        spend()
        match term:
            case Ref(name):
                return name in self._nullable_rules
            case Seq(items):
                return all(self.nullable(item) for item in items)
            case Alt(items):
                return any(self.nullable(item) for item in items)
            case Repeat(item, low, high):
                return in_bounds(low, high) and (low <= 0 or self.nullable(item))
            case Dispatch(automaton, _, items):
                pairs = zip(_texts_before_items(term), items, strict=True)
                return self.nullable(automaton) or any(
                    self.nullable(before) and self.nullable(item) for before, item in pairs
                )
            case Permutation():
                return Members(term).may_stop
            case Members():
                return term.may_stop
            case Distinct(item) | Entry(item):
                return self.nullable(item)
            case Mark() | OpenScope():
                return True
            case Special():
                return False
            case Run() | LimitedRun():
                return term.may_stop
            case MaxTokens(item):
                return self.nullable(item)
        return self.run(term).may_stop

    def productive(self, term: Term) -> bool:
        """Whether the language of `term` contains a text of live bytes and control tokens."""
        if term not in self._productive_cache:
            spend()
            self._productive_cache[term] = self._decide_productive(term)
        return self._productive_cache[term]

    def _decide_productive(self, term: Term) -> bool:
        match term:
            case Ref(name):
                return name in self._productive_rules
            case Seq(items):
                return all(self.productive(item) for item in items)
            case Alt(items):
                return any(self.productive(item) for item in items)
            case Repeat(item, low, high):
                return in_bounds(low, high) and (low <= 0 or self.productive(item))
            case Dispatch(automaton, _, items):
                pairs = zip(_texts_before_items(term), items, strict=True)
                return self.run(automaton).is_alive or any(
                    self.run(before).is_alive and self.productive(item) for before, item in pairs
                )
            case Permutation():
                return self._can_complete(Members(term))
            case Members():
                return self._can_complete(term)
            case Distinct(item) | Entry(item):
                return self.productive(item)
            case Special() | Mark() | OpenScope():
                return True
            case Run() | LimitedRun():
                return term.is_alive
            case MaxTokens(item, max_tokens):
                return self.run(item).is_alive if max_tokens else self.nullable(item)
        return self.run(term).is_alive

    def _can_complete(self, rest: Members) -> bool:
        """Whether a permutation can be completed with all required members, and a number of members in its bounds."""
        permutation = rest.permutation
        if permutation.condition is not None or permutation.ordered or permutation.slots:
            return self._can_complete_by_search(rest)
        members = [(i, member, self.productive(member.item)) for i, member in enumerate(permutation.members)]
        missing_productive = [
            is_productive for i, member, is_productive in members if member.required and i not in rest.seen
        ]
        available = [
            member
            for i, member, is_productive in members
            if is_productive and (i not in rest.seen or member.repeatable)
        ]
        fewest = max(len(missing_productive), permutation.min - rest.count, 0)
        upper_bounds = [fewest] if permutation.max is None else [permutation.max - rest.count]
        if not any(member.repeatable for member in available):
            upper_bounds.append(len(available))
        if not self.productive(permutation.separator):
            upper_bounds.append(0 if rest.count else 1)
        return all(missing_productive) and fewest <= min(upper_bounds)

    def _can_complete_by_search(self, rest: Members) -> bool:
        """Like `_can_complete`, for a permutation with a condition, slots or an order. Searches all sets of members."""
        todo, visited = [rest], {rest}
        while todo:
            rest = todo.pop()
            if rest.may_stop:
                return True
            if rest.count and not self.productive(rest.permutation.separator):
                continue
            for i, after in rest.choices():
                if after not in visited and self.productive(rest.permutation.members[i].item):
                    visited.add(after)
                    todo.append(after)
        return False

    def size(self, term: Term) -> int:
        """An estimate of the length of the shortest text of `term`. It only affects the order of searches."""
        match term:
            case Seq(items):
                return sum(self.size(item) for item in items)
            case Alt(items):
                return min((self.size(item) for item in items), default=0)
            case Repeat(item, low):
                return max(low, 0) * self.size(item)
            case Distinct(item) | Entry(item):
                return self.size(item)
            case Permutation():
                return self.size(Members(term))
            case Members(permutation, seen, count):
                missing = sum(member.required and i not in seen for i, member in enumerate(permutation.members))
                return max(missing, permutation.min - count)
            case Mark() | OpenScope():
                return 0
            case Run() | LimitedRun():
                return 0 if term.may_stop else 1
        return 1

    def run(self, node: Node) -> Run:
        """The run at the start of a regular node. It is matched by derivatives, not expanded into its items."""
        number = serial(node)  # hashing the content of a node visits shared parts again and again
        if number not in self._runs:
            item, encoding = (node.item, node.encoding) if isinstance(node, Encoded) else (node, UTF8)
            if encoding not in self._spellings:
                self._spellings[encoding] = Spelling(encoding, self._live)
            self._runs[number] = self._spellings[encoding].run(regular(item, self.rules))
        return self._runs[number]

    # ---- checks

    def _nodes(self) -> Iterator[Node]:
        """All nodes of all rules, except nodes inside regular and encoded nodes.

        Raises:
            LimitExceeded: nodes are nested deeper than `MAX_DEPTH`.
        """
        todo = [(node, 1) for node in self.rules.values()]
        while todo:
            node, depth = todo.pop()
            if depth > MAX_DEPTH:
                raise LimitExceeded("depth", depth, MAX_DEPTH, fixed=True)
            spend()
            yield node
            match node:
                case Seq(items) | Alt(items) | Dispatch(_, _, items):
                    todo.extend((item, depth + 1) for item in items)
                case Repeat(item) | Distinct(item) | Entry(item):
                    todo.append((item, depth + 1))
                case Permutation(members, separator):
                    todo.extend((item, depth + 1) for item in (separator, *(member.item for member in members)))

    def _check(self) -> None:
        """Raise `SpecError` for an invalid node, and `UnsupportedError` for a node that is not supported."""
        for node in self._nodes():
            match node:
                case Ref(name) if name not in self.rules:
                    raise SpecError(f"rule {name!r} is not defined")
                case And() | Not() | Length() | Encoded():
                    self.run(node)
                case MaxTokens(item):
                    self.run(item)

    def _check_empty(self) -> None:
        """Raise `SpecError` for an item that may be empty where the IR forbids this."""
        for node in self._nodes():
            match node:
                case Permutation(members) if any(self.nullable(member.item) for member in members):
                    what = "a member of a permutation"
                case Distinct(item) | Entry(item) if self.nullable(item):
                    what = "the item of a Distinct or an Entry"
                case _:
                    continue
            raise SpecError(f"{what} may be empty", hint="exclude the empty text from it")


def _texts_before_items(node: Dispatch) -> list[Automaton]:
    """For each item, an automaton for the texts that precede it: those that lead `node.automaton` to its exit state."""
    states_without_exit = [(False, edges) for _, edges in node.automaton.states]
    out = []
    for i in node.exits:
        states = [*states_without_exit[:i], (True, states_without_exit[i][1]), *states_without_exit[i + 1 :]]
        out.append(Automaton(tuple(states), node.automaton.start))
    return out
