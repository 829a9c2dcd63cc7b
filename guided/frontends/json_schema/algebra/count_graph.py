"""Counts items of arrays: for `contains` with counts, `uniqueItems` with few values, two items that must be equal.

In: a shape of arrays. Out: a `CountGraph`, whose paths are the arrays of the shape, item by item. An end is reachable
from each of its states, so an array that was begun along the graph can always be completed.

Problem: {"items": {"enum": [1, 2, 3]}, "uniqueItems": true, "minItems": 3, "contains": {"const": 3}}. A writer that
knows only the schema of an item does not notice that after 1 and 2, the third item must be 3. Remembering the set of
all values written so far would be exact, but takes 2^n states for n values.

How: the graph distinguishes items only by their *letter*: which of the counted schemas they satisfy and, if values must
differ and few are left, which *atom* they are in. An atom is a set of values that are allowed at the same positions and
satisfy the same counted schemas. Its values are interchangeable, so only the number of used values matters. If two
items must be equal, each value is an atom of its own. By Hall's marriage theorem, a set of values that is larger than
all demands together never runs out, so it needs no counting. A state consists of the number of items written, how many
of them count for each schema, and how many values of each atom were used. Each number is counted only as far as it
makes a difference. States from which no end is reachable are removed.

In the example, 1 and 2 form one atom, and 3 another. The states are (0..2 used of the first, 0..1 of the second).

Cost: the product of the counts, bounded by MAX_STATES. Each counted schema doubles the letters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from guided.errors import UnsupportedError
from guided.frontends.json_schema.algebra.shape import Shape, Window, has_false, item_goal
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import Json, canonical_key

if TYPE_CHECKING:
    from guided.frontends.json_schema.algebra.expand import Expander, Goal

__all__ = ["MAX_STATES", "CountGraph", "build_count_graph"]

MAX_STATES = 4000
_MAX_LETTERS = 256
_MAX_DISTINGUISHED_VALUES = 10  # if two items must be equal: the maximum number of values that are distinguished


@dataclass(frozen=True, slots=True)
class CountGraph:
    """State 0 is before the first item. There are no states if the shape has no array.

    `edges`: for each state, pairs of a goal for the next item and the state after it. `ends`: states in which the array
    may end. `tails`: for some states, a goal and a window. As many items may follow as the window allows, all of which
    satisfy the goal.
    """

    edges: tuple[tuple[tuple[Goal, int], ...], ...]
    ends: frozenset[int]
    tails: dict[int, tuple[Goal, Window]]

    @property
    def is_empty(self) -> bool:
        """Whether the graph contains no array."""
        return not self.edges


class _CountedItems(NamedTuple):
    """`low` to `high` items after the first `start` satisfy `schema`; the others satisfy `complement`."""

    start: int
    schema: Schema
    complement: Schema
    low: int
    high: int | None


class _State(NamedTuple):
    """`counts`: how many items satisfy each counted schema. `used_counts`: the number of used values of each atom.
    `has_equal_items`: whether two items written are equal.
    """

    length: int = 0
    counts: tuple[int, ...] = ()
    used_counts: tuple[int, ...] = ()
    has_equal_items: bool = False


class _Atom(NamedTuple):
    values: tuple[Json, ...]
    allowed_at: tuple[bool, ...]
    letter: tuple[bool, ...]


def build_count_graph(expander: Expander, shape: Shape, window: Window) -> CountGraph | None:
    """The graph of the arrays of a shape. None if items need not be counted, or if two items must be equal but may have
    too many values.

    Raises:
        UnsupportedError: the graph needs more than MAX_STATES states.
    """
    return _GraphBuilder(expander, shape, window).graph()


class _GraphBuilder:
    def __init__(self, expander: Expander, shape: Shape, window: Window) -> None:
        self._expander, self._shape, self._window = expander, shape, window
        negation = expander.negation
        some_items = (
            _CountedItems(requirement.start, requirement.schema, negation.complement_of(requirement.schema), 1, None)
            for requirement in shape.some_items
        )
        item_counts = (
            _CountedItems(0, requirement.schema, requirement.complement, requirement.count.low, requirement.count.high)
            for requirement in shape.item_counts
        )
        self._requirements = (*some_items, *item_counts)
        self._prefix_length = max((shape.prefix_length, *(requirement.start for requirement in self._requirements)))
        self._item_schemas = [item_goal(shape, index) for index in range(self._prefix_length + 1)]
        self._atoms: list[_Atom] = []
        self._outside_atoms: tuple[Schema, ...] = ()  # the schemas of values outside all atoms
        self._letters: dict[tuple[int, tuple[bool, ...]], tuple[Json, ...] | None] = {}
        self._item_exists: dict[tuple[int, tuple[bool | None, ...], bool], bool] = {}
        self._goals: dict[tuple[Schema, ...], Goal] = {}

    def graph(self) -> CountGraph | None:
        shape = self._shape
        if shape.repeated is not None:
            if not self._can_distinguish_values():
                return None
            self._distinguish_values(0)
        elif shape.unique is not None and (self._needs_counts() or self._is_scarce()):
            self._distinguish_values(self._demand())
        elif not self._needs_counts():
            return None
        if not self._letters:
            self._find_letters()
        return self._build()

    # --- whether items need to be counted

    def _needs_counts(self) -> bool:
        """Whether the counts need a graph: neither `existential_constraints.py` nor `containers.py` handles them."""
        counts = len(self._shape.item_counts)
        if counts == 0:
            return False
        return counts > 1 or bool(self._shape.some_items) or self._window != Window() or self._prefix_length > 0

    def _demand(self) -> int:
        """One more than the number of values that prefixes and required items together can use."""
        return (
            self._prefix_length + max(self._window.low, sum(requirement.low for requirement in self._requirements)) + 1
        )

    def _is_scarce(self) -> bool:
        """Whether the values for required items may be too few from the start, or may run out."""
        low, demand = self._window.low, self._demand()
        if low < 2 and not any(requirement.low for requirement in self._requirements):
            return False
        requirements = [(base, low) for base in self._item_schemas] if low > 1 else []
        requirements += [
            ((*base, requirement.schema), requirement.low)
            for base in self._item_schemas
            for requirement in self._requirements
            if requirement.low
        ]
        for schemas, min_count in requirements:
            values = self._values(schemas)
            # None: many values. If there are no values, the core drops the rules that require them.
            if values and len(values) < (demand if self._prefix_length else min_count):
                return True
        return False

    def _values(self, schemas: tuple[Schema, ...]) -> tuple[Json, ...] | None:
        goal = self._expander.goal(schemas)
        return () if has_false(goal) else self._expander.listed_values.values_of(goal)

    # --- letters

    def _find_letters(self) -> None:
        if len(self._item_schemas) << len(self._requirements) > _MAX_LETTERS:
            self._refuse("too many schemas of items are counted")
        for index, schemas in enumerate(self._item_schemas):
            for letter in product((True, False), repeat=len(self._requirements)):
                self._letters[index, letter] = self._values((*schemas, *self._schemas_of_letter(letter)))

    def _schemas_of_letter(self, letter: tuple[bool | None, ...]) -> Iterator[Schema]:
        """The counted schemas or their complements, as the letter says. None: the schema does not matter."""
        for requirement, is_satisfied in zip(self._requirements, letter, strict=True):
            if is_satisfied is not None:
                yield requirement.schema if is_satisfied else requirement.complement

    def _can_distinguish_values(self) -> bool:
        """Whether all items have so few values that a state can record which of them were written."""
        self._find_letters()
        values = list(self._letters.values())
        return (
            None not in values
            and len({canonical_key(v) for listed_values in values for v in listed_values or ()})
            <= _MAX_DISTINGUISHED_VALUES
        )

    def _distinguish_values(self, demand: int) -> None:
        """Make atoms of the values of letters that have few values."""
        if not self._letters:
            self._find_letters()
        needs_equal_items = self._shape.repeated is not None
        distinguished_values: dict[object, Json] = {}
        grows = True
        while grows:
            grows = False
            for values in self._letters.values():
                new_values = [value for value in values or () if canonical_key(value) not in distinguished_values]
                if new_values and (needs_equal_items or len(new_values) < demand):
                    distinguished_values |= {canonical_key(value): value for value in new_values}
                    grows = True
        atoms: dict[object, _Atom] = {}
        for value in distinguished_values.values():
            allowed_at = tuple(self._expander.membership.satisfies_all(base, value) for base in self._item_schemas)
            letter = tuple(
                self._expander.membership.satisfies_all((requirement.schema,), value)
                for requirement in self._requirements
            )
            key = (allowed_at, letter, canonical_key(value) if needs_equal_items else None)
            if any(allowed_at):
                others = atoms[key].values if key in atoms else ()
                atoms[key] = _Atom((*others, value), allowed_at, letter)
        self._atoms = list(atoms.values())
        if distinguished_values:
            negation, source = self._expander.negation, self._source_schema()
            self._outside_atoms = (
                negation.complement_of(negation.enumeration(source, tuple(distinguished_values.values()))),
            )

    def _source_schema(self) -> Schema:
        schema = self._shape.unique or self._shape.repeated
        assert schema is not None
        return schema

    # --- states

    def _build(self) -> CountGraph:
        start = self._normalise(_State(0, (0,) * len(self._requirements), (0,) * len(self._atoms)))
        edges: dict[_State, list[tuple[Goal, _State]]] = {}
        tails: dict[_State, tuple[Goal, Window]] = {}
        work = [start]
        while work:
            state = work.pop()
            if state in edges:
                continue
            if len(edges) >= MAX_STATES:
                self._refuse("the counts multiply")
            out = edges[state] = []
            if self._allows_any_tail(state):
                goal = self._expander.goal(self._item_schemas[-1])
                high = None if self._window.high is None else self._window.high - state.length
                if not has_false(goal) and high != 0:
                    tails[state] = (goal, Window(0, high))
                continue
            out += self._successors(state)
            work += (next_state for _, next_state in out)
        return _trim(start, edges, {state for state in edges if self._may_end(state)}, tails)

    def _successors(self, state: _State) -> Iterator[tuple[Goal, _State]]:
        index = min(state.length, self._prefix_length)
        if self._window.high is not None and state.length >= self._window.high:
            return
        schemas = self._item_schemas[index]
        for number, atom in enumerate(self._atoms if state.used_counts else ()):
            must_differ = self._shape.unique is not None
            if atom.allowed_at[index] and not (must_differ and state.used_counts[number] == len(atom.values)):
                next_state = self._add_item(state, atom.letter, number)
                if next_state is not None:
                    yield (
                        self._goal((*schemas, self._expander.negation.enumeration(self._source_schema(), atom.values))),
                        next_state,
                    )
        affects_rest = [
            self._affects_rest(requirement, count)
            for requirement, count in zip(self._requirements, state.counts, strict=True)
        ]
        outside_atoms = self._outside_atoms if state.used_counts else ()
        for letter in product(*(((True, False) if matters else (None,)) for matters in affects_rest)):
            key = (index, letter, bool(outside_atoms))
            if key not in self._item_exists:
                self._item_exists[key] = self._has_item(*key)
            next_state = self._add_item(state, tuple(map(bool, letter)), None) if self._item_exists[key] else None
            if next_state is not None:
                yield self._goal((*schemas, *self._schemas_of_letter(letter), *outside_atoms)), next_state

    def _goal(self, schemas: tuple[Schema, ...]) -> Goal:
        goal = self._goals.get(schemas)
        if goal is None:
            goal = self._goals[schemas] = self._expander.goal(schemas)
        return goal

    def _has_item(self, index: int, letter: tuple[bool | None, ...], is_outside_atoms: bool) -> bool:
        """Whether some item has this letter and, with `is_outside_atoms`, is in no atom."""
        for (other_index, full_letter), values in self._letters.items():
            if other_index != index or any(
                expected is not None and expected != actual
                for expected, actual in zip(letter, full_letter, strict=True)
            ):
                continue
            if values is None:
                return True
            if any(not (is_outside_atoms and self._is_in_atom(value)) for value in values):
                return True
        return False

    def _is_in_atom(self, value: Json) -> bool:
        return any(canonical_key(value) == canonical_key(other) for atom in self._atoms for other in atom.values)

    @staticmethod
    def _affects_rest(requirement: _CountedItems, count: int) -> bool:
        return requirement.high is not None or count < requirement.low

    def _add_item(self, state: _State, letter: tuple[bool, ...], atom: int | None) -> _State | None:
        """The state after one more item. None if the item exceeds an upper bound. `atom` is the index of its atom."""
        new_counts = []
        for requirement, count, is_satisfied in zip(self._requirements, state.counts, letter, strict=True):
            count += is_satisfied and state.length >= requirement.start
            if requirement.high is not None and count > requirement.high:
                return None
            new_counts.append(count if requirement.high is not None else min(count, requirement.low))
        used_counts, has_equal_items = list(state.used_counts), state.has_equal_items
        if atom is not None:
            has_equal_items = has_equal_items or used_counts[atom] == len(self._atoms[atom].values)
            used_counts[atom] = min(used_counts[atom] + 1, len(self._atoms[atom].values))
        max_length = max(self._prefix_length, self._window.low) if self._window.high is None else self._window.high
        return self._normalise(
            _State(min(state.length + 1, max_length), tuple(new_counts), tuple(used_counts), has_equal_items)
        )

    def _normalise(self, state: _State) -> _State:
        """The state without the used values if they no longer matter: no more items are required or, if two items must
        be equal, two are.
        """
        has_equal_items = state.has_equal_items and self._shape.repeated is not None
        is_settled = self._may_end(state) if self._shape.repeated is None else has_equal_items
        return state._replace(used_counts=() if is_settled else state.used_counts, has_equal_items=has_equal_items)

    def _may_end(self, state: _State) -> bool:
        has_required_items = all(
            count >= requirement.low for requirement, count in zip(self._requirements, state.counts, strict=True)
        )
        has_required_pair = self._shape.repeated is None or state.has_equal_items
        return has_required_items and has_required_pair and state.length >= self._window.low

    def _allows_any_tail(self, state: _State) -> bool:
        """Whether only the schema for later items and the maximum length constrain the items that follow."""
        has_relevant_count = any(
            self._affects_rest(requirement, count)
            for requirement, count in zip(self._requirements, state.counts, strict=True)
        )
        return self._may_end(state) and state.length >= self._prefix_length and not has_relevant_count

    def _refuse(self, reason: str) -> None:
        schema = self._requirements[0].schema if self._requirements else self._source_schema()
        raise UnsupportedError(
            f"counting the items of this array would take too many states: {reason}", pointer=schema.location,
            hint="use smaller bounds on the number of items, or fewer contains and prefixes next to uniqueItems",
        )  # fmt: skip


def _trim(
    start: _State,
    edges: dict[_State, list[tuple[Goal, _State]]],
    ends: set[_State],
    tails: dict[_State, tuple[Goal, Window]],
) -> CountGraph:
    """The graph without states from which no end is reachable. States are renumbered."""
    predecessors: dict[_State, list[_State]] = {}
    for state, out in edges.items():
        for _, next_state in out:
            predecessors.setdefault(next_state, []).append(state)
    live_states, work = set(ends), list(ends)
    while work:
        for state in predecessors.get(work.pop(), ()):
            if state not in live_states:
                live_states.add(state)
                work.append(state)
    if start not in live_states:
        return CountGraph((), frozenset(), {})
    numbers = {
        state: index
        for index, state in enumerate((start, *(state for state in edges if state in live_states and state != start)))
    }
    live_edges = tuple(
        tuple((goal, numbers[next_state]) for goal, next_state in edges[state] if next_state in live_states)
        for state in numbers
    )
    return CountGraph(
        live_edges, frozenset(numbers[state] for state in ends), {numbers[s]: tail for s, tail in tails.items()}
    )
