"""Compiles a grammar whose parts have lexers: compiles each part, and builds a graph of which part may follow which.

In: a grammar with `Lexed` nodes in sequences, choices and repetitions. Out: the core's compiled grammar.

How: Glushkov's construction (Russian Mathematical Surveys 16(5), 1961; also Berry and Sethi, TCS 48, 1986), whose
letters are here the parts: the `Lexed` nodes, and the nodes between them. Each occurrence of a part stores the
occurrences that may follow it. Adjacent nodes without a lexer form one part, so that few tokens span two parts.

    "a" Lexed(1) ("," Lexed(1))*       parts  "a", 1, ","       occurrences  "a" -> 1 -> "," -> 1' -> ","

Cost: linear in the occurrences and the edges between them. A repetition is unrolled up to its bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from guided.automaton import _core
from guided.errors import LimitExceeded, UnsupportedError
from guided.frontends.common.rule_table import parts_of
from guided.ir.nodes import Alt, Grammar, Lexed, MaxTokens, Node, Ref, Repeat, Seq
from guided.ir.serial import serial
from guided.limits import Limits

__all__ = ["build_part_graph", "compile_composed"]

_MAX_OCCURRENCES: Final = 500
_HINT: Final = 'read the grammar with semantics="scannerless"'


@dataclass(slots=True)
class Occurrence:
    """An occurrence of a part: the part's number, what may follow it, and whether the output may end after it.

    `successors`: the occurrences that may follow.
    """

    part: int
    successors: dict[int, None] = field(default_factory=dict)
    is_last: bool = False


@dataclass(slots=True)
class PartGraph:
    """The parts of a grammar and their occurrences. `first_occurrences`: the occurrences that may come first."""

    parts: list[Grammar] = field(default_factory=list)
    occurrences: list[Occurrence] = field(default_factory=list)
    first_occurrences: list[int] = field(default_factory=list)
    may_be_empty: bool = False


def compile_composed(
    grammar: Grammar,
    compile_part: Callable[[Grammar], _core.Compiled],
    vocabulary: _core.TokenVocabulary,
    limits: Limits,
) -> _core.Compiled:
    """Compile a grammar with `Lexed` nodes. `compile_part` compiles a grammar without such nodes for the vocabulary.

    Raises:
        SpecError, VocabularyError: from `compile_part`, for a part.
        UnsupportedError: from `compile_part`; or a `Lexed` is in a recursive rule or in an operation on sets of texts,
            or the grammar also has a `MaxTokens`.
        LimitExceeded: from `compile_part`; or the grammar has more than 500 occurrences of parts.
    """
    graph = build_part_graph(grammar)
    return _core.CompiledComposition(
        [compile_part(part) for part in graph.parts],
        [(occurrence.part, list(occurrence.successors), occurrence.is_last) for occurrence in graph.occurrences],
        graph.first_occurrences,
        graph.may_be_empty,
        vocabulary,
        limits.memory,
        limits.call_work,
    )


def build_part_graph(grammar: Grammar) -> PartGraph:
    """Find the parts of a grammar and their order.

    Raises `UnsupportedError` and `LimitExceeded` for the same reasons as `compile_composed`.
    """
    builder = _Builder(grammar.rules, grammar.origins)
    try:
        fragment = builder.add_node(Ref(grammar.start), "")
    except RecursionError:
        raise LimitExceeded("depth", 1000, 900, fixed=True) from None
    for i in fragment.last_occurrences:
        builder.graph.occurrences[i].is_last = True
    builder.graph.first_occurrences, builder.graph.may_be_empty = fragment.first_occurrences, fragment.may_be_empty
    return builder.graph


@dataclass(slots=True)
class _Fragment:
    """The occurrences that can begin and end the texts of a node, and whether its text may be empty."""

    first_occurrences: list[int]
    last_occurrences: list[int]
    may_be_empty: bool


class _Builder:
    def __init__(self, rules: Mapping[str, Node], origins: Mapping[str, str]) -> None:
        self.rules, self.origins = rules, origins
        self.graph = PartGraph()
        self.part_numbers: dict[object, int] = {}
        self.mention_cache: dict[int, set[str]] = {}
        self.open_rules: list[str] = []
        self.mentions_by_rule = {name: self.find_mentions(node) for name, node in rules.items()}
        self.rules_with_lexer = {name for name, mentions in self.mentions_by_rule.items() if "" in mentions}
        while (
            new_names := {name for name, mentions in self.mentions_by_rule.items() if mentions & self.rules_with_lexer}
            - self.rules_with_lexer
        ):
            self.rules_with_lexer |= new_names

    def add_node(self, node: Node, rule: str) -> _Fragment:
        """Add the occurrences of a node in `rule`."""
        if not self.has_lexer(node):
            return self.add_part(node, rule)
        match node:
            case Lexed(grammar):
                return self.add_occurrence(serial(node), grammar)
            case Ref(name):
                if name in self.open_rules:
                    location = self.origins.get(name) or name
                    raise UnsupportedError(f"{location} is recursive and contains a grammar with a lexer", hint=_HINT)
                self.open_rules.append(name)
                fragment = self.add_node(self.rules[name], name)
                self.open_rules.pop()
                return fragment
            case Seq(items):
                return self.concatenate(self.add_node(child, rule) for child in self.merge_without_lexer(Seq, items))
            case Alt(items):
                return self.unite([self.add_node(child, rule) for child in self.merge_without_lexer(Alt, items)])
            case Repeat(item, low, high):
                return self.add_repeat(item, low, high, rule)
        raise UnsupportedError(
            f"a grammar with a lexer cannot be in {type(node).__name__}, which combines sets of texts", hint=_HINT
        )

    def find_mentions(self, node: Node) -> set[str]:
        """Call `_find_mentions`, cached by node."""
        number = serial(node)
        if number not in self.mention_cache:
            self.mention_cache[number] = _find_mentions(node)
        return self.mention_cache[number]

    def has_lexer(self, node: Node) -> bool:
        mentions = self.find_mentions(node)
        return "" in mentions or bool(mentions & self.rules_with_lexer)

    def merge_without_lexer(self, kind: type[Seq | Alt], items: Iterable[Node]) -> list[Node]:
        """Merge adjacent items without a lexer; in a choice, merge all items without a lexer."""
        out: list[Node] = []
        without_lexer: list[Node] = []
        for item in items:
            if not self.has_lexer(item):
                without_lexer.append(item)
                continue
            if without_lexer and kind is Seq:
                out.append(Seq(tuple(without_lexer)))
                without_lexer = []
            out.append(item)
        return [*out, kind(tuple(without_lexer))] if without_lexer else out

    def add_part(self, node: Node, rule: str) -> _Fragment:
        """Add a node without a lexer as a part, with the rules to which it refers. The node itself becomes rule `rule`.

        That name is free, because `rule` contains a lexer, so the node cannot refer to it.
        """
        names = dict.fromkeys(self.find_mentions(node))
        pending = list(names)
        for name in pending:  # grows during the loop
            new_names = [other for other in self.mentions_by_rule.get(name, ()) if other not in names]
            names |= dict.fromkeys(new_names)
            pending += new_names
        rules = {name: self.rules[name] for name in names if name in self.rules}
        return self.add_occurrence(serial(node), Grammar({rule: node, **rules}, rule, self.origins))

    def add_occurrence(self, key: object, grammar: Grammar) -> _Fragment:
        if key not in self.part_numbers:
            self.part_numbers[key] = len(self.graph.parts)
            self.graph.parts.append(grammar)
        i = len(self.graph.occurrences)
        if i >= _MAX_OCCURRENCES:
            hint = "repeat less often, or without an upper bound"
            raise LimitExceeded("states", i + 1, _MAX_OCCURRENCES, fixed=True, hint=hint)
        self.graph.occurrences.append(Occurrence(self.part_numbers[key]))
        return _Fragment([i], [i], False)

    def concatenate(self, fragments: Iterable[_Fragment]) -> _Fragment:
        whole = _Fragment([], [], True)
        for fragment in fragments:
            for i in whole.last_occurrences:
                self.graph.occurrences[i].successors |= dict.fromkeys(fragment.first_occurrences)
            whole = _Fragment(
                whole.first_occurrences + fragment.first_occurrences if whole.may_be_empty else whole.first_occurrences,
                whole.last_occurrences + fragment.last_occurrences
                if fragment.may_be_empty
                else fragment.last_occurrences,
                whole.may_be_empty and fragment.may_be_empty,
            )
        return whole

    def unite(self, fragments: list[_Fragment]) -> _Fragment:
        return _Fragment(
            [i for fragment in fragments for i in fragment.first_occurrences],
            [i for fragment in fragments for i in fragment.last_occurrences],
            any(fragment.may_be_empty for fragment in fragments),
        )

    def add_repeat(self, item: Node, low: int, high: int | None, rule: str) -> _Fragment:
        """Unroll a repetition. Copies of the item beyond the lower bound are optional."""
        if high == 0:
            return _Fragment([], [], True)
        copies = []
        for number in range(max(low, 1) if high is None else high):
            copy = self.add_node(item, rule)
            copies.append(_Fragment(copy.first_occurrences, copy.last_occurrences, copy.may_be_empty or number >= low))
        if high is None:
            for i in copies[-1].last_occurrences:
                self.graph.occurrences[i].successors |= dict.fromkeys(copies[-1].first_occurrences)
        return self.concatenate(copies)


def _find_mentions(node: Node) -> set[str]:
    """The names of the rules to which a node refers. The name "" stands for a `Lexed` node."""
    out: set[str] = set()
    for item in parts_of(node):
        if isinstance(item, Ref):
            out.add(item.name)
        elif isinstance(item, Lexed):
            out.add("")
        elif isinstance(item, MaxTokens):
            raise UnsupportedError("a token limit cannot be combined with a grammar that has a lexer", hint=_HINT)
    return out
