"""Checks arguments: unknown keywords, and values of the wrong type or range.

Unknown keywords raise a TypeError. Unlike Python's own TypeError, it suggests the keyword that was probably meant, or
what to write instead of another library's keyword, and lists the known keywords.

Wrong values raise an `OptionError` that names the argument and the values it accepts. Without this check, they would
fail later, in code that does not know the argument's name.

`accept_old_names` lets a dataclass accept the previous names of its fields.

`to_int` turns an integer of another type, such as numpy's, into an int.

`read_items` turns an iterable argument into a list. An endless iterator raises an error instead of looping forever.
"""

from __future__ import annotations

import inspect
import math
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sized
from functools import partial, wraps
from itertools import islice
from numbers import Integral, Real
from operator import index
from typing import Any, Final, ParamSpec, TypeGuard, TypeVar

from guided.close_names import find_closest_name
from guided.errors import OptionError, brief

__all__ = [
    "accept_old_names", "check_integer", "check_keywords", "check_path", "check_token_ids", "is_number",
    "keywords_checked", "keywords_checked_class", "read_items", "to_int",
]  # fmt: skip

_P = ParamSpec("_P")
_T = TypeVar("_T")
_EMPTY: Final[Mapping[str, str]] = {}
_MAX_ITEMS: Final = 1 << 22
_CHUNK_SIZE: Final = 64
_SIZED_TYPES: Final = frozenset((str, bytes, list, tuple))


def check_keywords(
    function: str, names: Iterable[str], known_names: Collection[str], foreign_keywords: Mapping[str, str] = _EMPTY
) -> None:
    """Raise a TypeError for the first unknown keyword.

    Args:
        function: the name of the function, for the message.
        names: the keywords of the call.
        known_names: the keywords that the function has.
        foreign_keywords: keyword of another library -> what to write instead, as a known keyword or a sentence.
    """
    for name in names:
        if name not in known_names:
            raise TypeError(_describe_unknown(function, name, sorted(known_names), foreign_keywords.get(name, "")))


def _describe_unknown(function: str, name: str, known_names: list[str], advice: str) -> str:
    """The message for an unknown keyword. `advice`: what to write instead; "": the closest known name."""
    if not advice:
        advice = find_closest_name(name, known_names)
    hint = "" if not advice else f"did you mean {advice!r}? " if advice in known_names else f"{advice}. "
    options_text = f"the options are {', '.join(known_names)}" if known_names else "it takes no options"
    if hint:
        options_text = f"{options_text[0].upper()}{options_text[1:]}."
    return f"{function}() has no option {brief(name)}: {hint}{options_text}"


def keywords_checked(
    *other_names: Collection[str], foreign_keywords: Mapping[str, str] = _EMPTY
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Decorate a function or method so that unknown keywords raise the error of `check_keywords`.

    Args:
        other_names: the keywords that the function accepts through its `**options`.
        foreign_keywords: see `check_keywords`.
    """

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        parameters = inspect.signature(function).parameters.values()
        keyword_only = {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
        positional = {parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD}
        keyword_names = keyword_only.union(*other_names)
        accepted_names = keyword_names | positional

        @wraps(function)
        def checked_function(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            if not accepted_names.issuperset(kwargs):
                unknown_names = [name for name in kwargs if name not in accepted_names]
                check_keywords(function.__name__, unknown_names, keyword_names, foreign_keywords)
            return function(*args, **kwargs)

        return checked_function

    return decorate


def keywords_checked_class(foreign_keywords: Mapping[str, str] = _EMPTY) -> Callable[[type[_T]], type[_T]]:
    """Decorate a dataclass whose fields are options, as `keywords_checked` decorates a function."""

    def decorate(cls: type[_T]) -> type[_T]:
        init: Callable[..., None] = cls.__init__
        fields = frozenset(inspect.signature(init).parameters) - {"self"}

        @wraps(init)
        def checked_init(self: Any, *args: Any, **kwargs: Any) -> None:
            if not fields.issuperset(kwargs):
                check_keywords(cls.__name__, kwargs, fields, foreign_keywords)
            init(self, *args, **kwargs)

        setattr(cls, "__init__", checked_init)  # noqa: B010 (replaces the dataclass's __init__)
        return cls

    return decorate


def _read_renamed_field(warn: Callable[[type, str], str], cls: type, old_name: str, instance: object) -> Any:
    return getattr(instance, warn(cls, old_name))


def _write_renamed_field(
    warn: Callable[[type, str], str], cls: type, old_name: str, instance: object, value: object
) -> None:
    setattr(instance, warn(cls, old_name), value)


def accept_old_names(names: Mapping[str, str]) -> Callable[[type[_T]], type[_T]]:
    """Decorate a dataclass whose fields were renamed: the old names still work, with a DeprecationWarning.

    Args:
        names: old name -> new name.
    """

    def warn(cls: type[_T], old_name: str) -> str:
        message = f"{cls.__name__}.{old_name} is deprecated: use {cls.__name__}.{names[old_name]}"
        warnings.warn(message, DeprecationWarning, stacklevel=3)
        return names[old_name]

    def decorate(cls: type[_T]) -> type[_T]:
        init: Callable[..., None] = cls.__init__

        @wraps(init)
        def init_with_old_names(self: Any, *args: Any, **kwargs: Any) -> None:
            # The old name wins, since `dataclasses.replace` also passes the new one.
            for old_name in names.keys() & kwargs:
                kwargs[warn(cls, old_name)] = kwargs.pop(old_name)
            init(self, *args, **kwargs)

        setattr(cls, "__init__", init_with_old_names)  # noqa: B010 (replaces the dataclass's __init__)
        for old_name in names:
            access = (
                partial(_read_renamed_field, warn, cls, old_name),
                partial(_write_renamed_field, warn, cls, old_name),
            )
            setattr(cls, old_name, property(*access))
        return cls

    return decorate


def check_integer(name: str, value: object, *, minimum: int, optional: bool = False) -> None:
    """Raise an OptionError unless the value is an integer of at least `minimum`, or None if `optional`."""
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        expected = f"an integer of at least {minimum}" + (", or None" if optional else "")
        raise OptionError(f"{name} is {brief(value)}, but must be {expected}", option=name)


def to_int(value: _T) -> _T | int:
    """An integer of another type, such as numpy's, as an int. Any other value is returned unchanged, and so is a
    boolean."""
    return index(value) if isinstance(value, Integral) and not isinstance(value, bool) else value


def check_token_ids(name: str, ids: Iterable[object], size: int) -> None:
    """Raise an OptionError for the first item that is not a token id below `size`."""
    for id in ids:
        if isinstance(id, bool) or not isinstance(id, Integral) or not 0 <= int(id) < size:
            raise OptionError(f"{name} contains {brief(id)}, which is not a token id below {size}", option=name)


def is_number(value: object) -> TypeGuard[float]:
    """Whether the value is a finite number in the range of floats. Booleans are not numbers here."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def check_path(name: str, value: object, description: str = "a path") -> None:
    """Raise an OptionError unless the value is a path. `description` describes the accepted values."""
    if not isinstance(value, str | os.PathLike):
        raise OptionError(f"{name} is {brief(value)}, but must be {description}", option=name)


def read_items(
    name: str,
    items: Iterable[_T],
    *,
    max_items: int | None = None,
    error: Callable[[str], Exception] = OptionError,
) -> list[_T]:
    """The items of an argument, as a list. Items of an iterator are counted as they are read, since it may be endless.

    Args:
        name: the name of the argument, for the message.
        max_items: the maximum number of items; None: 4,194,304. For an iterator, this is also the maximum total length
            of the strings, lists and tuples in it.
        error: makes the error for too many items from a message.

    Raises:
        TypeError: the argument is not iterable.
    """
    if not isinstance(items, Iterable):
        raise TypeError(f"{name} is {brief(items)}, but must be a list")
    max_items = _MAX_ITEMS if max_items is None else max_items
    if isinstance(items, Sized):
        if len(items) > max_items:
            raise error(f"{name} has more than {max_items:,} items")
        return list(items)
    read_so_far, total_length, iterator = list[_T](), 0, iter(items)
    while chunk := list(islice(iterator, _CHUNK_SIZE)):
        read_so_far += chunk
        if not _SIZED_TYPES.isdisjoint(map(type, chunk)):
            total_length += sum(len(item) for item in chunk if isinstance(item, str | bytes | list | tuple))
        if len(read_so_far) > max_items or total_length > max_items:
            raise error(f"{name} has more than {max_items:,} items")
    return read_so_far
