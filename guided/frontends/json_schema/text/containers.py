"""Joins the texts of items and members to the texts of arrays and objects. In: IR nodes and counts. Out: IR nodes that
never match the empty text.

Commas are the problem: an optional member must not leave a stray comma. In declared order, if some member is required,
the members form one flat sequence. An optional member before the required one includes the comma after it, and each
member after the required one includes the comma before it. For example, with b required: `(a ,)? b (, c)?`. Without a
required member, the expression nests to the left: `(a (, b)? | b) (, c)? | c`. `member_tries.py` handles long runs of
optional members. A window on the number of members produces one rule for each pair of a member and a count. Members in
any order are the IR's `Permutation`. Very many optional members in any order are entries whose names must differ.

Cost: linear in the members; with a window, members times counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from guided.frontends.json_schema.algebra.shape import Window
from guided.frontends.json_schema.algebra.strings import union_of
from guided.frontends.json_schema.text.member_tries import Field, MemberTries
from guided.frontends.json_schema.text.spelling import comma_list, optional
from guided.ir.conditions import Condition
from guided.ir.nodes import EMPTY, EPSILON, Alt, Entry, Member, Node, Permutation, Ref, Repeat, Seq, Text

if TYPE_CHECKING:
    from guided.frontends.json_schema.algebra.count_graph import CountGraph
    from guided.frontends.json_schema.algebra.expand import Goal

__all__ = [
    "Field",
    "Members",
    "RuleMaker",
    "array_body",
    "array_body_with_required",
    "conditional_members",
    "counted_items",
    "declared_order",
    "declared_then_extras",
    "graph_body",
    "permutation_body",
    "write_many_optional",
]

_MAX_OPTIONAL_RUN = 64  # with more optional members in a row, tries are smaller
_MIN_ENTRIES = 64  # with at least this many optional members, entries are faster than a set in a register


class Members(NamedTuple):
    """Members in the order of `fields`, then any number of additional members.

    `additional_member` is the text of an additional member (None: not allowed).

    `window` bounds the number of members, and `max_extras` the number of additional members.
    """

    fields: Sequence[Field]
    comma: Node
    additional_member: Node | None = None
    window: Window = Window()
    max_extras: int | None = None

    def extras(self) -> Node:
        """One additional member or more."""
        assert self.additional_member is not None
        return comma_list(self.additional_member, self.comma, 1, self.max_extras)

    def more_extras(self) -> Node:
        """Any number of additional members, after another member."""
        return (
            Repeat(Seq((self.comma, self.additional_member)), 0, self.max_extras)
            if self.additional_member is not None
            else EPSILON
        )


class RuleMaker(NamedTuple):
    """Adds the rules of one object or array: `add` takes a rule's name, which begins with `name`, and its node.

    `spell` writes a part of a key, and `quotes` are the nodes before and after it.
    """

    add: Callable[[str, Node], None]
    name: str
    spell: Callable[[str], Node] = Text
    quotes: tuple[Node, Node] = (Text('"'), Text('"'))


def array_body(prefix: Sequence[Node], rest: Node | None, comma: Node, window: Window) -> Node | None:
    """At least one item: those of `prefix`, then any number of `rest` (None: no more). None if no item is possible."""
    high = window.high
    if rest is None:
        high = len(prefix) if high is None else min(high, len(prefix))
    low = max(window.low, 1)
    if high is not None and high < low:
        return None
    if not prefix and rest is not None:
        return comma_list(rest, comma, low, high)
    prefix_items = list(prefix if high is None else prefix[:high])
    steps: list[Node] = [Seq((comma, item)) if index else item for index, item in enumerate(prefix_items)]
    tail: Node = EPSILON
    if rest is not None and (high is None or high > len(steps)):
        tail = Repeat(Seq((comma, rest)), max(low - len(steps), 0), None if high is None else high - len(steps))
    return Seq((*steps[:low], _optional_prefix(steps[low:], tail) if low < len(steps) else tail))


def _optional_prefix(steps: Sequence[Node], tail: Node) -> Node:
    """The first n steps for any n, followed by the tail if all steps are included."""
    if len(steps) == 1:
        return optional(Seq((steps[0], tail)))
    middle = len(steps) // 2
    return Alt(
        (_optional_prefix(steps[:middle], EPSILON), Seq((*steps[:middle], _optional_prefix(steps[middle:], tail))))
    )


def array_body_with_required(
    prefix: Sequence[Node], required_items: Sequence[Node], rest: Node, comma: Node, window: Window
) -> Node | None:
    """All of `prefix`, then items of `rest` and, in any order among these, one of each of `required_items`."""
    low, high = (
        max(window.low - len(prefix), len(required_items)),
        None if window.high is None else window.high - len(prefix),
    )
    if high is not None and high < low:
        return None
    members = (*(Member(item, required=True) for item in required_items), Member(rest, repeatable=True))
    steps = (part for item in prefix for part in (item, comma))
    return Seq((*steps, Permutation(members, comma, low, high)))


def counted_items(counted_item: Node, other_item: Node, comma: Node, count: Window) -> Node:
    """At least one item, each a `counted_item` or an `other_item`, in any order. `count` bounds the `counted_item`s."""
    next_counted, other_items = Seq((comma, counted_item)), Repeat(Seq((comma, other_item)), 0, None)
    high = count.high

    def rest(low: int, high: int | None) -> Node:  # after an item
        return Seq((other_items, Repeat(Seq((next_counted, other_items)), max(low, 0), high)))

    cases = [Seq((other_item, rest(count.low, high)))]
    if high is None or high > 0:
        cases.append(Seq((counted_item, rest(count.low - 1, None if high is None else high - 1))))
    return Alt(tuple(cases))


def graph_body(graph: CountGraph, item: Callable[[Goal], Node], comma: Node, rules: RuleMaker) -> Node | None:
    """At least one item along the paths of a graph: a rule for each state, and for each item that leads to a state.

    An item whose value must be new may have no value left. Since it has its own rule, the other kinds of items remain
    possible.
    """
    item_rules: dict[tuple[Goal, int], Node] = {}
    for goal, next_state in dict.fromkeys(edge for state in graph.edges for edge in state):
        ref = item_rules[goal, next_state] = Ref(f"{rules.name}.{len(item_rules)} to {next_state}")
        rules.add(ref.name, Seq((item(goal), Ref(f"{rules.name}.{next_state}"))))
    for state, state_edges in enumerate(graph.edges):
        rest: list[Node] = [Seq((comma, Alt(tuple(item_rules[edge] for edge in state_edges))))]
        rest += [EPSILON] if state in graph.ends else []
        if state in graph.tails:
            goal, window = graph.tails[state]
            rest.append(Repeat(Seq((comma, item(goal))), window.low, window.high))
        rules.add(f"{rules.name}.{state}", Alt(tuple(rest)))
    first = [item_rules[edge] for edge in graph.edges[0]]
    if 0 in graph.tails:
        goal, window = graph.tails[0]
        first.append(comma_list(item(goal), comma, 1, window.high))
    return Alt(tuple(first)) if first else None


def write_many_optional(fields: Sequence[Field], window: Window) -> Node | None:
    """Any of many optional members. The name is an `Entry`, so that no member is written twice.

    The written members are then a trie of names, instead of a register with token tables for each of its values. None
    if the optional members are few, if their names need escapes, or if the window requires more than the required
    members, because optional ones might have no value.
    """
    others = [field for field in fields if not field.is_required]
    if len(others) < _MIN_ENTRIES or window.low > max(1, len(fields) - len(others)):
        return None
    if any(c in '"\\' or c < " " for field in others for c in field.name):
        return None
    return union_of([Seq((Entry(field.key), field.value)) for field in others])


def permutation_body(
    fields: Sequence[Field],
    extra: Node | None,
    comma: Node,
    window: Window,
    required_extras: Sequence[Node] = (),
    ordered: bool = False,
) -> Node | None:
    """At least one member, in any order: declared ones at most once, `extra` any number of times, and one of each of
    `required_extras`.

    `ordered`: the declared members keep their order, and all others follow them.
    """
    members = [Member(field.node, required=field.is_required) for field in fields]
    members += [Member(node, required=True, repeatable=ordered) for node in required_extras]
    if extra is not None:
        members.append(Member(extra, repeatable=True))
    if not members or window.high == 0:
        return None
    return Permutation(tuple(members), comma, max(window.low, 1), window.high, ordered=ordered)


def conditional_members(
    slots: Sequence[Sequence[Node]], extras: Sequence[Node], comma: Node, window: Window, condition: Condition,
    ordered: bool,
) -> Node | None:  # fmt: skip
    """At least one member, under a condition: at most one member of each slot, and extras any number of times.

    `ordered`: the slots keep their order, and extras come last.
    """
    members = [(Member(node), index) for index, nodes in enumerate(slots) for node in nodes]
    members += [(Member(node, repeatable=True), len(slots) + index) for index, node in enumerate(extras)]
    if not members or window.high == 0:
        return None
    slot_numbers = tuple(index for _, index in members)
    permutation_members = tuple(member for member, _ in members)
    return Permutation(permutation_members, comma, max(window.low, 1), window.high, slot_numbers, ordered, condition)


def declared_then_extras(fields: Sequence[Field], extras: Node, comma: Node, rules: RuleMaker) -> Node:
    """Members in the order of `fields`, then `extras`, which never matches the empty text."""
    declared_members = declared_order(Members(fields, comma), rules)
    if declared_members is None:
        return extras
    declared_text = Seq((declared_members, comma))
    return Seq((declared_text if any(field.is_required for field in fields) else optional(declared_text), extras))


def declared_order(members: Members, rules: RuleMaker) -> Node | None:
    """At least one member, in declared order. None if no member is possible."""
    fields, window = members.fields, members.window
    if members.max_extras == 0:
        members = members._replace(additional_member=None)
    if not fields and members.additional_member is None:
        return None
    required = sum([field.is_required for field in fields])
    if members.additional_member is None and window.high is not None and window.high >= len(fields):
        window = Window(window.low, None)
    if not fields and members.additional_member is not None:
        window = window.meet(Window(0, members.max_extras))
        is_empty = window.high is not None and window.high < max(window.low, 1)
        return None if is_empty else comma_list(members.additional_member, members.comma, window.low, window.high)
    if window.low <= max(required, 1) and window.high is None:
        if len(fields) <= _MAX_OPTIONAL_RUN or _optional_run(fields) <= _MAX_OPTIONAL_RUN:
            return _order_without_counts(members)
        extras = None if members.additional_member is None else members.extras()
        return MemberTries(members.comma, extras, rules.spell, rules.add, rules.name, rules.quotes).members(fields)
    return _order_with_counts(members, window, rules)


def _order_without_counts(members: Members) -> Node:
    """Members in declared order, without a bound on their number."""
    fields, comma = members.fields, members.comma
    first_required = next((index for index, field in enumerate(fields) if field.is_required), None)
    if first_required is None:
        return _at_least_one(members)
    items: list[Node] = [optional(Seq((field.key, field.value, comma))) for field in fields[:first_required]]
    items += (fields[first_required].key, fields[first_required].value)
    for field in fields[first_required + 1 :]:
        member = (comma, field.key, field.value)
        items += member if field.is_required else (optional(Seq(member)),)
    if members.additional_member is not None:
        items.append(members.more_extras())
    return Seq(tuple(items))


def _at_least_one(members: Members) -> Node:
    """At least one of a few optional members, in order."""
    node: Node | None = None
    for field in members.fields:
        first, next_member = field.node, Seq((members.comma, field.key, field.value))
        node = first if node is None else Alt((Seq((node, optional(next_member))), first))
    if members.additional_member is not None:
        first = members.extras()
        node = first if node is None else Alt((Seq((node, members.more_extras())), first))
    assert node is not None
    return node


def _optional_run(fields: Sequence[Field]) -> int:
    """The length of the longest run of optional members."""
    longest = run = 0
    for field in fields:
        run = 0 if field.is_required else run + 1
        longest = max(longest, run)
    return longest


def _order_with_counts(members: Members, window: Window, rules: RuleMaker) -> Node:
    """Rules `name.i.c`: the members from index i on, after c members. c stops growing once the exact count no longer
    matters.
    """
    comma, extra, fields = members.comma, members.additional_member, members.fields
    max_count = max(window.low, 1) if window.high is None else window.high

    def rule(index: int, count: int) -> Ref:
        return Ref(f"{rules.name}.{index}.{count}")

    def end(count: int) -> Node:
        low = max(window.low - count, 0)
        high = None if window.high is None else window.high - count
        if members.max_extras is not None:
            high = members.max_extras if high is None else min(high, members.max_extras)
        if extra is None:
            return EPSILON if low == 0 and count else EMPTY
        if high is not None and high < low:
            return EMPTY
        if count:
            return Repeat(Seq((comma, extra)), low, high)
        return EMPTY if high == 0 else comma_list(extra, comma, low, high)

    counts = {0}
    for index, field in enumerate(fields):
        node, next_counts = field.node, set[int]()
        for count in counts:
            cases: list[Node] = []
            if window.high is None or count < window.high:
                next_count = min(count + 1, max_count)
                next_counts.add(next_count)
                cases.append(Seq((*((comma,) if count else ()), node, rule(index + 1, next_count))))
            if not field.is_required:
                next_counts.add(count)
                cases.append(rule(index + 1, count))
            rules.add(rule(index, count).name, Alt(tuple(cases)))
        counts = next_counts
    for count in counts:
        rules.add(rule(len(fields), count).name, end(count))
    return rule(0, 0)
