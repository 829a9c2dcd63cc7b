"""Compiles a grammar with the native core: passes the IR nodes to the core and adds hints to its errors.

In: a `Grammar`, a vocabulary, and `Limits`. Out: the native compiled grammar.

The core's `NodeReader` visits the nodes, children before parents, and reads most of them itself. A shared node (the
same object in several places) is read once. For a node that it cannot read, such as a `Permutation` or a node with
unusual fields, the reader calls back into this module, which checks the node and raises an error or adds it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import TypeAlias, get_args

from guided.automaton import _core
from guided.automaton.conditions import flatten_condition
from guided.automaton.entries import check_entries
from guided.automaton.marked_texts import mark_texts
from guided.automaton.native_encodings import native_encoding
from guided.close_names import find_closest_name
from guided.errors import LimitExceeded, SpecError, UnsupportedError, VocabularyError, brief
from guided.frontends.common.end_tokens import EndTokenNamed
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
    Substrings,
    Text,
)
from guided.ir.ranges import Ranges, charset, has_surrogate
from guided.ir.tokens import is_any_text
from guided.limits import Limits
from guided.meter import fail_if_exhausted, limit_compilation, seconds_left, spend

__all__ = ["GrammarBuilder", "Target", "add_hint", "compile_native"]

_MAX_COUNT = 2**30 - 1
"""The largest bound of a repetition or length window that the core stores."""
_UNBOUNDED = -1
"""Stands for "no upper bound" in the core's interface."""
_NODE_TYPES = _core.NodeTypes(
    (Text, Seq, Alt, Ref, Repeat, Chars, Encoded, And, Not, Length, Distinct, Entry, Permutation, Member)
)
"""The classes that the core's reader knows, in the order that it expects."""
_NODES = frozenset(get_args(Node))
_SHARED_NODES = _core.KeptNodes()
"""Node objects that many grammars share, such as those for the text of an integer. They are read only once."""
_HINTS = {
    "Encoded inside": "apply Encoded to the result of the operation instead",
    "inside And": "apply And, Not and Length to regular parts only, without Special, Permutation or recursion",
    "the shortest text takes": "allow more tokens or a shorter text",
    "left recursion": "use right recursion, or remove the count",
    "needs a vocabulary": "use a vocabulary with a token for each single byte, or a specification without recursion",
    "no way to an end": "require fewer distinct values, or allow more values",
    "decision diagram": "relate fewer members of one object to each other (with dependentRequired, if, oneOf, ...)",
    "of a grammar with a lexer": 'write the repetitions out, or use semantics="scannerless"',
    "may be empty": "exclude the empty text from the member; required=False makes a member optional",
}
"""A part of the core's error message -> a hint about what to write instead."""


def add_hint(error: UnsupportedError) -> None:
    """Add the hint for an error of the core."""
    error.hint = next((hint for words, hint in _HINTS.items() if words in error.reason), "")


@dataclass(frozen=True, slots=True)
class Target:
    """What compilation needs to know about a vocabulary.

    Attributes:
        vocabulary: the vocabulary as an object of the core.
        special_ids: the name of a special token -> its ids.
        end_tokens: the ids that end an output. A grammar that names one raises `EndTokenNamed`.
        text_ids: returns the ids that have text; called only if the grammar contains `OtherTokens`.
    """

    vocabulary: _core.TokenVocabulary
    special_ids: dict[str, list[int]] = field(default_factory=dict)
    end_tokens: Collection[int] = ()
    text_ids: Callable[[], frozenset[int]] = frozenset


def compile_native(grammar: Grammar, target: Target, limits: Limits) -> _core.CompiledRules:
    """Compile a grammar for a vocabulary.

    Raises:
        SpecError: the language is empty, a node is malformed, or a rule is missing.
        VocabularyError: the vocabulary lacks a control token, or its tokens cannot write any text of the language.
        UnsupportedError: the core does not support this combination of nodes; the message gives the reason.
        LimitExceeded: too many states or nodes, or too much work or time; `place` is the rule.
    """
    if not isinstance(grammar, Grammar):
        raise SpecError(
            f"a grammar must be a guided.ir.Grammar, not a {type(grammar).__name__}",
            hint='write Grammar({"start": node}); text and schemas have their own compile functions',
        )
    if not isinstance(grammar.rules, Mapping):
        raise SpecError(
            f"the rules of a grammar must be a mapping from names to nodes, not a {type(grammar.rules).__name__}",
            hint='write Grammar({"start": node})',
        )
    return GrammarBuilder(grammar, target, limits).compile()


class GrammarBuilder:
    """Adds one grammar to the core, rule by rule. Takes the arguments of `compile_native`.

    Attributes:
        builder: the core's builder; its first encoding is UTF-8.
    """

    def __init__(self, grammar: Grammar, target: Target, limits: Limits) -> None:
        self.grammar, self.target, self.limits, self.has_token_limits = grammar, target, limits, False
        self.quoted_length = 0  # characters in the documents of all `Substrings` so far
        self.end_tokens = frozenset(target.end_tokens)
        self.named_end: tuple[int, int | str] | None = None  # an end token, and how the grammar names it
        self.builder = _core.Builder()
        self.rule_name = ""  # of the rule that is being read
        self.rule_numbers = {name: i for i, name in enumerate(grammar.rules)}
        self.reader = _core.NodeReader(self.builder, _NODE_TYPES, self.rule_numbers, limits.nodes, _SHARED_NODES)
        self.encodings: list[tuple[Encoding, int]] = []
        self._add_encoding(UTF8)

    def compile(self, prefix: str = "") -> _core.CompiledRules:
        """Compile the grammar. Raises the errors of `compile_native`. `prefix` is prepended to the rules' names."""
        if self.grammar.start not in self.rule_numbers:
            raise SpecError(
                f"the start rule {self.grammar.start!r} is not defined", hint=self._suggest_rule(self.grammar.start)
            )
        if invalid_names := [name for name in self.rule_numbers if not isinstance(name, str)]:
            raise SpecError(
                f"the rule name {invalid_names[0]!r} is not a string", hint='write Grammar({"start": node})'
            )
        if invalid_names := [name for name in self.rule_numbers if has_surrogate(name)]:
            raise SpecError(
                f"the rule name {invalid_names[0]!r} contains a lone surrogate", hint="use other characters"
            )
        spend(len(self.grammar.rules))
        rules = self._read_rules()
        del self.reader  # it refers to all nodes
        if self.has_token_limits:
            check_entries(self.grammar)
        start, limits = self.rule_numbers[self.grammar.start], self.limits
        names = [prefix + name for name in self.grammar.rules]
        later_rules = [
            (self.rule_numbers[name], blake2b(later.content, digest_size=16).digest(), later.shortest_bound)
            for name, later in self.grammar.later.items()
        ]
        try:
            return self.builder.compile(
                self.target.vocabulary, rules, names, start, limits.states, seconds_left(limits.seconds), limits.memory,
                limits.work, limits.call_work, later_rules, self._later_compiler() if later_rules else None,
            )  # fmt: skip
        except LimitExceeded as error:
            if error.limit == "seconds":
                fail_if_exhausted(error.place)  # names the whole limit; the core knew only the time that was left
            raise
        except SpecError as error:
            error.hint = "look for an empty Alt or Chars, contradictory bounds, or recursion that never ends"
            raise
        except UnsupportedError as error:
            error.pointer = self.grammar.origins.get(error.pointer.removeprefix(prefix), "")
            add_hint(error)
            raise

    def _later_compiler(self) -> Callable[[Sequence[int]], list[_core.CompiledRules]]:
        """Return the function that the core calls to compile deferred rules when they are entered.

        The function adds the origins of the compiled rules to the origins of this grammar.
        """
        later, origins = list(self.grammar.later.items()), self.grammar.origins
        assert isinstance(origins, dict)
        target, limits = self.target, self.limits

        def compile_later(numbers: Sequence[int]) -> list[_core.CompiledRules]:
            out = []
            for rule, later_rule in [later[number] for number in numbers]:
                with limit_compilation(limits, work=False):
                    grammar, prefix = later_rule.read(), f"{rule}: "
                    origins.update({prefix + name: grammar.origins.get(name, name) for name in grammar.rules})
                    out.append(GrammarBuilder(grammar, target, limits).compile(prefix))
            return out

        return compile_later

    def _read_rules(self) -> list[int]:
        """Read the nodes of all rules. Returns the core's number of each rule's root node."""
        numbers, read, add = [], self.reader.read, self.add_checked
        try:
            for name, root in self.grammar.rules.items():
                self.rule_name = name
                numbers.append(read(root, add))
        except ValueError as error:
            message = f"rule {self.rule_name!r}: {error}"
            raise SpecError(message, hint="for recursion, name a rule and refer to it") from error
        if self.named_end is not None:  # only now, since errors in the grammar come first
            number, token = self.named_end
            message = f"token {number} ends the output, so the grammar cannot name it"
            raise EndTokenNamed(message, token=token, hint="leave it out: it may follow every complete output")
        return numbers

    def add_checked(self, node: Node) -> int:
        """Add a node that the core's reader cannot read. Returns its number. Raises `SpecError` if it is malformed."""
        try:
            return self._add(node)
        except (
            AttributeError,
            LookupError,
            OverflowError,
            TypeError,
            ValueError,
        ) as error:  # from the checks in `_add` or from the core
            raise _node_error(self.rule_name, node, error) from error

    def _add(self, node: Node) -> int:
        """Add the children of a node to the core, and then the node. Returns its number."""
        builder = self.builder
        if type(node) not in _NODES:
            raise TypeError("not a node")

        def read_child(child: Node) -> int:
            return self.reader.read(child, self.add_checked)

        match node:
            case Text(text):
                return builder.text(text)
            case Ref(name):
                raise SpecError(
                    f"rule {self.rule_name!r} refers to {name!r}, which is not defined", hint=self._suggest_rule(name)
                )
            case Repeat(item, low, high):
                return builder.repeat(read_child(item), *self._native_bounds(low, high))
            case Length(item, low, high):
                return builder.length(read_child(item), *self._native_bounds(low, high))
            case Chars(ranges):
                return builder.chars(_sorted_ranges(ranges))
            case Encoded(item, encoding):
                return builder.encoded(read_child(item), self._add_encoding(encoding))
            case Automaton(states, start):
                return builder.automaton(*_renumber_from_start(states, start))
            case Substrings():
                marked = mark_texts(node, self.limits, self.quoted_length)
                self.quoted_length += sum(map(len, node.texts))
                return builder.substrings(*marked)
            case Dispatch(automaton, exits, followers):
                renumbered = {automaton.start: 0, 0: automaton.start}  # as in `_renumber_from_start`
                exit_states = [renumbered.get(state, state) for state in exits]
                return builder.dispatch(read_child(automaton), exit_states, [read_child(item) for item in followers])
            case MaxTokens(item, max_tokens):
                self.has_token_limits = True
                return builder.max_tokens(read_child(item), self._native_bounds(0, max_tokens)[1])
            case Distinct(item, names):
                return builder.distinct(read_child(item), list(names))
            case Special(token):
                return self._add_special(token)
            case OtherTokens():
                return self._add_other_tokens(node)
            case Lexed():
                raise UnsupportedError(
                    "a grammar with a lexer can only be a part of sequences, choices and repetitions",
                    hint='read it with semantics="scannerless"',
                )
            case Permutation(members, separator, low, high, slots, ordered, condition):
                if not isinstance(members, tuple) or any(type(member) is not Member for member in members):
                    raise TypeError("the members must be a tuple of Member")
                items = [read_child(member.item) for member in members]
                required = [member.required for member in members]
                repeatable = [member.repeatable for member in members]
                bounds = self._native_bounds(low, high)
                if not slots and not ordered and condition is None:
                    return builder.permutation(items, required, repeatable, read_child(separator), *bounds)
                slots = slots or tuple(range(len(members)))
                nodes = [] if condition is None else flatten_condition(condition)
                return builder.conditional(
                    items, required, repeatable, read_child(separator), *bounds, slots, ordered, nodes
                )
        raise TypeError("not a node")

    def _suggest_rule(self, name: object) -> str:
        close = find_closest_name(str(name), map(str, self.rule_numbers))
        return f"did you mean {close!r}?" if close else f"the rules are {', '.join(map(str, self.rule_numbers)):.200}"

    def _native_bounds(self, low: int, high: int | None) -> tuple[int, int]:
        """Convert bounds to the core's form. An upper bound that no output can reach counts as unbounded."""
        if low < 0 or (high is not None and high < 0):
            raise ValueError("a count must be at least 0")
        if low > _MAX_COUNT:
            raise LimitExceeded("states", low, _MAX_COUNT, fixed=True, hint="repeat a longer part less often")
        return low, _UNBOUNDED if high is None or high > _MAX_COUNT else high

    def _add_special(self, token: int | str) -> int:
        if not isinstance(token, int | str):
            raise TypeError("not a token")
        ids = self._find_ids(token)
        if self.named_end is None and (named_ends := self.end_tokens.intersection(ids)):
            self.named_end = min(named_ends), token
        return self._add_tokens(ids)

    def _add_other_tokens(self, node: OtherTokens) -> int:
        named_ids = {number for token in node.but for number in self._find_ids(token)}
        texts = self.target.text_ids()
        if is_any_text(node, named_ids, texts):
            return self.reader.read(Repeat(ANY_CHAR, node.min, None), self.add_checked)
        return self.builder.repeat(
            self._add_tokens(sorted(texts - named_ids)), *self._native_bounds(node.min, node.max)
        )

    def _add_tokens(self, ids: Sequence[int]) -> int:
        """Add a choice between tokens. `ids` is sorted."""
        ends = [i for i, number in enumerate(ids) if i + 1 == len(ids) or ids[i + 1] != number + 1]
        starts = [0, *(i + 1 for i in ends[:-1])]
        runs = [self.builder.special(ids[start], ids[end]) for start, end in zip(starts, ends, strict=False)]
        return runs[0] if len(runs) == 1 else self.builder.many("alt", runs)

    def _find_ids(self, token: int | str) -> list[int]:
        """The ids of a token that the grammar names."""
        ids = [token] if isinstance(token, int) else sorted(self.target.special_ids.get(token, ()))
        if not ids:
            known_names = ", ".join(sorted(self.target.special_ids)[:8]) or "none"
            close = find_closest_name(str(token), self.target.special_ids)
            hint = f"did you mean {close}?" if close else "use the name or the id of a token in the vocabulary"
            message = f"the vocabulary has no control token {token!r} (it has: {known_names})"
            raise VocabularyError(message, token=token, hint=hint)
        for number in ids:
            if not 0 <= number < self.target.vocabulary.size:
                message = f"{number} is not a token id of this vocabulary (0 to {self.target.vocabulary.size - 1})"
                raise VocabularyError(message, token=number, hint="ids differ between models; name the token instead")
        return ids

    def _add_encoding(self, encoding: Encoding) -> int:
        """Return the core's number of an encoding. The search is linear: there are few, and hashing them is slow."""
        for other, number in self.encodings:
            if other is encoding or other == encoding:
                return number
        self.encodings.append((encoding, self.builder.encoding(native_encoding(encoding))))
        return self.encodings[-1][1]


_States: TypeAlias = Sequence[tuple[bool, Sequence[tuple[int, int, int]]]]


def _renumber_from_start(states: _States, start: int) -> tuple[list[bool], list[tuple[int, int, int, int]]]:
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
        edges = [(new, low, high, number[to]) for new, old in enumerate(order) for low, high, to in states[old][1]]
    except KeyError as error:
        raise ValueError(f"there is no state {error}") from None
    return [states[old][0] for old in order], edges


@lru_cache(maxsize=1024)
def _sorted_ranges(ranges: Ranges) -> Ranges:
    """Check the ranges. Returns them sorted and merged, as the core expects."""
    for pair in ranges:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(f"{brief(pair)} is not a pair of code points")
        low, high = pair
        if not 0 <= low <= high <= 0x10FFFF:
            raise ValueError(f"{low} to {high} is not a range within 0 to {0x10FFFF}")
    return charset(ranges)


def _node_error(rule: str, node: object, error: Exception) -> SpecError:
    """The error for an object that is not a node, or for a node with invalid fields. Its message omits child nodes."""
    node_class = type(node)
    if node_class not in _NODES or not is_dataclass(node):
        hint = (
            f"write Text({brief(node)})"
            if isinstance(node, str)
            else "nodes are Text, Chars, Seq, Alt, Repeat, Ref, ..."
        )
        what = brief(node) if _is_printable(node) else f"an object of {node_class.__name__}"
        return SpecError(f"rule {rule!r}: {what} is not a node of guided.ir", hint=hint)
    values = {field.name: getattr(node, field.name, ...) for field in fields(node)}
    fields_shown = [
        f"{name}={brief(value)}" if _is_printable(value) else f"{name}=.." for name, value in values.items()
    ]
    reason = f": {error}" if isinstance(error, ValueError) else " is malformed"
    meaning = (node_class.__doc__ or "").partition("\n")[0]
    return SpecError(f"rule {rule!r}: {node_class.__name__}({', '.join(fields_shown)}){reason}", hint=meaning)


def _is_printable(value: object) -> bool:
    """Whether an error message shows `value` itself rather than its class."""
    return value is None or isinstance(value, str | bytes | int | float)
