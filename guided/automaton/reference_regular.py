"""Regular IR nodes, read one byte at a time: the lowest layer of the reference.

In: a regular node and an `Encoding`. Out: a `Run`, which says whether it may stop here, whether anything can follow,
and which runs a byte leads to.

Derivatives are taken on code points (Brzozowski, "Derivatives of regular expressions", 1964), because `Not` and
`Length` are about code points; bytes are met by remembering, inside a character, the form, the digit reached and the
sum so far. `Not` is relative to all strings of code points, so a byte sequence that spells none is in no language.
A run is *alive* if some text finishes it that can be written in the bytes at hand; others are never returned.

Cost: one derivative for each piece that the node's character sets cut the code points into; aliveness searches the
derivatives, `MAX_STATES` at most. Slow on purpose: no automaton is built, nothing is minimised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import pairwise

from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.grammar.ir import (
    ALL_CHARS,
    EMPTY,
    EPSILON,
    Alt,
    And,
    Automaton,
    Chars,
    Encoded,
    Encoding,
    Form,
    Length,
    Node,
    Not,
    Ranges,
    Ref,
    Repeat,
    Seq,
    Text,
)

__all__ = ["MAX_DEPTH", "MAX_NODES", "MAX_STATES", "Run", "Spelling", "derive", "in_bounds", "nullable", "regular"]

MAX_STATES = 50_000
"""States made, or alternatives in the derivatives that one search looks at, before `LimitExceeded` is raised."""

MAX_DEPTH = 100
"""Nesting of nodes in a rule, and of nodes and rules inside one regular node."""
MAX_NODES = 100_000
"""Nodes of one regular node after its rules have been looked through."""

EVERYTHING: Node = Not(EMPTY)


def in_bounds(low: int, high: int | None) -> bool:
    """Whether some count lies in `low`..`high`."""
    return high is None or max(low, 0) <= high


# Constructors that keep terms small. What matters is that a union or an intersection is a set: then there are finitely
# many derivatives. The order by hash is arbitrary, but the same for equal sets.


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
    parts = {part for item in items for part in (item.items if isinstance(item, Alt) else (item,))}
    if EVERYTHING in parts:
        return EVERYTHING
    return parts.pop() if len(parts) == 1 else Alt(tuple(sorted(parts, key=hash)))


def both(items: Iterable[Node]) -> Node:
    """Intersection."""
    parts = {part for item in items for part in (item.items if isinstance(item, And) else (item,))} - {EVERYTHING}
    if EMPTY in parts:
        return EMPTY
    if not parts:
        return EVERYTHING
    return parts.pop() if len(parts) == 1 else And(tuple(sorted(parts, key=hash)))


def opposite(item: Node) -> Node:
    """Complement."""
    return item.item if isinstance(item, Not) else Not(item)


def regular(node: Node, rules: Mapping[str, Node]) -> Node:
    """The regular `node` with its rules looked through, built by the constructors above."""
    count = 0

    def build(node: Node, inside: tuple[str, ...], depth: int) -> Node:
        nonlocal count
        count += 1
        if depth > MAX_DEPTH or count > MAX_NODES:
            given, name, most = (depth, "depth", MAX_DEPTH) if depth > MAX_DEPTH else (count, "nodes", MAX_NODES)
            raise LimitExceeded(name, given, most, fixed=True)

        def all_of(items: tuple[Node, ...]) -> list[Node]:
            return [build(item, inside, depth + 1) for item in items]

        match node:
            case Chars(ranges):
                return node if ranges else EMPTY
            case Text(text):
                return node if text else EPSILON
            case Automaton():
                return node
            case Seq(items):
                return seq(all_of(items))
            case Alt(items):
                return alt(all_of(items))
            case And(items):
                return both(all_of(items))
            case Not(item):
                return opposite(all_of((item,))[0])
            case Repeat(item, low, high):
                return Repeat(all_of((item,))[0], low, high)
            case Length(item, low, high):
                return Length(all_of((item,))[0], low, high)
            case Ref(name):
                if name not in rules:
                    raise SpecError(f"rule {name!r} is not defined")
                if name in inside:
                    raise SpecError(f"rule {name!r} is recursive, and a boolean or spelled node needs a regular item")
                return build(rules[name], (*inside, name), depth + 1)
            case Encoded():
                raise UnsupportedError(
                    "text that is already spelled is combined or spelled again",
                    hint="combine the items first, then put `Encoded` around the result",
                )
        raise SpecError(f"a boolean or spelled node needs a regular item, not {type(node).__name__}")

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
    """What may follow `point` in the strings of the regular `node` that begin with it."""
    match node:
        case Chars(ranges):
            return EPSILON if any(low <= point <= high for low, high in ranges) else EMPTY
        case Text(text):
            return Text(text[1:]) if text and ord(text[0]) == point else EMPTY
        case Automaton(states, start):
            found = [to for low, high, to in states[start][1] if low <= point <= high]
            return Automaton(states, found[0]) if found else EMPTY
        case Seq(items):
            parts = []
            for i, item in enumerate(items):
                parts.append(seq((derive(item, point), *items[i + 1 :])))
                if not nullable(item):
                    break
            return alt(parts)
        case Alt(items):
            return alt(derive(item, point) for item in items)
        case Repeat(item, low, high):
            # If the item is nullable, iterations skipped before this one can be made up for by empty ones after it.
            if not in_bounds(low, high) or high == 0:
                return EMPTY
            return seq((derive(item, point), Repeat(item, max(low - 1, 0), None if high is None else high - 1)))
        case And(items):
            return both(derive(item, point) for item in items)
        case Not(item):
            return opposite(derive(item, point))
        case Length(item, low, high):
            if not in_bounds(low, high) or high == 0:
                return EMPTY
            rest = derive(item, point)
            return EMPTY if rest == EMPTY else Length(rest, max(low - 1, 0), None if high is None else high - 1)
    raise TypeError(f"not a regular node: {type(node).__name__}")


def _borders(node: Node) -> Iterator[int]:
    """Code points where the set of characters that `node` can begin with, or what follows them, may change."""
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
                yield from _borders(item)
                if not nullable(item):
                    break
        case Alt(items) | And(items):
            for item in items:
                yield from _borders(item)
        case Repeat(item) | Not(item) | Length(item):
            yield from _borders(item)


def _width(node: Node) -> int:
    """How many alternatives a derivative consists of."""
    match node:
        case Alt(items) | And(items):
            return sum(map(_width, items))
        case Not(item) | Length(item):
            return _width(item)
    return 1


def _overlap(a: Ranges, b: Ranges) -> Ranges:
    """The numbers in both sets of ranges."""
    pairs = ((max(low, lo), min(high, hi)) for low, high in a for lo, hi in b if low <= hi and lo <= high)
    return tuple(sorted(pairs))


def _union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The same numbers as sorted ranges that do not touch."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


@lru_cache(maxsize=256)
def _tail_sums(form: Form, live: frozenset[int]) -> tuple[Ranges, ...]:
    """For each digit: what it and the digits after it can add to the code point, in live bytes; last, nothing more."""
    sums: list[Ranges] = [((0, 0),)]
    for spans in reversed(form.digits):
        heads = {
            span.value + (byte - span.low) * span.step
            for span in spans
            for byte in range(span.low, span.high + 1)
            if byte in live
        }
        sums.append(_union((head + low, head + high) for head in heads for low, high in sums[-1]))
    return tuple(sums[::-1])


class Spelling:
    """An encoding with the bytes that can be written, and what is known about terms spelled in it."""

    def __init__(self, encoding: Encoding, live: frozenset[int]) -> None:
        if not all(form.digits for form in encoding.forms):
            raise SpecError(f"encoding {encoding.name!r} spells a character in no bytes")
        self.forms = [(form, _tail_sums(form, live)) for form in encoding.forms]
        spelled = [pair for form, sums in self.forms for pair in _overlap(sums[0], form.ranges)]
        self.characters = _overlap(_union(spelled), ALL_CHARS)
        self._pieces_of: dict[Node, tuple[tuple[Ranges, Node], ...]] = {}
        self._alive: dict[Node, bool] = {}
        self._runs: dict[tuple[Node, int, int, int], Run] = {}

    def run(self, term: Node, form: int = -1, digit: int = 0, value: int = 0) -> Run:
        """The run of these parts: one object for equal parts."""
        key = (term, form, digit, value)
        if key not in self._runs:
            self._runs[key] = Run(self, *key)
        return self._runs[key]

    def steps(self, term: Node) -> tuple[tuple[Ranges, Node], ...]:
        """The characters that can begin `term`, with what follows them; only where that can be finished."""
        return tuple((ranges, rest) for ranges, rest in self._pieces(term) if self.alive(rest))

    def alive(self, term: Node) -> bool:
        """Whether `term` contains a string that can be written."""
        if term not in self._alive:
            seen, todo, found, work = {term}, [term], False, 0
            while todo and not found:
                at = todo.pop()
                found = nullable(at) or self._alive.get(at, False)
                fresh = {rest for _, rest in self._pieces(at) if self._alive.get(rest, True)} - seen
                todo.extend(fresh)
                seen |= fresh
                work += sum(map(_width, fresh))
                if work > MAX_STATES:
                    raise LimitExceeded("states", work, MAX_STATES, fixed=True)
            self._alive.update({term: True} if found else dict.fromkeys(seen, False))
        return self._alive[term]

    def _pieces(self, term: Node) -> tuple[tuple[Ranges, Node], ...]:
        """The characters in groups of equal derivatives. Between two borders one character speaks for all."""
        if term not in self._pieces_of:
            groups: dict[Node, list[tuple[int, int]]] = {}
            cuts = sorted({0, 0x110000, *_borders(term)})
            for low, end in pairwise(cuts):
                if part := _overlap(((low, end - 1),), self.characters):
                    groups.setdefault(derive(term, part[0][0]), []).extend(part)
            groups.pop(EMPTY, None)
            self._pieces_of[term] = tuple((_union(ranges), rest) for rest, ranges in groups.items())
        return self._pieces_of[term]


class Run:
    """A regular term being spelled: between characters (`form` is -1), or inside one. Compared by identity."""

    def __init__(self, spelling: Spelling, term: Node, form: int, digit: int, value: int) -> None:
        self.spelling, self.term, self.form, self.digit, self.value = spelling, term, form, digit, value
        self._after: dict[int, tuple[Run, ...]] = {}

    @cached_property
    def may_stop(self) -> bool:
        """Whether the term may end here."""
        return self.form < 0 and nullable(self.term)

    @cached_property
    def may_go_on(self) -> bool:
        """Whether some byte leads on."""
        return self.form >= 0 or bool(self.spelling.steps(self.term))

    @cached_property
    def alive(self) -> bool:
        """Whether the term can be finished from here."""
        return self.may_stop or self.may_go_on

    def after(self, byte: int) -> tuple[Run, ...]:
        """The runs that `byte` leads to: several where the encoding spells several characters with it."""
        if byte not in self._after:
            starts = range(len(self.spelling.forms)) if self.form < 0 else (self.form,)
            self._after[byte] = tuple({run for form in starts for run in self._spell(form, byte)})
        return self._after[byte]

    def _spell(self, number: int, byte: int) -> Iterator[Run]:
        form, sums = self.spelling.forms[number]
        for span in form.digits[self.digit]:
            if not span.low <= byte <= span.high:
                continue
            value, digit = self.value + span.value + (byte - span.low) * span.step, self.digit + 1
            reach = _overlap(tuple((value + low, value + high) for low, high in sums[digit]), form.ranges)
            for ranges, rest in self.spelling.steps(self.term):
                if _overlap(reach, ranges):
                    inside = digit < len(form.digits)
                    yield self.spelling.run(self.term, number, digit, value) if inside else self.spelling.run(rest)
