"""From the grammar IR to the native core: every node is read once, children before parents.

In: a `Grammar`, the native vocabulary, `Limits`, and the ids of special token names. Out: the native compiled grammar.
Shared nodes (the same object) are read once, by the core itself; what is not as usual it asks for here, where errors
are worded.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import TypeAlias, get_args

from guided.automaton import _core
from guided.errors import LimitExceeded, SpecError, UnsupportedError, VocabularyError, brief
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
    Member,
    Node,
    NoneOf,
    Not,
    Permutation,
    Ranges,
    Ref,
    Repeat,
    Seq,
    Special,
    Text,
    Written,
    charset,
)
from guided.grammar.serial import serial
from guided.limits import Limits

__all__ = ["compile_native"]

_LARGEST_COUNT = 2**30 - 1
_MOST_ENCODINGS = 64
_DEEPEST = 100_000
_USUAL = (Text, Seq, Alt, Ref, Repeat, Chars, Encoded, And, Not, Length, Distinct, Entry, Permutation, Member)
"""What the core looks into by itself, in its order; most nodes it reads as a whole."""
_NODES = frozenset(get_args(Node))
_KEPT = _core.KeptNodes()
"""What comes in many grammars as the same objects, such as the text of an integer: read once."""
_INSTEAD = {
    "Encoded inside": "put Encoded outside of the operation, around its result",
    "inside And": "these take regular nodes, without Special, Permutation and recursion: put the operation inside them",
    "left recursion": "write the recursion on the right, or without the count",
    "needs a vocabulary": "use a vocabulary with a token for each single byte, or a specification without recursion",
    "no way to an end": "ask for fewer values that differ, or allow more of them",
    "may be empty": "write a member without the empty text, and required=False to let it be left out",
}
"""Words of the core's refusals -> what to write instead."""


def compile_native(
    grammar: Grammar,
    vocabulary: _core.TokenVocabulary,
    *,
    limits: Limits,
    special_ids: Mapping[str, Collection[int]],
    end_tokens: Collection[int],
) -> _core.Compiled:
    """Compile `grammar` for `vocabulary`.

    Args:
        special_ids: name of a special token -> the ids that bear it.
        end_tokens: the ids that end an output; a grammar cannot name them.

    Raises:
        SpecError: an empty language, a malformed node, or a reference to a rule that does not exist.
        VocabularyError: a control token that the vocabulary lacks, or a language that its tokens cannot write.
        UnsupportedError: a combination of nodes that the core does not take, with the reason.
        LimitExceeded: states, nodes, work or seconds; `place` is the rule.
    """
    if not isinstance(grammar, Grammar):
        raise SpecError(
            f"a grammar is a guided.grammar.Grammar, not a {type(grammar).__name__}",
            hint='write Grammar({"start": node}); text and schemas have compile functions of their own',
        )
    if not isinstance(grammar.rules, Mapping):
        raise SpecError(
            f"the rules of a grammar are a mapping from names to nodes, not a {type(grammar.rules).__name__}",
            hint='write Grammar({"start": node})',
        )
    return _Sender(grammar, limits, special_ids, end_tokens, vocabulary.size).compile(vocabulary)


class _Sender:
    def __init__(
        self,
        grammar: Grammar,
        limits: Limits,
        special_ids: Mapping[str, Collection[int]],
        end_tokens: Collection[int],
        size: int,
    ) -> None:
        self.grammar, self.limits, self.special_ids, self.size = grammar, limits, special_ids, size
        self.end_tokens = frozenset(end_tokens)
        self.builder = _core.Builder()
        self.rule = ""
        self.rule_number = {name: i for i, name in enumerate(grammar.rules)}
        self.reader = _core.NodeReader(self.builder, _USUAL, self.rule_number, limits.nodes, _KEPT)
        self.encodings: list[tuple[Encoding, int]] = []
        self._encoding(UTF8)

    def compile(self, vocabulary: _core.TokenVocabulary) -> _core.Compiled:
        if self.grammar.start not in self.rule_number:
            raise SpecError(
                f"the start rule {self.grammar.start!r} is not defined", hint=self._instead(self.grammar.start)
            )
        if unnamed := [name for name in self.rule_number if not isinstance(name, str)]:
            raise SpecError(f"the rule name {unnamed[0]!r} is not a string", hint='write Grammar({"start": node})')
        rules = [self._send(name, node) for name, node in self.grammar.rules.items()]
        start, names, limits = self.rule_number[self.grammar.start], list(self.grammar.rules), self.limits
        try:
            return self.builder.compile(
                vocabulary, rules, names, start, limits.states, limits.seconds, limits.memory, limits.work
            )
        except SpecError as error:
            error.hint = "look for an empty Alt or Chars, bounds that exclude each other, recursion without an end"
            raise
        except UnsupportedError as error:
            error.hint = next((hint for words, hint in _INSTEAD.items() if words in error.reason), "")
            raise

    def _send(self, rule: str, root: Node) -> int:
        """The number of `root`, after its descendants have been sent."""
        self.rule = rule
        try:
            return self.reader.read(root, self._other)
        except ValueError as error:
            raise SpecError(f"rule {rule!r}: {error}", hint="for recursion, name a rule and refer to it") from error

    def _other(self, node: Node) -> int:
        """The number of a node that the core does not read by itself."""
        try:
            return self._add(node)
        except (
            AttributeError,
            LookupError,
            OverflowError,
            TypeError,
            ValueError,
        ) as error:  # the core's own checks of what it is given
            raise _malformed(self.rule, node, error) from error

    def _add(self, node: Node) -> int:
        """Hand over a node whose children have been sent."""
        build = self.builder
        if type(node) not in _NODES:
            raise TypeError("not a node")

        def sent(child: Node) -> int:
            return self.reader.read(child, self._other)

        match node:
            case Text(text):
                return build.text(text)
            case Ref(name):
                raise SpecError(
                    f"rule {self.rule!r} refers to {name!r}, which is not defined", hint=self._instead(name)
                )
            case Repeat(item, low, high):
                return build.repeat(sent(item), *self._bounds(low, high))
            case Length(item, low, high):
                return build.length(sent(item), *self._bounds(low, high))
            case Chars(ranges):
                return build.chars(_sorted_ranges(ranges))
            case Encoded(item, encoding):
                return build.encoded(sent(item), self._encoding(encoding))
            case Automaton(states, start):
                return build.automaton(*_from_start(states, start))
            case Distinct(item, known):
                return build.distinct(sent(item), list(known))
            case Special(token):
                return self._special(token)
            case Permutation(members, separator, low, high, slots, ordered, condition):
                if not isinstance(members, tuple) or any(type(member) is not Member for member in members):
                    raise TypeError("the members are a tuple of Member")
                items = [sent(member.item) for member in members]
                required = [member.required for member in members]
                repeatable = [member.repeatable for member in members]
                bounds = self._bounds(low, high)
                if not slots and not ordered and condition is None:
                    return build.permutation(items, required, repeatable, sent(separator), *bounds)
                own = slots or tuple(range(len(members)))
                asked = [] if condition is None else _listed(condition)
                return build.conditional(items, required, repeatable, sent(separator), *bounds, own, ordered, asked)
        raise TypeError("not a node")

    def _instead(self, name: object) -> str:
        close = difflib.get_close_matches(str(name), map(str, self.rule_number), n=1)
        return f"did you mean {close[0]!r}?" if close else f"the rules are {', '.join(map(str, self.rule_number)):.200}"

    def _bounds(self, low: int, high: int | None) -> tuple[int, int]:
        """Counts as the core takes them: no upper bound is -1, and one past every possible output is no bound."""
        if low < 0 or (high is not None and high < 0):
            raise ValueError("a count is at least 0")
        if low > _LARGEST_COUNT:
            raise LimitExceeded("states", low, _LARGEST_COUNT, fixed=True, hint="repeat a longer part less often")
        return low, -1 if high is None or high > _LARGEST_COUNT else high

    def _special(self, token: int | str) -> int:
        if not isinstance(token, int | str):
            raise TypeError("not a token")
        ids = [token] if isinstance(token, int) else sorted(self.special_ids.get(token, ()))
        if not ids:
            known = ", ".join(sorted(self.special_ids)[:8]) or "none"
            raise VocabularyError(f"the vocabulary has no control token {token!r} (it has: {known})")
        for number in ids:
            if not 0 <= number < self.size:
                raise VocabularyError(f"{number} is not a token id of this vocabulary (0 to {self.size - 1})")
            if number in self.end_tokens:
                raise VocabularyError(f"token {number} ends the output, so the grammar cannot name it inside")
        if len(ids) == 1:
            return self.builder.special(ids[0])
        return self.builder.many("alt", [self.builder.special(number) for number in ids])

    def _encoding(self, encoding: Encoding) -> int:
        """The number of an encoding. Found by identity or equality: to hash one is to walk over its forms."""
        for known, number in self.encodings:
            if known is encoding or known == encoding:
                return number
        self.encodings.append((encoding, self.builder.encoding(_native_encoding(encoding))))
        return self.encodings[-1][1]


_native_encodings: dict[int, _core.Encoding] = {}
"""By serial number: nearly all grammars have the same two."""


def _native_encoding(encoding: Encoding) -> _core.Encoding:
    known = _native_encodings.get(serial(encoding))
    if known is None:
        forms = [
            (
                list(form.ranges),
                [[(span.low, span.high, span.value, span.step) for span in digit] for digit in form.digits],
            )
            for form in encoding.forms
        ]
        if len(_native_encodings) >= _MOST_ENCODINGS:
            _native_encodings.clear()
        known = _native_encodings[serial(encoding)] = _core.Encoding(forms)
    return known


_CONDITIONS = (Written, AllOf, AnyOf, NoneOf)
"""In the order of the core's numbers."""


def _listed(condition: Condition) -> list[tuple[int, tuple[int, ...]]]:
    """The conditions that `condition` is made of, each object once, parts first: (kind, members or places of parts)."""
    places: dict[int, int] = {}
    out: list[tuple[int, tuple[int, ...]]] = []
    open_ = [condition]
    while open_:
        at = open_[-1]
        if not isinstance(at, _CONDITIONS):
            raise TypeError("not a condition")
        parts = () if isinstance(at, Written) else at.items
        missing = [part for part in parts if serial(part) not in places]
        if serial(at) in places or not missing:
            open_.pop()
            if serial(at) not in places:
                places[serial(at)] = len(out)
                found = at.members if isinstance(at, Written) else tuple(places[serial(part)] for part in parts)
                out.append((_CONDITIONS.index(type(at)), found))
        elif len(open_) > _DEEPEST:
            raise ValueError(f"conditions nest deeper than {_DEEPEST}")
        else:
            open_ += missing
    return out


_States: TypeAlias = Sequence[tuple[bool, Sequence[tuple[int, int, int]]]]


def _from_start(states: _States, start: int) -> tuple[list[bool], list[tuple[int, int, int, int]]]:
    """The states' acceptance and their edges, the start being number 0."""

    if not 0 <= start < len(states):
        raise ValueError(f"there is no state {start}")
    order = list(range(len(states)))
    order[start], order[0] = 0, start
    number = dict(enumerate(order))  # swaps the two, so it is its own inverse
    try:
        edges = [(at, low, high, number[to]) for at, old in enumerate(order) for low, high, to in states[old][1]]
    except KeyError as error:
        raise ValueError(f"there is no state {error}") from None
    return [states[old][0] for old in order], edges


@lru_cache(maxsize=1024)
def _sorted_ranges(ranges: Ranges) -> Ranges:
    """Ranges as the core takes them: those made by `charset` are so already, others are put in order."""
    for pair in ranges:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(f"{brief(pair)} is not a pair of code points")
        low, high = pair
        if not 0 <= low <= high <= 0x10FFFF:
            raise ValueError(f"{low} to {high} is no range within 0 to {0x10FFFF}")
    return charset(ranges)


def _malformed(rule: str, node: object, error: Exception) -> SpecError:
    """The error for a node with fields that make no sense; nodes below it are not shown."""
    kind = type(node)
    if kind not in _NODES or not is_dataclass(node):
        hint = (
            f"write Text({brief(node)})"
            if isinstance(node, str)
            else "nodes are Text, Chars, Seq, Alt, Repeat, Ref, ..."
        )
        what = brief(node) if _is_plain(node) else f"an object of {kind.__name__}"
        return SpecError(f"rule {rule!r}: {what} is no node of guided.grammar", hint=hint)
    values = {field.name: getattr(node, field.name, ...) for field in fields(node)}
    shown = [f"{name}={brief(value)}" if _is_plain(value) else f"{name}=.." for name, value in values.items()]
    reason = f": {error}" if isinstance(error, ValueError) else " is malformed"
    meaning = (kind.__doc__ or "").partition("\n")[0]
    return SpecError(f"rule {rule!r}: {kind.__name__}({', '.join(shown)}){reason}", hint=meaning)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | bytes | int | float)
