"""`guided explain`: what may follow a prefix, and why a text or a token is, or is not, allowed there.

In: a specification, a prefix, and a text, a token or nothing. Out: where the text stops being allowed, what was
expected there, which part of the specification expects it, and the shortest way to finish. Over a model's vocabulary
also: how many tokens the mask allows, which are forced, and the least number of tokens to the end. The exit code is 1
if the text or the token is not allowed.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import Any, Final

from guided.cli.arguments import at_least
from guided.cli.console import DONE, NO, InputError, print_json, read_text
from guided.cli.place import Place, place_of
from guided.cli.specification import add_specification, specification_of
from guided.cli.vocabularies import add_vocabulary, vocabulary_of
from guided.matching import (
    CompiledGrammar,
    Explanation,
    GrammarCompiler,
    GrammarMatcher,
    allocate_token_bitmask,
    allowed_tokens,
)
from guided.matching.explanation import is_text
from guided.vocabulary import Vocabulary

__all__ = ["EXAMPLES", "HELP", "NAME", "PURPOSE", "USAGE", "add_arguments", "run"]

NAME = "explain"
USAGE = "SPECIFICATION [--prefix TEXT] [--text TEXT | --token ID] [OPTION ...]"
HELP = "say why a text or token is or is not allowed after a prefix"
PURPOSE = "Say what may follow a prefix, and why a text or a token is, or is not, allowed there."
EXAMPLES = r"""examples:
  guided explain --schema s.json --prefix '{"name": '              # what may follow?
  guided explain --schema s.json --prefix '{"name": ' --text 12    # why is this not allowed?
  guided explain --regex '\d{4}' --prefix 20 --token 284 --vocabulary model.gguf
  guided explain --schema s.json --prefix-file half.json --json

exit codes: 0 allowed (or nothing was asked), 1 not allowed, 2 bad input
"""

_SHOWN: Final = 8  # of the tokens that are allowed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_specification(parser, required=True, generating=False)
    add_vocabulary(parser)
    group = parser.add_argument_group("place")
    before = group.add_mutually_exclusive_group()
    before.add_argument("--prefix", metavar="TEXT", default="", help="the text before the place (empty)")
    before.add_argument(
        "--prefix-file", metavar="FILE", help="a file with the text before the place; - for standard input"
    )
    asked = group.add_mutually_exclusive_group()
    asked.add_argument("--text", metavar="TEXT", help="a text: is it allowed next?")
    asked.add_argument("--token", type=at_least(0), metavar="ID", help="a token: is it allowed next?")


@dataclass(frozen=True)
class Answer:
    """What there is to say about the place after a prefix.

    Attributes:
        explanation: of the text or token that was asked about, or of the place itself.
        here: the end of the prefix.
        place: where prefix and text together stop being allowed; None if they are allowed, or for a control token.
        allowed: the ids that the mask allows.
        forced: the tokens that must come next.
        to_finish: the least number of tokens to the end, the end token included.
    """

    explanation: Explanation
    here: Place
    place: Place | None
    allowed: list[int]
    forced: list[int]
    to_finish: int


def run(arguments: argparse.Namespace) -> int:
    """Explain; 0, or 1 where what was asked is not allowed."""
    specification = specification_of(arguments)
    assert specification is not None
    vocabulary = vocabulary_of(arguments)
    if arguments.token is not None and arguments.token >= vocabulary.size:
        raise InputError(f"--token {arguments.token} is no id of this vocabulary (0 to {vocabulary.size - 1})")
    from_file = arguments.prefix_file is not None
    prefix = (
        read_text(arguments.prefix_file, "--prefix takes the text itself").encode()
        if from_file
        else os.fsencode(arguments.prefix)
    )
    grammar = specification.compile(GrammarCompiler(vocabulary))
    matcher = GrammarMatcher(grammar)
    if not matcher.accept_string(prefix):
        return _refused_prefix(place_of(grammar, prefix), arguments.json)
    asked = arguments.token if arguments.text is None else os.fsencode(arguments.text)
    answer = _answer(grammar, matcher, prefix, asked)
    if arguments.json:
        print_json(_fields(answer, vocabulary))
    else:
        _print(answer, asked, vocabulary)
    return DONE if answer.explanation.accepted else NO


def _answer(grammar: CompiledGrammar, matcher: GrammarMatcher, prefix: bytes, asked: int | bytes | None) -> Answer:
    explanation = matcher.explain(asked)
    died = not explanation.accepted and explanation.data != b"" and is_text(explanation.data)
    bitmask = allocate_token_bitmask(1, grammar.vocabulary.size)
    matcher.fill_next_token_bitmask(bitmask)
    return Answer(
        explanation,
        place_of(grammar, prefix),
        place_of(grammar, prefix + explanation.data) if died else None,
        [token for token in allowed_tokens(bitmask) if token < grammar.vocabulary.size],
        matcher.forced_tokens(),
        matcher.min_tokens_to_finish(),
    )


def _refused_prefix(place: Place, as_json: bool) -> int:
    if as_json:
        print_json({"prefix_accepted": False, "accepted": False, "reason": str(place), "place": place.fields()})
    else:
        print(f"the prefix itself is not allowed\n{place}")
    return NO


def _print(answer: Answer, asked: int | bytes | None, vocabulary: Vocabulary) -> None:
    explanation = answer.explanation
    if isinstance(asked, int):
        print(f"token {asked} is {_name(asked, vocabulary)}")
    if answer.place is not None:
        print(f"not allowed\n{answer.place}")
    elif asked is None:
        print(f"expected {answer.here.expected}" + answer.here.asked_by)
    else:
        print("allowed" if explanation.accepted else explanation.reason)
    allowed = answer.allowed
    some = ", ".join(_name(token, vocabulary) for token in allowed[:_SHOWN])
    more = ", ..." if len(allowed) > _SHOWN else ""
    print(f"tokens allowed after the prefix: {len(allowed):,} of {vocabulary.size:,}: {some}{more}")
    if answer.forced:
        print(f"forced: {vocabulary.decode(answer.forced).decode(errors='replace')!r} ({_tokens(len(answer.forced))})")
    completion = answer.here.completion.decode(errors="backslashreplace")
    print(f"shortest way to finish: {completion!r}, {_tokens(answer.to_finish)} with the end token")


def _fields(answer: Answer, vocabulary: Vocabulary) -> dict[str, Any]:
    explanation = answer.explanation
    return {
        "prefix_accepted": True,
        "accepted": explanation.accepted,
        "read": explanation.characters_read,
        "reason": explanation.reason,
        "place": answer.place.fields() if answer.place is not None else None,
        "after_prefix": answer.here.fields(),
        "allowed_tokens": answer.allowed,
        "forced_tokens": answer.forced,
        "min_tokens_to_finish": answer.to_finish,
        "vocabulary_size": vocabulary.size,
    }


def _tokens(count: int) -> str:
    return "1 token" if count == 1 else f"{count:,} tokens"


def _name(token: int, vocabulary: Vocabulary) -> str:
    """A token for a reader: its text, or its name if it has no text."""
    data = vocabulary.token_bytes(token)
    if data is not None:
        return repr(data.decode()) if is_text(data) else f"id {token} (with a part of a character)"
    end = "end token " if token in vocabulary.eos_token_ids else ""
    return end + vocabulary.special_tokens.get(token, f"id {token}")
