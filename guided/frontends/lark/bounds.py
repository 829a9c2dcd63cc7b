"""Limits the size to which Lark's loader would expand a grammar, and reports mistakes that Lark does not explain. In:
the text of a grammar, or the tree that Lark has parsed. Out: nothing; an error has its location.

Lark expands choices in a sequence (`(a|b) (c|d)` becomes four alternatives), short repetitions (`(a|b)~0..20` becomes
two million), templates for each list of arguments, and terminals that consist of terminals. So a grammar of a few lines
can expand to more than fits into memory.

How: the number of alternatives is a product for a sequence and a sum for a choice. Instances of templates are
enumerated as in Lark. The length of a terminal is the sum of the lengths of its parts. Cost: linear in the trees and
the instances.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from guided.errors import LimitExceeded, SpecError
from guided.limits import Limits
from guided.meter import spend

from .scan import scan_leniently
from .sources import Source, Sources, Span

__all__ = ["check_bounds", "check_depth", "check_stars", "check_terminals", "check_trees", "make_depth_error"]

_MAX_REPETITIONS: Final = 10_000
_OPENING: Final = ("(", "[", "{")
_CLOSING: Final = (")", "]", "}")

_REPEAT_BREAK_THRESHOLD: Final = (
    50  # repetitions with a maximum of at least 50 become separate rules (Lark's REPEAT_BREAK_THRESHOLD)
)
_MAX_ALTERNATIVES: Final = 50_000
_MAX_STAR_ALTERNATIVES: Final = 100_000  # as in native/ebnf.cpp
_MAX_INSTANCES: Final = 5_000
_MAX_ADDED_LENGTH: Final = 100_000  # characters by which an expanded terminal may be longer than the grammar
_MAX_NAME_LENGTH: Final = 10_000
_MAX_TERMINAL_LEVELS: Final = 100  # levels of terminals within terminals


def check_depth(source: Source, limits: Limits) -> None:
    """Limit the depth of brackets, which Lark reads by recursion.

    Raises:
        LimitExceeded: brackets nest too deeply.
    """
    if sum(map(source.text.count, _OPENING)) > limits.depth:
        depth, span = _find_deepest_nesting(source.text, limits.depth + 1)
        if depth > limits.depth:
            raise source.error(LimitExceeded("depth", depth, limits.depth), span)


def make_depth_error(source: Source) -> SpecError:
    """The error for a grammar that exhausts Python's stack in Lark or in the reader of extensions."""
    error = SpecError("the brackets nest too deeply for Python's stack", hint="move inner parts to separate rules")
    return source.error(error, _find_deepest_nesting(source.text)[1])


def _find_deepest_nesting(text: str, maximum: int = 1 << 30) -> tuple[int, Span]:
    """(the nesting depth of a grammar, counted up to `maximum`; the span of its innermost bracket)."""
    depth, max_depth, span = 0, 0, (0, 0)
    for token in scan_leniently(text):
        spend()
        depth = max(depth + (token.kind in _OPENING) - (token.kind in _CLOSING), 0)
        if depth > max_depth:
            max_depth, span = depth, token.span
            if max_depth == maximum:
                break
    return max_depth, span


def check_trees(tree: Any, source: Source) -> None:
    """Check repetitions and ranges, which Lark does not check.

    Raises:
        SpecError: a range or the counts of a repetition are malformed. LimitExceeded: a count is too large.
    """
    todo = [tree] if "~" in source.text or ".." in source.text else []
    while todo:
        subtree = todo.pop()
        todo += (child for child in subtree.children if _get_kind(child))
        match _get_kind(subtree), subtree.children:
            case "expr", [_, _, *counts] if counts:
                _check_counts(counts, source)
            case "range", [first, last]:
                _check_range(first, last, source)


def _check_counts(counts: list[Any], source: Source) -> None:
    low, high = (int(str(each)[:20]) for each in (counts[0], counts[-1]))
    span = counts[0].start_pos, counts[-1].end_pos
    if max(low, high) > _MAX_REPETITIONS:
        hint = f"Lark expands repetitions, so at most {_MAX_REPETITIONS:,} are supported"
        error = LimitExceeded("nodes", max(low, high), _MAX_REPETITIONS, fixed=True, hint=hint)
        raise source.error(error, span)
    if low > high:
        raise source.error(
            SpecError(f"the upper bound, {high}, is less than the lower bound, {low}"), span, "swap them"
        )


def _check_range(first: Any, last: Any, source: Source) -> None:
    from lark import load_grammar  # an extra

    unescape: Any = load_grammar.eval_escaping
    ends = [unescape(str(each)[1:-1]) for each in (first, last)]
    for each, end in zip((first, last), ends, strict=True):
        if len(end) != 1:
            message = "the ends of a range must be strings of one character"
            if each.endswith("i") and len(unescape(str(each)[1:-2])) == 1:
                message = "the ends of a range cannot have the flag i"
            raise source.error(SpecError(message), (each.start_pos, each.end_pos), 'write, for example, "a".."z"')
    if ends[0] > ends[1] and ends[0] != "^":  # Lark does not escape "^" in the class that it creates
        message = f"the range ends before it begins: {first}..{last}"
        raise source.error(SpecError(message), (first.start_pos, last.end_pos), "swap them")


def check_bounds(grammar: Any, sources: Sources) -> None:
    """Check the number of alternatives and of template instances.

    Raises:
        LimitExceeded: the expansion would be too large.
    """
    _check_alternatives(grammar, sources, 1, _MAX_ALTERNATIVES)
    _check_templates(grammar, sources)


def check_stars(grammar: Any, sources: Sources) -> None:
    """Check the number of alternatives for Lark's own loader, which expands `a* b*` to four alternatives.

    Raises:
        LimitExceeded: the expansion would be too large.
    """
    _check_alternatives(grammar, sources, 2, _MAX_STAR_ALTERNATIVES)


def _check_alternatives(grammar: Any, sources: Sources, star_alternatives: int, max_alternatives: int) -> None:
    total = 0
    for name, _, tree, _ in grammar.rule_defs:
        spend()
        total += _count_alternatives(tree, star_alternatives, max_alternatives + 1)
        if total > max_alternatives:
            rule_name = sources.original_name(str(name))
            hint = f"rule {rule_name}: move its choices, such as (a|b) or a?, and its repetitions to separate rules"
            raise sources.error(LimitExceeded("nodes", total, max_alternatives, fixed=True, hint=hint), str(name))


def check_terminals(tree: Any, source: Source) -> None:
    """Check the size of terminals, which Lark expands when it loads them. `tree`: the grammar, parsed by Lark.

    Raises:
        LimitExceeded: a terminal would be too long, or nests more levels of terminals than Lark can expand quickly.
    """
    lengths, max_length = dict[str, int](), len(source.text) + _MAX_ADDED_LENGTH
    levels = dict[str, int]()
    trees = {_get_name(each.children[0]): each for each in tree.find_data("term")}
    for name, term in trees.items():
        span = term.children[0].start_pos, term.children[0].end_pos
        spend()
        length = _compute_length(name, trees, lengths, levels, max_length)
        if levels[name] > _MAX_TERMINAL_LEVELS:
            hint = f"terminal {name} nests terminals too deeply: expand some of them by hand"
            raise source.error(LimitExceeded("depth", levels[name], _MAX_TERMINAL_LEVELS, fixed=True, hint=hint), span)
        if length > max_length:
            hint = f"terminal {name} consists of nested terminals, and is too long when they are expanded"
            raise source.error(LimitExceeded("spec_length", length, max_length, fixed=True, hint=hint), span)


def _get_name(leaf: Any) -> str:
    return str(getattr(leaf, "name", leaf))


def _get_kind(tree: Any) -> str:
    return str(getattr(tree, "data", ""))


def _count_alternatives(tree: Any, star_alternatives: int, maximum: int) -> int:
    """The number of alternatives of a tree, capped at `maximum`. `star_alternatives`: the minimum for `a*`."""
    kind = _get_kind(tree)
    if kind in ("expansions", "maybe"):
        return min(
            sum(_count_alternatives(each, star_alternatives, maximum) for each in tree.children) + (kind == "maybe"),
            maximum,
        )
    if kind == "expr":
        item, op, *counts = tree.children
        number = _count_alternatives(item, star_alternatives, maximum)
        if str(op) == "?":
            return min(number + 1, maximum)
        if str(op) == "~":
            low, high = int(counts[0]), int(counts[-1])
            return _sum_powers(number, low, high, maximum) if high < _REPEAT_BREAK_THRESHOLD else number
        return max(number, star_alternatives) if str(op) == "*" else number  # a repetition becomes a separate rule
    if kind == "template_usage" or not kind:
        return 1
    out = 1
    for child in tree.children:
        out = min(out * _count_alternatives(child, star_alternatives, maximum), maximum)
    return out


def _sum_powers(number: int, low: int, high: int, maximum: int) -> int:
    out, power = 0, 1
    for count in range(high + 1):
        out += power if count >= low else 0
        power *= number
        if out >= maximum or power >= maximum:
            return maximum
    return out


def _check_templates(grammar: Any, sources: Sources) -> None:
    templates = {
        str(name): ([str(each) for each in params], tree) for name, params, tree, _ in grammar.rule_defs if params
    }
    seen: dict[str, None] = {}
    usages = [usage for _, params, tree, _ in grammar.rule_defs if not params for usage in _find_usages(tree)]
    todo = [(usage, dict[str, str]()) for usage in usages]
    while todo:
        usage, bindings = todo.pop()
        name, arguments = (
            _get_name(usage.children[0]),
            [_format_argument(each, bindings) for each in usage.children[1:]],
        )
        instance = f"{name}{{{','.join(arguments)}}}"
        if instance in seen or name not in templates:
            continue
        seen[instance] = None
        if len(seen) > _MAX_INSTANCES or len(instance) > _MAX_NAME_LENGTH:
            hint = f"the template {sources.original_name(name)} is used with ever more, or ever larger, arguments"
            error = LimitExceeded("nodes", _MAX_INSTANCES + 1, _MAX_INSTANCES, fixed=True, hint=hint)
            raise sources.error(error, name)
        params, tree = templates[name]
        inner_bindings = dict(zip(params, arguments, strict=False))
        todo += [(each, inner_bindings) for each in _find_usages(tree)]


def _find_usages(tree: Any) -> Iterator[Any]:
    todo = [tree]
    while todo:
        spend()
        subtree = todo.pop()
        if _get_kind(subtree) == "template_usage":
            yield subtree
        todo += getattr(subtree, "children", ())


def _format_argument(tree: Any, bindings: dict[str, str]) -> str:
    """An argument as text, with the parameters of the enclosing template substituted. Cut at 2 * _MAX_NAME_LENGTH."""
    if not _get_kind(tree):
        return bindings.get(_get_name(tree), _get_name(tree))
    if _get_kind(tree) == "template_usage":
        name, *arguments = tree.children
        return f"{_get_name(name)}{{{','.join(_format_argument(each, bindings) for each in arguments)}}}"[
            : 2 * _MAX_NAME_LENGTH
        ]
    return " ".join(_format_argument(each, bindings) for each in tree.children)[: 2 * _MAX_NAME_LENGTH]


def _compute_length(
    name: str, trees: dict[str, Any], lengths: dict[str, int], levels: dict[str, int], max_length: int
) -> int:
    """The length of a terminal when it is expanded, capped at `max_length` + 1. Also records its nesting level."""
    todo, pending = [name], {name}
    while todo:
        terminal = todo[-1]
        if terminal in lengths:
            todo.pop()
            continue
        leaves = [leaf for leaf in _list_leaves(trees[terminal]) if leaf != terminal]
        new_terminals = [leaf for leaf in leaves if leaf in trees and leaf not in lengths and leaf not in pending]
        if new_terminals:
            todo += new_terminals
            pending.update(new_terminals)
            continue
        levels[terminal] = 1 + max((levels.get(leaf, 0) for leaf in leaves), default=0)
        length = sum(lengths.get(leaf, 1) if leaf in trees else len(leaf) for leaf in leaves)
        lengths[terminal] = min(length, max_length + 1)
        todo.pop()
    return lengths[name]


def _list_leaves(tree: Any) -> Iterator[str]:
    todo = [tree]
    while todo:
        subtree = todo.pop()
        if _get_kind(subtree):
            todo += subtree.children
        elif subtree is not None:
            yield _get_name(subtree)
