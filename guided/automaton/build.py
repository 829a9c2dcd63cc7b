"""Compiles a grammar with the native core: passes it the IR nodes and turns its refusals into helpful errors.

In: a `Grammar`, the native vocabulary, `Limits`, and the ids of special token names. Out: the native compiled grammar.

The core's `NodeReader` walks over the nodes, children before parents, and reads most of them itself. A shared node (the
same object in several places) is read once. For a node that it does not read, such as a `Permutation` or a node with
unusual fields, the reader calls back into this module, which can check it and word the error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import TypeAlias, get_args

from guided.automaton import _core
from guided.automaton.conditions import flattened
from guided.automaton.entries import check_entries
from guided.close_names import close_name
from guided.errors import LimitExceeded, SpecError, UnsupportedError, VocabularyError, brief
from guided.ir.encodings import UTF8, Encoding
from guided.ir.nodes import (
    ANY_CHAR,
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
    Lexed,
    MaxTokens,
    Member,
    Node,
    Not,
    OtherTokens,
    Permutation,
    Ref,
    Repeat,
    Seq,
    Special,
    Text,
)
from guided.ir.ranges import Ranges, charset
from guided.ir.serial import serial
from guided.ir.tokens import is_any_text
from guided.limits import Limits
from guided.meter import compiling, fail_if_exhausted, seconds_left, spend

__all__ = ["compile_native"]

_LARGEST_COUNT = 2**30 - 1
"""The largest bound of a repetition or length window that the core stores."""
_UNBOUNDED = -1
"""How the core's interface writes "no upper bound"."""
_MAX_CACHED_ENCODINGS = 64
_READER_TYPES = (Text, Seq, Alt, Ref, Repeat, Chars, Encoded, And, Not, Length, Distinct, Entry, Permutation, Member)
"""The classes whose fields the core's reader reads, in the order that it expects."""
_NODES = frozenset(get_args(Node))
_SHARED_NODES = _core.KeptNodes()
"""Nodes that many grammars share as the same objects, such as those of an integer's text: they are read only once."""
_HINTS = {
    "Encoded inside": "put Encoded outside of the operation, around its result",
    "inside And": "these take regular nodes, without Special, Permutation and recursion: put the operation inside them",
    "the shortest text takes": "allow more tokens, or a shorter text",
    "left recursion": "write the recursion on the right, or without the count",
    "needs a vocabulary": "use a vocabulary with a token for each single byte, or a specification without recursion",
    "no way to an end": "ask for fewer values that differ, or allow more of them",
    "decision diagram": "relate fewer members of one object to each other (with dependentRequired, if, oneOf, ...)",
    "may be empty": "write a member without the empty text, and required=False to let it be left out",
}
"""Words in the core's refusals -> a hint about what to write instead."""


def compile_native(
    grammar: Grammar,
    vocabulary: _core.TokenVocabulary,
    *,
    limits: Limits,
    special_ids: Mapping[str, Collection[int]],
    end_tokens: Collection[int],
    text_ids: Callable[[], frozenset[int]] = frozenset,
) -> _core.CompiledRules:
    """Compile `grammar` for `vocabulary`.

    Args:
        special_ids: name of a special token -> the ids with this name.
        end_tokens: the ids that end an output; a grammar cannot name them.
        text_ids: returns the ids that have text; called if the grammar has `OtherTokens`.

    Raises:
        SpecError: the language is empty, a node is malformed, or a rule is missing.
        VocabularyError: the vocabulary lacks a control token, or its tokens cannot write any text of the language.
        UnsupportedError: the core does not support this combination of nodes; the message gives the reason.
        LimitExceeded: too many states or nodes, or too much work or time; `place` is the rule.
    """
    if not isinstance(grammar, Grammar):
        raise SpecError(
            f"a grammar is a guided.ir.Grammar, not a {type(grammar).__name__}",
            hint='write Grammar({"start": node}); text and schemas have compile functions of their own',
        )
    if not isinstance(grammar.rules, Mapping):
        raise SpecError(
            f"the rules of a grammar are a mapping from names to nodes, not a {type(grammar.rules).__name__}",
            hint='write Grammar({"start": node})',
        )
    return _GrammarBuilder(grammar, limits, special_ids, end_tokens, vocabulary.size, text_ids).compile(vocabulary)


class _GrammarBuilder:
    """Builds one grammar in the core, rule by rule."""

    def __init__(
        self,
        grammar: Grammar,
        limits: Limits,
        special_ids: Mapping[str, Collection[int]],
        end_tokens: Collection[int],
        size: int,
        text_ids: Callable[[], frozenset[int]],
    ) -> None:
        self.grammar, self.limits, self.special_ids, self.size = grammar, limits, special_ids, size
        self.text_ids, self.limits_tokens = text_ids, False
        self.end_tokens = frozenset(end_tokens)
        self.builder = _core.Builder()
        self.rule = ""
        self.rule_number = {name: i for i, name in enumerate(grammar.rules)}
        self.reader = _core.NodeReader(self.builder, _READER_TYPES, self.rule_number, limits.nodes, _SHARED_NODES)
        self.encodings: list[tuple[Encoding, int]] = []
        self._encoding(UTF8)

    def compile(self, vocabulary: _core.TokenVocabulary, prefix: str = "") -> _core.CompiledRules:
        if self.grammar.start not in self.rule_number:
            raise SpecError(
                f"the start rule {self.grammar.start!r} is not defined", hint=self._instead(self.grammar.start)
            )
        if unnamed := [name for name in self.rule_number if not isinstance(name, str)]:
            raise SpecError(f"the rule name {unnamed[0]!r} is not a string", hint='write Grammar({"start": node})')
        spend(len(self.grammar.rules))
        rules = [self._read_rule(name, node) for name, node in self.grammar.rules.items()]
        del self.reader  # it refers to all nodes
        if self.limits_tokens:
            check_entries(self.grammar)
        start, limits = self.rule_number[self.grammar.start], self.limits
        names = [prefix + name for name in self.grammar.rules]
        waiting = [
            (self.rule_number[name], blake2b(later.content, digest_size=16).digest(), later.least)
            for name, later in self.grammar.later.items()
        ]
        try:
            return self.builder.compile(
                vocabulary, rules, names, start, limits.states, seconds_left(limits.seconds), limits.memory,
                limits.work, limits.call_work, waiting, self._compiles_later(vocabulary) if waiting else None,
            )  # fmt: skip
        except LimitExceeded as error:
            if error.limit == "seconds":
                fail_if_exhausted(error.place)  # the core knows the remaining work, but not the total
            raise
        except SpecError as error:
            error.hint = "look for an empty Alt or Chars, bounds that exclude each other, recursion without an end"
            raise
        except UnsupportedError as error:
            error.pointer = self.grammar.origins.get(error.pointer.removeprefix(prefix), "")
            error.hint = next((hint for words, hint in _HINTS.items() if words in error.reason), "")
            raise

    def _compiles_later(
        self, vocabulary: _core.TokenVocabulary
    ) -> Callable[[Sequence[int]], list[_core.CompiledRules]]:
        """The function that the core calls for rules that are entered. The origins of their rules are added to the
        grammar's.
        """
        later, origins = list(self.grammar.later.items()), self.grammar.origins
        assert isinstance(origins, dict)
        limits, special_ids, end_tokens, text_ids = self.limits, self.special_ids, self.end_tokens, self.text_ids

        def compile_later(numbers: Sequence[int]) -> list[_core.CompiledRules]:
            out = []
            for rule, it in [later[number] for number in numbers]:
                with compiling(limits, work=False):
                    grammar, prefix = it.read(), f"{rule}: "
                    origins.update({prefix + name: grammar.origins.get(name, name) for name in grammar.rules})
                    builder = _GrammarBuilder(grammar, limits, special_ids, end_tokens, vocabulary.size, text_ids)
                    out.append(builder.compile(vocabulary, prefix))
            return out

        return compile_later

    def _read_rule(self, rule: str, root: Node) -> int:
        """Read `root` with all its descendants. Returns its number in the core."""
        self.rule = rule
        try:
            return self.reader.read(root, self._add_checked)
        except ValueError as error:
            raise SpecError(f"rule {rule!r}: {error}", hint="for recursion, name a rule and refer to it") from error

    def _add_checked(self, node: Node) -> int:
        """Add a node that the core does not read itself. Returns its number. Raises `SpecError` if it is malformed."""
        try:
            return self._add(node)
        except (
            AttributeError,
            LookupError,
            OverflowError,
            TypeError,
            ValueError,
        ) as error:  # from the checks below, or the core's own
            raise _malformed(self.rule, node, error) from error

    def _add(self, node: Node) -> int:
        """Add a node to the core, after its children. Returns its number."""
        build = self.builder
        if type(node) not in _NODES:
            raise TypeError("not a node")

        def number(child: Node) -> int:
            return self.reader.read(child, self._add_checked)

        match node:
            case Text(text):
                return build.text(text)
            case Ref(name):
                raise SpecError(
                    f"rule {self.rule!r} refers to {name!r}, which is not defined", hint=self._instead(name)
                )
            case Repeat(item, low, high):
                return build.repeat(number(item), *self._bounds(low, high))
            case Length(item, low, high):
                return build.length(number(item), *self._bounds(low, high))
            case Chars(ranges):
                return build.chars(_sorted_ranges(ranges))
            case Encoded(item, encoding):
                return build.encoded(number(item), self._encoding(encoding))
            case Automaton(states, start):
                return build.automaton(*_from_start(states, start))
            case Dispatch(automaton, exits, followers):
                renumbered = {automaton.start: 0, 0: automaton.start}  # as in _from_start
                leaving = [renumbered.get(state, state) for state in exits]
                return build.dispatch(number(automaton), leaving, [number(item) for item in followers])
            case MaxTokens(item, most):
                self.limits_tokens = True
                return build.max_tokens(number(item), self._bounds(0, most)[1])
            case Distinct(item, known):
                return build.distinct(number(item), list(known))
            case Special(token):
                return self._special(token)
            case OtherTokens():
                return self._other_tokens(node)
            case Lexed():
                raise UnsupportedError(
                    "a grammar with a lexer can be a part of sequences, choices and repetitions alone",
                    hint='read it with semantics="scannerless"',
                )
            case Permutation(members, separator, low, high, slots, ordered, condition):
                if not isinstance(members, tuple) or any(type(member) is not Member for member in members):
                    raise TypeError("the members are a tuple of Member")
                items = [number(member.item) for member in members]
                required = [member.required for member in members]
                repeatable = [member.repeatable for member in members]
                bounds = self._bounds(low, high)
                if not slots and not ordered and condition is None:
                    return build.permutation(items, required, repeatable, number(separator), *bounds)
                slots = slots or tuple(range(len(members)))
                nodes = [] if condition is None else flattened(condition)
                return build.conditional(items, required, repeatable, number(separator), *bounds, slots, ordered, nodes)
        raise TypeError("not a node")

    def _instead(self, name: object) -> str:
        close = close_name(str(name), map(str, self.rule_number))
        return f"did you mean {close!r}?" if close else f"the rules are {', '.join(map(str, self.rule_number)):.200}"

    def _bounds(self, low: int, high: int | None) -> tuple[int, int]:
        """The bounds as the core expects them. An upper bound that no output can reach counts as unbounded."""
        if low < 0 or (high is not None and high < 0):
            raise ValueError("a count is at least 0")
        if low > _LARGEST_COUNT:
            raise LimitExceeded("states", low, _LARGEST_COUNT, fixed=True, hint="repeat a longer part less often")
        return low, _UNBOUNDED if high is None or high > _LARGEST_COUNT else high

    def _special(self, token: int | str) -> int:
        if not isinstance(token, int | str):
            raise TypeError("not a token")
        ids = self._ids(token)
        for number in ids:
            if number in self.end_tokens:
                message = f"token {number} ends the output, so the grammar cannot name it inside"
                raise VocabularyError(message, token=token, hint="leave it out: an output ends with it by itself")
        return self._tokens(ids)

    def _other_tokens(self, node: OtherTokens) -> int:
        named = {number for token in node.but for number in self._ids(token)}
        texts = self.text_ids()
        if is_any_text(node, named, texts):
            return self.reader.read(Repeat(ANY_CHAR, node.min, None), self._add_checked)
        return self.builder.repeat(self._tokens(sorted(texts - named)), *self._bounds(node.min, node.max))

    def _tokens(self, ids: Sequence[int]) -> int:
        """One of these tokens; the ids are sorted."""
        ends = [at for at, number in enumerate(ids) if at + 1 == len(ids) or ids[at + 1] != number + 1]
        starts = [0, *(at + 1 for at in ends[:-1])]
        runs = [self.builder.special(ids[start], ids[end]) for start, end in zip(starts, ends, strict=False)]
        return runs[0] if len(runs) == 1 else self.builder.many("alt", runs)

    def _ids(self, token: int | str) -> list[int]:
        """The ids of a token that the grammar names."""
        ids = [token] if isinstance(token, int) else sorted(self.special_ids.get(token, ()))
        if not ids:
            known = ", ".join(sorted(self.special_ids)[:8]) or "none"
            close = close_name(str(token), self.special_ids)
            hint = f"did you mean {close}?" if close else "name a token that the vocabulary has, or its id"
            message = f"the vocabulary has no control token {token!r} (it has: {known})"
            raise VocabularyError(message, token=token, hint=hint)
        for number in ids:
            if not 0 <= number < self.size:
                message = f"{number} is not a token id of this vocabulary (0 to {self.size - 1})"
                raise VocabularyError(message, token=number, hint="ids differ between models; name the token instead")
        return ids

    def _encoding(self, encoding: Encoding) -> int:
        """The number of an encoding in the core. A linear search, since there are few encodings and hashing is slow."""
        for known, number in self.encodings:
            if known is encoding or known == encoding:
                return number
        self.encodings.append((encoding, self.builder.encoding(_native_encoding(encoding))))
        return self.encodings[-1][1]


_native_encodings: dict[int, _core.Encoding] = {}
"""Serial number -> the core's object. Nearly all grammars use the same two encodings."""


def _native_encoding(encoding: Encoding) -> _core.Encoding:
    """The core's object for `encoding`, cached."""
    known = _native_encodings.get(serial(encoding))
    if known is None:
        forms = [
            (
                list(form.ranges),
                [[(span.low, span.high, span.value, span.step) for span in digit] for digit in form.digits],
            )
            for form in encoding.forms
        ]
        if len(_native_encodings) >= _MAX_CACHED_ENCODINGS:
            _native_encodings.clear()
        known = _native_encodings[serial(encoding)] = _core.Encoding(forms)
    return known


_States: TypeAlias = Sequence[tuple[bool, Sequence[tuple[int, int, int]]]]


def _from_start(states: _States, start: int) -> tuple[list[bool], list[tuple[int, int, int, int]]]:
    """Renumber an automaton so that its start state is number 0.

    Returns:
        accept: whether each state accepts.
        edges: (from, low, high, to) for each edge, by source state.
    """
    if not 0 <= start < len(states):
        raise ValueError(f"there is no state {start}")
    order = list(range(len(states)))
    order[start], order[0] = 0, start
    number = dict(enumerate(order))  # exchanges two numbers, so it is its own inverse
    try:
        edges = [(at, low, high, number[to]) for at, old in enumerate(order) for low, high, to in states[old][1]]
    except KeyError as error:
        raise ValueError(f"there is no state {error}") from None
    return [states[old][0] for old in order], edges


@lru_cache(maxsize=1024)
def _sorted_ranges(ranges: Ranges) -> Ranges:
    """The same ranges, checked, sorted and joined as the core expects them."""
    for pair in ranges:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(f"{brief(pair)} is not a pair of code points")
        low, high = pair
        if not 0 <= low <= high <= 0x10FFFF:
            raise ValueError(f"{low} to {high} is no range within 0 to {0x10FFFF}")
    return charset(ranges)


def _malformed(rule: str, node: object, error: Exception) -> SpecError:
    """The error for an object that is not a node, or a node with wrong fields. Child nodes are not shown."""
    kind = type(node)
    if kind not in _NODES or not is_dataclass(node):
        hint = (
            f"write Text({brief(node)})"
            if isinstance(node, str)
            else "nodes are Text, Chars, Seq, Alt, Repeat, Ref, ..."
        )
        what = brief(node) if _is_plain(node) else f"an object of {kind.__name__}"
        return SpecError(f"rule {rule!r}: {what} is no node of guided.ir", hint=hint)
    values = {field.name: getattr(node, field.name, ...) for field in fields(node)}
    shown = [f"{name}={brief(value)}" if _is_plain(value) else f"{name}=.." for name, value in values.items()]
    reason = f": {error}" if isinstance(error, ValueError) else " is malformed"
    meaning = (kind.__doc__ or "").partition("\n")[0]
    return SpecError(f"rule {rule!r}: {kind.__name__}({', '.join(shown)}){reason}", hint=meaning)


def _is_plain(value: object) -> bool:
    """Whether an error message shows `value` itself rather than its class."""
    return value is None or isinstance(value, str | bytes | int | float)
