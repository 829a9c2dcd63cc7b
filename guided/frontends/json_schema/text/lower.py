"""Turns shapes into IR rules. In: a schema. Out: a `Grammar` whose rules are named after the locations of the schema.

Each goal (the schemas that apply to one value) becomes one rule, created once. So recursion ends, and shared
definitions are shared rules. Small regular texts are inlined, without a rule. Strings are constrained as decoded
characters and then encoded (`spelling.py`). `numbers.py` creates numbers, and `constants.py` spells the values of
`enum` and `const` under the constraints of the other keywords. Values that must differ (names of additional members,
and items with `uniqueItems`) are each an `Entry` of a `Distinct`.

Rules are created from a queue, so nothing recurses over the depth of the schema. Cost: linear in the expansions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.frontends.json_schema.algebra.content import refuse_content
from guided.frontends.json_schema.algebra.emptiness import explain_nothing
from guided.frontends.json_schema.algebra.expand import Expander, Expansion, Goal
from guided.frontends.json_schema.algebra.number_set import NumberSet
from guided.frontends.json_schema.algebra.shape import ANYTHING, Shape, Window, has_false
from guided.frontends.json_schema.algebra.strings import any_string, union_of, with_length
from guided.frontends.json_schema.documents.resolve import Library
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.frontends.json_schema.text.arrays import array_text
from guided.frontends.json_schema.text.constants import Constants
from guided.frontends.json_schema.text.containers import RuleMaker
from guided.frontends.json_schema.text.content_base64 import json_in_base64
from guided.frontends.json_schema.text.content_json import json_string
from guided.frontends.json_schema.text.notation import Notation
from guided.frontends.json_schema.text.numbers import number_node
from guided.frontends.json_schema.text.objects import object_text
from guided.frontends.json_schema.text.productive import generates
from guided.ir.nodes import EMPTY, Alt, And, Grammar, Node, Not, Ref
from guided.ir.serial import serial
from guided.limits import Limits
from guided.meter import STEP, spend

__all__ = ["Lowering"]

_MAX_INLINED = 8  # the maximum number of shapes, or of values of an enumeration, that are inlined


class Lowering:
    """Creates the rules of one grammar."""

    def __init__(
        self,
        library: Library,
        expander: Expander,
        options: JsonSchemaOptions,
        limits: Limits,
        notation: Callable[[Lowering], Notation] = Notation,
    ) -> None:
        self.expander, self.options, self._limits = expander, options, limits
        self.root = library.root
        self.notation = notation(self)
        self._plain_numbers, self._plain_integers = options.numbers == "plain", options.numbers == "plain_integers"
        self._constants = Constants(self)
        self._rules: dict[str, Node] = {}
        self._origins: dict[str, str] = {}
        self._values: dict[tuple[Goal, int], Node] = {}
        self._refs: dict[object, Ref] = {}
        self._last_numbers: dict[str, int] = {}  # label -> the last number that was assigned to a rule with this label
        self._goal_rules: set[str] = set()  # the names of the rules of goals
        self._queue: deque[tuple[str, Callable[[], Node]]] = deque()
        self.reasons: list[tuple[str, str]] = []  # locations without a value, and the reasons
        self._nested_goals: set[Goal] = set()

    def grammar(self, *, require_values: bool, schemas: tuple[Schema, ...] | None = None) -> Grammar:
        """The whole grammar, or the grammar of the values that satisfy all schemas in `schemas`.

        With `require_values`, raises SpecError if there is no such value.
        """
        goal = self.expander.goal((self.root,) if schemas is None else schemas)
        self.add("start", self.notation.whole_output(goal), self.root.location)
        while self._queue:
            spend(STEP)
            name, make = self._queue.popleft()
            self._rules[name] = make()
        if require_values and not generates("start", self._rules):
            pointer, reason = self.reasons[0] if self.reasons else (self.root.location, "every value would be infinite")
            raise SpecError(f"no JSON value satisfies the schema: {reason}", pointer=pointer)
        return Grammar(dict(self._rules), "start", dict(self._origins))

    # --- rules

    @property
    def rule_count(self) -> int:
        """The number of rules so far."""
        return len(self._rules)

    def add(self, name: str, node: Node, origin: str) -> None:
        """Add a rule. `origin` is its location in the schema."""
        spend()
        if len(self._rules) * 4 > self._limits.nodes:
            raise LimitExceeded("nodes", len(self._rules) * 4, self._limits.nodes)
        self._rules[name] = node
        self._origins[name] = origin

    def rule(self, key: object, label: str, origin: str, make: Callable[[], Node]) -> Ref:
        """A reference to the rule for `key`. The rule is created once, from the queue. Its name is the label, with a
        number appended if the label is taken.
        """
        ref = self._refs.get(key)
        if ref is None:
            name, number = label, self._last_numbers.get(label, 1)
            while name in self._rules or name == "start":
                number += 1
                name = f"{label}~{number}"
            self._last_numbers[label] = number
            ref = self._refs[key] = Ref(name)
            self.add(name, EMPTY, origin)
            self._queue.append((name, make))
        return ref

    def value(self, goal: Goal, level: int) -> Node:
        """The text of the values that satisfy the goal, inside `level` containers; see `notation.py`."""
        key = (goal, self.notation.text_level(level))
        node = self._values.get(key)
        if node is None:
            spend()
            node = self._values[key] = self._value(goal, level)
        return node

    def _value(self, goal: Goal, level: int) -> Node:
        if has_false(goal):
            false_schema = next(schema for schema in goal if schema.value is False)
            self.reasons.append((false_schema.location, explain_nothing(false_schema, self.expander.negation)))
            return EMPTY
        expansion = self.expander.expand(goal)
        # A value in another notation has its own rule, so that explanations show its location.
        if level >= 0 and len(expansion.shapes) <= _MAX_INLINED and all(map(_is_small, expansion.shapes)):
            return self._inline_text(goal, expansion, level)
        level = self.notation.text_level(level)
        if self.notation.layout.indent is not None and level >= 0:
            self._nested_goals.add(goal)
            # With more levels than goals, a goal is inside itself.
            if level > len(self._nested_goals) or (level and not goal):
                self._refuse_indent(goal)
        if not goal:
            return self.rule((goal, level), "json value", "", lambda: self._any_value(level))
        location = goal[0].location
        label = (
            f"#{location}"
            if len(goal) == 1
            else " & ".join(dict.fromkeys(f"#{schema.location}" for schema in goal[:4]))
        )
        label += f" @{level}" if level else ""
        ref = self.rule((goal, level), label, location, lambda: self._inline_text(goal, expansion, level))
        self._goal_rules.add(ref.name)
        return ref

    def _any_value(self, level: int) -> Node:
        """The text of any value. In JSON, it depends only on the options and on the rules to which it refers, so it is
        cached with the layout.
        """
        if level < 0:
            return self._inline_text((), self.expander.expand(()), level)
        member = (self.notation.additional_key((), ""), self.notation.value_after_key(self.value((), 0)))
        rules = (self._number(ANYTHING, "", 0), self._string(ANYTHING, "", 0), *member)
        cache = self.notation.layout.any_value_cache
        if rules not in cache:
            node = self._inline_text((), self.expander.expand(()), 0)
            if cache:
                return node
            cache[rules] = node
        return cache[rules]

    def _inline_text(self, goal: Goal, expansion: Expansion, level: int) -> Node:
        """Like `value`, but inlined, without a rule."""
        self.reasons.extend(expansion.reasons)
        location = goal[0].location if goal else ""
        nodes: list[Node] = []
        shapes, string_groups = group_strings_by_patterns(
            self.notation.narrowing_at(level).declared_only(expansion.shapes, goal[0] if goal else self.root)
        )
        for shape in shapes:
            nodes += self.texts_of(shape, location, level)
        nodes += [
            self.notation.add_frame("string", self._strings(group, location, level), level) for group in string_groups
        ]
        return nodes[0] if len(nodes) == 1 else union_of(list({serial(node): node for node in nodes}.values()))

    def _refuse_indent(self, goal: Goal) -> None:
        raise UnsupportedError(
            "indentation needs values of bounded depth, and this value can contain itself",
            pointer=goal[0].location if goal else self.root.location,
            hint="give every value a type and close the objects, or use whitespace='single_space'",
        )

    def shapes(self, goal: Goal) -> tuple[Shape, ...]:
        """The shapes of a goal. There are none if one of its schemas is `false`."""
        return () if has_false(goal) else self.expander.expand(goal).shapes

    # --- one shape

    def texts_of(self, shape: Shape, location: str, level: int) -> Iterable[Node]:
        """The texts of a shape, as alternatives: its constants, or one alternative for each of its types."""
        if shape.values is not None:
            node = _with_pointer(location, lambda: self._constants.enumeration(shape, level))
            if node == EMPTY:
                self.reasons.append((location, "no value of the enumeration satisfies the other keywords"))
            return [node]
        makers = [(name, partial(_TEXT_OF_TYPE[name], self, shape, location)) for name in shape.types]
        if shape == ANYTHING and self.notation.names_integers(level):
            makers.append(("integer", partial(Lowering._number, self, _ANY_INTEGER, location)))
        return [self.notation.text_of(name, make, location, level) for name, make in makers]

    def _number(self, shape: Shape, location: str, level: int) -> Node:
        numbers = replace(shape.numbers, bare=True) if self._writes_bare(shape.numbers) else shape.numbers
        if (ref := self._refs.get(numbers)) is not None:
            return ref
        label = "json integer" if numbers.integral else "json number"
        label += " with fraction or exponent" if numbers.not_bare else ""
        label += f" >{'' if numbers.low.strict else '='} {numbers.low.value}" if numbers.low else ""
        label += f" <{'' if numbers.high.strict else '='} {numbers.high.value}" if numbers.high else ""
        make = partial(number_node, numbers, self._plain_numbers, self.options.max_digits)
        return self.rule(numbers, label, "", partial(_with_pointer, location, make))

    def _writes_bare(self, numbers: NumberSet) -> bool:
        return self._plain_integers and numbers.integral and not numbers.not_bare

    def _string(self, shape: Shape, location: str, level: int) -> Node:
        length = self.cap_window(shape.length, self.options.max_string, "max_string", location)
        low, high = length.low, length.high
        if length.is_empty:
            return EMPTY
        refuse_content(shape, length)
        encoding = self.notation.encoding
        if (json_content := shape.json_text or shape.json_base64) is not None and level < 0:
            raise UnsupportedError(
                "contentMediaType is not supported in this notation",
                pointer=json_content.location,
                hint="drop contentMediaType",
            )
        if shape.json_text is not None:
            return self.rule("json string", "string of JSON", "", lambda: json_string(self.rule, encoding))
        if shape.json_base64 is not None:
            label = "string of JSON in base64"
            return self.rule("json in base64", label, "", lambda: json_in_base64(self.rule, encoding))
        if not shape.patterns:
            window = "" if (low, high) == (0, None) else f" of {low} to {'any' if high is None else high}"
            label = f"json string{window}"
            return self.notation.string(length, label, "", lambda: any_string(low, high), level)
        patterns = self._writable_patterns(shape)
        content = patterns[0] if len(patterns) == 1 else And(patterns)
        key = ("string", tuple(map(serial, patterns)), length)
        return self.notation.string(
            key, f"string of #{location}", location, lambda: with_length(content, low, high), level
        )

    def _strings(self, shapes: Sequence[Shape], location: str, level: int) -> Node:
        """Strings of several alternatives that combine the same patterns, as one rule that becomes one automaton."""
        length = self.cap_window(Window(), self.options.max_string, "max_string", location)
        for shape in shapes:
            refuse_content(shape, length)
        patterns_of_shapes = [self._writable_patterns(shape) for shape in shapes]
        content = union_of([patterns[0] if len(patterns) == 1 else And(patterns) for patterns in patterns_of_shapes])
        key = ("strings", tuple(tuple(map(serial, patterns)) for patterns in patterns_of_shapes), length)
        sizes = length.low, length.high
        return self.notation.string(
            key, f"string of #{location}", location, lambda: with_length(content, *sizes), level
        )

    def _writable_patterns(self, shape: Shape) -> tuple[Node, ...]:
        """The patterns of a string, restricted to what the output may contain, without duplicates."""
        return tuple(
            {serial(pattern): pattern for pattern in map(self.expander.restrict_to_output, shape.patterns)}.values()
        )

    def cap_window(self, window: Window, maximum: int | None, option: str, location: str) -> Window:
        """A window within the maximum that an option sets."""
        if maximum is None:
            return window
        capped_window = window.meet(Window(high=maximum))
        if capped_window.is_empty and not window.is_empty:
            self.reasons.append((location, f"at least {window.low} are required, but the option {option} is {maximum}"))
        return capped_window

    def rule_maker(self, kind: str, location: str, level: int = 0) -> RuleMaker:
        """The `RuleMaker` for the "members" or "items" (`kind`) at one location of the schema."""
        label = f"{kind} {self.rule_count} of #{location}"
        spell, quotes = self.notation.name_spelling(level)
        return RuleMaker(lambda name, node: self.add(name, node, location), label, spell, quotes)

    def is_goal_rule(self, name: str) -> bool:
        """Whether this is the rule of a goal."""
        return name in self._goal_rules


_TEXT_OF_TYPE: dict[str, Callable[[Lowering, Shape, str, int], Node]] = {
    "null": lambda lowering, *_: lowering.notation.constant(None),
    "boolean": lambda lowering, *_: Alt((lowering.notation.constant(True), lowering.notation.constant(False))),
    "number": Lowering._number,
    "string": Lowering._string,
    "array": array_text,
    "object": object_text,
}

_ANY_INTEGER = Shape(types=("number",), numbers=NumberSet(integral=True))


def _with_pointer(location: str, make: Callable[[], Node]) -> Node:
    """Call `make`. If it raises UnsupportedError without a pointer, the error gets this one."""
    try:
        return make()
    except UnsupportedError as error:
        error.pointer = error.pointer or location
        raise


def group_strings_by_patterns(shapes: Sequence[Shape]) -> tuple[list[Shape], list[list[Shape]]]:
    """Group shapes of strings that match different combinations of the same patterns. Returns the other shapes, and the
    groups.

    One automaton for a group has no more states than the automata of its members together, because each of them follows
    all of the patterns anyway.
    """
    if len(shapes) == 1:
        return [shape for shape in shapes if shape.types], []
    groups: dict[frozenset[int], list[Shape]] = {}
    bases = [_base_patterns(shape) for shape in shapes]
    for shape, base in zip(shapes, bases, strict=True):
        if base:
            groups.setdefault(base, []).append(shape)
    string_groups = [group for group in groups.values() if len(group) > 1]
    out: list[Shape] = []
    for shape, base in zip(shapes, bases, strict=True):
        if base and len(groups[base]) > 1:
            shape = shape._replace(types=tuple(name for name in shape.types if name != "string"))
        if shape.types:
            out.append(shape)
    return out, string_groups


def _base_patterns(shape: Shape) -> frozenset[int] | None:
    """The patterns that the strings of a shape match or do not match. None if they are fewer than two, or if the shape
    has another requirement on strings.
    """
    if shape.values is not None or "string" not in shape.types or len(shape.patterns) < 2 or shape.length != Window():
        return None
    if shape.json_text or shape.no_json_text or shape.json_base64 or shape.no_json_base64:
        return None
    return frozenset(serial(pattern.item if isinstance(pattern, Not) else pattern) for pattern in shape.patterns)


def _is_small(shape: Shape) -> bool:
    """Whether the text is inlined, without a rule."""
    if shape.values is not None:
        return len(shape.values) <= _MAX_INLINED and not any(isinstance(value, list | dict) for value in shape.values)
    return "array" not in shape.types and "object" not in shape.types
