"""Copies JSON-like Python objects to the types that `json.loads` returns, and derives cache keys from them.

In: a mapping, list, string, number or other value. Out: the same value in dict, list, str, int, float, bool, None and
`Decimal`. A value that already consists of these types is returned as it is, which is the usual case, and fast.

The `repr` of such a value determines it: it shows types (`True`, `1`, `1.0`), signs of zero, the order of members and
lone surrogates. The `repr` of other classes may show anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

__all__ = ["content_of", "to_plain", "to_plain_with_content"]

_SCALAR_TYPES: Final = frozenset((str, int, float, bool, type(None), Decimal))
_MAX_VALUES: Final = 1 << 21  # larger values may contain themselves; the front end reports them


def to_plain(value: Any) -> Any:
    """The value in plain types. A part that is not JSON, such as a set, remains as it is, for the front end to refuse.
    So does a value with too many parts.
    """
    return value if _is_plain(value) is not False else _convert(value)


def content_of(value: Any) -> object:
    """A cache key for a value: equal only for equal values of equal types. An unhashable key prevents caching: the
    value is not plain, or too large.
    """
    return _make_key(value) if _is_plain(value) else []


def to_plain_with_content(value: Any) -> tuple[Any, object]:
    """(`to_plain(value)`, its `content_of`). A string is its own content."""
    if isinstance(value, str):
        text = str.__str__(value)
        return text, text
    if _is_plain(value):  # the usual case takes one pass
        return value, _make_key(value)
    plain_value = to_plain(value)
    return plain_value, content_of(plain_value)


def _make_key(value: Any) -> object:
    try:
        return repr(value)
    except (RecursionError, ValueError):  # too deep, or an integer too long: the front end reports it
        return []


def _convert(value: Any) -> Any:
    result: list[Any] = [None]
    work: list[tuple[Any, Any, Any]] = [(value, result, 0)]  # (value, container to put it in, its key there)
    count = 0
    while work:
        item, target, key = work.pop()
        count += 1
        if count > _MAX_VALUES:
            return value
        if isinstance(item, Mapping):
            members = dict(item)
            target[key] = copy = dict.fromkeys(map(_to_plain_scalar, members))
            if len(copy) < len(members):  # the names differ only for a class of their own
                return value
            work.extend((child, copy, name) for name, child in zip(copy, members.values(), strict=True))
        elif isinstance(item, list | tuple):
            target[key] = items = [None] * len(item)
            work.extend((child, items, index) for index, child in enumerate(item))
        else:
            target[key] = _to_plain_scalar(item)
    return result[0]


def _is_plain(value: Any) -> bool | None:
    """Whether a value consists of plain types. None: it has too many parts."""
    pending = [value]
    for item in pending:  # grows during the loop
        kind = type(item)
        if kind is str:
            continue
        if kind is dict:
            for name in item:  # much faster than all(...)
                if type(name) is not str:
                    return False
            pending += item.values()
        elif kind is list:
            pending += item
        elif kind not in _SCALAR_TYPES:
            return False
        if len(pending) > _MAX_VALUES:
            return None
    return True


def _to_plain_scalar(value: Any) -> Any:
    """A string, number or bool in its plain type. Other values remain as they are."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    return Decimal(value) if isinstance(value, Decimal) else value
