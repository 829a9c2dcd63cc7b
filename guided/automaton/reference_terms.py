"""The terms of a grammar: what is known of them before any text is read.

In: a `Grammar` and the bytes that can be written. Out: for each term, whether it may be empty, whether anything it
contains can be written, what it is made of. A term is an IR node or the rest of one: a `Run` inside a regular node, the
`Members` that a permutation has left, a mark that changes what is remembered (see `reference_memory.py`).

Algorithm: least fixpoints over the rules. What `Distinct` forbids is left out: it depends on the text.

Cost: each fact is decided once. Nesting of the specification is bounded by `MAX_DEPTH`. Not done: `Encoded` inside
`And`, `Not`, `Length` or another `Encoded` is refused: combine the items first, then spell them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from guided.automaton.reference_memory import Mark, Open
from guided.automaton.reference_regular import MAX_DEPTH, Run, Spelling, in_bounds, regular
from guided.errors import LimitExceeded, SpecError
from guided.grammar.ir import (
    UTF8,
    AllOf,
    Alt,
    And,
    AnyOf,
    Automaton,
    Chars,
    Condition,
    Distinct,
    Encoded,
    Encoding,
    Entry,
    Grammar,
    Length,
    Node,
    NoneOf,
    Not,
    Permutation,
    Ref,
    Repeat,
    Seq,
    Special,
    Text,
    Written,
)

__all__ = ["Members", "Rest", "Term", "Terms"]


@dataclass(frozen=True)
class Members:
    """The rest of a `Permutation`: the members that can't come again or were asked for, and how many have come."""

    whole: Permutation
    seen: frozenset[int] = frozenset()
    count: int = 0

    @property
    def may_stop(self) -> bool:
        """Whether nothing more has to come."""
        asked = {i for i, member in enumerate(self.whole.members) if member.required}
        enough = asked <= self.seen and self.count >= self.whole.min and in_bounds(self.count, self.whole.max)
        return enough and (self.whole.condition is None or holds(self.whole.condition, self.seen))

    def is_open(self, at: int) -> bool:
        """Whether its slot, and the order if there is one, let member `at` come next."""
        members, slots = self.whole.members, self.whole.slots or range(len(self.whole.members))
        if members[at].repeatable:
            return True
        if any(slots[i] == slots[at] for i in self.seen):
            return False
        return not self.whole.ordered or all(slots[i] < slots[at] and not members[i].repeatable for i in self.seen)

    def choices(self) -> Iterator[tuple[int, Members]]:
        """The members that may come next, and the rest after each."""
        whole = self.whole
        if whole.max is not None and self.count >= whole.max:
            return
        # With no upper bound, counts past the lower one are alike; 1 stands for "not the first".
        top = max(whole.min, 1) if whole.max is None else whole.max
        for i, member in enumerate(whole.members):
            if self.is_open(i):
                forgets = whole.condition is None and not whole.ordered and member.repeatable and not member.required
                yield i, Members(whole, self.seen if forgets else self.seen | {i}, min(self.count + 1, top))

    def item(self, at: int) -> Node:
        """What is written for member `at`."""
        item = self.whole.members[at].item
        return Seq((self.whole.separator, item)) if self.count else item


def holds(condition: Condition, seen: frozenset[int]) -> bool:
    """Whether a condition holds where these members were written, and no others."""
    match condition:
        case Written(members):
            return bool(seen.intersection(members))
        case AllOf(items):
            return all(holds(item, seen) for item in items)
        case AnyOf(items):
            return any(holds(item, seen) for item in items)
        case NoneOf(items):
            return not any(holds(item, seen) for item in items)


Term: TypeAlias = Node | Run | Members | Mark | Open
Rest: TypeAlias = tuple[Term, ...]


class Terms:
    """The terms of one grammar. `live` are the bytes that can be written."""

    def __init__(self, grammar: Grammar, live: frozenset[int]) -> None:
        self.rules, self._live = grammar.rules, live
        self._spellings: dict[Encoding, Spelling] = {}
        self._runs: dict[Node, Run] = {}
        self._known: dict[Term, bool] = {}  # productive or not
        self._nullable_rules: set[str] = set()
        self._productive_rules: set[str] = set()
        self._check()
        self._least(self.nullable, self._nullable_rules)
        self._check_empty()
        self._least(self.productive, self._productive_rules)
        self.control_tokens = frozenset(node.token for node in self._nodes() if isinstance(node, Special))
        """The control tokens that the grammar names."""
        self.remember = any(isinstance(node, Distinct) for node in self._nodes())
        """Whether values must differ anywhere."""

    def expand(self, head: Term) -> Iterator[Rest]:
        """The sequences that `head` stands for."""
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
                yield from ((head.item(at), after) for at, after in head.choices())
            case Distinct(item, known):
                yield (Open(frozenset(known)), item, Mark.CLOSE)
            case Entry(item):
                yield (Mark.BEGIN, item, Mark.END)
            case Text() | Chars() | Automaton() | And() | Not() | Length() | Encoded():
                yield (self.run(head),)

    # ---- facts

    def _least(self, holds: Callable[[Node], bool], into: set[str]) -> None:
        """Grows `into` to the least set of rules of which `holds`, which reads it, is true."""
        grown = True
        while grown:
            self._known.clear()
            found = {name for name, node in self.rules.items() if name not in into and holds(node)}
            into |= found
            grown = bool(found)

    def nullable(self, term: Term) -> bool:
        """Whether `term` contains the empty text."""
        match term:
            case Ref(name):
                return name in self._nullable_rules
            case Seq(items):
                return all(self.nullable(item) for item in items)
            case Alt(items):
                return any(self.nullable(item) for item in items)
            case Repeat(item, low, high):
                return in_bounds(low, high) and (low <= 0 or self.nullable(item))
            case Permutation():
                return Members(term).may_stop
            case Members():
                return term.may_stop
            case Distinct(item) | Entry(item):
                return self.nullable(item)
            case Mark() | Open():
                return True
            case Special():
                return False
            case Run():
                return term.may_stop
        return self.run(term).may_stop

    def productive(self, term: Term) -> bool:
        """Whether `term` contains anything that can be written."""
        if term not in self._known:
            self._known[term] = self._decide_productive(term)
        return self._known[term]

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
            case Permutation():
                return self._fillable(Members(term))
            case Members():
                return self._fillable(term)
            case Distinct(item) | Entry(item):
                return self.productive(item)
            case Special() | Mark() | Open():
                return True
            case Run():
                return term.alive
        return self.run(term).alive

    def _fillable(self, rest: Members) -> bool:
        """Whether a permutation can be finished: the members that must come can, and enough others for the bounds."""
        whole = rest.whole
        if whole.condition is not None or whole.ordered or whole.slots:
            return self._finishable(rest)
        members = [(i, member, self.productive(member.item)) for i, member in enumerate(whole.members)]
        must = [can for i, member, can in members if member.required and i not in rest.seen]
        others = [member for i, member, can in members if can and (i not in rest.seen or member.repeatable)]
        fewest = max(len(must), whole.min - rest.count, 0)
        most = [fewest] if whole.max is None else [whole.max - rest.count]
        if not any(member.repeatable for member in others):
            most.append(len(others))
        if not self.productive(whole.separator):
            most.append(0 if rest.count else 1)
        return all(must) and fewest <= min(most)

    def _finishable(self, rest: Members) -> bool:
        """As above, by trying all that may come, a set of members at a time."""
        todo, met = [rest], {rest}
        while todo:
            at = todo.pop()
            if at.may_stop:
                return True
            if at.count and not self.productive(at.whole.separator):
                continue
            for i, after in at.choices():
                if after not in met and self.productive(at.whole.members[i].item):
                    met.add(after)
                    todo.append(after)
        return False

    def size(self, term: Term) -> int:
        """A guess at how much `term` takes to write."""
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
            case Members(whole, seen, count):
                asked = sum(member.required and i not in seen for i, member in enumerate(whole.members))
                return max(asked, whole.min - count)
            case Mark() | Open():
                return 0
            case Run():
                return 0 if term.may_stop else 1
        return 1

    def run(self, node: Node) -> Run:
        """The run at the beginning of a regular node that has no items of its own here."""
        if node not in self._runs:
            item, encoding = (node.item, node.encoding) if isinstance(node, Encoded) else (node, UTF8)
            if encoding not in self._spellings:
                self._spellings[encoding] = Spelling(encoding, self._live)
            self._runs[node] = self._spellings[encoding].run(regular(item, self.rules))
        return self._runs[node]

    # ---- checks

    def _nodes(self) -> Iterator[Node]:
        """Every node of every rule; boolean and spelled nodes as a whole. Refuses what is nested too deeply."""
        todo = [(node, 1) for node in self.rules.values()]
        while todo:
            node, depth = todo.pop()
            if depth > MAX_DEPTH:
                raise LimitExceeded("depth", depth, MAX_DEPTH, fixed=True)
            yield node
            match node:
                case Seq(items) | Alt(items):
                    todo.extend((item, depth + 1) for item in items)
                case Repeat(item) | Distinct(item) | Entry(item):
                    todo.append((item, depth + 1))
                case Permutation(members, separator):
                    todo.extend((item, depth + 1) for item in (separator, *(member.item for member in members)))

    def _check(self) -> None:
        """Refuses what the IR's docstrings exclude, and what this module does not do."""
        for node in self._nodes():
            match node:
                case Ref(name) if name not in self.rules:
                    raise SpecError(f"rule {name!r} is not defined")
                case And() | Not() | Length() | Encoded():
                    self.run(node)

    def _check_empty(self) -> None:
        """Refuses items that may be empty where the IR's docstrings exclude them."""
        for node in self._nodes():
            match node:
                case Permutation(members) if any(self.nullable(member.item) for member in members):
                    what = "a member of a permutation"
                case Distinct(item) | Entry(item) if self.nullable(item):
                    what = "the item of a Distinct or of an Entry"
                case _:
                    continue
            raise SpecError(f"{what} may be empty", hint="take the empty case out of it")
