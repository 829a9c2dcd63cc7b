"""One of several texts. In: a list of strings. Out: a grammar of exactly these. Cost: linear in the characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from guided.errors import LimitExceeded, SpecError
from guided.ir.nodes import Alt, Grammar, Node, Text
from guided.limits import Limits

__all__ = ["choice_to_grammar"]

_DEFAULT_LIMITS = Limits()


def choice_to_grammar(choices: Sequence[str], *, limits: Limits = _DEFAULT_LIMITS) -> Grammar:
    """The language of the given strings; the empty string may be one of them."""
    if isinstance(choices, str | bytes):
        raise SpecError("a choice is a list of strings, not one string", hint="write ['yes', 'no']")
    if isinstance(choices, Mapping):
        raise SpecError("a choice is a list of strings, not a mapping", hint="write list(mapping) for its keys")
    total = 0
    for at, choice in enumerate(choices):
        if not isinstance(choice, str):
            raise SpecError(
                f"choice {at} is a {type(choice).__name__}, not a string",
                pointer=f"/{at}",
                hint="decode it"
                if isinstance(choice, bytes)
                else f"write {str(choice)!r}"
                if _is_scalar(choice)
                else "",
            )
        if any("\ud800" <= c <= "\udfff" for c in choice):
            raise SpecError(
                f"choice {at} holds a lone surrogate, which no text can",
                pointer=f"/{at}",
                hint="a character above U+FFFF is one character in Python",
            )
        total += len(choice)
        if total > limits.spec_length:
            raise LimitExceeded("spec_length", total, limits.spec_length)
    texts: tuple[Node, ...] = tuple(Text(choice) for choice in dict.fromkeys(choices))
    if not texts:
        raise SpecError("there is nothing to choose from", hint="give at least one string")
    return Grammar({"start": texts[0] if len(texts) == 1 else Alt(texts)}, "start", {"start": ""})


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, int | float)
