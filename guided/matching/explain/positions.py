"""Finds the positions of a text in the rules: the alternative of a rule, and the part that was read last.

In: a grammar and the accepted output, bytes and control tokens. Out: the `Position`s. `lexing.py` uses this module for
grammars with a lexer.

    object: "{" pair ("," pair)* "}"        after  {"a":1   in object (line 1), after pair

How: the core's automaton merges equal states and so loses the positions. The reference implementation reads the rules
as they were written (`automaton/reference/language.py`). A *label*, a control token that no text contains, is added
after each part of an alternative. When the parser reaches a label, the part before it has been read, and the parser
continues after the label. A parser item that waits for a byte is inside the part before its next label.

Rules that the author did not name have no labels, such as the rules of a JSON Schema, whose positions are pointers. A
text inside such a rule is inside the part that refers to it.

Cost: the reference implementation takes microseconds to milliseconds per byte. There are no positions for texts longer
than `MAX_SYMBOLS`, or if the reference implementation reaches its own limits or `SECONDS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from guided.automaton.reference.language import Item, Language, State
from guided.errors import GuidedError, LimitExceeded
from guided.ir.nodes import Alt, Grammar, Node, Ref, Repeat, Seq, Special
from guided.matching.explain.format_grammar import Names, is_helper
from guided.meter import limit_work, spend

__all__ = [
    "MAX_SYMBOLS",
    "SECONDS",
    "LabelledLanguage",
    "Position",
    "describe_positions",
    "get_positions",
    "label_rules",
]

MAX_SYMBOLS: Final = 4000
SECONDS: Final = 2.0
_MAX_LABELS: Final = 4000
_MAX_LABELS_IN_TURN: Final = 200
_GAP_PREFIX: Final = "behind "  # prefix of a label: the position is in whitespace after the label's part
_LABEL: Final = "\x00label "  # no control token has such a name
_SINGLE_RULE_KINDS: Final = ("regex", "choice", "pattern", "expr", "structural_tag")
_MAX_SHOWN: Final = 4


class Position(NamedTuple):
    """A position in an alternative.

    Attributes:
        rule: the author's name, with its line if the source has lines; empty for a whole specification.
        alternative: its number, from 1, among `alternatives`, as expanded by the grammar's loader.
        after: the part that was read last; empty at the beginning.
        inside: the part that is incomplete; empty between two parts.
    """

    rule: str
    alternative: int
    alternatives: int
    after: str
    inside: str

    def __str__(self) -> str:
        return self.describe([self.alternative])

    def describe(self, numbers: Sequence[int]) -> str:
        """The position in words. `numbers`: the alternatives to list."""
        phrases = [f"in {self.rule}"] if self.rule else []
        if self.alternatives > 1:
            shown_numbers = list(map(str, numbers[:_MAX_SHOWN])) + ["others"] * (len(numbers) > _MAX_SHOWN)
            *earlier_numbers, last_number = shown_numbers
            number_list = f"{', '.join(earlier_numbers)} and {last_number}" if earlier_numbers else last_number
            phrases.append(f"alternative{'s' if len(numbers) > 1 else ''} {number_list} of {self.alternatives}")
        if self.inside:
            phrases.append(f"inside of {self.inside}")
        else:
            phrases.append(f"after {self.after}" if self.after else "at the beginning")
        return ", ".join(phrases)


def describe_positions(positions: Sequence[Position]) -> str:
    """At most four positions for a message. Equal positions in several alternatives are combined."""
    numbers_by_position: dict[Position, list[int]] = {}
    for position in positions:
        numbers_by_position.setdefault(position._replace(alternative=0), []).append(position.alternative)
    descriptions = [position.describe(numbers) for position, numbers in numbers_by_position.items()]
    omitted = [f"{len(descriptions) - _MAX_SHOWN} more"] if len(descriptions) > _MAX_SHOWN else []
    return "; ".join(descriptions[:_MAX_SHOWN] + omitted)


@dataclass(frozen=True, slots=True)
class Label:
    """A part that has been read: the alternative, the part, whether it is the last one, whether it may be empty, and
    the previous label.

    `part_before_gap`: if this label marks the whitespace after a part, the label of that part; otherwise None.
    """

    rule: str
    alternative: int
    alternatives: int
    part: str
    is_last: bool
    is_nullable: bool
    previous: str | None
    part_before_gap: str | None = None


_GAP_AT_START: Final = Label("", 0, 0, "", True, True, None, "")
"""Whitespace at the beginning of an alternative belongs to the rule that refers to the alternative's rule."""


def get_positions(language: LabelledLanguage, symbols: Sequence[int], names: Mapping[int, str]) -> tuple[Position, ...]:
    """Find the positions of a text. `symbols`: bytes, and 256 + id for control tokens. `names`: id -> control token."""
    if len(symbols) > MAX_SYMBOLS:
        return ()
    try:
        with limit_work(SECONDS):
            state = language.begin
            for symbol in symbols:
                spend()
                if state is not None:
                    token = {symbol - 256, names.get(symbol - 256, symbol - 256)}
                    state = language.step(state, symbol) if symbol < 256 else language.special(state, token)
            return language.positions(state, bool(symbols))
    except (GuidedError, RecursionError):  # beyond the reference implementation
        return ()


def label_rules(grammar: Grammar, kind: str) -> LabelledLanguage:
    """The language of a grammar with labels after the parts of the author's rules.

    Raises:
        LimitExceeded: the grammar has too many parts, or takes too long.
    """
    with limit_work(SECONDS):
        return LabelledLanguage(*_Labeller(grammar, kind).label_grammar())


class _Labeller:
    def __init__(self, grammar: Grammar, kind: str) -> None:
        self.source, self.kind = grammar, kind
        self.names = Names(grammar, has_gaps=kind == "lark" and grammar.lexer is None)
        self.marks = (
            {mark for marks in grammar.lexer.contexts for mark in marks} if grammar.lexer is not None else set()
        )
        self.labels: dict[str, Label] = {}
        self.authored_rules = {name for name in grammar.rules if self._rule_name(name) is not None}

    def _rule_name(self, name: str) -> str | None:
        """The name of a rule in explanations, or None if it is not the author's."""
        origin = self.source.origins.get(name, "")
        if name.startswith("terminal "):
            return None
        if origin and not origin.startswith("/"):
            return origin
        is_whole = name == self.source.start and self.kind in _SINGLE_RULE_KINDS
        return "" if is_whole and not isinstance(self.source.rules[name], Ref) else None

    def label_grammar(self) -> tuple[Grammar, dict[str, Label]]:
        rules = dict(self.source.rules)  # regular parts refer to the rules without labels
        for name in self.authored_rules:
            rules[_labelled_name(name)] = self._label_rule(name)
        start = _labelled_name(self.source.start) if self.source.start in self.authored_rules else self.source.start
        if start == self.source.start:
            rules[start] = self._with_references_to_copies(rules[start])
        return Grammar(rules, start), self.labels

    def _label_rule(self, name: str) -> Node:
        node, rule = self.source.rules[name], self._rule_name(name) or ""
        items = node.items if isinstance(node, Alt) and node.items else (node,)
        count = 1 if is_helper(name) else len(items)
        return Alt(tuple(self._label_parts(item, rule, number, count, node) for number, item in enumerate(items, 1)))

    def _label_parts(self, node: Node, rule: str, number: int, count: int, owner: Node | None = None) -> Node:
        """A sequence with a label after each part. `owner`: the rule's node; a helper's references to itself get no
        label."""
        spend()
        parts = [part for part in (node.items if isinstance(node, Seq) else (node,)) if not self._is_mark(part)]
        out: list[Node] = []
        previous: str | None = None
        for index, part in enumerate(parts, 1):
            if self._is_gap(part):
                if not out:
                    out.append(part)
                continue
            if isinstance(part, Seq) and part.items and self._is_gap(part.items[0]):  # whitespace before a terminal
                gap_label = replace(self.labels[previous], part_before_gap=previous) if previous else _GAP_AT_START
                out += [part.items[0], Special(self._add_label(gap_label))]
                part = part.items[1] if len(part.items) == 2 else Seq(part.items[1:])
            out.append(self._label_nested(part, rule, number, count))
            if isinstance(part, Ref) and is_helper(part.name) and self.source.rules[part.name] is owner:
                continue
            is_nullable = isinstance(part, Repeat) and part.min == 0
            is_last = all(map(self._is_gap, parts[index:]))
            label = self._add_label(
                Label(rule, number, count, self.names.format_part(part), is_last, is_nullable, previous)
            )
            out.append(Special(label))
            if index < len(parts) and self._is_gap(parts[index]):
                out += [parts[index], Special(self._add_label(replace(self.labels[label], part_before_gap=label)))]
            previous = label
        return Seq(tuple(out))

    def _add_label(self, label: Label) -> str:
        if len(self.labels) == _MAX_LABELS:
            raise LimitExceeded("nodes", len(self.labels), _MAX_LABELS, fixed=True)
        name = f"{_LABEL}{len(self.labels)}"
        self.labels[name] = label
        return name

    def _is_mark(self, part: Node) -> bool:
        return isinstance(part, Repeat) and isinstance(part.item, Special) and part.item.token in self.marks

    def _is_gap(self, part: Node) -> bool:
        """Whether a part stands for the ignored terminals between others, in Lark grammars."""
        return self.names.has_gaps and isinstance(part, Repeat)

    def _label_nested(self, node: Node, rule: str, number: int, count: int) -> Node:
        """A part, with labels inside it if it refers to rules with labels."""
        match node:
            case Ref(name) if name in self.authored_rules:
                return Ref(_labelled_name(name))
            case Repeat(item, low, high) if not self._is_gap(node) and self._refers_to_labelled(item):
                return Repeat(self._label_parts(item, rule, number, count), low, high)
            case Alt(items) if self._refers_to_labelled(node):
                return Alt(tuple(self._label_parts(item, rule, number, count) for item in items))
            case Seq() if self._refers_to_labelled(node):
                return self._label_parts(node, rule, number, count)
        return node

    def _with_references_to_copies(self, node: Node) -> Node:
        """The generated start rule of a Lark grammar, with references to the labelled copies of the author's rules."""
        match node:
            case Ref(name) if name in self.authored_rules:
                return Ref(_labelled_name(name))
            case Seq(items):
                return Seq(tuple(map(self._with_references_to_copies, items)))
        return node

    def _refers_to_labelled(self, node: Node) -> bool:
        match node:
            case Ref(name):
                return name in self.authored_rules
            case Special():
                return True
            case Seq(items) | Alt(items):
                return any(map(self._refers_to_labelled, items))
            case Repeat(item):
                return self._refers_to_labelled(item)
        return False


def _labelled_name(name: str) -> str:
    return f"{_LABEL}{name}"


class LabelledLanguage(Language):
    """The language of a labelled grammar. A state continues after all labels that it can reach, and records them."""

    def __init__(self, grammar: Grammar, labels: Mapping[str, Label]) -> None:
        self.labels = labels
        self.labels_by_state: dict[State, tuple[State, frozenset[str]]] = {}
        """State -> the state before any label, and the labels that were reached."""
        super().__init__(grammar)
        self.begin: State | None = self._pass_labels(self.start)

    def step(self, state: State, byte: int) -> State | None:
        """See `Language`."""
        return self._pass_labels(super().step(state, byte))

    def special(self, state: State, names: Iterable[int | str]) -> State | None:
        """See `Language`."""
        return self._pass_labels(super().special(state, frozenset(names)))

    def _if_viable(self, state: State | None) -> State | None:
        """Skip the search for a completion: the text was accepted."""
        return state

    def positions(self, state: State | None, is_inside: bool) -> tuple[Position, ...]:
        """The positions of the text; `is_inside`: the text is not empty."""
        if state is None:
            return ()
        unlabelled_state, labels = self.labels_by_state[state]
        inside = self._labels_inside(unlabelled_state.items) if is_inside else set[str]()
        reached = {label for label in labels if self.labels[label].part_before_gap is None}
        reached |= {self.labels[label].part_before_gap or "" for label in inside if label in self.labels} - {""}
        reached |= {label.removeprefix(_GAP_PREFIX) for label in inside if label.startswith(_GAP_PREFIX)}
        inside = {label for label in inside if label in self.labels}
        positions: dict[Position, None] = {}
        for label in sorted(inside, key=_label_number):
            info = self.labels[label]
            is_only_part = info.is_last and info.previous is None and not info.rule and info.alternatives == 1
            if info.part_before_gap or is_only_part or (label in reached and not info.is_last):
                continue
            part_before = self.labels[info.previous].part if info.previous else ""
            positions[Position(info.rule, info.alternative, info.alternatives, part_before, info.part)] = None
        for label in sorted(reached, key=_label_number):
            info = self.labels[label]
            if not info.is_last and not (info.is_nullable and info.previous in reached):
                positions[Position(info.rule, info.alternative, info.alternatives, info.part, "")] = None
        return tuple(positions)

    def _pass_labels(self, state: State | None) -> State | None:
        if state is None:
            return None
        union, current, reached = state, state, set[str]()
        for _ in range(_MAX_LABELS_IN_TURN):
            labels_here = {label for terms, _, _ in current.items if (label := _label_of(terms[0]))}
            if not labels_here:
                break
            reached |= labels_here
            next_state = super().special(current, labels_here)
            if next_state is None:
                break
            current = next_state
            new_union = self.unite(union, current)
            assert new_union is not None, "the union of two states"
            if new_union is union:
                break
            union = new_union
        self.labels_by_state[union] = (state, frozenset(reached))
        return union

    def _labels_inside(self, items: Iterable[Item]) -> set[str]:
        """The labels of the incomplete parts."""
        labels, seen = set[str](), set[object]()
        stack = [(terms, back, False) for terms, back, _ in items if not _label_of(terms[0])]
        while stack:
            terms, back, is_before = stack.pop()
            label = next(filter(None, map(_label_of, terms)), "")
            previous = self.labels[label].previous if label else None
            if label and self.labels[label] is not _GAP_AT_START and not (is_before and previous is None):
                labels.add(_gap_label(previous) if is_before and previous else label)
            elif (back, label) not in seen:
                seen.add((back, label))
                stack += [
                    (further, caller, is_before or bool(label)) for further, caller in self.find_continuations(back)
                ]
        return labels


def _gap_label(label: str) -> str:
    return f"{_GAP_PREFIX}{label}"


def _label_of(term: object) -> str:
    """The label of a term, or "" if it is none."""
    name = str(term.token) if isinstance(term, Special) else ""
    return name if name.startswith(_LABEL) else ""


def _label_number(label: str) -> int:
    return int(label.removeprefix(_LABEL))
