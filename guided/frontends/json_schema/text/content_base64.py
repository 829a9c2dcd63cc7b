"""A JSON text in base64: `contentMediaType` with `contentEncoding` of draft 7. In: a function that adds rules, and the
encoding of strings. Out: IR.

The decoded bytes are any JSON text (RFC 8259) in UTF-8. Problem: JSON needs a stack, and base64 mixes the bits of
neighbouring bytes, so a bracket need not begin or end at the boundary of a letter.

How: the text is split after each bracket. The parts are *segments*, which are regular in bytes; the stack decides which
bracket may close. Four letters of base64 encode three bytes, so a segment begins and ends in one of three *phases*: the
number of bytes in the current group of letters. If a segment begins inside a letter, the first bits of that letter
belong to the bracket before it, so they are known. The rules are `(container, bracket before, phase) -> phase`. The
alternatives of a rule are: a segment that closes the container; or a segment that opens another container, the rule of
this container, and the rule of the text that follows it. There is an alternative for each phase in between; the letters
rule out the wrong ones.

A state of the automaton over letters is a tuple of states of the automaton over bytes, one for each value of the bits
that the current byte still lacks: 1 state at the start of a group, 4 after a letter, then 16, then 64. Cost: about 60
rules of about 200 states each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from guided.frontends.regex.derivatives import EMPTY_LANGUAGE, Terms
from guided.ir.encodings import Encoding
from guided.ir.nodes import Alt, Automaton, Chars, Encoded, Node, Ref, Repeat, Seq, Text
from guided.ir.ranges import charset

__all__ = ["json_in_base64"]

_AddRule = Callable[[object, str, str, Callable[[], Node]], Ref]

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_CLOSING = {"[": "]", "{": "}"}
_TOP = ""
_END = 3  # in place of a phase: the segment ends with the text, after optional padding
_MARK = 0x100  # plus the code of a bracket: the character that marks this bracket at the end of a segment


def json_in_base64(add_rule: _AddRule, encoding: Encoding) -> Node:
    """A JSON string that contains a JSON text in base64."""

    def segment(container: str, previous: str, phase: int, bracket: str, end: int) -> Node:
        return Encoded(_segment(container, previous, phase, bracket, end), encoding)

    def rest(container: str, previous: str, phase: int, end: int) -> Node:
        """The text after the bracket `previous` up to the end of its container, from one phase to another."""
        label = f"base64 of json, {container or 'text'} after {previous or 'nothing'}, {phase} to {end}"
        return add_rule(label, label, "", lambda: Alt(tuple(alternatives(container, previous, phase, end))))

    def alternatives(container: str, previous: str, phase: int, end: int) -> Iterator[Node]:
        yield segment(container, previous, phase, _CLOSING.get(container, ""), end)
        if container == _TOP and previous != _TOP:
            return
        for opening, closing in _CLOSING.items():
            for opening_phase in range(3):
                head = segment(container, previous, phase, opening, opening_phase)
                for closing_phase in range(3):
                    inner = rest(opening, opening, opening_phase, closing_phase)
                    yield Seq((head, inner, rest(container, closing, closing_phase, end)))

    return Seq((Text('"'), rest(_TOP, _TOP, 0, _END), Text('"')))


# --- segments, in bytes


def _bytes(*members: str | tuple[int, int]) -> Node:
    return Chars(charset([(ord(part), ord(part)) if isinstance(part, str) else part for part in members]))


def _utf8() -> Node:
    """A character beyond ASCII (RFC 3629)."""
    continuation = _bytes((0x80, 0xBF))
    return Alt((
        Seq((_bytes((0xC2, 0xDF)), continuation)),
        Seq((_bytes("\xe0"), _bytes((0xA0, 0xBF)), continuation)),
        Seq((_bytes((0xE1, 0xEC), (0xEE, 0xEF)), continuation, continuation)),
        Seq((_bytes("\xed"), _bytes((0x80, 0x9F)), continuation)),
        Seq((_bytes("\xf0"), _bytes((0x90, 0xBF)), continuation, continuation)),
        Seq((_bytes((0xF1, 0xF3)), continuation, continuation, continuation)),
        Seq((_bytes("\xf4"), _bytes((0x80, 0x8F)), continuation, continuation)),
    ))  # fmt: skip


def _repeat_any(item: Node) -> Node:
    return Repeat(item, 0, None)


def _optional(*parts: Node) -> Node:
    return Repeat(Seq(parts), 0, 1)


_GAP = _repeat_any(_bytes(*" \t\n\r"))
_COMMA = Seq((Text(","), _GAP))
_DIGIT, _HEX = _bytes((0x30, 0x39)), _bytes((0x30, 0x39), (0x41, 0x46), (0x61, 0x66))
_ESCAPE = Seq((Text("\\"), Alt((_bytes(*'"\\/bfnrt'), Seq((Text("u"), Repeat(_HEX, 4, 4)))))))
_CHARACTER = Alt((_bytes((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7F)), _ESCAPE, _utf8()))
_STRING = Seq((Text('"'), _repeat_any(_CHARACTER), Text('"')))
_DIGITS = Repeat(_DIGIT, 1, None)
_NUMBER = Seq((
    _optional(Text("-")), Alt((Text("0"), Seq((_bytes((0x31, 0x39)), _repeat_any(_DIGIT))))),
    _optional(Text("."), _DIGITS), _optional(_bytes(*"eE"), _optional(_bytes(*"+-")), _DIGITS),
))  # fmt: skip
_SCALAR = Alt((_STRING, _NUMBER, *map(Text, ("true", "false", "null"))))


def _language(container: str, is_at_start: bool) -> Node:
    """The segments of a container after its opening bracket (`is_at_start`), or after the end of a value in it.

    A bracket at the end of a segment is followed by its mark.
    """
    opening = Alt(tuple(Seq((Text(c), Text(chr(_MARK + ord(c))))) for c in _CLOSING))
    if container == _TOP:
        return Alt((Seq((_GAP, _SCALAR, _GAP)), Seq((_GAP, opening)))) if is_at_start else _GAP
    key = Seq((_STRING, _GAP, Text(":"), _GAP)) if container == "{" else Seq(())
    item, next_item = Seq((key, _SCALAR, _GAP)), Seq((_COMMA, key, _SCALAR, _GAP))
    closing = _CLOSING[container]
    close = Seq((Text(closing), Text(chr(_MARK + ord(closing)))))
    if is_at_start:
        items = _optional(item, _repeat_any(next_item))
        return Alt((Seq((_GAP, items, close)), Seq((_GAP, _repeat_any(Seq((item, _COMMA))), key, opening))))
    return Seq((_GAP, _repeat_any(next_item), Alt((close, Seq((_COMMA, key, opening))))))


# --- segments, in letters

_State = tuple[int, ...]
"""The terms for each value of the unknown bits, then 1 if padding may follow, else 0."""


@dataclass(frozen=True, slots=True)
class _Graph:
    """The automaton of letters of one container, without start and accepting states."""

    states: tuple[_State, ...]
    edges: tuple[tuple[tuple[int, int, int], ...], ...]
    starts: dict[tuple[str, int], int]
    mark_terms: dict[str, int]
    """Bracket -> the term after it, which accepts only its mark."""
    text_ends: frozenset[int]
    """The states in which the text may end: no bits are left, or the padding has been written."""

    def accepting_states(self, bracket: str, end: int) -> frozenset[int]:
        """The states in which a segment ends after this bracket, in this phase."""
        if end == _END:
            return self.text_ends
        mark, known_bits, size = self.mark_terms[bracket], ord(bracket) & (0, 3, 15)[end], (2, 5, 17)[end]
        return frozenset(
            number for number, state in enumerate(self.states) if len(state) == size and state[known_bits] == mark
        )


@cache
def _segment(container: str, previous: str, phase: int, bracket: str, end: int) -> Automaton:
    """The segments that begin after the bracket `previous` in `phase`, and end with `bracket` in the phase `end`."""
    accepting = _graph(container).accepting_states(bracket, end)
    order, edges = _reachable(container, previous, phase)
    return Automaton(tuple((state in accepting, state_edges) for state, state_edges in zip(order, edges, strict=True)))


@cache
def _reachable(
    container: str, previous: str, phase: int
) -> tuple[tuple[int, ...], tuple[tuple[tuple[int, int, int], ...], ...]]:
    """The states that are reachable from a start state, which comes first, and their edges, with new state numbers."""
    graph = _graph(container)
    order = [graph.starts[previous, phase]]
    numbers = {order[0]: 0}
    for state in order:
        for _, _, target in graph.edges[state]:
            if target not in numbers:
                numbers[target] = len(order)
                order.append(target)
    edges = [tuple((low, high, numbers[target]) for low, high, target in graph.edges[state]) for state in order]
    return tuple(order), tuple(edges)


@cache
def _graph(container: str) -> _Graph:
    terms = Terms()
    start_term, later_term = (terms.read(_language(container, is_at_start)) for is_at_start in (True, False))
    rows: dict[int, tuple[int, ...]] = {EMPTY_LANGUAGE: (EMPTY_LANGUAGE,) * 256}

    def row(term: int) -> tuple[int, ...]:
        """The term after each byte."""
        if term not in rows:
            targets = [EMPTY_LANGUAGE] * 256
            for ranges, target in terms.transitions(term):
                for low, high in ranges:
                    targets[low : high + 1] = [target] * (min(high, 255) + 1 - low) if low < 256 else []
            rows[term] = tuple(targets)
        return rows[term]

    numbers: dict[_State, int] = {}
    order: list[_State] = []

    def state_number(key: _State) -> int:
        if key not in numbers:
            numbers[key] = len(order)
            order.append(key)
        return numbers[key]

    starts = {}
    for previous in (container, *_CLOSING.values()):
        for phase, (width, known_bits) in enumerate(((1, 0), (4, 3), (16, 15))):
            phase_bits = ord(previous or "\0") & known_bits
            first = start_term if previous == container else later_term
            starts[previous, phase] = state_number(
                (*(first if bits == phase_bits else EMPTY_LANGUAGE for bits in range(width)), 0)
            )
    padded_state, final_state = state_number((-1,)), state_number((-2,))  # one more "=" is required; nothing may follow
    edges: list[tuple[tuple[int, int, int], ...]] = []
    for number, state_key in enumerate(order):
        edges.append(((ord("="), ord("="), final_state),) if number == padded_state else ())
        if number in (padded_state, final_state):
            continue
        letters_by_target: dict[int, list[tuple[int, int]]] = {}
        for value, letter in enumerate(_LETTERS):
            next_key = _next_state(state_key, value, row, terms.nullable)
            if any(next_key):
                letters_by_target.setdefault(state_number(next_key), []).append((ord(letter), ord(letter)))
        if state_key[-1]:
            letters_by_target[padded_state if len(state_key) == 17 else final_state] = [(ord("="), ord("="))]
        edges[number] = tuple(
            sorted(
                (low, high, target) for target, letters in letters_by_target.items() for low, high in charset(letters)
            )
        )
    mark_terms = {}
    for bracket in (*_CLOSING, *_CLOSING.values()):
        mark_terms[bracket] = terms.chars(((_MARK + ord(bracket),) * 2,))
    ends = [number for number, state_key in enumerate(order) if len(state_key) == 2 and terms.nullable[state_key[0]]]
    return _Graph(tuple(order), tuple(edges), starts, mark_terms, frozenset([final_state, *ends]))


def _next_state(state: _State, value: int, row: Callable[[int], tuple[int, ...]], nullable: list[bool]) -> _State:
    """The state after a letter. Some of its six bits complete a byte, and the others begin one."""
    match len(state):
        case 2:
            return (*row(state[0])[value * 4 : value * 4 + 4], 0)
        case 5:
            term, low = state[value >> 4], (value & 15) * 16
            return (*row(term)[low : low + 16], int(nullable[term]))
        case 17:
            term, low = state[value >> 2], (value & 3) * 64
            return (*row(term)[low : low + 64], int(nullable[term]))
        case _:
            return (state[value], 0)
