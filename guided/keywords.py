"""Arguments that a function does not take: keywords that it does not have, and values of another kind or range.

In: the names a caller gave, and those there are. Out: a TypeError. Python's own error names the wrong keyword and
nothing else. This one also says which was meant, or how what the keyword means in other libraries is given here, and
lists the keywords that there are.

In: the name of an argument, and its value. Out: an `OptionError` with both, which says what is needed. Without it the
value would fail later, in an operation that does not know the name.

In: an argument that is iterated over. Out: a list. An iterator without an end is an error, not an endless loop.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sized
from functools import wraps
from itertools import islice
from numbers import Integral, Real
from typing import Any, Final, ParamSpec, TypeGuard, TypeVar

from guided.close_names import close_name
from guided.errors import OptionError, brief

__all__ = [
    "check_integer", "check_keywords", "check_path", "is_number", "keywords_checked", "keywords_checked_class",
    "read_items",
]  # fmt: skip

_P = ParamSpec("_P")
_T = TypeVar("_T")
_EMPTY: Final[Mapping[str, str]] = {}
_MOST_ITEMS: Final = 1 << 22
_AT_ONCE: Final = 64
_WITH_LENGTH: Final = frozenset((str, bytes, list, tuple))


def check_keywords(
    function: str, given: Iterable[str], known: Collection[str], elsewhere: Mapping[str, str] = _EMPTY
) -> None:
    """Raise a TypeError for the first keyword that is not known.

    Args:
        function: the name of what was called.
        given: the keywords it was called with.
        known: those it has.
        elsewhere: for keywords of other libraries, what to write here: the name of one that is known, or a sentence.
    """
    for name in given:
        if name not in known:
            raise TypeError(_message(function, name, sorted(known), elsewhere.get(name, "")))


def _message(function: str, name: str, known: list[str], meant: str) -> str:
    if not meant:
        meant = close_name(name, known)
    hint = "" if not meant else f"did you mean {meant!r}? " if meant in known else f"{meant}. "
    listed = f"The options are {', '.join(known)}." if known else "It takes no options."
    return f"{function}() has no option {brief(name)}: {hint}{listed}"


def keywords_checked(
    *more: Collection[str], elsewhere: Mapping[str, str] = _EMPTY
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Decorates a function or method so that a wrong keyword raises the error of `check_keywords`.

    Args:
        more: the names that its `**options` stand for.
        elsewhere: see `check_keywords`.
    """

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        own = inspect.signature(function).parameters.values()
        named = {parameter.name for parameter in own if parameter.kind is parameter.KEYWORD_ONLY}
        also = {parameter.name for parameter in own if parameter.kind is parameter.POSITIONAL_OR_KEYWORD}
        known = named.union(*more)
        accepted = known | also

        @wraps(function)
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            if not accepted.issuperset(kwargs):
                wrong = [name for name in kwargs if name not in accepted]
                check_keywords(function.__name__, wrong, known, elsewhere)
            return function(*args, **kwargs)

        return checked

    return decorate


def keywords_checked_class(elsewhere: Mapping[str, str] = _EMPTY) -> Callable[[type[_T]], type[_T]]:
    """Decorates a dataclass whose fields are options, as `keywords_checked` does a function."""

    def decorate(cls: type[_T]) -> type[_T]:
        init: Callable[..., None] = cls.__init__
        fields = frozenset(inspect.signature(init).parameters) - {"self"}

        @wraps(init)
        def checked(self: Any, *args: Any, **kwargs: Any) -> None:
            if not fields.issuperset(kwargs):
                check_keywords(cls.__name__, kwargs, fields, elsewhere)
            init(self, *args, **kwargs)

        setattr(cls, "__init__", checked)  # noqa: B010 (a dataclass's own is replaced)
        return cls

    return decorate


def check_integer(name: str, value: object, *, least: int, optional: bool = False) -> None:
    """Raise an OptionError for an argument that is no integer of at least `least`; `optional`: None is taken, too."""
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        needed = f"an integer of at least {least}" + (", or None" if optional else "")
        raise OptionError(f"{name} is {brief(value)}, it must be {needed}", option=name)


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a finite number that a float can hold; True and False are none."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def check_path(name: str, value: object, what: str = "a path") -> None:
    """Raise an OptionError for an argument that is no path; `what` says what is needed."""
    if not isinstance(value, str | os.PathLike):
        raise OptionError(f"{name} is {brief(value)}, it must be {what}", option=name)


def read_items(
    name: str,
    items: Iterable[_T],
    *,
    most: int | None = None,
    error: Callable[[str], Exception] = OptionError,
) -> list[_T]:
    """The items of an argument. What an iterator gives is counted while it is read, since it may have no end.

    Args:
        name: of the argument, for the message.
        most: the largest number of items, some millions if None; for an iterator also of the characters, bytes or ids
            in them.
        error: makes the error of a message if there are more.
    """
    most = _MOST_ITEMS if most is None else most
    if isinstance(items, Sized):
        if len(items) > most:
            raise error(f"{name} has more than {most:,} items")
        return list(items)
    out, inside, iterator = list[_T](), 0, iter(items)
    while some := list(islice(iterator, _AT_ONCE)):
        out += some
        if not _WITH_LENGTH.isdisjoint(map(type, some)):
            inside += sum(len(item) for item in some if isinstance(item, str | bytes | list | tuple))
        if len(out) > most or inside > most:
            raise error(f"{name} has more than {most:,} items")
    return out
