"""A choice of texts. In: a list of strings. Out: a grammar for exactly these texts. Cost: linear in the characters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from guided.errors import LimitExceeded, SpecError
from guided.ir.nodes import Alt, Grammar, Node, Text
from guided.ir.ranges import has_surrogate
from guided.keywords import read_items
from guided.limits import Limits

__all__ = ["choice_to_grammar", "read_choices"]

_DEFAULT_LIMITS = Limits()


def read_choices(choices: object, limits: Limits = _DEFAULT_LIMITS) -> tuple[object, ...]:
    """The items of a choice, of any type. `limits.spec_length` bounds their number.

    Raises:
        SpecError: `choices` is not a list. LimitExceeded: there are too many items.
    """
    if isinstance(choices, str | bytes):
        raise SpecError("a choice is a list of strings, not one string", hint="write ['yes', 'no']")
    if isinstance(choices, Mapping):
        raise SpecError("a choice is a list of strings, not a mapping", hint="write list(mapping) for its keys")
    if not isinstance(choices, Iterable):
        message = f"a choice is a list of strings, not a {type(choices).__name__}"
        raise SpecError(message, hint="write ['yes', 'no']")
    max_items = limits.spec_length
    return tuple(
        read_items(
            "a choice",
            choices,
            max_items=max_items,
            error=lambda _: LimitExceeded("spec_length", max_items + 1, max_items),
        )
    )


def choice_to_grammar(choices: Iterable[str], *, limits: Limits = _DEFAULT_LIMITS) -> Grammar:
    """The language of the given strings, which may include the empty string."""
    total, texts_so_far = 0, list[str]()
    for index, choice in enumerate(read_choices(choices, limits)):
        if not isinstance(choice, str):
            raise SpecError(
                f"choice {index} is a {type(choice).__name__}, not a string",
                pointer=f"/{index}",
                hint="decode it"
                if isinstance(choice, bytes)
                else f"write {str(choice)!r}"
                if _is_scalar(choice)
                else "",
            )
        if has_surrogate(choice):
            raise SpecError(
                f"choice {index} contains a lone surrogate, which cannot occur in a text",
                pointer=f"/{index}",
                hint="in Python, a character above U+FFFF is a single character",
            )
        total += len(choice)
        if total > limits.spec_length:
            raise LimitExceeded("spec_length", total, limits.spec_length)
        texts_so_far.append(choice)
    texts: tuple[Node, ...] = tuple(Text(choice) for choice in dict.fromkeys(texts_so_far))
    if not texts:
        raise SpecError("there is nothing to choose from", hint="give at least one string")
    return Grammar({"start": texts[0] if len(texts) == 1 else Alt(texts)}, "start", {"start": ""})


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, int | float)
