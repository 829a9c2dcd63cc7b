"""Matches regular IR nodes byte by byte, by derivatives. This is the lowest layer of the reference implementation.

In: a regular node (characters, sequences, alternatives, repetitions, intersections, complements, length windows), an
`Encoding`, and the *live* bytes, which occur in some token. Out: a `Run`, which is a position in the node. It says
whether the text may end there, whether a byte can follow, and to which runs each byte leads.

How: Brzozowski's derivatives ("Derivatives of regular expressions", JACM 11(4), 1964). The derivative of a language by
a character is the set of strings that may follow that character; for example, the derivative of `ab|ac` by `a` is
`b|c`. Since nodes are normalised, there are finitely many derivatives. Derivatives are taken by code points, because
`Not` and `Length` work on code points. An encoding writes a code point as positional digits, one byte each. So a run
inside a character also stores the form of the encoding, the number of digits read, and their sum so far. Bytes that do
not spell code points are in no language, not even in a language under `Not`.

A run is *alive* if some text of live bytes completes it. Runs that are not alive are never returned.

Cost: one derivative for each interval into which the node's character classes divide the code points. Deciding whether
a run is alive searches derivatives with up to `MAX_STATES` operands in total. This is deliberately slow: no automaton
is built or minimised.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import pairwise

from guided.automaton.reference.substrings import all_substrings, build_trie
from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.ir.encodings import Encoding, Form
from guided.ir.nodes import (
    EMPTY,
    EPSILON,
    Alt,
    And,
    Automaton,
    Chars,
    Encoded,
    Length,
    Node,
    Not,
    Ref,
    Repeat,
    Seq,
    Substrings,
    Text,
)
from guided.ir.ranges import ALL_CHARS, Ranges, charset, merge
from guided.meter import spend

__all__ = ["MAX_DEPTH", "MAX_NODES", "MAX_STATES", "Run", "Spelling", "derive", "in_bounds", "nullable", "regular"]

MAX_STATES = 50_000
"""The maximum number of states of a language, and of operands in all derivatives of one search (`_operand_count`).

Beyond this, `LimitExceeded` is raised.
"""

MAX_DEPTH = 100
"""The maximum nesting of nodes in a rule, and of nodes and rules inside one regular node."""
MAX_NODES = 100_000
"""The maximum number of nodes of one regular node after the rules that it refers to have been inlined."""

EVERYTHING: Node = Not(EMPTY)


def in_bounds(low: int, high: int | None) -> bool:
    """Whether some count is in `low`..`high`."""
    return high is None or max(low, 0) <= high


# Normalising constructors. They flatten unions and intersections and treat the operands as sets (associativity,
# commutativity and idempotence). This makes the number of different derivatives finite, as Brzozowski proved. Operands
# are ordered by hash: any order works if equal sets have the same order.


def seq(items: Iterable[Node]) -> Node:
    """Concatenation."""
    flat: list[Node] = []
    for item in items:
        if item == EMPTY:
            return EMPTY
        flat.extend(item.items if isinstance(item, Seq) else (item,))
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def alt(items: Iterable[Node]) -> Node:
    """Union."""
    operands = {operand for item in items for operand in (item.items if isinstance(item, Alt) else (item,))}
    if EVERYTHING in operands:
        return EVERYTHING
    return operands.pop() if len(operands) == 1 else Alt(tuple(sorted(operands, key=hash)))


def intersect(items: Iterable[Node]) -> Node:
    """Intersection."""
    operands = {operand for item in items for operand in (item.items if isinstance(item, And) else (item,))}
    operands -= {EVERYTHING}
    if EMPTY in operands:
        return EMPTY
    if not operands:
        return EVERYTHING
    return operands.pop() if len(operands) == 1 else And(tuple(sorted(operands, key=hash)))


def complement(item: Node) -> Node:
    """Complement."""
    return item.item if isinstance(item, Not) else Not(item)


def regular(node: Node, rules: Mapping[str, Node]) -> Node:
    """Rebuild the regular `node` with the constructors above, and inline the rules to which it refers.

    Raises:
        SpecError: a rule is not defined or is recursive, or a node is not regular.
        UnsupportedError: there is an `Encoded` inside the node.
        LimitExceeded: more than `MAX_DEPTH` levels or `MAX_NODES` nodes.
    """
    count = 0

    def build(node: Node, open_rules: tuple[str, ...], depth: int) -> Node:
        nonlocal count
        count += 1
        spend()
        if depth > MAX_DEPTH or count > MAX_NODES:
            amount, name, allowed = (depth, "depth", MAX_DEPTH) if depth > MAX_DEPTH else (count, "nodes", MAX_NODES)
            raise LimitExceeded(name, amount, allowed, fixed=True)

        def build_all(items: tuple[Node, ...]) -> list[Node]:
            return [build(item, open_rules, depth + 1) for item in items]

        match node:
            case Chars(ranges):
                normal_ranges = charset(ranges)
                return Chars(normal_ranges) if normal_ranges else EMPTY
            case Text(text):
                return node if text else EPSILON
            case Automaton():
                return node
            case Substrings():
                return build_trie(all_substrings(node))
            case Seq(items):
                return seq(build_all(items))
            case Alt(items):
                return alt(build_all(items))
            case And(items):
                return intersect(build_all(items))
            case Not(item):
                return complement(build_all((item,))[0])
            case Repeat(item, low, high):
                return Repeat(build_all((item,))[0], low, high)
            case Length(item, low, high):
                return Length(build_all((item,))[0], low, high)
            case Ref(name):
                if name not in rules:
                    raise SpecError(f"rule {name!r} is not defined")
                if name in open_rules:
                    raise SpecError(f"rule {name!r} is recursive, but must be regular here")
                return build(rules[name], (*open_rules, name), depth + 1)
            case Encoded():
                raise UnsupportedError(
                    "an encoded node is combined or encoded again",
                    hint="combine the items first, then put `Encoded` around the result",
                )
        raise SpecError(f"a regular node is required here, not {type(node).__name__}")

    return build(node, (), 1)


def nullable(node: Node) -> bool:
    """Whether the regular `node` contains the empty string."""
    match node:
        case Text(text):
            return not text
        case Automaton(states, start):
            return states[start][0]
        case Chars():
            return False
        case Seq(items) | And(items):
            return all(nullable(item) for item in items)
        case Alt(items):
            return any(nullable(item) for item in items)
        case Repeat(item, low, high):
            return in_bounds(low, high) and (low <= 0 or nullable(item))
        case Length(item, low, high):
            return in_bounds(low, high) and low <= 0 and nullable(item)
        case Not(item):
            return not nullable(item)
    raise TypeError(f"not a regular node: {type(node).__name__}")


def derive(node: Node, point: int) -> Node:
    """Brzozowski's derivative: the strings of `node` that begin with `point`, without that code point.

    `node` comes from `regular`, so the ranges of characters are sorted.
    """
    match node:
        case Chars(ranges):
            index = bisect_right(ranges, (point, 0x110000)) - 1
            return EPSILON if index >= 0 and point <= ranges[index][1] else EMPTY
        case Text(text):
            return Text(text[1:]) if text and ord(text[0]) == point else EMPTY
        case Automaton(states, start):
            targets = [to for low, high, to in states[start][1] if low <= point <= high]
            return Automaton(states, targets[0]) if targets else EMPTY
        case Seq(items):
            alternatives = []
            for i, item in enumerate(items):
                alternatives.append(seq((derive(item, point), *items[i + 1 :])))
                if not nullable(item):
                    break
            return alt(alternatives)
        case Alt(items):
            return alt(derive(item, point) for item in items)
        case Repeat(item, low, high):
            # The derivative of the first iteration is enough, even if the item is nullable: an empty iteration before
            # the one that reads `point` can be moved after it.
            if not in_bounds(low, high) or high == 0:
                return EMPTY
            return seq((derive(item, point), Repeat(item, max(low - 1, 0), None if high is None else high - 1)))
        case And(items):
            return intersect(derive(item, point) for item in items)
        case Not(item):
            return complement(derive(item, point))
        case Length(item, low, high):
            if not in_bounds(low, high) or high == 0:
                return EMPTY
            rest = derive(item, point)
            return EMPTY if rest == EMPTY else Length(rest, max(low - 1, 0), None if high is None else high - 1)
    raise TypeError(f"not a regular node: {type(node).__name__}")


def _boundaries(node: Node) -> Iterator[int]:
    """The boundaries between derivatives: all code points from one boundary up to the next have the same derivative."""
    match node:
        case Chars(ranges):
            for low, high in ranges:
                yield from (low, high + 1)
        case Text(text):
            if text:
                yield from (ord(text[0]), ord(text[0]) + 1)
        case Automaton(states, start):
            for low, high, _ in states[start][1]:
                yield from (low, high + 1)
        case Seq(items):
            for item in items:
                yield from _boundaries(item)
                if not nullable(item):
                    break
        case Alt(items) | And(items):
            for item in items:
                yield from _boundaries(item)
        case Repeat(item) | Not(item) | Length(item):
            yield from _boundaries(item)


def _operand_count(node: Node) -> int:
    """The number of operands of a derivative: a measure of the work to derive it again."""
    match node:
        case Alt(items) | And(items):
            return sum(map(_operand_count, items))
        case Not(item) | Length(item):
            return _operand_count(item)
    return 1


def _overlap(a: Ranges, b: Ranges) -> Ranges:
    """The intersection of two sets of ranges."""
    pairs = (
        (max(low, other_low), min(high, other_high))
        for low, high in a
        for other_low, other_high in b
        if low <= other_high and other_low <= high
    )
    return tuple(sorted(pairs))


@lru_cache(maxsize=256)
def _sums_from_digit(form: Form, live: frozenset[int]) -> tuple[Ranges, ...]:
    """For each digit, the possible sums of this and all later digits in live bytes. The last element is the sum 0."""
    sums: list[Ranges] = [((0, 0),)]
    for spans in reversed(form.digits):
        digit_values = {
            span.value + (byte - span.low) * span.step
            for span in spans
            for byte in range(span.low, span.high + 1)
            if byte in live
        }
        sums.append(merge((value + low, value + high) for value in digit_values for low, high in sums[-1]))
    return tuple(sums[::-1])


class Spelling:
    """An encoding restricted to live bytes. Caches the derivatives and runs of the terms that it spells."""

    def __init__(self, encoding: Encoding, live: frozenset[int]) -> None:
        if not all(form.digits for form in encoding.forms):
            raise SpecError(f"encoding {encoding.name!r} spells a character with no bytes")
        self.forms = [(form, _sums_from_digit(form, live)) for form in encoding.forms]
        spelled = [pair for form, sums in self.forms for pair in _overlap(sums[0], form.ranges)]
        self.characters = _overlap(merge(spelled), ALL_CHARS)
        self._derivatives: dict[Node, tuple[tuple[Ranges, Node], ...]] = {}
        self._alive: dict[Node, bool] = {}
        self._runs: dict[tuple[Node, int | None, int, int], Run] = {}

    def run(self, term: Node, form: int | None = None, digit: int = 0, value: int = 0) -> Run:
        """The run with these fields (see `Run`). Runs with equal fields are the same object."""
        key = (term, form, digit, value)
        if key not in self._runs:
            self._runs[key] = Run(self, *key)
        return self._runs[key]

    def steps(self, term: Node) -> tuple[tuple[Ranges, Node], ...]:
        """The derivatives of `term` that are alive, each with the characters that lead to it."""
        return tuple((ranges, rest) for ranges, rest in self._derive(term) if self.is_alive(rest))

    def is_alive(self, term: Node) -> bool:
        """Whether `term` contains a string that can be spelled in live bytes."""
        if term not in self._alive:
            seen, todo, is_alive, work = {term}, [term], False, 0
            while todo and not is_alive:
                spend()
                state = todo.pop()
                is_alive = nullable(state) or self._alive.get(state, False)
                unseen = {rest for _, rest in self._derive(state) if self._alive.get(rest, True)} - seen
                todo.extend(unseen)
                seen |= unseen
                work += sum(map(_operand_count, unseen))
                if work > MAX_STATES:
                    raise LimitExceeded("states", work, MAX_STATES, fixed=True)
            self._alive.update({term: True} if is_alive else dict.fromkeys(seen, False))
        return self._alive[term]

    def _derive(self, term: Node) -> tuple[tuple[Ranges, Node], ...]:
        """All non-empty derivatives of `term`, each with the characters that lead to it."""
        if term not in self._derivatives:
            spend()
            groups: dict[Node, list[tuple[int, int]]] = {}
            cuts = sorted({0, 0x110000, *_boundaries(term)})
            for low, end in pairwise(cuts):
                spend()
                if interval := _overlap(((low, end - 1),), self.characters):
                    groups.setdefault(derive(term, interval[0][0]), []).extend(interval)
            groups.pop(EMPTY, None)
            self._derivatives[term] = tuple((merge(ranges), rest) for rest, ranges in groups.items())
        return self._derivatives[term]


class Run:
    """A position in the text of a regular term. Compared by identity.

    `form` is None between two characters. Inside a character, `form` is the number of the encoding's form, `digit` is
    how many of its digits have been read, and `value` is their sum.
    """

    def __init__(self, spelling: Spelling, term: Node, form: int | None, digit: int, value: int) -> None:
        self.spelling, self.term, self.form, self.digit, self.value = spelling, term, form, digit, value
        self._steps: dict[int, tuple[Run, ...]] = {}

    @cached_property
    def may_stop(self) -> bool:
        """Whether the term may end here."""
        return self.form is None and nullable(self.term)

    @cached_property
    def can_continue(self) -> bool:
        """Whether some byte can follow."""
        return self.form is not None or bool(self.spelling.steps(self.term))

    @cached_property
    def is_alive(self) -> bool:
        """Whether some text completes the term."""
        return self.may_stop or self.can_continue

    def step(self, byte: int) -> tuple[Run, ...]:
        """The runs after `byte`. There are several if several forms of the encoding have a digit with this byte."""
        if byte not in self._steps:
            forms = range(len(self.spelling.forms)) if self.form is None else (self.form,)
            self._steps[byte] = tuple({run for form in forms for run in self._spell(form, byte)})
        return self._steps[byte]

    def _spell(self, number: int, byte: int) -> Iterator[Run]:
        """The runs after `byte` as the next digit of form `number`.

        `reach`: the code points that the digits read so far can still become. A digit is allowed only if one of them
        has a derivative that is alive. Inside a character, the run keeps the term. Only the last digit derives it.
        """
        form, sums = self.spelling.forms[number]
        for span in form.digits[self.digit]:
            if not span.low <= byte <= span.high:
                continue
            value, digit = self.value + span.value + (byte - span.low) * span.step, self.digit + 1
            reach = _overlap(tuple((value + low, value + high) for low, high in sums[digit]), form.ranges)
            for ranges, rest in self.spelling.steps(self.term):
                if _overlap(reach, ranges):
                    is_inside = digit < len(form.digits)
                    yield self.spelling.run(self.term, number, digit, value) if is_inside else self.spelling.run(rest)
