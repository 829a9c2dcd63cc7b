"""Checks the size of what Lark's loader would expand, before it does, and reports mistakes that Lark does not explain.
In: a grammar as Lark has parsed it. Out: nothing, or an error with its location.

Lark expands choices in a sequence (`(a|b) (c|d)` becomes four alternatives), short repetitions (`(a|b)~0..20` becomes
two million), templates for each list of arguments, and terminals that consist of terminals. So a text of a few lines
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

__all__ = ["check_bounds", "check_depth", "check_stars", "check_terminals", "check_trees", "too_deep"]

_MAX_REPETITIONS: Final = 10_000
_OPENING: Final = ("(", "[", "{")
_CLOSING: Final = (")", "]", "}")

_REPEAT_BREAK_THRESHOLD: Final = (
    50  # repetitions of at least this count become separate rules (Lark's REPEAT_BREAK_THRESHOLD)
)
_MAX_ALTERNATIVES: Final = 50_000
_MAX_STAR_ALTERNATIVES: Final = 100_000  # as in native/ebnf.cpp
_MAX_INSTANCES: Final = 5_000
_MAX_ADDED_LENGTH: Final = 100_000  # characters by which a terminal may be longer than the text
_MAX_NAME_LENGTH: Final = 10_000
_MAX_TERMINAL_LEVELS: Final = 100  # levels of terminals within terminals


def check_depth(source: Source, limits: Limits) -> None:
    """Limit the depth of brackets, which Lark reads by recursion.

    Raises:
        LimitExceeded: brackets nest too deeply.
    """
    if sum(map(source.text.count, _OPENING)) > limits.depth:
        depth, span = _deepest_nesting(source.text, limits.depth + 1)
        if depth > limits.depth:
            raise source.error(LimitExceeded("depth", depth, limits.depth), span)


def too_deep(source: Source) -> SpecError:
    """The error for a text that exhausts Python's stack in Lark or in the reader of its extensions."""
    error = SpecError("the brackets nest deeper than Python's stack", hint="move inner parts to separate rules")
    return source.error(error, _deepest_nesting(source.text)[1])


def _deepest_nesting(text: str, maximum: int = 1 << 30) -> tuple[int, Span]:
    """The nesting depth of a text, counted up to `maximum`, and the location of the innermost bracket."""
    depth, deepest, span = 0, 0, (0, 0)
    for token in scan_leniently(text):
        spend()
        depth = max(depth + (token.kind in _OPENING) - (token.kind in _CLOSING), 0)
        if depth > deepest:
            deepest, span = depth, token.span
            if deepest == maximum:
                break
    return deepest, span


def check_trees(tree: Any, source: Source) -> None:
    """Check repetitions and ranges, which Lark does not.

    Raises:
        SpecError: a range or the counts of a repetition are malformed. LimitExceeded: a count is too large.
    """
    work = [tree] if "~" in source.text or ".." in source.text else []
    while work:
        at = work.pop()
        work += (child for child in at.children if _kind(child))
        match _kind(at), at.children:
            case "expr", [_, _, *counts] if counts:
                _check_counts(counts, source)
            case "range", [first, last]:
                _check_range(first, last, source)


def _check_counts(counts: list[Any], source: Source) -> None:
    low, high = (int(str(each)[:20]) for each in (counts[0], counts[-1]))
    span = counts[0].start_pos, counts[-1].end_pos
    if max(low, high) > _MAX_REPETITIONS:
        hint = f"Lark expands repetitions, so at most {_MAX_REPETITIONS} are supported"
        error = LimitExceeded("nodes", max(low, high), _MAX_REPETITIONS, fixed=True, hint=hint)
        raise source.error(error, span)
    if low > high:
        raise source.error(
            SpecError(f"the upper bound, {high}, is less than the lower bound, {low}"), span, "swap them"
        )


def _check_range(first: Any, last: Any, source: Source) -> None:
    from lark import load_grammar  # an extra

    unescaped: Any = load_grammar.eval_escaping
    ends = [unescaped(str(each)[1:-1]) for each in (first, last)]
    for each, end in zip((first, last), ends, strict=True):
        if len(end) != 1:
            message = "the ends of a range must be strings of one character"
            raise source.error(SpecError(message), (each.start_pos, each.end_pos), 'write, for example, "a".."z"')
    if ends[0] > ends[1] and ends[0] != "^":  # Lark does not escape "^" in the class that it creates
        message = f"the range ends before it begins: {first}..{last}"
        raise source.error(SpecError(message), (first.start_pos, last.end_pos), "swap them")


def check_bounds(grammar: Any, sources: Sources) -> None:
    """See the module docstring.

    Raises:
        LimitExceeded: the expansion would be too large.
    """
    _check_alternatives(grammar, sources, 1, _MAX_ALTERNATIVES)
    _check_templates(grammar, sources)


def check_stars(grammar: Any, sources: Sources) -> None:
    """Check the same for Lark's own loader, which expands `a* b*` to four alternatives, including duplicates.

    Raises:
        LimitExceeded: the expansion would be too large.
    """
    _check_alternatives(grammar, sources, 2, _MAX_STAR_ALTERNATIVES)


def _check_alternatives(grammar: Any, sources: Sources, star_alternatives: int, max_alternatives: int) -> None:
    total = 0
    for name, _, tree, _ in grammar.rule_defs:
        spend()
        total += _alternatives(tree, star_alternatives, max_alternatives + 1)
        if total > max_alternatives:
            rule_name = sources.original_name(str(name))
            hint = f"rule {rule_name}: move its choices, such as (a|b) or a?, and its repetitions to separate rules"
            raise sources.error(LimitExceeded("nodes", total, max_alternatives, fixed=True, hint=hint), str(name))


def check_terminals(tree: Any, source: Source) -> None:
    """Check the same for terminals, which Lark expands when it loads them. `tree`: the text, parsed by Lark's
    meta-grammar.

    Raises:
        LimitExceeded: a terminal would be too long, or nests more levels of terminals than Lark reads quickly.
    """
    lengths, max_length = dict[str, int](), len(source.text) + _MAX_ADDED_LENGTH
    levels = dict[str, int]()
    trees = {_name(each.children[0]): each for each in tree.find_data("term")}
    for name, term in trees.items():
        span = term.children[0].start_pos, term.children[0].end_pos
        spend()
        length = _length(name, trees, lengths, levels, max_length)
        if levels[name] > _MAX_TERMINAL_LEVELS:
            hint = f"terminal {name} nests terminals too deeply: expand some of them by hand"
            raise source.error(LimitExceeded("depth", levels[name], _MAX_TERMINAL_LEVELS, fixed=True, hint=hint), span)
        if length > max_length:
            hint = f"terminal {name} consists of nested terminals, and is too long when they are expanded"
            raise source.error(LimitExceeded("spec_length", length, max_length, fixed=True, hint=hint), span)


def _name(leaf: Any) -> str:
    return str(getattr(leaf, "name", leaf))


def _kind(tree: Any) -> str:
    return str(getattr(tree, "data", ""))


def _alternatives(tree: Any, star_alternatives: int, maximum: int) -> int:
    """The number of alternatives of a tree, at most `maximum`. `star_alternatives`: the least number for `a*`."""
    kind = _kind(tree)
    if kind in ("expansions", "maybe"):
        return min(
            sum(_alternatives(each, star_alternatives, maximum) for each in tree.children) + (kind == "maybe"), maximum
        )
    if kind == "expr":
        inner, op, *counts = tree.children
        number = _alternatives(inner, star_alternatives, maximum)
        if str(op) == "?":
            return min(number + 1, maximum)
        if str(op) == "~":
            low, high = int(counts[0]), int(counts[-1])
            return _sum_of_powers(number, low, high, maximum) if high < _REPEAT_BREAK_THRESHOLD else number
        return max(number, star_alternatives) if str(op) == "*" else number  # it becomes a separate rule
    if kind == "template_usage" or not kind:
        return 1
    out = 1
    for child in tree.children:
        out = min(out * _alternatives(child, star_alternatives, maximum), maximum)
    return out


def _sum_of_powers(number: int, low: int, high: int, maximum: int) -> int:
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
    work = [usage for _, params, tree, _ in grammar.rule_defs if not params for usage in _usages(tree)]
    todo = [(usage, dict[str, str]()) for usage in work]
    while todo:
        usage, bindings = todo.pop()
        name, arguments = _name(usage.children[0]), [_format_argument(each, bindings) for each in usage.children[1:]]
        instance = f"{name}{{{','.join(arguments)}}}"
        if instance in seen or name not in templates:
            continue
        seen[instance] = None
        if len(seen) > _MAX_INSTANCES or len(instance) > _MAX_NAME_LENGTH:
            hint = f"the template {sources.original_name(name)} is used with ever more, or ever larger, arguments"
            error = LimitExceeded("nodes", _MAX_INSTANCES + 1, _MAX_INSTANCES, fixed=True, hint=hint)
            raise sources.error(error, name)
        params, tree = templates[name]
        inner = dict(zip(params, arguments, strict=False))
        todo += [(each, inner) for each in _usages(tree)]


def _usages(tree: Any) -> Iterator[Any]:
    work = [tree]
    while work:
        spend()
        at = work.pop()
        if _kind(at) == "template_usage":
            yield at
        work += getattr(at, "children", ())


def _format_argument(tree: Any, bindings: dict[str, str]) -> str:
    """An argument, with the outer parameters substituted; its length is bounded."""
    if not _kind(tree):
        return bindings.get(_name(tree), _name(tree))
    if _kind(tree) == "template_usage":
        name, *arguments = tree.children
        return f"{_name(name)}{{{','.join(_format_argument(each, bindings) for each in arguments)}}}"[
            : 2 * _MAX_NAME_LENGTH
        ]
    return " ".join(_format_argument(each, bindings) for each in tree.children)[: 2 * _MAX_NAME_LENGTH]


def _length(name: str, trees: dict[str, Any], lengths: dict[str, int], levels: dict[str, int], max_length: int) -> int:
    """The length of a terminal when it is expanded, at most `max_length` + 1. Also records its levels."""
    todo, pending = [name], {name}
    while todo:
        at = todo[-1]
        if at in lengths:
            todo.pop()
            continue
        parts = [part for part in _leaves(trees[at]) if part != at]
        unfinished = [part for part in parts if part in trees and part not in lengths and part not in pending]
        if unfinished:
            todo += unfinished
            pending.update(unfinished)
            continue
        levels[at] = 1 + max((levels.get(part, 0) for part in parts), default=0)
        lengths[at] = min(sum(lengths.get(part, 1) if part in trees else len(part) for part in parts), max_length + 1)
        todo.pop()
    return lengths[name]


def _leaves(tree: Any) -> Iterator[str]:
    work = [tree]
    while work:
        at = work.pop()
        if _kind(at):
            work += at.children
        elif at is not None:
            yield _name(at)
