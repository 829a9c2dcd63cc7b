"""Derivatives of regular IR nodes: a deterministic automaton that is built only as far as it is used.

In: regular IR nodes (`read`). Out: term numbers. For a term t: whether it contains the empty string (`nullable[t]`),
which term each character leads to (`transitions(t)`), and the term as an IR node (`node(t)`).

How: the derivative of a language by a character c is the set of the strings w with cw in the language (Brzozowski
1964). A term is a regular expression with intersection and complement. Terms are hash-consed, so equal terms have equal
numbers. Unions and intersections are stored as sorted sets without neutral and absorbing elements, which makes the
number of derivatives finite (Owens, Reppy, Turon 2009). The terms are the states of a deterministic automaton.

Cost: time and memory grow with the number of terms, which `limit` bounds (`TooLarge`). A counted repetition is counted
down, so a term with `{m,n}` has n derivatives. Derivatives are not meant for whole patterns, which the core makes
deterministic itself. They answer questions about parts: lookarounds, overlaps, small languages.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterable
from typing import Any

from guided.ir.nodes import (
    EMPTY,
    EPSILON,
    Alt,
    And,
    Automaton,
    Chars,
    Length,
    Node,
    Not,
    Repeat,
    Seq,
    Substrings,
    Text,
)
from guided.ir.ranges import ALL_CHARS, Ranges, charset, contains, merge, union
from guided.ir.serial import serial
from guided.ir.substrings import beginnings, is_substring
from guided.meter import spend

from .algebra import ANY_TEXT, alt, chars, conj, negate, repeat, run, seq

__all__ = ["ANY_STRING", "EMPTY_LANGUAGE", "EMPTY_STRING", "Terms", "TooLarge", "partition"]

EMPTY_LANGUAGE, EMPTY_STRING, ANY_STRING = 0, 1, 2
"""The first terms of every table: the empty language, the empty string, and all strings."""
_MAX_DEPTH = 150
_UNBOUNDED = 1 << 62  # stands for an upper bound of None


class TooLarge(Exception):
    """A search exceeded its limit. `limit`: the allowed number; `unit`: what is counted, such as states or steps."""

    def __init__(self, limit: int, unit: str = "states") -> None:
        self.limit, self.unit = limit, unit
        super().__init__(limit, unit)


def partition(sets: Iterable[Ranges]) -> list[Ranges]:
    """The coarsest partition of all characters such that each set in `sets` is a union of blocks."""
    events: list[tuple[int, int]] = []
    for index, ranges in enumerate(sets):
        for low, high in ranges:
            events.append((low, index))
            events.append((high + 1, index))
    events.sort()
    blocks: dict[int, list[tuple[int, int]]] = {}
    start = containing_sets = 0  # `containing_sets`: a bit set of the indices of the sets that contain `start`
    for code, index in (*events, (0x110000, 0)):
        if code > start:
            blocks.setdefault(containing_sets, []).append((start, code - 1))
            start = code
        containing_sets ^= 1 << index
    other_chars = charset(blocks.pop(0, ()))  # the only block that may contain surrogates
    return [tuple(block) for block in blocks.values()] + ([other_chars] if other_chars else [])


class Terms:
    """A table of terms.

    A term is stored as a tuple, its shape:

        ("c", ranges)           one character
        (".", a, b)             concatenation
        ("|", *terms)           union
        ("&", *terms)           intersection
        ("~", a)                complement
        ("*", a, min, max)      repetition
        ("#", a, min, max)      the strings of a with `min` to `max` characters
        ("@", n, s)             the strings that automaton n accepts from its state s
        ("%", n, prefix)        the strings w such that prefix + w is in the n-th `Substrings`
    """

    def __init__(self, limit: int = 20_000) -> None:
        self.limit, self._steps = limit, 0
        self.nullable: list[bool] = [False, True, True]
        self._shapes: list[tuple[Any, ...]] = [("0",), ("1",), ("*any",)]
        self._depths: list[int] = [0, 0, 0]  # the recursion depth of `derive`
        self._numbers: dict[tuple[Any, ...], int] = {s: i for i, s in enumerate(self._shapes)}
        self._first_sets_of: dict[int, frozenset[Ranges]] = {}
        self._blocks: dict[frozenset[Ranges], list[Ranges]] = {}
        self._transitions: dict[int, list[tuple[Ranges, int]]] = {}
        self._derivatives: dict[tuple[int, int], int] = {}
        self._terms_by_node: dict[int, int] = {}
        self._automata: list[Automaton] = []
        self._substrings: list[Substrings] = []
        self._nodes: dict[int, Node] = {EMPTY_LANGUAGE: EMPTY, EMPTY_STRING: EPSILON, ANY_STRING: ANY_TEXT}

    # --- construction

    def _intern(self, shape: tuple[Any, ...], nullable: bool, depth: int) -> int:
        number = self._numbers.get(shape)
        if number is not None:
            return number
        if depth > _MAX_DEPTH:
            raise TooLarge(_MAX_DEPTH, "levels")
        if len(self._shapes) >= self.limit:
            raise TooLarge(self.limit)
        self._numbers[shape] = number = len(self._shapes)
        self._shapes.append(shape)
        self.nullable.append(nullable)
        self._depths.append(depth)
        return number

    def chars(self, ranges: Ranges) -> int:
        """One character of `ranges`."""
        return self._intern(("c", ranges), False, 0) if ranges else EMPTY_LANGUAGE

    def join(self, a: int, b: int) -> int:
        """Concatenation."""
        if a == EMPTY_LANGUAGE or b == EMPTY_LANGUAGE:
            return EMPTY_LANGUAGE
        if a == EMPTY_STRING or (b == ANY_STRING and self.nullable[a]):
            return b
        if b == EMPTY_STRING:
            return a
        depth = max(self._depths[a], self._depths[b] if self.nullable[a] else 0)
        return self._intern((".", a, b), self.nullable[a] and self.nullable[b], depth + 1)

    def union(self, parts: Iterable[int]) -> int:
        """Union."""
        return self._combine("|", parts, EMPTY_LANGUAGE, ANY_STRING)

    def intersection(self, parts: Iterable[int]) -> int:
        """Intersection."""
        return self._combine("&", parts, ANY_STRING, EMPTY_LANGUAGE)

    def _combine(self, kind: str, parts: Iterable[int], neutral: int, absorbing: int) -> int:
        flat: set[int] = set()
        for part in parts:
            shape = self._shapes[part]
            flat.update(shape[1:] if shape[0] == kind else (part,))
        flat.discard(neutral)
        if absorbing in flat or any(self.negate(part) in flat for part in flat if self._shapes[part][0] == "~"):
            return absorbing
        if kind == "|":
            sets = [part for part in flat if self._shapes[part][0] == "c"]
            if len(sets) > 1:
                flat.difference_update(sets)
                flat.add(self.chars(union([self._shapes[part][1] for part in sets])))
            self._merge_repetitions(flat)
        if len(flat) <= 1:
            return flat.pop() if flat else neutral
        nullable = [self.nullable[part] for part in flat]
        depth = 1 + max(self._depths[part] for part in flat)
        return self._intern((kind, *sorted(flat)), any(nullable) if kind == "|" else all(nullable), depth)

    def _merge_repetitions(self, parts: set[int]) -> None:
        """Merge the parts of a union that are repetitions of one term, followed by the same term, if their bounds leave
        no gap: a{0,5}b | a{3,9}b is a{0,9}b. Otherwise, derivatives of .*a.{0,99} would have a part for each a."""
        repetitions = dict[tuple[int, int], list[tuple[int, int, int]]]()
        for part in parts:
            shape, rest = self._shapes[part], EMPTY_STRING
            if shape[0] == "." and self._shapes[shape[1]][0] == "*":
                shape, rest = self._shapes[shape[1]], shape[2]
            if shape[0] == "*":
                high = _UNBOUNDED if shape[3] is None else shape[3]
                repetitions.setdefault((shape[1], rest), []).append((shape[2], high, part))
        for (term, rest), bounds in repetitions.items():
            if len(bounds) > 1:
                parts.difference_update(part for _, _, part in bounds)
                parts.update(
                    self.join(self.repeat(term, low, None if high == _UNBOUNDED else high), rest)
                    for low, high in merge((low, high) for low, high, _ in bounds)
                )

    def negate(self, a: int) -> int:
        """Complement."""
        if a in (EMPTY_LANGUAGE, ANY_STRING):
            return ANY_STRING - a
        shape = self._shapes[a]
        return int(shape[1]) if shape[0] == "~" else self._intern(("~", a), not self.nullable[a], self._depths[a] + 1)

    def repeat(self, a: int, low: int, high: int | None) -> int:
        """Repetition."""
        if high == 0 or a == EMPTY_STRING or (a == EMPTY_LANGUAGE and low == 0):
            return EMPTY_STRING
        if a == EMPTY_LANGUAGE or (low, high) == (1, 1):
            return a
        if high is None and low <= 1 and (a == ANY_STRING or self._shapes[a] == ("c", ALL_CHARS)) and (low == 0):
            return ANY_STRING
        return self._intern(("*", a, low, high), low == 0 or self.nullable[a], self._depths[a] + 1)

    def length(self, a: int, low: int, high: int | None) -> int:
        """The strings of `a` with `low` to `high` characters."""
        if a == EMPTY_LANGUAGE or (low == 0 and high is None) or (high is not None and high < low):
            return EMPTY_LANGUAGE if high is not None and high < low else a
        return self._intern(("#", a, low, high), low == 0 and self.nullable[a], self._depths[a] + 1)

    def _intern_state(self, automaton: int, state: int) -> int:
        """The term of the strings that an automaton accepts from a state."""
        return self._intern(("@", automaton, state), self._automata[automaton].states[state][0], 0)

    def _intern_rest(self, number: int, prefix: str) -> int:
        """The term of the strings that follow `prefix` in strings of a `Substrings`. At least one string must begin
        with `prefix`."""
        return self._intern(("%", number, prefix), is_substring(self._substrings[number], prefix), 0)

    def read(self, node: Node) -> int:
        """The number of the term for an IR node."""
        return run(self._read(node))

    def _read(self, node: Node) -> Generator[Any, Any, int]:
        term = self._terms_by_node.get(serial(node))
        if term is None:
            term = self._terms_by_node[serial(node)] = yield self._make_term(node)
        return term

    def _make_term(self, node: Node) -> Generator[Any, Any, int]:
        match node:
            case Chars(ranges):
                return self.chars(ranges)
            case Text(value):
                term = EMPTY_STRING
                for c in reversed(value):
                    term = self.join(self.chars(((ord(c), ord(c)),)), term)
                return term
            case Seq(items):
                term = EMPTY_STRING
                for item in reversed(items):
                    term = self.join((yield self._read(item)), term)
                return term
            case Alt(items) | And(items):
                parts = []
                for item in items:
                    parts.append((yield self._read(item)))
                return self.union(parts) if isinstance(node, Alt) else self.intersection(parts)
            case Repeat(item, low, high):
                return self.repeat((yield self._read(item)), low, high)
            case Not(item):
                return self.negate((yield self._read(item)))
            case Length(item, low, high):
                return self.length((yield self._read(item)), low, high)
            case Automaton(_, start):
                self._automata.append(node)
                return self._intern_state(len(self._automata) - 1, start)
            case Substrings():
                self._substrings.append(node)
                return self._intern_rest(len(self._substrings) - 1, "")
            case _:
                raise TypeError(f"not a regular node of a regex: {type(node).__name__}")

    # --- derivatives

    def _find_first_sets(self, term: int) -> frozenset[Ranges]:
        """The character sets that determine the derivatives: if two characters are in the same sets, both have the same
        derivative.
        """
        first_sets = self._first_sets_of.get(term)
        if first_sets is None:
            match self._shapes[term]:
                case ("c", ranges):
                    first_sets = frozenset((ranges,))
                case (".", a, b):
                    first_sets = self._find_first_sets(a)
                    if self.nullable[a]:
                        first_sets |= self._find_first_sets(b)
                case ("|" | "&", *parts):
                    first_sets = frozenset().union(*map(self._find_first_sets, parts))
                case ("~" | "*" | "#", a, *_):
                    first_sets = self._find_first_sets(a)
                case ("@", automaton, state):
                    first_sets = frozenset(
                        ((low, high),) for low, high, _ in self._automata[automaton].states[state][1]
                    )
                case ("%", number, text):
                    node, size = self._substrings[number], len(text)
                    next_chars = (node.texts[n][begin + size : begin + size + 1] for n, begin in beginnings(node, text))
                    first_sets = frozenset(((ord(char), ord(char)),) for char in set(next_chars) - {""})
                case _:
                    first_sets = frozenset()
            self._first_sets_of[term] = first_sets
        return first_sets

    def blocks(self, *terms: int) -> list[Ranges]:
        """A partition of all characters. Each term has the same derivative by all characters of a block."""
        sets = frozenset().union(*map(self._find_first_sets, terms))
        blocks = self._blocks.get(sets)
        if blocks is None:
            blocks = self._blocks[sets] = partition(sets)
        return blocks

    def derive(self, term: int, code: int) -> int:
        """The derivative of a term by the character `code`: the strings that may follow the character."""
        key = (term, code)
        derivative = self._derivatives.get(key)
        if derivative is None:
            spend()
            self._steps += 1
            if self._steps > 10 * self.limit:
                raise TooLarge(10 * self.limit, "steps")
            derivative = self._derivatives[key] = self._derive(term, code)
        return derivative

    def _derive(self, term: int, code: int) -> int:
        match self._shapes[term]:
            case ("c", ranges):
                return EMPTY_STRING if contains(ranges, code) else EMPTY_LANGUAGE
            case (".", a, b):
                from_a = self.join(self.derive(a, code), b)
                return self.union((from_a, self.derive(b, code))) if self.nullable[a] else from_a
            case ("|", *parts):
                return self.union([self.derive(part, code) for part in parts])
            case ("&", *parts):
                return self.intersection([self.derive(part, code) for part in parts])
            case ("~", a):
                return self.negate(self.derive(a, code))
            case ("*", a, low, high):
                later_rounds = self.repeat(a, max(low - 1, 0), None if high is None else high - 1)
                return self.join(self.derive(a, code), later_rounds)
            case ("#", a, low, high):
                return self.length(self.derive(a, code), max(low - 1, 0), None if high is None else high - 1)
            case ("@", automaton, state):
                edges = self._automata[automaton].states[state][1]
                index = bisect_right(edges, (code, 0x110000)) - 1
                if index < 0 or code > edges[index][1]:
                    return EMPTY_LANGUAGE
                return self._intern_state(automaton, edges[index][2])
            case ("%", number, prefix):
                longer_prefix = prefix + chr(code)
                can_begin = next(beginnings(self._substrings[number], longer_prefix), None) is not None
                return self._intern_rest(number, longer_prefix) if can_begin else EMPTY_LANGUAGE
            case _:
                return ANY_STRING if term == ANY_STRING else EMPTY_LANGUAGE

    def transitions(self, term: int) -> list[tuple[Ranges, int]]:
        """(characters, the derivative by each of them) for each derivative that is not known to be empty."""
        transitions = self._transitions.get(term)
        if transitions is None:
            blocks_by_target: dict[int, list[Ranges]] = {}
            for block in self.blocks(term):
                target = self.derive(term, block[0][0])
                if target != EMPTY_LANGUAGE:
                    blocks_by_target.setdefault(target, []).append(block)
            transitions = self._transitions[term] = [(union(sets), target) for target, sets in blocks_by_target.items()]
        return transitions

    def is_surely_empty(self, term: int) -> bool:
        """Whether the term is certainly empty. If this is False, the term may still be empty."""
        return not self.nullable[term] and not self.transitions(term)

    def next_char_condition(self, term: int) -> tuple[Ranges, bool] | None:
        """(allowed first characters, whether the term contains "") if the term constrains only the first character of a
        string, else None.
        """
        allowed: Ranges = ()
        for ranges, target in self.transitions(term):
            if target != ANY_STRING or allowed:
                return None
            allowed = ranges
        return allowed, self.nullable[term]

    # --- back to IR

    def node(self, term: int) -> Node:
        """The term as an IR node."""
        return run(self._make_node(term))

    def _make_node(self, term: int) -> Generator[Any, Any, Node]:
        if term in self._nodes:
            return self._nodes[term]
        shape = self._shapes[term]
        if shape[0] == "c":
            result = chars(shape[1])
        elif shape[0] == "@":
            result = Automaton(self._automata[shape[1]].states, shape[2])
        elif shape[0] == "%":
            # Only terms of regular expressions are converted back.
            raise TypeError("the rest of a substring is not an IR node")
        else:
            operands = shape[1:] if shape[0] in "|&." else shape[1:2]
            parts: list[Node] = []
            for part in operands:
                parts.append((yield self._make_node(part)))
            match shape[0]:
                case ".":
                    result = seq(parts)
                case "|":
                    result = alt(parts)
                case "&":
                    result = parts[0]
                    for part_node in parts[1:]:
                        result = conj(result, part_node)
                case "~":
                    result = negate(parts[0])
                case "*":
                    result = repeat(parts[0], shape[2], shape[3])
                case _:
                    result = Length(parts[0], shape[2], shape[3])
        self._nodes[term] = result
        return result
