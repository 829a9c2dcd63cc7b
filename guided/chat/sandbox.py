"""A Jinja environment for chat templates, configured as in transformers, plus tagged literals and a cost limit.

In: the text of a template. Out: a Jinja template whose output is `TaggedText`, see tagged_text.py.

Templates are untrusted. Jinja's immutable sandbox denies them Python's internals, and changes to values. In
addition, every operation that may take long, or whose result may be large, is charged (render_budget.py). The code of
the template is changed so that blocks, loops, comparisons and slices charge (charged_code.py); the environment charges
for calls, operators and filters. Filters, string methods and functions that are random or of unpredictable cost are
removed.

The additions of transformers are included: trimmed blocks, `{% generation %}`, `{% break %}`, `raise_exception`,
`strftime_now`, and a `tojson` that does not escape HTML.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import wraps
from types import BuiltinMethodType, MethodType
from typing import Any, Final

from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateRuntimeError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from markupsafe import Markup

from guided.chat.charged_code import ChargeTransformer, TaggingCodeGenerator
from guided.chat.charged_formats import ChargedEscapeFormatter, ChargedFormatter, check_width, format_percent
from guided.chat.render_budget import CALL, STEP, charge, charge_all, charge_items, nested_call
from guided.chat.tagged_text import TaggedText, get_spans, join_tagged, tag_text
from guided.errors import UnsupportedError

__all__ = ["Refusal", "environment"]

_MAX_NUMBER: Final = 100_000  # the largest number as an argument; equal to Jinja's own bound on range()
_MAX_NODES: Final = 20_000  # of a template's syntax tree; templates in use have at most 2,500
_MAX_BITS: Final = 4096
_MAX_ESCAPE_FACTOR: Final = 6  # Markup's escaping makes a text at most this many times longer
_MAX_INDENT: Final = 16
_REFERENCE: Final = 8  # the bytes of an item of a list
_REMOVED_FILTERS: Final = ("random", "urlize", "striptags", "xmlattr", "pprint", "wordwrap")
_SHALLOW_FILTERS: Final = frozenset((
    "attr", "batch", "charge_all", "charge_items", "count", "d", "default", "first", "items", "last", "length", "list",
    "map", "reject", "rejectattr", "reverse", "select", "selectattr", "slice",
))  # fmt: skip
"""Filters that visit the items of their input, but do not read the contents of the items."""
_FAST_FILTERS: Final = frozenset((
    "attr", "charge_all", "charge_items", "count", "d", "default", "first", "last", "length",
))  # fmt: skip
"""Filters that do not visit the items of their input, or charge for them."""
_DEEP_TESTS: Final = ("in", "==", "eq", "equalto", "!=", "ne", ">", "gt", "greaterthan", "ge", ">=", "<", "lt",
                      "lessthan", "<=", "le", "lower", "upper")  # fmt: skip
_REMOVED_METHODS: Final = frozenset(("expandtabs", "translate", "maketrans", "encode"))


class Refusal(TemplateRuntimeError):
    """A template refuses its input with `raise_exception`."""


class _GenerationBlock(Extension):
    """`{% generation %}` marks the assistant's text for training. Here it only outputs its content."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The nodes inside the block."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Environment(ImmutableSandboxedEnvironment):
    """See the module docstring."""

    code_generator_class = TaggingCodeGenerator
    intercepted_binops = frozenset(("+", "*", "**", "%"))
    concat = staticmethod(join_tagged)
    tag_text = staticmethod(tag_text)
    charge = staticmethod(charge)

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, loopcontrols], optimized=False
        )
        self.globals |= {
            "raise_exception": _raise_exception,
            "strftime_now": _format_now,
            "dict": _Dict(),
            "namespace": _Namespace,
        }
        del self.globals["lipsum"]
        self.filters |= {
            "charge_items": charge_items, "charge_all": charge_all, "tojson": _to_json, "string": self.text_of,
            "join": _join, "replace": _replace, "sum": _sum, "format": _format,
        }  # fmt: skip
        allowed = {name: function for name, function in self.filters.items() if name not in _REMOVED_FILTERS}
        self.filters = {name: _charge_filter(name, function) for name, function in allowed.items()}
        tests: dict[str, Any] = self.tests
        tests |= {name: _charge_filter(name, tests[name]) for name in _DEEP_TESTS}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        if (size := sum(1 for _ in tree.find_all(nodes.Node))) > _MAX_NODES:
            raise UnsupportedError(f"the chat template has {size} nodes, more than {_MAX_NODES}")
        ChargeTransformer().visit(tree)
        return tree

    @staticmethod
    def text_of(value: object) -> str:
        """The text that is printed for a value."""
        return value if isinstance(value, str) else str(charge_all(value))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Charge for operators, and refuse operations whose results would be too large."""
        if operator == "%" and isinstance(left, str):
            charge_all(right)
            values = right if isinstance(right, tuple) else (right,)
            return format_percent(left, values, lambda: TaggedText(left, get_spans(left)) % right)
        if operator == "+" and type(left) is str and type(right) is str:
            return join_tagged((left, right))
        if operator == "+" and (isinstance(left, Markup) or isinstance(right, Markup)):
            charge(_MAX_ESCAPE_FACTOR * (_measure_length(left) + _measure_length(right)))
        if operator == "+" and isinstance(left, list | tuple):
            charge(len(left) + len(right))
        if operator == "*":
            for sequence, other in ((left, right), (right, left)):
                if isinstance(sequence, str | list | tuple) and isinstance(other, int):
                    charge((len(sequence) + 1) * max(0, other) * (1 if isinstance(sequence, str) else _REFERENCE))
        if operator in ("*", "**") and isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() + right.bit_length() if operator == "*" else left.bit_length() * abs(right)
            if bits > _MAX_BITS:
                raise SecurityError(f"a number of about {bits} bits is too large for a chat template")
        return super().call_binop(context, operator, left, right)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """A replacement for `"{}".format` that keeps tags and charges."""
        if super().wrap_str_format(value) is None:
            return None
        template: str = value.__self__
        is_map = value.__name__ == "format_map"
        formatter = (
            ChargedEscapeFormatter(self, escape=template.escape)
            if isinstance(template, Markup)
            else ChargedFormatter(self)
        )

        @wraps(value)
        def format_charged(*args: Any, **kwargs: Any) -> str:
            if is_map and (kwargs or len(args) != 1):
                raise TypeError("format_map() takes exactly one argument")
            check_width(template)
            if isinstance(template, TaggedText) and not kwargs and not is_map:
                charge_all(args)
                if (text := template.fill_fields("{}", args)) is not None:
                    return text
            return type(template)(formatter.vformat(template, () if is_map else args, args[0] if is_map else kwargs))

        return format_charged

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Count the call, and charge for the data that the method or function reads."""
        with nested_call():
            if not isinstance(obj, Macro):
                args = tuple(map(_charge_each, args))
                kwargs = {name: _charge_each(value) for name, value in kwargs.items()}
                _check_arguments((*args, *kwargs.values()))
                owner = getattr(obj, "__self__", None)
                if isinstance(owner, str):  # such as x.center(100), whose result has 100 characters
                    _charge_numbers((*args, *kwargs.values()))
                if isinstance(owner, Markup):
                    args = tuple(list(value) if isinstance(value, Iterator) else value for value in args)
                    charge(_MAX_ESCAPE_FACTOR * (len(owner) + 1) * (1 + sum(map(_measure_length, args))))
                    charge_all(args)
                obj = _charge_method(obj)
            return super().call(context, obj, *args, **kwargs)


def _charge_method(method: Any) -> Any:
    """Charge for a method, however the template obtained it. Return the method to call: for a method of a plain string,
    the method of `TaggedText`, which keeps the tags of its arguments."""
    owner = getattr(method, "__self__", None)
    if isinstance(owner, str) and isinstance(method, BuiltinMethodType | MethodType):
        if method.__name__ in _REMOVED_METHODS:
            raise SecurityError(f"strings have no method {method.__name__} in chat templates")
        charge(len(owner))
        return getattr(TaggedText(owner), method.__name__) if type(owner) is str else method
    if isinstance(owner, list | tuple):
        charge_all(owner)
    elif isinstance(owner, dict):
        charge((STEP if method.__name__ == "copy" else 1) * len(owner))
    return method


def _charge_numbers(arguments: Iterable[Any]) -> None:
    """Charge for numbers that may be the length of a result."""
    charge(sum(abs(argument) for argument in arguments if isinstance(argument, int)))


def _charge_each(value: Any) -> Any:
    """Charge for each item of an iterator when it is read, since its length is not known before."""
    if not isinstance(value, Iterator) or hasattr(value, "__len__"):
        return value

    def read_charged() -> Iterator[Any]:
        for item in value:
            charge(STEP)
            yield item

    return read_charged()


def _check_arguments(args: Iterable[Any], *, deep: bool = True) -> None:
    for argument in args:
        if isinstance(argument, int) and abs(argument) > _MAX_NUMBER:
            raise SecurityError(f"the number {argument} is too large for an argument in a chat template")
        if deep:
            charge_all(argument)


def _charge_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a filter or a test so that it charges for the data it reads."""
    context_count = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def charged_filter(*args: Any, **kwargs: Any) -> Any:
        args = (*args[:context_count], *map(_charge_each, args[context_count:]))
        arguments = (*args[context_count:], *kwargs.values())
        _check_arguments(arguments[1:] if name in _SHALLOW_FILTERS else arguments, deep=name not in _SHALLOW_FILTERS)
        if name not in _DEEP_TESTS:
            _charge_numbers(arguments[1:])
        if name == "indent":
            charge(_compute_max_indentation(arguments))
        if name in _FAST_FILTERS:
            charge(STEP)
            return function(*args, **kwargs)
        charge(_measure_read(arguments[0]) if arguments else 0)
        out = function(*args, **kwargs)
        charge(len(out) if isinstance(out, str) else STEP * _measure_length(out))
        return out

    return charged_filter


def _compute_max_indentation(arguments: tuple[Any, ...]) -> int:
    """The largest number of characters that indentation may add to a text."""
    widths = [
        argument if isinstance(argument, int) else len(argument)
        for argument in arguments[1:]
        if isinstance(argument, int | str)
    ]
    return abs(max(widths, default=4)) * (str(arguments[0]).count("\n") + 1)


def _measure_read(value: Any) -> int:
    """The charge for a filter or a test that reads the characters of a text, or the items of a container."""
    return STEP + (len(value) if isinstance(value, str) else CALL * _measure_length(value))


def _measure_length(value: Any) -> int:
    try:
        return len(value)
    except TypeError:
        return 1


def _raise_exception(message: object) -> None:
    raise Refusal(str(message))


def _format_now(format: str) -> str:
    check_width(format)
    if len(format) > 1000:
        raise SecurityError("the format of a date is too large for a chat template")
    return datetime.now().strftime(str.__str__(format))


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The `tojson` filter of transformers."""
    widths = [
        len(argument) if isinstance(argument, str) else argument or 0 for argument in (indent, *(separators or ()))
    ]
    if max(map(abs, widths)) > _MAX_INDENT:
        raise SecurityError(f"tojson in a chat template allows at most {_MAX_INDENT} characters as indent or separator")
    charge(_MAX_INDENT * _sum_depths(value) if indent else 0)
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _sum_depths(value: Any) -> int:
    """The sum of the nesting depths of all contained values."""
    out, pending = 0, [(value, 1)]
    while pending:
        item, depth = pending.pop()
        inner = item.values() if isinstance(item, Mapping) else item if isinstance(item, list | tuple) else ()
        out += depth
        pending += [(item, depth + 1) for item in inner]
    return out


def _format(text: Any, *args: Any, **kwargs: Any) -> str:
    if args and kwargs:
        raise SecurityError("format takes values by position or by name, not both")
    printed = _Environment.text_of(text)
    return format_percent(
        printed,
        [*args, *kwargs.values()],
        lambda: TaggedText(printed, get_spans(printed)) % (kwargs if kwargs else args),
    )


def _join(items: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
    texts = []
    for item in items:
        charge(1)
        element = item if attribute is None else _ENVIRONMENT.getitem(item, attribute)
        texts.append(_Environment.text_of(element))
    return TaggedText(d, get_spans(d)).join(texts)


def _replace(text: Any, old: Any, new: Any, count: int | None = None) -> str:
    printed, replacement = _Environment.text_of(text), _Environment.text_of(new)
    tagged_text = printed if isinstance(printed, TaggedText) else TaggedText(printed)
    return tagged_text.replace(_Environment.text_of(old), replacement, -1 if count is None else count)


def _sum(items: Iterable[Any], attribute: str | int | None = None, start: Any = 0) -> Any:
    for item in items:
        element = item if attribute is None else _ENVIRONMENT.getitem(item, attribute)
        charge(_measure_length(start) + _measure_length(element))
        start = start + element
    return start


class _Dict:
    """`dict` in templates: a callable without the attributes of the class, except `fromkeys`."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, keys: Iterable[Any], value: Any = None) -> dict[Any, Any]:
        """As `dict.fromkeys`."""
        return dict.fromkeys(keys, value)


class _Namespace(Namespace):
    """`namespace` in templates; names that begin with an underscore are refused."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        attributes = dict(*args[1:], **kwargs)
        for name in attributes:
            _check_name(name)
        Namespace.__init__(args[0], attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)

    def __repr__(self) -> str:
        charge_all(self._Namespace__attrs)
        return super().__repr__()


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a chat template may not set the attribute {name!r} of a namespace")


_ENVIRONMENT: Final = _Environment()


def environment() -> _Environment:
    """The environment, shared by all renderings. It stores no state of a rendering."""
    return _ENVIRONMENT
